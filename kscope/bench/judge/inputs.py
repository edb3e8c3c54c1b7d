"""Data for a candidate: distributions, structures and special values, from a seed that nobody can guess."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from kscope.bench.task import expressions
from kscope.bench.task.spec import Param, Task
from kscope.bench.values.numbers import Dtype, Floats, Raw, decode, encode

DISTRIBUTIONS = ("normal", "uniform", "large", "small", "mixed")
STRUCTURES = ("zeros", "ones", "one-hot", "sorted", "sparse")
WHOLE = "integers"
SPECIAL = ("denormals", "infinities", "nan")
KINDS = (*DISTRIBUTIONS, *STRUCTURES, WHOLE)

_SPREAD = {"large": 1e3, "small": 1e-3}
"""Standard deviation of the normal distributions beside 1; float16 bears no more in a product."""
PARTS = (0.25, 0.5)  # of an axis: sums up to there; with the whole, three points of a walk
SPARSE = 0.05  # share of elements that are not zero
FEW = 1 / 257  # share of elements that are special


def generator() -> np.random.Generator:
    """Seeded by the system, in our process: a candidate cannot compute its inputs ahead."""
    return np.random.default_rng(int.from_bytes(os.urandom(16), "little"))


class Data(Struct, frozen=True):
    """Inputs of one call by position: raw storage of arrays, numbers of scalars."""

    raw: tuple[Raw | None, ...]
    kinds: tuple[Dtype | None, ...]

    def arrays(self) -> list[Raw]:
        return [one for one in self.raw if one is not None]

    def wide(self) -> Data:
        """The same values in float64; whole numbers stay as they are."""
        from kscope.bench.values.numbers import DTYPES

        raw: list[Raw | None] = []
        kinds: list[Dtype | None] = []
        for one, kind in zip(self.raw, self.kinds, strict=True):
            widen = one is not None and kind is not None and not kind.whole
            raw.append(decode(one, kind) if widen and one is not None and kind is not None else one)
            kinds.append(DTYPES["float64"] if widen else kind)
        return Data(tuple(raw), tuple(kinds))


def make(task: Task, dims: Mapping[str, int], chosen: str, what: str, rng: np.random.Generator,
         like: Data | None = None) -> Data:  # fmt: skip
    """Inputs of a kind. like: constants are taken from there."""
    raw: list[Raw | None] = []
    kinds: list[Dtype | None] = []
    for i, param in enumerate(task.inputs):
        if param.scalar:
            raw.append(None)
            kinds.append(None)
            continue
        kind = param.kind(chosen)
        kept = like.raw[i] if like is not None and param.constant else None
        raw.append(kept if kept is not None else _array(param, dims, kind, what, rng))
        kinds.append(kind)
    return Data(tuple(raw), tuple(kinds))


def scalars(task: Task, dims: Mapping[str, int]) -> dict[int, int | float]:
    """Position -> number of the inputs that are no arrays."""
    found: dict[int, int | float] = {}
    for i, param in enumerate(task.inputs):
        if param.scalar:
            number = expressions.value(param.value, dims)
            found[i] = int(number) if number == int(number) and "." not in param.value else number
    return found


def one_changed(
    task: Task, data: Data, rng: np.random.Generator, turn: int | None = None
) -> tuple[Data, int, tuple[int, ...]]:
    """The same but for one element, which becomes much larger; the input and the index that changed. turn: inputs in
    turn, so that none is left to chance. Raises LookupError where no input holds a number that may."""
    free = [i for i, param in enumerate(task.inputs) if _changeable(param, data.raw[i], data.kinds[i])]
    if not free:
        raise LookupError("no input to change")
    i = int(rng.choice(free)) if turn is None else free[turn % len(free)]
    array, kind, param = data.raw[i], _kind(data, i), task.inputs[i]
    assert array is not None
    index = tuple(int(rng.integers(side)) for side in array.shape)
    values = decode(array, kind)
    scale = float(np.sqrt(np.nanmean(values * values))) or 1.0
    if param.low is not None and param.high is not None:  # the end that is farther away
        new = param.high if values[index] < (param.low + param.high) / 2 else param.low
    else:
        new = -np.sign(values[index] or 1.0) * scale * 16  # judged: far outside what was there, no format overflows
    values[index] = new
    changed = list(data.raw)
    changed[i] = encode(values, kind)
    return Data(tuple(changed), data.kinds), i, index


def perturbed(data: Data, relative: float, rng: np.random.Generator) -> Data:
    """Wide data with every number changed by up to `relative` of itself."""
    raw: list[Any] = []
    for one, kind in zip(data.raw, data.kinds, strict=True):
        if one is None or kind is None or kind.whole:
            raw.append(one)
        else:
            raw.append(one * (1 + relative * rng.uniform(-1, 1, one.shape)))
    return Data(tuple(raw), data.kinds)


def partial(data: Data, relative: float, *, all_axes: bool) -> Iterator[Data]:
    """Wide data of which the beginning of one input along one axis is larger by `relative`: what the output moves by is
    the sum of a reduction's terms up to there, whichever axis it runs along. First the whole input."""
    for i, (one, kind) in enumerate(zip(data.raw, data.kinds, strict=True)):
        if one is None or kind is None or kind.whole or not one.size:
            continue
        axes = [axis for axis in range(one.ndim) if one.shape[axis] > 1]
        cuts = [(None, 1.0), *((axis, share) for axis in (axes if all_axes else axes[-1:]) for share in PARTS)]
        for axis, share in cuts:
            larger = one.copy()
            if axis is None:
                larger *= 1 + relative
            else:
                first = [slice(None)] * one.ndim
                first[axis] = slice(0, max(int(share * one.shape[axis]), 1))
                larger[tuple(first)] *= 1 + relative
            yield Data((*data.raw[:i], larger, *data.raw[i + 1 :]), data.kinds)


def _changeable(param: Param, raw: Raw | None, kind: Dtype | None) -> bool:
    if raw is None or kind is None or not raw.size:
        return False
    return not (param.scalar or param.constant or param.below or kind.whole)


def _kind(data: Data, i: int) -> Dtype:
    kind = data.kinds[i]
    assert kind is not None
    return kind


def _array(param: Param, dims: Mapping[str, int], kind: Dtype, what: str, rng: np.random.Generator) -> Raw:
    shape = param.sizes(dims)
    if param.below:
        top = max(int(expressions.value(param.below, dims)), 1)
        return rng.integers(0, top, shape).astype(kind.storage)
    if kind.name == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    values = _structure(what, shape, rng) if what in STRUCTURES else _drawn(what, shape, rng, kind)
    if kind.whole:
        values = np.rint(values * (1 if what in STRUCTURES else 3))
        if kind.storage.startswith("u"):
            values = np.abs(values)
    if param.low is not None and param.high is not None:
        if what in DISTRIBUTIONS:
            values = rng.uniform(param.low, param.high, shape)
        values = np.clip(values, param.low, param.high)
    return encode(values, kind)


def _drawn(what: str, shape: Sequence[int], rng: np.random.Generator, kind: Dtype) -> Floats:
    if what == WHOLE:
        return rng.integers(-1, 2, shape).astype(np.float64)
    if what == "uniform":
        return rng.random(shape)
    values = rng.standard_normal(shape)
    if what == "mixed":  # magnitudes over eight powers of two either side
        return np.asarray(values * np.exp2(rng.uniform(-8, 8, shape)) / 16)
    if what == "denormals" and not kind.whole:
        tiny = {"float16": 2.0**-15, "float64": 2.0**-1024}.get(kind.name, 2.0**-127)
        return np.asarray(_planted(values, tiny, rng))
    if what in ("infinities", "nan"):
        return np.asarray(_planted(values, np.inf if what == "infinities" else np.nan, rng))
    return np.asarray(values * _SPREAD.get(what, 1.0))


def _planted(values: Floats, one: float, rng: np.random.Generator) -> Floats:
    flat = values.reshape(-1)
    if flat.size:
        where = rng.integers(0, flat.size, max(1, int(flat.size * FEW)))
        flat[where] = one * np.sign(flat[where])
    return flat.reshape(values.shape)


def _structure(what: str, shape: Sequence[int], rng: np.random.Generator) -> Floats:
    if what == "zeros":
        return np.zeros(shape)
    if what == "ones":
        return np.ones(shape)
    if what == "sorted":
        return np.sort(rng.standard_normal(shape), axis=None).reshape(shape)
    if what == "sparse":
        return np.asarray(rng.standard_normal(shape) * (rng.random(shape) < SPARSE))
    found = np.zeros(shape)
    if found.ndim and found.size:  # one-hot along the last dimension
        rows = found.reshape(-1, found.shape[-1])
        rows[np.arange(len(rows)), rng.integers(0, found.shape[-1], len(rows))] = 1.0
    return found
