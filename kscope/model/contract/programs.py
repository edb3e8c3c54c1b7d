"""`programs` of JSON v1: machine code as `kscope sass` shows it. Fields are only ever added.

With --annotate every function carries `listing`, one entry an instruction; without it the counts alone.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class View(Struct, frozen=True, kw_only=True):
    """Base of the public view: immutable, keyword-only."""


class Compact(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The same for what there is thousands of: a field at its default is left out of the JSON."""


class PipeCycles(View):
    """What a pipe alone would need for one round of a loop: cycles a warp, of one sub-partition."""

    pipe: str
    cycles: Annotated[float, Meta(description="of what runs in every round (by the profile's counts where it has any)")]
    most: Annotated[float, Meta(description="with what runs under a condition")]
    refused: Annotated[str, Meta(description="why there is no figure; cycles and most are 0 then")] = ""


class LoopView(View):
    """A natural loop. `number` is what listings call it; `start`, `end`: pcs of its header and its last instruction."""

    number: int
    start: int
    end: int
    depth: int
    parent: int | None
    instructions: Annotated[int, Meta(description="inner loops included")]
    own: Annotated[int, Meta(description="instructions that are in no inner loop")]
    kind: Annotated[str, Meta(description="'spin', 'lane by lane', or empty for a loop of the program")] = ""
    bounds: Annotated[list[PipeCycles], Meta(description="if this were the only limit; largest first")] = []
    refused: Annotated[str, Meta(description="why no bound can be given")] = ""
    file: str | None = None
    line: int | None = None
    rounds: Annotated[float | None, Meta(description="rounds of all warps, from a profile")] = None
    share: Annotated[float | None, Meta(description="share of the kernel's samples, inner loops included")] = None


class MixRow(View):
    """Instructions of one pipe. `executed`: warp instructions, from a profile."""

    pipe: str
    instructions: int
    in_loops: int
    executed: float | None = None


class AccessRow(View):
    """Memory accesses of one name and width. Counters are of a profile: executions, 32-byte sectors at L2 or wavefronts
    at shared memory (`moved`), and what a perfect pattern would have needed (`ideal`)."""

    access: str
    space: str
    kind: str
    bytes: Annotated[int | None, Meta(description="a lane; null where a descriptor decides")]
    instructions: int
    in_loops: int
    stack: str = ""
    executed: float | None = None
    unit: str = ""
    moved: float | None = None
    ideal: float | None = None


class OccupancyStep(View):
    """The most registers a thread may take for so many blocks and warps an SM."""

    registers: int
    blocks: int
    warps: int


class Occupancy(View):
    """Warps an SM holds, by static resources. `threads_from`: launch, launch bounds, or assumed."""

    threads: int
    threads_from: str
    blocks: int
    warps: int
    warps_max: int
    limits: list[str]
    steps: list[OccupancyStep]
    handover: Annotated[list[int], Meta(description="registers a thread after setmaxnreg, as the code asks")] = []
    live_max: int | None = None
    live_max_pc: int | None = None


class ControlView(Compact):
    """Scheduling fields; scoreboards are absent where none is used."""

    stall: int
    yields: bool = False
    write_barrier: int | None = None
    read_barrier: int | None = None
    waits: tuple[int, ...] = ()
    reuse: int = 0


class WaitView(Compact):
    """A wait: for whose registers (`needed`), and what else was outstanding on the same scoreboard (`also`), as pcs."""

    scoreboard: int | None = None
    needed: list[int] = []
    also: list[int] = []


class StallShare(Compact):
    reason: str
    samples: int


class Cause(Compact):
    """An instruction that others wait for, and how many samples of waiting at this one are due to it."""

    pc: int
    samples: float


class Measured(Compact):
    """What a profile counted at one instruction. `samples` where warps were seen, `causes` the instructions that they
    waited for, `blamed` samples of the waits that this instruction caused; executed: warp instructions; lanes: active
    ones of 32, on average."""

    samples: int = 0
    blamed: float = 0.0
    stalls: list[StallShare] = []
    causes: list[Cause] = []
    executed: int = 0
    lanes: float | None = None
    ways: Annotated[float | None, Meta(description="targets that the lanes of a branch take, on average")] = None
    unit: str = ""
    moved: float | None = None
    ideal: float | None = None


class InstructionView(Compact):
    """One instruction with what is to say about it. `notes` are the words of the text listing."""

    pc: int
    sass: str
    role: str
    pipe: str
    symbol: Annotated[str, Meta(description="device function that begins here")] = ""
    depth: int = 0
    loop: int | None = None
    live: int | None = None
    control: ControlView | None = None
    latency: Annotated[float | None, Meta(description="cycles to the result where fixed")] = None
    scoreboard: Annotated[str | None, Meta(description="what a consumer waits on: long (L1TEX) or short (MIO)")] = None
    access: str = ""
    bytes: int | None = None
    stack: str = ""
    waits: list[WaitView] = []
    notes: list[str] = []
    findings: list[str] = []
    file: str | None = None
    line: int | None = None
    inlined: Annotated[list[tuple[str, int]], Meta(description="call sites, innermost first")] = []
    measured: Measured | None = None
