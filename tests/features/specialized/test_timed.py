"""Samples with time stamps. No report with them could be had: the reader is held against the form that NVIDIA
documents, the analysis against samples made for a capture of an H200, with its roles, wait sites and timeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.features.specialized.coverage import covered
from kscope.features.specialized.pipeline import key_of
from kscope.features.specialized.specialization import Specialization
from kscope.model.kernel import Kernel, TimedSamples
from kscope.parsers.ncu.kernels import _timed
from kscope.parsers.ncu.timed import timed
from tests.support.apart import apart

Read = Callable[[str], Kernel]
CASE = "ws_gemm.stages2"
A_BIN = 40




class Action:
    """An IAction of a reader since 2026.1, as its documentation describes the call."""

    def __init__(self, rows: list[tuple[int, int, int]]) -> None:
        self._rows = rows

    def timed_warp_samples(self) -> list[dict[str, object]]:
        return [{"timestamp": t, "pc": pc, "stall_reason": why, "not_issued": True} for t, pc, why in self._rows]


def reasons() -> tuple[int, int, int]:
    from ncu_report import StallReason as S

    return int(S.LONG_SCOREBOARD), int(S.BARRIER), int(S.INVALID)


def test_read_in_order_from_the_first_sample() -> None:
    long_scoreboard, barrier, invalid = apart(reasons)
    rows = [(5300, 0x1020, long_scoreboard), (5000, 0x1010, barrier), (5100, 0x1010, invalid)]
    found = timed(Action(rows))
    assert found is not None
    times, pcs, numbers, names = found
    assert list(times) == [0, 300] and list(pcs) == [0x1010, 0x1020]
    assert [names[n] for n in numbers] == ["barrier", "long_scoreboard"]
    samples = _timed({"timed": found, "entry": 0x1000})
    assert samples == TimedSamples([0, 300], [0x10, 0x20], ["barrier", "long_scoreboard"])


@pytest.mark.parametrize("action", [Action([]), object()])
def test_absent_ones_are_no_fault(action: object) -> None:
    assert timed(action) is None and _timed({"timed": None, "entry": 0}) is None and _timed({"entry": 0}) is None


def pipeline(kernel: Kernel) -> Specialization:
    found = Facts(kernel).specialized.pipeline
    assert found is not None
    return found


def sampled(kernel: Kernel, waiting: Callable[[float], float]) -> Kernel:
    """The kernel with samples of its main role: `waiting`: share of them that wait for data, by the unit's activity in
    the bin over its plateau (0..1); all others stand at an instruction of the role that is no wait."""
    sp = pipeline(kernel)
    assert sp.activity is not None and sp.phases is not None and sp.main is not None
    (site, *_) = sp.data_waits
    busy = frozenset().union(*(w.members | w.beside for w in sp.waits.sites))
    other = next(i for i in sorted(sp.main.members) if i not in busy)
    width, values = sp.activity.bin * 1000, sp.activity.lines[sp.unit].values
    mean, works = sum(values) / len(values), sp.works(sp.unit)
    times, offsets = [], []
    first, last = sp.activity.full[0], len(values) - 1
    for number, value in enumerate(values):
        share = waiting(min(1.0, value * works / mean))
        for k in range(A_BIN):
            at = (k + 0.5) / A_BIN
            if (number == 0 and at < 1 - first) or (number == last and at > sp.activity.full[-1]):
                continue  # no SM has work yet, or any more
            times.append(int((number + at) * width))
            offsets.append(sp.code[site.index if k < share * A_BIN else other].pc)
    start = times[0]
    samples = TimedSamples([t - start for t in times], offsets, ["long_scoreboard"] * len(times))
    return msgspec.structs.replace(kernel, timed=samples)


def data_wait(kernel: Kernel) -> tuple[float, float, float]:
    """(point, low, high) of what is covered of the main role's waits for data, as a share of them."""
    sp = pipeline(kernel)
    assert sp.timed is not None and sp.main is not None and sp.activity is not None
    mine = {w.members | w.beside: frozenset[str]() for w in sp.waits.of(sp.main.name) if key_of(w) == "data"}
    values = sp.activity.lines[sp.unit].values
    found = sp.timed.overlap(sp.main.members, mine, values, sp.works(sp.unit))
    assert found is not None
    return found.point, found.low, found.high


def test_waits_are_placed_in_time(kernel: Read) -> None:
    """Always a third of the samples wait: the overlap is by chance. Waits in the bins in which the unit works least,
    and in those in which it works most: less of them is covered, and more."""
    own = kernel(CASE)
    shares = sorted(v for v in _activity(own))
    middle = shares[len(shares) // 2]
    even = data_wait(sampled(own, lambda a: 1 / 3))
    idle = data_wait(sampled(own, lambda a: 1.0 if a < middle else 0.0))
    busy = data_wait(sampled(own, lambda a: 1.0 if a > middle else 0.0))
    assert idle[0] < even[0] < busy[0]
    for point, low, high in (even, idle, busy):
        assert 0 <= low <= point <= high <= 1
    assert idle[2] - idle[1] < 0.05, "all samples of a bin wait: nothing is left to bound"


def _activity(kernel: Kernel) -> list[float]:
    sp = pipeline(kernel)
    assert sp.activity is not None
    values = sp.activity.lines[sp.unit].values
    return [min(1.0, v * sp.works(sp.unit) * len(values) / sum(values)) for v in values]


def test_bounds_are_no_wider_than_those_of_totals(kernel: Read) -> None:
    """The same samples without their times: a third of them waits, and the unit works so much of the time."""
    own = sampled(kernel(CASE), lambda a: 1 / 3)
    point, low, high = data_wait(own)
    inside = _activity(own)
    whole = covered(1 / 3, sum(inside) / len(inside)).scaled(3)
    # Fill and drain are left out of the one, not of the other.
    assert low >= whole.low - 0.15 and high <= whole.high + 0.15
    assert low <= point <= high


def test_the_answer_says_what_it_comes_from(kernel: Read) -> None:
    own = kernel(CASE)
    before = analyze_kernel(own, "a").warp_specialization
    after = analyze_kernel(sampled(own, partial(max, 0.5)), "a").warp_specialization
    assert before is not None and before.tier == "B"
    assert after is not None and after.tier == "A"


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_passes_that_do_not_match_are_left_alone(factor: float, kernel: Read) -> None:
    own = sampled(kernel(CASE), lambda a: 0.5)
    assert own.timed is not None
    times = [int(t * factor) for t in own.timed.times]
    other = msgspec.structs.replace(own, timed=msgspec.structs.replace(own.timed, times=times))
    assert pipeline(other).timed is None and pipeline(other).tier == "B"
