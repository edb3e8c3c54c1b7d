"""Counters of the hardware for single calls of a candidate that was found right, by Nsight Compute (`--prove`).

The candidate plays once more, under ncu, which counts only what lies between marks: one call on random data, one on
other random data, on zeros, on large and on small numbers; after many calls the first one again, then several calls at
once. Before each, calls on other buffers of more than twice the cache, so that what is read from memory is what a cold
call reads. Nothing is timed. One pass of counters: more would have the kernel run again on a warm cache.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from kscope.bench.judge.hold import Died, Failed
from kscope.bench.judge.inputs import make
from kscope.bench.judge.seat import Seat, Where
from kscope.bench.task.spec import Task
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Finding
from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.parsers import scratch, toolchain

READ, INSTRUCTIONS = "dram__bytes_read.sum", "smsp__inst_executed.sum"
MARKS = ("kscope_bench_marked", "spin_kernel")  # a library's, and that of torch.cuda._sleep
KINDS = ("normal", "normal", "zeros", "large", "small")
SEVERAL = (0, 1, 0, 1)
GROUPS = len(KINDS) + 2
CALLS = 200  # between the first call that is counted and the last: more than any warm-up counts to. Judged
LEAST = 1 << 20  # bytes of inputs below which counters of memory tell nothing: other traffic is of that order. Judged
SHORT = 0.8  # of the bytes that must be read; the rotation leaves a few percent of old lines in the cache. Judged
ALIKE = 1.1  # times fewer instructions are another calculation; an honest loop's length may vary. Judged
ENDS_S = 60.0  # for ncu to write what it has


class Counted(Struct, frozen=True):
    """One group of calls. kernels: by name."""

    kernels: dict[str, int]
    read: float
    instructions: float

    @property
    def count(self) -> int:
        return sum(self.kernels.values())


def prove(
    task: Task, where: Where, cache_bytes: int, rng: np.random.Generator, *, dependent: bool
) -> tuple[list[Finding], list[str]]:
    """(findings, notes). A note alone where ncu is not here or may not count. Raises KscopeError."""
    tool = toolchain.locate("ncu")
    if tool is None:
        return [], ["--prove: Nsight Compute (ncu) is not here"]
    with scratch.folder("kscope-bench-") as folder:
        log = Path(folder, "ncu.csv")
        fault = _played(task, where, cache_bytes, rng, _command(tool, log))
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    found = groups(text)
    if len(found) != GROUPS:
        why = next((one_line(line)[:200] for line in text.splitlines() if "ERROR" in line), fault)
        return [], [f"--prove: {why or f'{len(found)} groups of kernels where {GROUPS} were started'}"]
    size = sum(one.nbytes for one in make(task, task.cases[0], task.dtypes[0], "zeros", rng).arrays())
    return judged(found, size if dependent else 0), [_told(found[0], size)]


def _command(tool: Path, log: Path) -> list[str]:
    return [str(tool), "--profile-from-start", "off", "--csv", "--page", "raw", "--print-units", "base",
            "--cache-control", "none", "--clock-control", "none", "--metrics", f"{READ},{INSTRUCTIONS}",
            "--log-file", str(log)]  # fmt: skip


def _played(task: Task, where: Where, cache_bytes: int, rng: np.random.Generator, command: Sequence[str]) -> str:
    """What went wrong; empty where nothing did."""
    dims, chosen = task.cases[0], task.dtypes[0]
    size = sum(one.nbytes for one in make(task, dims, chosen, "zeros", rng).arrays()) or 1
    slots = len(KINDS) + min(max(-(-2 * cache_bytes // size), 1), 4096, max((4 << 30) // size, 1))
    seat = Seat(task, task.candidate, where, "candidate", tool=command)
    order = [i % slots for i in range(CALLS)]
    between = list(range(len(KINDS), slots))
    try:
        seat.open(dims, chosen, slots=slots)
        for i, kind in enumerate(KINDS):
            seat.fill(i, make(task, dims, chosen, kind, rng))
        seat.spread(len(KINDS))
        seat.run(order[:16])  # compilers and tuners are done
        assert seat.hold is not None
        seat.hold.ask("counted", groups=[[i] for i in range(len(KINDS))], between=between)
        seat.run(order)
        seat.hold.ask("counted", groups=[[0], list(SEVERAL)], between=between)
    except (Died, Failed) as error:
        return str(error)
    finally:
        seat.close(ENDS_S)
    return ""


def groups(text: str) -> list[Counted]:
    """The kernels of `--page raw --csv`, from mark to mark. What is not understood is left out."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: list[Counted] = []
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        name = row.get("Kernel Name") or ""
        if not name:
            continue  # the row of units
        if any(one in name for one in MARKS):
            found.append(Counted({}, 0.0, 0.0))
        elif found:
            last = found[-1]
            kernels = {**last.kernels, name: last.kernels.get(name, 0) + 1}
            found[-1] = Counted(kernels, last.read + _number(row, READ), last.instructions + _number(row, INSTRUCTIONS))
    return found


def _number(row: Mapping[str, str | None], name: str) -> float:
    try:
        return float((row.get(name) or "0").replace(",", ""))
    except ValueError:
        return 0.0


def judged(found: Sequence[Counted], needed: int) -> list[Finding]:
    """found: groups in order. needed: bytes of the inputs, 0 where not every one of them was seen to matter."""
    first, second, zeros, large, small, last, several = found
    out = []
    if needed >= LEAST and first.count and max(first.read, last.read) < SHORT * needed:
        what = f"{first.read / 2**20:.1f} MiB of {needed / 2**20:.1f} MiB that matter"
        out.append(finding(26, f"a cold call reads {what}, by counters of memory"))
    if first.count and several.count < first.count * len(SEVERAL) - len(SEVERAL) / 2:
        out.append(finding(7, f"{len(SEVERAL)} calls start {several.count} kernels, one call {first.count}"))
    ways = (("after many calls", last, 36), ("on zeros", zeros, 27), ("on large numbers", large, 37),
            ("on small numbers", small, 37))  # fmt: skip
    for words, one, number in ways:  # more is no cheat: a division of small numbers takes a longer way
        if one.instructions < min(first.instructions, second.instructions) / ALIKE:
            what = f"{first.instructions:.4g} on random data in the first calls"
            out.append(finding(number, f"{one.instructions:.4g} instructions {words}, {what}", "seen"))
    return out


def _told(one: Counted, size: int) -> str:
    names = ", ".join(quoted(name, 60) for name in list(one.kernels)[:3]) or "none"
    return (f"by Nsight Compute a cold call starts {one.count} kernel{'s' * (one.count != 1)} ({names}), executes "
            f"{one.instructions:,.0f} instructions, reads {one.read / 2**20:.2f} MiB from memory; inputs have "
            f"{size / 2**20:.2f} MiB")  # fmt: skip
