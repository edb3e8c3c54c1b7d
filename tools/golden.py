"""Golden outputs of the captures: reports/h200/CASE.json and CASE.txt, to be reviewed as a diff.

    python tools/golden.py [--check] [FOLDER]

The JSON is the Analysis, shortened to what a review can read: numbers to three significant digits, paths relative to
the repository, the five hottest instructions, NVIDIA's messages cut at 200 characters. `--check` writes nothing and
exits 1 where the folder differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from kscope.model.analysis import Analysis

FOLDER = ROOT / "reports" / "h200"
FIXTURES = ROOT / "fixtures" / "h200"
HOT, MESSAGE = 5, 200
PARTS = ("headline", "reason", "contrast", "next", "body")
"""Of a verdict: its sentence is made of them (tests/engine/test_regime.py) and says them once."""


def cases() -> list[str]:
    return sorted(path.parent.name for path in FIXTURES.glob("*/report.ncu-rep.xz"))


def analyze(case: str) -> Analysis:
    from kscope.engine.run import analyze_paths

    return analyze_paths([FIXTURES / case / "report.ncu-rep.xz"])


def golden(case: str, analysis: Analysis) -> dict[str, str]:
    """File name -> content for one case."""
    import msgspec

    from kscope.reports import Options, render

    value = shortened(msgspec.to_builtins(analysis))
    value["kscope"] = "*"  # a release does not change the diagnosis
    text = render("text", analysis, Options(width=80)).replace(f"{ROOT}/", "")
    return {
        f"{case}.json": json.dumps(value, indent=1, ensure_ascii=False) + "\n",
        f"{case}.txt": "\n".join(line.rstrip() for line in text.splitlines()) + "\n",
    }


def shortened(value: Any) -> Any:
    """The same structure: numbers rounded, long lists and texts cut, absolute paths of the repository relative."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, str):
        return value.replace(f"{ROOT}/", "")
    if isinstance(value, dict):
        out = {key: shortened(v) for key, v in value.items()}
        if "sentence" in out and "headline" in out:
            out = {key: v for key, v in out.items() if key not in PARTS}
        if "hot" in out:
            out["hot"] = out["hot"][:HOT]
        for entry in out.get("nvidia", ()):
            if len(entry["message"]) > MESSAGE:
                entry["message"] = entry["message"][:MESSAGE] + "…"
        return out
    return [shortened(v) for v in value] if isinstance(value, list | tuple) else value


def drift(folder: Path, files: dict[str, str]) -> list[str]:
    """Names of files that are missing, or differ, or belong to no case."""
    stale = [n for n, t in files.items() if not (folder / n).is_file() or (folder / n).read_text("utf-8") != t]
    here = (path.name for path in (*folder.glob("*.json"), *folder.glob("*.txt")))
    return sorted({*stale, *(name for name in here if name not in files)})


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in drift(folder, files):
        if name in files:
            (folder / name).write_text(files[name], encoding="utf-8")
        else:
            (folder / name).unlink()


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    named = [a for a in arguments if a != "--check"]
    if len(named) > 1 or any(a.startswith("-") for a in named):
        print(f"usage: {Path(__file__).name} [--check] [FOLDER]", file=sys.stderr)
        return 2
    folder = Path(named[0]) if named else FOLDER
    files: dict[str, str] = {}
    for case in cases():
        files |= golden(case, analyze(case))
    changed = drift(folder, files)
    if not check:
        write(folder, files)
    for name in changed:
        print(name)
    print(f"{len(changed)} of {len(files)} files {'differ' if check else 'rewritten'} in {folder}", file=sys.stderr)
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
