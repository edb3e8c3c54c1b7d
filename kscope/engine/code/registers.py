"""The frontier of registers against warps against spills, by compiling a source under a ladder of caps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from kscope.features.counters.occupancy_limits import ASSUMED_THREADS, pressure
from kscope.features.sass.accesses import accesses
from kscope.features.sass.listing import Listing
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.parsers import scratch, toolchain
from kscope.parsers.cubin.programs import read_programs, target_of

LADDER = (24, 32, 40, 48, 56, 64, 80, 96, 128, 168, 255)
"""Caps that are tried: where an SM of 65,536 registers loses a block of 128 or 256 threads, and the most."""
SECONDS = 300  # for one compilation


class Rung(Struct, frozen=True):
    """A kernel compiled under a cap (None: the compiler's own choice): registers a thread, warps an SM holds, spill
    instructions and all instructions, loops weighted."""

    kernel: str
    cap: int | None
    registers: int
    warps: int
    spills: int
    work: float


def frontier(source: Path, arch: str | None, function: str | None, flags: Sequence[str] = ()) -> list[Rung]:
    """Rungs of every kernel whose name matches, uncapped first. Raises KscopeError: no nvcc (4), it refuses the source
    (3), no kernel matches (2)."""
    if not source.is_file():
        raise KscopeError("missing", f"{source}: no such file", "name a .cu file")
    tool = toolchain.find("nvcc")
    target = target_of(arch) or "sm_90"
    rungs: list[Rung] = []
    with scratch.folder() as folder:
        for cap in (None, *LADDER):
            out = Path(folder) / f"{cap}.cubin"
            # Launch bounds would win over the cap.
            capped = [] if cap is None else [f"-maxrregcount={cap}", "-Xptxas", "-override-directive-values"]
            arguments = ["-cubin", f"-arch={target}", "-w", *flags, *capped, str(source.absolute()), "-o", str(out)]
            done = toolchain.run(tool, arguments, seconds=SECONDS)
            if done.status != 0 or not out.is_file():
                raise KscopeError("refused", f"{source}: {tool} refuses it: {done.fault}", "see nvcc's own words")
            rungs += _rungs(out, cap, function)
    if not rungs:
        raise KscopeError("no-match", f"{source}: no kernel matches", "run without --function", EXIT_USAGE)
    return rungs


def best(rungs: Iterable[Rung]) -> list[Rung]:
    """Those that no other one beats: at least as many warps with at most as many spills, the other way round for
    none. Of equal ones the first."""
    chosen: list[Rung] = []
    for one in rungs:
        beaten = any(
            other.warps >= one.warps and other.spills <= one.spills
            and (other.warps, -other.spills) != (one.warps, -one.spills) for other in rungs
        )  # fmt: skip
        if not beaten and all((c.warps, c.spills) != (one.warps, one.spills) for c in chosen):
            chosen.append(one)
    return sorted(chosen, key=lambda r: -r.warps)


def _rungs(path: Path, cap: int | None, function: str | None) -> list[Rung]:
    out = []
    for image in read_programs(path, None, function):
        for program in image.functions:
            resources = program.resources
            if not program.entry or resources is None or not resources.registers:
                continue
            bounds = resources.max_threads
            threads = bounds[0] * bounds[1] * bounds[2] if bounds else ASSUMED_THREADS
            held = pressure(program.sm, resources.registers, threads, "assumed", resources.shared or 0)
            code = Listing(program)
            kinds = accesses(program, code.classes)
            spills = sum(a is not None and a.stack in ("spill", "spill slot") for a in kinds)
            name = program.demangled or program.name
            out.append(Rung(name, cap, resources.registers, held.warps if held else 0, spills, code.all_executed))
    return out
