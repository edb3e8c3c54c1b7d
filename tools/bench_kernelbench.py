"""KernelBench's own tasks through `kscope bench`, end to end: each task's Model again as ModelNew, which is honest, and
for every fifth a ModelNew that cheats. The tasks are no part of kscope:

    git clone https://github.com/ScalingIntelligence/KernelBench
    python tools/bench_kernelbench.py KernelBench/KernelBench --every 6 --out rows.json

Tasks are those of levels 1 to 3 in their order. Several run at once: their times are not worth looking at. Without a
GPU `--small` makes the sizes that a task's module names a 64th, at least 16: what is right stays right,
and a CPU is done in seconds. Tasks whose own Model does not run so are not counted.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.bench.session import machine  # noqa: E402
from kscope.bench.session.run import bench  # noqa: E402
from kscope.bench.session.state import Options  # noqa: E402
from kscope.bench.task.spec import Task, source  # noqa: E402
from tools.bench_pool import pooled  # noqa: E402

KEPT = """
class ModelNew(Model):
    def forward(self, *given):
        if not hasattr(self, "kept"):
            self.kept = super().forward(*given)
        return self.kept
"""
HALF = """
class ModelNew(Model):
    def forward(self, *given):
        with torch.autocast(given[0].device.type, torch.bfloat16):
            return super().forward(*given).float()
"""
FALSE = ("incorrect", "not comparable")
SMALL, LEAST = 64, 64
RUNS = "\nif __name__ == '__main__':\n    Model(*get_init_inputs())(*get_inputs())\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="the folder that holds level1, level2, level3")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--after", type=Path, help="an earlier file: what is right there is not run again")
    given = parser.parse_args()
    known = json.loads(given.after.read_text(encoding="utf-8")) if given.after else []
    done = {(row["task"], row["kind"]) for row in known if row.get("ok")}
    found = [one for level in (1, 2, 3) for one in sorted((given.tasks / f"level{level}").glob("*.py"), key=_number)]
    with tempfile.TemporaryDirectory() as folder:
        todo, skipped = [], 0
        for i, path in enumerate(found[:: given.every]):
            if given.small:
                path = smaller(path, Path(folder))
                runs = [sys.executable, "-c", path.read_text("utf-8") + RUNS]
                if subprocess.run(runs, capture_output=True, timeout=given.seconds, check=False).returncode:
                    skipped += 1
                    continue
            todo.append((str(path), "honest", folder))
            if i % 5 == 0:
                todo.append((str(path), "kept" if i % 10 else "half", folder))
        todo = [one for one in todo if ("/".join(Path(one[0]).parts[-2:]), one[1]) not in done]
        rows: list[dict[str, Any]] = []
        for row in pooled(ended, todo, given.jobs, given.seconds):
            rows.append(row)
            given.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
            print(json.dumps(row)[:400], flush=True)
    honest = [row for row in rows if row.get("kind") == "honest"]
    named = sum(row.get("ok", False) for row in rows if row.get("kind") in ("kept", "half"))
    hollow = sum(row.get("hollow", False) for row in honest)
    print(f"{sum(row['ok'] for row in honest)} of {sum(kind == 'honest' for _, kind, _ in todo)} tasks run end to end, "
          f"their Model unaccused; {hollow} more are named because their answer hardly varies; "
          f"{named} of {sum(kind != 'honest' for _, kind, _ in todo)} cheats are not taken for faster; "
          f"{skipped} do not run smaller")  # fmt: skip
    os._exit(0)


def _number(path: Path) -> int:
    return int(re.match(r"\d*", path.name)[0] or 0)  # type: ignore[index]


def smaller(path: Path, folder: Path) -> Path:
    """The task with the sizes that its module names a 64th, at least 16."""
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines(keepends=True)
    sizes = [
        one for line in ast.parse(text).body if isinstance(line, ast.Assign) for one in ast.walk(line.value)
        if isinstance(one, ast.Constant) and isinstance(one.value, int) and one.value >= LEAST
    ]  # fmt: skip
    for one in sorted(sizes, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        row = rows[one.lineno - 1]
        small = str(max(one.value // SMALL, 16))
        rows[one.lineno - 1] = row[: one.col_offset] + small + row[one.end_col_offset :]
    place = folder / path.parent.name / path.name
    place.parent.mkdir(exist_ok=True)
    place.write_text("".join(rows), encoding="utf-8")
    return place


def ended(path: str, kind: str, folder: str) -> dict[str, Any]:
    """One task with one candidate."""
    begun = time.monotonic()
    text = Path(path).read_text(encoding="utf-8")
    more = {"kept": KEPT, "half": HALF}
    new = text + more[kind] if kind in more else re.sub(r"\bModel\b", "ModelNew", text)
    place = Path(folder, f"{Path(path).stem[:60]}_{kind}")
    place.mkdir()
    (place / "model_new.py").write_text(new, encoding="utf-8")
    row: dict[str, Any] = {"task": "/".join(Path(path).parts[-2:]), "kind": kind}
    try:
        task = machine.placed(Task(source("model_new.py", place), source(path, Path.cwd()), modules=True))
        result = bench(task, Options(seconds=0.3, generations=1, caches=("cold",), check_seconds=10.0))
    except Exception as error:
        return {**row, "ok": False, "error": repr(error)[:300], "s": round(time.monotonic() - begun, 1)}
    fine = result.verdict not in FALSE and bool(result.timings)
    return {
        **row,
        "ok": fine if kind == "honest" else result.verdict in FALSE,
        "verdict": result.verdict,
        "sentence": result.sentence[:300],
        "hollow": {one.cheat for one in result.findings} == {31},  # of the task, not of its candidate
        "checks": len(result.checks),
        "findings": [[one.cheat, one.standing, one.evidence[:120]] for one in result.findings],
        "notes": result.notes[:4],
        "s": round(time.monotonic() - begun, 1),
    }


if __name__ == "__main__":
    main()
