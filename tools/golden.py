"""Golden outputs of the captures, to be reviewed as a diff: reports/h200.

    python tools/golden.py [--check] [FOLDER]

- PROGRAM.json: of the captures of a program, by their names, the Analysis, shortened to what a review can read: numbers
  to three significant digits, paths relative to the repository, the first entries of long lists (FIRST), the beginnings
  of NVIDIA's messages. It leaves out their tables, fields that are null and need not be there, and what changes with
  every rule that is added: which rules passed, which could not be checked.
- rules/CODE.txt: what one rule says of all captures, a line each: `fires 1.10x CASE` with the promised speed-up (`-` if
  none), its severity, or `n/a CASE WHY`, or `error CASE WHAT`. Of captures without a line it found nothing.
- CASE.txt: the whole text, of LAYOUTS only.

So a new rule adds its own file and changes the programs on whose captures it fires. `--check` writes nothing and exits
1 where the folder differs.
"""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis

FOLDER = ROOT / "reports" / "h200"
BUILD = ROOT / "build"  # where tests/support/patches.py puts plain reports
FIRST = {
    "hot": 1, "stalls": 1, "utilization": 1, "evidence": 2, "locations": 1, "nvidia": 1, "covered": 3, "cause_pcs": 1,
    "conditions": 1, "proof": 1, "edits": 1, "remedies": 1, "costs": 1, "operators": 3,
}  # fmt: skip; entries kept of lists
SELDOM = (
    "remedies", "pulls", "first", "order", "fixes", "covered", "covered_share", "cause_pcs", "library", "refused",
    "parameters", "conditions", "costs", "cause",
)  # fmt: skip
"""Fields that are left out where they are empty."""
MESSAGE = 20
WIDTH = 240  # of a line of JSON: what fits is not broken up
NOWHERE = "finds nothing on any capture"
COUNTS = re.compile(r"passed \d+ · not applicable \d+")
HOW_MANY = re.compile(r"\b(?:\d+ of )?\d+ rules (looked|could not look)")
"""Counts of rules, which each new one changes."""
EACH_RULE = ("passed", "not_applicable", "fixes")
"""Lists that change with every rule; changes are held by tests/fixes."""
PARTS = ("headline", "reason", "contrast", "next", "body")
"""Of a verdict: its sentence is made of them (tests/engine/verdict/test_regime.py) and says them once."""
LAYOUTS = (
    "bank_conflict.slow", "calibrate.block1024", "gemm_f32.warptile", "int_division.slow", "l2_scan.base",
    "launch_bound.tiny", "mha_copy.registers", "moe_list.each", "multi_kernels", "nearest.debug",
    "picked_norms.all_lanes", "potential.ieee", "publish.fence_each", "scale_add.host_input", "small_grid.slow",
    "triton_softmax.passes", "wave.intrinsics", "ws_gemm.epilogue_exposed", "ws_gemm.k256", "ws_gemm.produce_exposed",
)  # fmt: skip
"""The captures whose text is kept: together they have every heading, table and form of sentence of it."""


def cases() -> list[str]:
    from tests.support import reports

    return list(reports.every_case())


def analyze(case: str) -> Analysis:
    from kscope.engine.run import analyze_paths
    from tests.support import reports

    return analyze_paths([reports.fixture(case)])


def golden(case: str, analysis: Analysis) -> dict[str, str]:
    """File name -> content for one case."""
    import msgspec

    from kscope.reports import Options, render

    value = shortened(msgspec.to_builtins(analysis))
    value["kscope"] = "*"  # a release does not change the diagnosis
    for kernel in value["kernels"] if len(value["inputs"]) == 1 else ():
        del kernel["input"]
    files = {f"{case}.json": HOW_MANY.sub(r"* rules \1", lines_of(value)) + "\n"}
    if case in LAYOUTS:
        text = COUNTS.sub("passed * · not applicable *", render("text", analysis, Options(width=80)))
        text = HOW_MANY.sub(r"* rules \1", text)
        files[f"{case}.txt"] = "\n".join(line.rstrip() for line in relative(text).splitlines()) + "\n"
    return files


def said(case: str, analysis: Analysis) -> dict[str, list[str]]:
    """Code of each rule that was run -> its lines on the case, none where it found nothing."""
    out: dict[str, list[str]] = {}
    for kernel in analysis.kernels:
        name = case if len(analysis.kernels) == 1 else f"{case}#{kernel.id}"
        for code in kernel.passed:
            out.setdefault(code, [])
        for f in kernel.findings:
            gain = f"{f.estimate.speedup:.2f}x" if f.estimate else "-"
            out.setdefault(f.code, []).append(f"fires {gain:>6} {name} {f.severity}")
        for n in kernel.not_applicable:
            out.setdefault(n.code, []).append(f"n/a {name} {n.why}")
        for e in kernel.errors:
            out.setdefault(e.code, []).append(f"error {name} {e.message}")
    return out


def rule_files(saids: Mapping[str, Mapping[str, list[str]]]) -> dict[str, str]:
    """File name -> content for each family of rules: a line begins with the rule's code. Given what `said` returns, by
    case. A file a rule would be fifty blocks of the disk, nearly empty."""
    lines: dict[str, list[str]] = {}
    for case in sorted(saids):
        for code, mine in saids[case].items():
            lines.setdefault(code, []).extend(mine)
    files: dict[str, str] = {}
    for code, mine in sorted(lines.items()):
        name = f"rules/{code.rstrip('0123456789')}.txt"
        files[name] = files.get(name, "") + "".join(f"{code} {line}\n" for line in mine or [NOWHERE])
    return files


def lines_of(value: Any, indent: int = 0) -> str:
    """JSON that a review can read: what fits into WIDTH is one line, other lists and objects have a line an entry."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + indent <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(key)}: {lines_of(v, indent + 1)}" for key, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + lines_of(v, indent + 1) for v in value) + "\n" + " " * indent + "]"


def relative(text: str) -> str:
    """The text with paths from the repository on; rebuilt reports as if they lay with the others."""
    return text.replace(f"{BUILD}/", "").replace(f"{ROOT}/", "")


@cache
def required() -> frozenset[str]:
    """Names of fields that the view cannot be read back without, also where they are null."""
    import msgspec

    from kscope.model import contract

    found = set()
    for module in pkgutil.iter_modules(contract.__path__):
        for one in vars(import_module(f"{contract.__name__}.{module.name}")).values():
            if isinstance(one, type) and issubclass(one, msgspec.Struct):
                found |= {f.encode_name for f in msgspec.structs.fields(one) if f.required}
    return frozenset(found)


def shortened(value: Any) -> Any:
    """The same structure: numbers rounded, long lists and texts cut, absolute paths of the repository relative."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, str):
        return relative(value)
    if isinstance(value, dict):
        gone = {key for key, v in value.items() if (v is None and key not in required()) or key in EACH_RULE}
        gone |= {key for key, v in value.items() if not v and key in SELDOM}
        out = {key: shortened(v) for key, v in value.items() if key not in gone}
        for key in ("source", "why") if "sass" in out or "words" in out else ():
            if len(out.get(key) or "") > MESSAGE:  # told elsewhere: by the file, in the finding
                out[key] = out[key][:MESSAGE] + "…"
        if "sentence" in out and "headline" in out:
            out = {key: v for key, v in out.items() if key not in PARTS}
        out |= {key: out[key][:count] for key, count in FIRST.items() if key in out}
        for entry in out.get("nvidia", ()):
            entry.pop("tables", None)
            if len(entry["message"]) > MESSAGE:
                entry["message"] = entry["message"][:MESSAGE] + "…"
        return out
    return [shortened(v) for v in value] if isinstance(value, list | tuple) else value


CASE = re.compile(r'^"(.+?)": (?=\{)', re.MULTILINE)
"""Begins what a file says of a case."""


def together(files: Mapping[str, str]) -> dict[str, str]:
    """The files as they are kept: what is said of the captures of one program (`CASE.json`) is one file."""
    from tests.support import reports

    kept, parts = dict[str, str](), dict[str, list[str]]()
    for name, text in sorted(files.items()):
        if name.endswith(".json"):
            case = name.removesuffix(".json")
            parts.setdefault(f"{reports.programs()[case]}.json", []).append(f'"{case}": {text.rstrip()}')
        else:
            kept[name] = text
    return kept | {name: "{\n" + ",\n".join(mine) + "\n}\n" for name, mine in parts.items()}


def by_case(text: str) -> dict[str, str]:
    """`CASE.json` -> what a file of `together` says of it."""
    _, *found = CASE.split(text.removesuffix("\n}\n"))
    pairs = zip(found[::2], found[1::2], strict=True)
    return {f"{case}.json": said.rstrip().removesuffix(",") + "\n" for case, said in pairs}


def drift(folder: Path, files: dict[str, str]) -> list[str]:
    """Names of files that are missing, or differ, or belong to no case."""
    stale = [n for n, t in files.items() if not (folder / n).is_file() or (folder / n).read_text("utf-8") != t]
    here = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted({*stale, *(name for name in here if name not in files)})


def write(folder: Path, files: dict[str, str]) -> None:
    (folder / "rules").mkdir(parents=True, exist_ok=True)
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
    saids: dict[str, dict[str, list[str]]] = {}
    for case in cases():
        analysis = analyze(case)
        files |= golden(case, analysis)
        saids[case] = said(case, analysis)
    files = together(files) | rule_files(saids)
    changed = drift(folder, files)
    if not check:
        write(folder, files)
    for name in changed:
        print(name)
    print(f"{len(changed)} of {len(files)} files {'differ' if check else 'rewritten'} in {folder}", file=sys.stderr)
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
