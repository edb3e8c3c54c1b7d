"""The matrix of checks: shapes, formats, distributions, structures, special values, layouts in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from kscope.bench.judge.hold import Array, Died, Failed, Unfit
from kscope.bench.judge.inputs import KINDS, SPECIAL, WHOLE, Data, make
from kscope.bench.judge.referee import Referee, Truth
from kscope.bench.judge.seat import Seat
from kscope.bench.task.spec import Task
from kscope.bench.values.result import Check
from kscope.model.errors import KscopeError

LARGE = 1 << 24  # elements of inputs above which only two kinds of data are checked; judged: seconds a kind in float64
LATE_S = 0.1  # after which wrong outputs are looked at again
LAYOUTS = ("strided", "transposed", "misaligned")
FIRST = ("normal", WHOLE)


class Point(Struct, frozen=True):
    """One check to make. asked: on a shape that the task names."""

    dims: dict[str, int]
    dtype: str
    kind: str
    layout: str = "plain"
    asked: bool = True


class Record(Struct):
    """A check that was made, with what a namer of cheats looks at. refused: the candidate raised where it may; late:
    wrong at once, right a little later."""

    point: Point
    check: Check
    data: Data | None = None
    truth: Truth | None = None
    outputs: list[Array] = []
    refused: bool = False
    rms: float = 0.0
    ratio: float = 0.0
    fault: str = ""
    changed: str = ""
    late: bool = False


def points(task: Task) -> list[Point]:
    """In the order of the matrix: what is asked for first, then what nobody asked for."""
    found: list[Point] = []
    for chosen in task.dtypes:
        for i, dims in enumerate(task.cases):
            large = _elements(task, dims) > LARGE
            kinds = FIRST if large or i else KINDS
            found += [Point(dict(dims), chosen, kind) for kind in kinds]
    smallest = min(task.cases, key=lambda dims: _elements(task, dims))
    chosen = task.dtypes[0]
    if task.special != "no":
        found += [Point(dict(smallest), chosen, kind) for kind in SPECIAL if _elements(task, smallest) <= LARGE]
    if task.derived:
        found += [Point(dims, chosen, "normal", asked=False) for dims in derived(task)]
    if task.layouts and task.framework != "raw":
        for layout in LAYOUTS:
            found.append(Point(dict(smallest), chosen, "normal", layout, asked=False))
    return found


def derived(task: Task) -> list[dict[str, int]]:
    """Shapes near those that were asked for: one element, odd sides, one longer and one shorter, exchanged."""
    base = min(task.cases, key=lambda dims: _elements(task, dims))
    if not base:
        return []
    tried: list[dict[str, int]] = [dict.fromkeys(base, 1), {k: max(v - 1, 1) for k, v in base.items()}]
    keys = list(base)
    tried.append({k: (v + 1 if i % 2 == 0 else max(v // 2, 1)) for i, (k, v) in enumerate(base.items())})
    if len(keys) > 1:
        tried.append(dict(zip(keys, [base[k] for k in reversed(keys)], strict=True)))
        tried.append({k: (max(v // 8, 1) if i else v * 3 + 1) for i, (k, v) in enumerate(base.items())})
    found: list[dict[str, int]] = []
    for dims in tried:
        fit = {
            k: max(v // task.multiple[k], 1) * task.multiple[k] if k in task.multiple else v for k, v in dims.items()
        }
        if fit not in found and fit not in task.cases and _elements(task, fit) <= LARGE:
            found.append(fit)
    return found


def check_all(
    task: Task, candidate: Seat, referee: Referee, plan: Iterable[Point], rng: np.random.Generator
) -> Iterator[Record]:
    """Make the checks one by one. A candidate that dies is started again for the next."""
    here: tuple[object, ...] = ()
    for point in plan:
        key = (tuple(point.dims.items()), point.dtype)
        if key != here:
            try:
                referee.open(point.dims, point.dtype)
                here = key
            except (Unfit, KscopeError):
                if point.asked:
                    raise
                continue  # a shape that the reference does not take is none of the task's
        record = _one(task, candidate, referee, point, rng)
        if record is not None:
            yield record


def _one(task: Task, candidate: Seat, referee: Referee, point: Point, rng: np.random.Generator) -> Record | None:
    data = make(task, point.dims, point.dtype, point.kind, rng)
    try:
        truth = referee.truth(data, rng)
    except Unfit:
        if point.asked and point.kind in FIRST:
            raise
        return None
    record = Record(point, Check(dims=point.dims, dtype=point.dtype, inputs=_words(point), ok=False), data, truth)
    try:
        if any(one.constant for one in task.inputs):
            candidate.close()  # what it made of constants goes with it
        candidate.open(point.dims, point.dtype, layout=point.layout)
        poison = [[list(v.shape), k.name] for v, k in zip(truth.values, truth.kinds, strict=True)]
        record.outputs = candidate.once(data, poison=poison, again=True)
    except Failed as error:
        # what cannot even be loaded refuses nothing
        optional = candidate.loaded and (not point.asked or point.kind in SPECIAL)
        record.fault, record.refused = str(error), optional and error.kind not in ("LaunchFailed",)
        record.check = _checked(
            point, record.refused, None, None, [], f"{'refuses: ' if record.refused else ''}{error}"
        )
        return record
    except Died as error:
        candidate.close()
        record.fault = str(error)
        record.check = _checked(point, False, None, None, [], str(error))
        if error.kind == "garbled":
            raise
        return record
    return _compared(task, candidate, referee, record, truth)


def _compared(task: Task, candidate: Seat, referee: Referee, record: Record, truth: Truth) -> Record:
    point = record.point
    exact = point.kind == WHOLE and referee.exactly(truth)
    ok, found, says = referee.compare(record.outputs, truth, exact=exact)
    if not ok and found.index != () and candidate.hold is not None:
        time.sleep(LATE_S)
        record.late = referee.compare(candidate.hold.retake()[0], truth, exact=exact)[0]
    record.rms, record.ratio = found.rms, found.ratio
    if point.kind in ("infinities", "nan") and not ok and task.special == "note":
        record.check = _checked(point, True, None, None, [], f"differs from the reference: {says or 'other values'}")
        return record
    assert record.data is not None
    if changed := _changed(task, candidate, record.data):
        record.changed = changed
        ok, says = False, says or changed
    record.check = _checked(point, ok, found.error, found.bound, list(found.index), says)
    return record


def _changed(task: Task, candidate: Seat, data: Data) -> str:
    """Which inputs a call has written to, of those that it may not."""
    now = iter(candidate.hold.dump(0) if candidate.hold is not None else [])
    for param, raw in zip(task.inputs, data.raw, strict=True):
        if raw is None:
            continue
        one = next(now)
        if param.name not in task.changes and one.raw.tobytes() != raw.tobytes():
            return f"changes its input {param.name}"
    return ""


def _checked(point: Point, ok: bool, error: float | None, bound: float | None, index: list[int], says: str) -> Check:
    finite = error is not None and np.isfinite(error)
    return Check(dims=point.dims, dtype=point.dtype, inputs=_words(point), ok=ok, error=error if finite else None,
                 bound=bound if bound is not None and np.isfinite(bound) else None, index=index, says=says)  # fmt: skip


def _words(point: Point) -> str:
    return point.kind if point.layout == "plain" else f"{point.kind}, {point.layout}"


def _elements(task: Task, dims: Mapping[str, int]) -> int:
    return sum(int(np.prod(one.sizes(dims), dtype=np.int64)) for one in task.inputs if not one.scalar)
