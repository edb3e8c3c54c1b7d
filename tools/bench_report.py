"""What tools/bench_truth.py and tools/bench_kernelbench.py found on a machine, as a page:

    python tools/bench_report.py FOLDER_OF_JSON... --into reports/bench_truth.md

Parts are cases.json, timed.json, planted.json, itself.json, nvbench.json, kernelbench.json; a later folder's rows go
before those of an earlier one with the same name.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]
PARTS = ("cases", "timed", "proved", "planted", "itself", "nvbench")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args()
    given.into.write_text("\n".join(page(given.folders)) + "\n", encoding="utf-8")


def page(folders: list[Path]) -> Iterator[str]:
    files = [found for one in folders for part in PARTS if (found := _file(one, part))]
    machines = [found["machine"] for found in files]
    machine = "; ".join(dict.fromkeys(machines))
    yield "# kscope bench: what it says against what is so\n"
    yield (f"Made by `python tools/bench_report.py`, from `tools/bench_truth.py` and `tools/bench_kernelbench.py` on: "
           f"{machine}.\n")  # fmt: skip
    for part, words in (("cases", "candidates"), ("kernelbench", "tasks"), ("nvbench", "kernels")):
        if missing := _missing(folders, part):
            yield f"{missing} {words} had no turn in any run: nothing is said of them.\n"
    yield from _judged(folders)
    yield from _clock(folders)
    yield from _nvbench(folders)
    yield from _tasks(folders)


def rows(folders: list[Path], part: str) -> list[Row]:
    """Of all folders; where two have the same row, the later one's that came to an end."""
    found: dict[Any, Row] = {}
    for number, folder in enumerate(folders):
        data = _file(folder, part)
        for i, row in enumerate(data.get(part, []) if isinstance(data, dict) else data):
            key = _key(row) or (number, i)
            if "left_out" not in row or key not in found:
                found[key] = row
    return [row for row in found.values() if "left_out" not in row]


def _key(row: Row) -> str:
    """Of a candidate, a kernel or a task; of what was left out, its arguments hold it."""
    if isinstance(left := row.get("left_out"), list):
        named = re.search(r"id='([^']+)'", " ".join(left))
        return named[1] if named else f"{'/'.join(Path(left[0]).parts[-2:])} {left[1]}"
    return str(row.get("id") or row.get("name") or (f"{row['task']} {row['kind']}" if "task" in row else ""))


def _missing(folders: list[Path], part: str) -> int:
    """Rows that were left out in the last folder that has the part, and are in none before."""
    last = next((one for one in reversed(folders) if _file(one, part)), folders[-1])
    data = _file(last, part)
    left = [row for row in (data.get(part, []) if isinstance(data, dict) else data) if "left_out" in row]
    had = sum(_key(row) in {_key(r) for r in rows(folders, part)} for row in left)
    return len(left) - had


def _file(folder: Path, part: str) -> Any:
    path = folder / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _judged(folders: list[Path]) -> Iterator[str]:
    found = {row["id"]: row for row in [*rows(folders, "timed"), *rows(folders, "cases")] if "id" in row}
    for cheats, words in ((True, "Cheats that are caught and named"), (False, "Honest candidates that are unaccused")):
        mine = [row for row in found.values() if row.get("cheat") is cheats]
        good = [row for row in mine if row.get("ok")]
        yield f"## {words}: {len(good)} of {len(mine)}\n"
        wrong = [row for row in mine if not row.get("ok")]
        for row in wrong:
            yield f"- {row['id']}: {row.get('sentence') or row.get('error')}"
        yield ""
    if proved := [row for row in rows(folders, "proved") if "verdict" in row]:
        good = [row for row in proved if row.get("ok")]
        yield f"Under Nsight Compute (`--prove`) {len(good)} of {len(proved)} honest ones are unaccused:"
        yield ", ".join(row["id"] for row in proved) + ".\n"


def _clock(folders: list[Path]) -> Iterator[str]:
    runs = [same for one in folders if (same := [row for row in rows([one], "itself") if "ratio" in row])]
    if runs:
        fine = [sum(r["verdict"] == "inconclusive" or round(r["ratio"], 2) == 1.0 for r in same) for same in runs]
        away = [abs(row["ratio"] - 1) for row in runs[-1]]
        yield f"## The same code against itself: {fine[-1]} of {len(runs[-1])} inconclusive or 1.00\n"
        yield f"Ratios lie {100 * median(away):.2f} % from 1 in the middle, {100 * max(away):.2f} % at most."
        if earlier := [f"{n} of {len(same)}" for n, same in zip(fine[:-1], runs[:-1], strict=True)]:
            yield f"By earlier states of the clock, in order: {', '.join(earlier)}."
        yield ""
    found = [[row for row in rows([one], "planted") if "ratio" in row] for one in folders]
    planted = next((one for one in reversed(found) if one), [])  # of the last run that planted any
    if planted:
        seen = [row for row in planted if row["verdict"] == "faster"]
        yield f"## 3 % planted in a kernel of 100 us: found in {len(seen)} of {len(planted)} runs\n"
        yield ", ".join(f"{row['ratio']:.3f} ({row['low']:.3f}-{row['high']:.3f}, {row['mode']})" for row in planted)
        yield ""


COLUMNS = (
    ("hot", "nvbench", "nv/batch/time/gpu/mean"),
    ("hot graph", "nvbench graph", "nv/batch/time/gpu/mean"),
    ("cold", "nvbench", "nv/cold/time/gpu/mean"),
)
"""Ours, whose row of nvbench's, and its figure there: a graph of calls beside a graph of the same calls."""


def _nvbench(folders: list[Path]) -> Iterator[str]:
    found = [row for row in rows(folders, "nvbench") if row.get("nvbench") and "hot" in row]
    if not found:
        return
    yield "## Times beside nvbench's (package cuda-bench), in microseconds\n"
    yield "Each cell: nvbench's, kscope bench's, and their ratio. nvbench starts calls from Python (below some 8 us"
    yield "that is what its batch measures) and its cold time holds the events around one call, about 2 us. Graphs, of"
    yield "400 calls, are timed by nvbench in a process each: after single launches a node takes a tenth longer.\n"
    yield "| kernel | hot | hot, in a graph | cold |\n| --- | ---: | ---: | ---: |"
    near: dict[str, list[bool]] = {ours: [] for ours, _, _ in COLUMNS}
    best = 0
    for row in found:
        cells = []
        for ours, whose, figure in COLUMNS:
            their = _microseconds(row.get(whose), figure)
            if their is None or ours not in row:
                cells.append("")
                continue
            us = row[ours][0]
            near[ours].append(abs(us / their - 1) <= 0.02)
            cells.append(f"{their:.4g}, {us:.4g}, {us / their:.3f}")
        best += near["hot graph"][-1] if cells[1] else near["hot"][-1]
        yield f"| {row['name']} | {' | '.join(cells)} |"
    told = ", ".join(f"{ours} {sum(fine)} of {len(fine)}" for ours, fine in near.items())
    yield f"\nWithin 2 %: {told}. Short kernels in graphs, others as they are called: {best} of {len(found)}.\n"


def _microseconds(theirs: Row | None, figure: str) -> float | None:
    if not theirs or figure not in theirs:
        return None
    return 1e6 * float(theirs[figure]) / int(theirs.get("nodes", 1))


def _tasks(folders: list[Path]) -> Iterator[str]:
    found = [row for row in rows(folders, "kernelbench") if "task" in row]
    if not found:
        return
    honest = [row for row in found if row["kind"] == "honest"]
    good, hollow = [row for row in honest if row["ok"]], [row for row in honest if row.get("hollow")]
    cheats = [row for row in found if row["kind"] != "honest"]
    named = [row for row in cheats if row["ok"]]
    yield f"## KernelBench's tasks: {len(good) + len(hollow)} of {len(honest)} end to end\n"
    yield f"The task's Model again as ModelNew: timed and unaccused in {len(good)}; {len(hollow)} are named because the"
    yield f"task's right answer hardly varies (any constant would pass). Of {len(cheats)} ModelNew that keep their"
    yield f"first answer or compute in bfloat16, {len(named)} are not taken for faster.\n"
    for row in found:
        if not row["ok"]:
            yield f"- {row['task']}, {row['kind']}: {row.get('sentence') or row.get('error')}"


if __name__ == "__main__":
    main()
