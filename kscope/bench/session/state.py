"""What a run is asked to do, and what it has found so far."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from kscope.bench.judge.clocks import Watcher
from kscope.bench.judge.inputs import generator
from kscope.bench.judge.matrix import Record
from kscope.bench.judge.referee import Referee
from kscope.bench.judge.seat import Seat
from kscope.bench.session import machine
from kscope.bench.task.spec import Source, Task
from kscope.bench.values.result import Finding, Timing

PERTURB = {"MALLOC_PERTURB_": "1"}
"""glibc fills memory that it hands out with 0xFE: as float32 -1.7e38, as float16 NaN. In the checks alone: it takes
time."""


class Options(Struct, frozen=True):
    """What a run is to do. seconds: for the timing of one shape. caches: which to time. check_seconds: after which a
    shape is checked on fewer kinds of data (judged: large tensors are made and compared in float64 on the host).
    prove: count by Nsight Compute. generations: pairs of processes that share the rounds, 0 for what their start
    allows. libraries: folder of what was compiled before, "" for one of this run."""

    time: bool = True
    seconds: float = 4.0
    caches: tuple[Literal["cold", "hot"], ...] = ("cold", "hot")
    graph: bool = False
    checks: bool = True
    prove: bool = False
    check_seconds: float = 120.0
    generations: int = 0
    libraries: str = ""
    keywords: dict[str, str] = {}
    say: Callable[[str], None] | None = None


class Run:
    """The state of one run."""

    def __init__(self, task: Task, options: Options, libraries: Path) -> None:
        self.task, self.options, self.libraries = task, options, libraries
        self.rng = generator()
        self.seed = int.from_bytes(os.urandom(4), "little")
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self.records: list[Record] = []
        self.timings: list[Timing] = []
        self.wrong = ""
        self.deterministic: bool | None = None
        self.dependent = False
        self.watcher = Watcher(task.device)
        self.printed = digest(task.file)

    def seat(self, source: Source, role: str, *, wide: bool = False, checking: bool = False) -> Seat:
        place = machine.where(self.task, source, self.libraries)
        return Seat(
            self.task,
            source,
            place,
            role,
            wide=wide,
            seed=self.seed,
            keywords={**self.task.keywords, **self.options.keywords},
            environment=PERTURB if checking else None,
        )

    def referee(self) -> Referee:
        source = self.task.reference
        wide = self.seat(source, "reference", wide=True) if source.language == "python" else None
        found = Referee(self.task, wide, self.seat(source, "reference"))
        if wide is None:
            found.note = "the reference is a library: it is compared with at its own precision"
        return found

    @property
    def clean(self) -> bool:
        """Whether times would tell anything: everything right, and no cheat caught."""
        return all(one.check.ok for one in self.records) and not any(one.standing == "caught" for one in self.findings)

    def say(self, text: str) -> None:
        if self.options.say is not None:
            self.options.say(text)


def digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""
    except OSError:
        return "gone"
