"""Probes for results that are kept: new data where a cache would not look for it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from kscope.bench.judge.hold import Array
from kscope.bench.judge.inputs import Data, make, one_changed
from kscope.bench.judge.referee import Referee, Truth
from kscope.bench.judge.seat import Seat
from kscope.bench.task.spec import Task
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Finding

WINDOWS = 8  # single elements that are changed, one at a time; a window of 1/4 of one input is missed by
# 1 in 65,536, of each of two by 1 in 256


class Probing(Struct):
    """What is probed with what, and what was seen. deterministic: the same bits twice. dependent: the right answer
    showed every change of one element."""

    task: Task
    candidate: Seat
    referee: Referee
    rng: np.random.Generator
    findings: list[Finding] = []
    deterministic: bool | None = None
    dependent: bool = False
    blind: str = ""


def probe(it: Probing, dims: Mapping[str, int], chosen: str) -> None:
    """All probes on one shape. Raises Died, Failed where the candidate stops answering."""
    it.referee.open(dims, chosen)
    it.candidate.open(dims, chosen, slots=2)
    fresh = _Series(it, dims, chosen)
    a = fresh.next()
    got = it.candidate.once(a.data)
    if not _right(it, got, a.truth):
        it.blind = _blind(it, fresh, a, got)  # wrong at once, as the matrix has said: to what is it blind
        return
    again = it.candidate.once(a.data)
    it.deterministic = _same(got, again)
    if all(one.constant or one.scalar for one in it.task.inputs):
        return  # the same data in every call: nothing to probe with
    if fresh.hardly_varies():
        it.findings.append(finding(31, "right answers for different inputs lie within each other's bounds"))
        return
    for one in (_in_place, _other_slot, _window, _overwritten, _ahead):
        if one(it, fresh):
            return


class _Known(Struct):
    data: Data
    truth: Truth


class _Series:
    """Data with their right answers, one after another."""

    def __init__(self, it: Probing, dims: Mapping[str, int], chosen: str) -> None:
        self.it, self.dims, self.chosen = it, dims, chosen
        self.known: list[_Known] = []

    def next(self) -> _Known:
        like = self.known[0].data if self.known else None
        data = make(self.it.task, self.dims, self.chosen, "normal", self.it.rng, like)
        return self.add(data)

    def add(self, data: Data) -> _Known:
        one = _Known(data, self.it.referee.truth(data, self.it.rng, 2))
        self.known.append(one)
        return one

    def stale(self, got: list[Array], now: _Known) -> bool:
        """An earlier answer where another is right."""
        return any(_right(self.it, got, one.truth) for one in self.known if one is not now)

    def hardly_varies(self) -> bool:
        first = self.known[0].truth
        other = self.next().truth
        if any(a.shape != b.shape for a, b in zip(first.values, other.values, strict=True)):
            return False
        return all(bool((np.abs(a - b) <= np.maximum(limit.values, 0)).all()) and a.size > 0
                   for a, b, limit in zip(first.values, other.values, first.limits, strict=True))  # fmt: skip


def _in_place(it: Probing, fresh: _Series) -> bool:
    """New data at the same addresses: through the framework, then past it."""
    for how in ("copy", "raw"):
        now = fresh.next()
        got = it.candidate.once(now.data, how=how)
        if _right(it, got, now.truth):
            continue
        if not fresh.stale(got, now):
            it.findings.append(_mixed(it, fresh, got, now))
            return True
        if how == "raw":
            it.findings.append(
                finding(14, "new data that did not raise the version counter: the answer to the data before")
            )
            return True
        it.findings.append(_keyed(it, fresh))
        return True
    return False


def _keyed(it: Probing, fresh: _Series) -> Finding:
    """What a result is kept by: the object, the address, or the shape."""
    now = fresh.next()
    it.candidate.fill(1, now.data)
    got = it.candidate.run([1], [0]).outputs[0]
    if not _right(it, got, now.truth) and fresh.stale(got, now):
        return finding(13, "new data at another address: the answer to data of an earlier call of that shape")
    number = 12
    if it.candidate.where.framework != "raw":
        now = fresh.next()
        it.candidate.fill(0, now.data)
        assert it.candidate.hold is not None
        it.candidate.hold.ask("rewrap", slot=0)
        got = it.candidate.run([0], [0]).outputs[0]
        number = 11 if _right(it, got, now.truth) else 12
    elif it.candidate.source.language == "native":
        number = 17
    words = {11: "right again once the same memory was in another object", 12: "also in another object around it",
             17: "inside the library, by address"}[number]  # fmt: skip
    return finding(number, f"new data at the same address: the answer to the data before; {words}")


def _other_slot(it: Probing, fresh: _Series) -> bool:
    now = fresh.next()
    it.candidate.fill(1, now.data)
    got = it.candidate.run([1], [0]).outputs[0]
    if _right(it, got, now.truth) or not fresh.stale(got, now):
        return False
    it.findings.append(finding(13, "new data at another address: the answer to data of an earlier call of that shape"))
    return True


def _window(it: Probing, fresh: _Series) -> bool:
    """One element changed, where the right answer shows it."""
    base = fresh.next()
    got = it.candidate.once(base.data)
    if not _right(it, got, base.truth):
        what = "the answer to data that were there before" if fresh.stale(got, base) else "no right answer to new data"
        it.findings.append(finding(7, f"after a call on other arrays: {what}"))
        return True
    missed = tried = 0
    place = ""
    first = int(it.rng.integers(WINDOWS))
    for k in range(WINDOWS):
        with contextlib.suppress(LookupError):
            data, i, index = one_changed(it.task, base.data, it.rng, first + k)
            now = fresh.add(data)
            if _within(now.truth, base.truth):
                continue  # the right answer does not show it either
            tried += 1
            it.candidate.once(base.data)  # what is kept is the answer to this
            got = it.candidate.once(data)
            if not _right(it, got, now.truth) and _right(it, got, base.truth):
                missed += 1
                place = f"{it.task.inputs[i].name}{list(index)}"
    it.dependent = tried == WINDOWS  # every element matters, so all of them must be read
    if not missed:
        return False
    it.findings.append(finding(15, f"{missed} of {tried} changes of one element are not seen, such as {place}"))
    return True


def _overwritten(it: Probing, fresh: _Series) -> bool:
    if it.task.changes or it.candidate.outputs or it.task.reuses_output:
        return False
    a, b = fresh.next(), fresh.next()
    it.candidate.fill(0, a.data)
    it.candidate.fill(1, b.data)
    first, second = it.candidate.run([0, 1], [0, 1]).outputs
    if _right(it, second, b.truth) and not _right(it, first, a.truth) and _right(it, first, b.truth):
        it.findings.append(finding(19, "after the second call the first output holds the second's values"))
        return True
    return False


def _ahead(it: Probing, fresh: _Series) -> bool:
    """Calls one at a time; what was not called yet gets new data in between: whoever computed it ahead is wrong."""
    for _ in range(3):
        a, b = fresh.next(), fresh.next()
        it.candidate.fill(0, a.data)
        it.candidate.fill(1, b.data)
        it.candidate.run([0], [0])
        c = fresh.next()
        it.candidate.fill(1, c.data)
        got = it.candidate.run([1], [0]).outputs[0]
        if not _right(it, got, c.truth) and _right(it, got, b.truth):
            it.findings.append(finding(7, "a slot that changed before its call holds the answer to the data before"))
            return True
    return False


def _mixed(it: Probing, fresh: _Series, got: list[Array], now: _Known) -> Finding:
    """Wrong for the second data: perhaps one input is kept from the first."""
    first = fresh.known[0].data
    for i, param in enumerate(it.task.inputs):
        if now.data.raw[i] is None or len(it.task.inputs) < 2:
            continue
        raw = [old if j == i else new for j, (old, new) in enumerate(zip(first.raw, now.data.raw, strict=True))]
        if _right(it, got, it.referee.truth(Data(tuple(raw), now.data.kinds), it.rng, 2)):
            return finding(22, f"right with {param.name} of an earlier call beside the other inputs of this one")
    return finding(36, "right for the first data, wrong for the next at the same address")


def _blind(it: Probing, fresh: _Series, base: _Known, before: list[Array]) -> str:
    """Changes of single elements that move the right answer where they do not move this one."""
    missed = tried = 0
    for k in range(WINDOWS):
        try:
            data, _, _ = one_changed(it.task, base.data, it.rng, k)
        except LookupError:
            return ""
        now = fresh.add(data)
        after = it.candidate.once(data)
        if len(after) != len(before) or len(before) != len(now.truth.values):
            return ""
        tried += 1
        for old, new, x, y, limit in zip(
            before, after, base.truth.values, now.truth.values, base.truth.limits, strict=True
        ):
            if old.raw.shape != new.raw.shape or old.raw.shape != x.shape:
                return ""
            should = np.abs(x - y) > 8 * limit.values
            if should.any() and (old.raw == new.raw)[should].mean() > 0.5:
                missed += 1
                break
    return (
        f"{missed} of {tried} changes of one element move the right answer, and not this one"
        if 0 < missed < tried
        else ""
    )


def _right(it: Probing, got: list[Array], truth: Truth) -> bool:
    return it.referee.compare(got, truth)[0]


def _within(a: Truth, b: Truth) -> bool:
    return all(
        bool((np.abs(x - y) <= limit.values).all())
        for x, y, limit in zip(a.values, b.values, b.limits, strict=True)
        if x.shape == y.shape
    )


def _same(a: list[Array], b: list[Array]) -> bool:
    return len(a) == len(b) and all(x.raw.tobytes() == y.raw.tobytes() for x, y in zip(a, b, strict=True))
