"""A candidate, reference or baseline at work: its process, and the case whose arrays it holds."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from kscope.bench.judge.hold import Array, Died, Failed, Hold, Nursery, Ran, Unfit
from kscope.bench.judge.inputs import Data, scalars
from kscope.bench.task.build import library
from kscope.bench.task.spec import Param, Source, Task
from kscope.bench.values.numbers import dtype
from kscope.model.errors import KscopeError


class Where(Struct, frozen=True):
    """framework and device that a source runs with; `libraries`: folder of what was compiled; arch: of the device."""

    framework: str
    device: str
    libraries: Path
    arch: str = ""


class Seat:
    """One source in its own process. role: candidate, reference, baseline. wide: computes in float64. tool: the
    command of a profiler that starts it."""

    def __init__(
        self,
        task: Task,
        source: Source,
        where: Where,
        role: str,
        *,
        wide: bool = False,
        seed: int = 0,
        keywords: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        tool: Sequence[str] = (),
    ) -> None:
        self.task, self.source, self.where, self.role, self.wide = task, source, where, role, wide
        self.keywords = dict(task.keywords if keywords is None else keywords) if role == "candidate" else {}
        self.seed, self.environment, self.tool = seed, environment, tuple(tool)
        self.hold: Hold | None = None
        self.what = ""
        self.dims: dict[str, int] = {}
        self.outputs: tuple[Param, ...] = ()
        self.chosen = ""
        self._loaded = ""

    def open(self, dims: Mapping[str, int], chosen: str, *, slots: int = 1, layout: str = "plain") -> None:
        """Make room for a case. Raises Died, Failed (Unfit of all but a candidate), KscopeError."""
        with self._blame():
            self._open(dims, chosen, slots, layout)

    def _open(self, dims: Mapping[str, int], chosen: str, slots: int, layout: str) -> None:
        self._load(chosen)
        assert self.hold is not None
        self.dims, self.chosen, self.layout = dict(dims), chosen, layout
        numbers = scalars(self.task, dims)
        rows: list[dict[str, Any]] = []
        size = 0
        for i, param in enumerate(self.task.inputs):
            if param.scalar:
                rows.append({"value": numbers[i]})
                continue
            kind = param.kind(chosen)
            if self.wide and not kind.whole:
                kind = dtype("float64")
            shape = param.sizes(dims)
            rows.append({"shape": shape, "dtype": kind.name, "layout": layout})
            size += -(-int(np.prod(shape, dtype=np.int64)) * kind.size // 64) * 64
        outputs = self.outputs
        out = [
            {
                "shape": one.sizes(dims),
                "dtype": "float64" if self.wide and not one.kind(chosen).whole else one.kind(chosen).name,
            }
            for one in outputs
        ]
        room = self.hold.arena(size)
        self.hold.ask(
            "case", inputs=rows, outputs=out, slots=slots, bytes=room, dims=[dims[k] for k in sorted(self._dims())],
            sizes=dict(dims),
        )  # fmt: skip

    def fill(self, slot: int, data: Data, how: str = "copy") -> None:
        with self._blame():
            self._fill(slot, data, how)

    def _fill(self, slot: int, data: Data, how: str) -> None:
        assert self.hold is not None
        given = data.wide() if self.wide else data
        positions = [i for i, one in enumerate(given.raw) if one is not None]
        offsets = self.hold.place(given.arrays())
        self.hold.ask(
            "fill", slot=slot, offsets=list(zip(positions, offsets, strict=True)), how=how, changes=self.changes
        )

    def spread(self, count: int) -> None:
        """The data of the first slots, over and over, in all others."""
        assert self.hold is not None
        with self._blame():
            self.hold.ask("spread", count=count)

    def run(self, order: Sequence[int], keep: Sequence[int] = (), **more: Any) -> Ran:
        assert self.hold is not None
        with self._blame():
            return self.hold.run(order, keep, **more)

    def once(self, data: Data, slot: int = 0, how: str = "copy", **more: Any) -> list[Array]:
        """The outputs of one call."""
        self.fill(slot, data, how)
        return self.run([slot], [0], untimed=True, **more).outputs[0]

    @property
    def loaded(self) -> bool:
        """Whether its code could be imported."""
        return bool(self._loaded)

    @property
    def changes(self) -> list[int]:
        return [i for i, one in enumerate(self.task.inputs) if one.name in self.task.changes]

    @contextlib.contextmanager
    def _blame(self) -> Iterator[None]:
        try:
            yield
        except (Died, Failed) as error:
            if self.role == "candidate":
                raise
            raise Unfit(f"{self.source.text}: {error}") from None

    def close(self, seconds: float = 0.5) -> None:
        if self.hold is not None:
            self.hold.close(seconds)
        self.hold, self._loaded = None, ""

    def _dims(self) -> set[str]:
        return {key for case in self.task.cases for key in case}

    def _load(self, chosen: str) -> None:
        """A library is one data type's; Python takes any."""
        wanted = chosen if self.source.language == "native" else "any"
        if self.hold is not None and self._loaded == wanted:
            return
        self.close()
        more: dict[str, Any] = {}
        if self.source.language == "native":
            built = library(self.task, self.source, chosen, self.where.libraries, self.where.arch, self.keywords)
            more = {"library": str(built)}
        timed = self.role != "reference" and self.environment is None  # on pages of its own
        nursery = None if self.tool else _nursery(self.where.framework, self.environment, anew=timed)
        self.hold = Hold(self.environment, nursery=nursery, tool=self.tool)
        self.hold.awake = self.where.device == "cuda" and (os.cpu_count() or 1) >= FREE
        names = [one.name for one in (*self.task.inputs, *self.task.outputs)]
        # only a Triton kernel or a library takes its outputs; what a Python function returns is looked at
        own = self.source.language == "native" or (self.role == "candidate" and bool(self.task.launch))
        self.outputs = self.task.outputs if own else ()
        answer = self.hold.ask(
            "load", path=self.source.path, module=self.source.module, name=self.source.name, role=self.role,
            framework=self.where.framework, device=self.where.device, folder=str(self.hold.folder), seed=self.seed,
            launch=self.task.launch if own else "", names=names, wide=self.wide, changes=self.changes,
            keywords={k: _typed(v) for k, v in self.keywords.items()}, folders=_folders(self.source),
            reuses=self.task.reuses_output and self.role == "candidate", **more,
        )  # fmt: skip
        self.what, self._loaded = str(answer.get("what", "")), wanted


def described(seat: Seat) -> tuple[tuple[Param, ...], tuple[dict[str, int], ...]]:
    """Inputs that a reference's own module makes (`get_inputs`): one case with its sizes. Raises KscopeError."""
    seat._load("float32")
    assert seat.hold is not None
    found = []
    for i, one in enumerate(seat.hold.ask("describe")["inputs"]):
        if "value" in one:
            number = one["value"]
            if not isinstance(number, int | float):
                raise KscopeError(
                    "bad-task", f"{seat.source.text}: input {i} is neither an array nor a number", "write a task file"
                )
            found.append(Param(f"x{i}", scalar=True, value=str(number)))
        else:
            kind = dtype(one["dtype"])
            sides = tuple(str(side) for side in one["shape"])
            low, high = one["span"]
            below = str(int(high) + 1) if kind.whole and kind.name != "bool" and low >= 0 else ""
            # what a module makes of positive numbers alone may need them: a logarithm, a probability
            least, most = (0.0, float(np.ceil(high))) if 0 <= low < high and not kind.whole else (None, None)
            chosen = "T" if kind.name == "float32" else kind.name
            found.append(Param(f"x{i}", sides, chosen, low=least, high=most, below=below))
    return tuple(found), ({},)


FREE = 4  # processors, from which on one is given to the clock alone; judged


@cache
def _kept(modules: str, environment: tuple[tuple[str, str], ...]) -> Nursery:
    found = Nursery(modules, dict(environment))
    atexit.register(found.close)
    return found


def prepare(frameworks: Iterable[str], environments: Iterable[Mapping[str, str] | None]) -> None:
    """Begin to import what takes seconds, side by side."""
    for environment in environments:
        if "torch" in frameworks:
            _nursery("torch", environment, anew=False)


def _nursery(framework: str, environment: Mapping[str, str] | None, *, anew: bool) -> Nursery | None:
    """One for all players of a framework that takes seconds to import, and for all that nobody times."""
    if not hasattr(os, "fork") or (anew and framework != "torch"):
        return None
    modules = "numpy,torch" if framework == "torch" else "numpy,kscope.bench.player.worker"
    return _kept(modules, tuple(sorted((environment or {}).items())))


def _typed(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def _folders(source: Source) -> list[str]:
    return [str(Path(source.path).parent)] if source.path else [str(Path.cwd())]
