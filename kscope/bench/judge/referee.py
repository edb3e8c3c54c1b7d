"""What is right: the reference in float64, its condition, and its error in the candidate's format."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct

from kscope.bench.judge import bounds
from kscope.bench.judge.bounds import Bound, Compared
from kscope.bench.judge.hold import Array, Unfit
from kscope.bench.judge.inputs import Data, partial, perturbed
from kscope.bench.judge.seat import Seat
from kscope.bench.task import expressions
from kscope.bench.task.spec import Task
from kscope.bench.values.numbers import Dtype, Floats, decode, dtype


class Truth(Struct, frozen=True):
    """values: outputs in float64. kinds: formats that the reference itself answers in. limits: by output."""

    values: tuple[Floats, ...]
    kinds: tuple[Dtype, ...]
    limits: tuple[Bound, ...]


class Referee:
    """A reference in float64 and in the candidate's format, each in a process of its own.

    probing: whether to find the condition; without, the bounds of the nearest probed case are scaled."""

    def __init__(self, task: Task, wide: Seat | None, native: Seat) -> None:
        self.task, self.wide, self.native = task, wide, native
        self.dims: dict[str, int] = {}
        self.note = ""

    def open(self, dims: Mapping[str, int], chosen: str) -> None:
        self.dims, self.chosen = dict(dims), chosen
        self.native.open(dims, chosen)
        if self.wide is not None:
            try:
                self.wide.open(dims, chosen)
                return
            except Unfit as error:
                self._narrow(error)

    def truth(self, data: Data, rng: np.random.Generator, probes: int = bounds.PROBES) -> Truth:
        """Raises Unfit where the reference does not answer."""
        own = self.native.once(data)
        if not own or any(one.dtype == "none" for one in own):
            odd = next((one.odd for one in own if one.odd), "nothing")
            raise Unfit(f"{self.task.reference.text}: it returns {odd}, not arrays")
        kinds = tuple(dtype(one.dtype) for one in own)
        narrow = [decode(one.raw, kind) for one, kind in zip(own, kinds, strict=True)]
        values, moved, sums = narrow, [], []
        if self.wide is not None:
            try:
                wide = data.wide()
                values = self._wide(self.wide.once(data))
                moved = [self._wide(self.wide.once(perturbed(wide, bounds.RELATIVE, rng))) for _ in range(probes)]
                few = probes < bounds.PROBES
                sums = [self._wide(self.wide.once(one)) for one in partial(wide, bounds.RELATIVE, all_axes=not few)]
            except Unfit as fault:
                self._narrow(fault)
                values, moved, sums = narrow, [], []
        limits = []
        terms = self.terms(data, [one.shape for one in values])
        for i, (value, kind) in enumerate(zip(values, kinds, strict=True)):
            off = None
            if not kind.whole:
                off = np.nan_to_num(np.abs(narrow[i] - value), nan=0.0, posinf=0.0, neginf=0.0)
                if self.wide is None:  # two roundings apart at most
                    off = kind.unit * np.abs(np.nan_to_num(value, posinf=0.0, neginf=0.0)) * np.sqrt(terms)
            limits.append(self._limit(value, ([one[i] for one in moved], [one[i] for one in sums]), kind, terms, off))
        return Truth(tuple(values), kinds, tuple(limits))

    def terms(self, data: Data, out: list[tuple[int, ...]]) -> float:
        """K of the bound: declared, or the sides of the inputs that no output has, or the last side."""
        if self.task.reduction:
            return max(expressions.value(self.task.reduction, self.dims), 1.0)
        shapes = [one.shape for one in data.raw if one is not None and one.ndim]
        gone = {side for shape in shapes for side in shape} - {side for shape in out for side in shape}
        if gone:
            return float(max(gone))
        return float(max((shape[-1] for shape in shapes), default=1))

    def compare(self, got: list[Array], truth: Truth, *, exact: bool = False) -> tuple[bool, Compared, str]:
        """The worst output. Raises nothing: what is no array is wrong."""
        if len(got) != len(truth.values):
            return False, _nothing(), f"{len(got)} outputs where {len(truth.values)} are right"
        worst: tuple[bool, Compared, str] | None = None
        for one, value, kind, limit in zip(got, truth.values, truth.kinds, truth.limits, strict=True):
            if one.dtype == "none" or one.odd:
                return False, _nothing(), f"returns {one.odd or 'nothing'}, not a plain array"
            if one.dtype != kind.name:
                return False, _nothing(), f"returns {one.dtype} where the reference returns {kind.name}"
            found = (
                bounds.exact(one.raw, kind, value)
                if exact or kind.whole
                else bounds.compare(one.raw, kind, value, limit)
            )
            row = (found.ok, found, found.says)
            if worst is None or (worst[0], -worst[1].ratio) > (found.ok, -found.ratio):
                worst = row
        return worst if worst is not None else (False, _nothing(), "no outputs")

    def exactly(self, truth: Truth) -> bool:
        if self.task.linear is False:
            return False
        return all(bounds.whole(value, kind) for value, kind in zip(truth.values, truth.kinds, strict=True))

    def close(self) -> None:
        self.native.close()
        if self.wide is not None:
            self.wide.close()

    def _limit(self, value: Floats, probes: tuple[list[Floats], list[Floats]], kind: Dtype, terms: float,
               off: Floats | None) -> Bound:  # fmt: skip
        if self.task.tolerance is not None and not kind.whole:
            size = np.abs(np.nan_to_num(value, posinf=0.0, neginf=0.0))
            limit = self.task.tolerance * (size + bounds.alike(size))
            return Bound(limit, limit)
        moved, sums = ([one for one in group if one.shape == value.shape] for group in probes)
        rounding = bounds.rounding(kind, self.task.accumulate, self.task.compute)
        return bounds.bound(value, moved, sums, kind, rounding * np.sqrt(max(terms, 1.0)), off)

    def _wide(self, got: list[Array]) -> list[Floats]:
        return [decode(one.raw, dtype(one.dtype)) for one in got]

    def _narrow(self, error: Unfit) -> None:
        self.note = f"the reference does not run in float64 ({error}): it is compared with at its own precision"
        assert self.wide is not None
        self.wide.close()
        self.wide = None

    @cached_property
    def constant(self) -> bool:
        return any(one.constant for one in self.task.inputs)


def _nothing() -> Compared:
    return Compared(False, float("inf"), 0.0, float("inf"), float("inf"), ())
