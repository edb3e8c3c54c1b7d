"""Fill, plateau, bubbles and drain of made timelines whose phases are known, and of real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kscope.features.specialized.phases import activity, drawn, phases
from kscope.model.kernel import Kernel, Timelines

ACTIVE = "TPC.TriageCompute.sm__cycles_active.avg"
TENSOR = "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed"
BIN = 1500  # ns
FINE = 50  # samples a bin that stand for continuous time


def sampled(level: Sequence[float], begin: float, end: float, clock: float = 2000.0) -> Timelines:
    """Bins of a continuous activity (one value each BIN / FINE ns, percent); SMs work from begin to end (bins)."""
    n = len(level) // FINE
    tensor = [sum(level[i * FINE : (i + 1) * FINE]) / FINE for i in range(n)]
    cycles = [clock * max(0.0, min(end, i + 1) - max(begin, i)) for i in range(n)]
    times = [i * BIN for i in range(n)]
    return Timelines({ACTIVE: times, TENSOR: times}, {ACTIVE: cycles, TENSOR: tensor})


def shape(
    begin: float, first: float, last: float, bins: int, bubbles: Sequence[tuple[float, float]] = ()
) -> list[float]:
    """97 % from `first` to `last` (bins), zero elsewhere and in the bubbles (start, length)."""
    out = []
    for i in range(bins * FINE):
        at = (i + 0.5) / FINE
        idle = any(b <= at < b + length for b, length in bubbles)
        out.append(97.0 if first <= at < last and not idle else 0.0)
    return out


@pytest.mark.parametrize("first", [3.0, 3.3, 3.5, 3.8])
@pytest.mark.parametrize("last", [56.0, 56.4])
def test_fill_and_drain_to_a_fraction_of_a_bin(first: float, last: float) -> None:
    level = shape(1.2, first, last, 60)
    sampling = activity(sampled(level, 1.2, 58.5))
    assert sampling is not None
    found = phases(sampling, "tensor")
    assert found is not None and found.resolved
    assert found.fill == pytest.approx((first - 1.2) * 1.5, abs=0.15)
    assert found.drain == pytest.approx((58.5 - last) * 1.5, abs=0.15)
    assert found.level == pytest.approx(0.97, abs=0.001) and not found.bubbles


@pytest.mark.parametrize("length", [0.4, 1.0, 2.5])
def test_bubbles_are_counted_and_measured(length: float) -> None:
    starts = (15.3, 29.8, 44.1)
    level = shape(1.0, 3.0, 58.0, 62, [(s, length) for s in starts])
    sampling = activity(sampled(level, 1.0, 60.0))
    assert sampling is not None
    found = phases(sampling, "tensor")
    assert found is not None and len(found.bubbles) == 3
    assert found.lost == pytest.approx(3 * length * 1.5, rel=0.05)
    assert found.period == pytest.approx((44.1 - 15.3) / 2 * 1.5, abs=1.6)
    assert found.fill == pytest.approx(3.0, abs=0.1), "bubbles do not tilt the fill"


def test_sms_that_leave_early_are_no_drain() -> None:
    """12 % of the SMs get three tiles where the others get four."""
    level = [v * (1.0 if i / FINE < 45 else 0.88) for i, v in enumerate(shape(1.0, 3.0, 58.0, 62))]
    spread = {"sm__cycles_active.avg": 0.97, "sm__cycles_active.max": 1.0, "sm__cycles_active.min": 0.75}
    plain = sampled(level, 1.0, 60.0)
    moving = [c * (1 + 0.1 * (i % 40) / 40) for i, c in enumerate(plain.by_name[ACTIVE])]  # the clock moves too
    lines = Timelines(plain.times, {**plain.by_name, ACTIVE: moving})
    sampling = activity(lines, spread)
    assert sampling is not None
    found = phases(sampling, "tensor")
    assert found is not None and found.drain == pytest.approx(3.0, abs=1.0) and len(found.bubbles) == 0


def test_a_short_kernel_is_not_resolved() -> None:
    sampling = activity(sampled(shape(1.0, 2.0, 6.0, 9), 1.0, 7.0))
    assert sampling is not None
    found = phases(sampling, "tensor")
    assert found is not None and not found.resolved


def test_nothing_to_see() -> None:
    assert activity(None) is None
    assert activity(Timelines({}, {})) is None
    idle = activity(sampled([0.0] * 20 * FINE, 1.0, 19.0))
    assert idle is not None and phases(idle, "tensor") is None and phases(idle, "dram") is None


def test_on_captures(kernel: Callable[[str], Kernel]) -> None:
    """Our own GEMM: the same pipeline with and without an overlapped epilogue, four tiles a block."""
    found = {}
    for case in ("ws_gemm.best", "ws_gemm.epilogue_exposed"):
        k = kernel(case)
        sampling = activity(k.timelines, k.metrics)
        assert sampling is not None
        found[case] = phases(sampling, "tensor")
    best, exposed = found["ws_gemm.best"], found["ws_gemm.epilogue_exposed"]
    assert best is not None and exposed is not None
    assert best.level > 0.95 and exposed.level > 0.95
    assert 1.5 < best.fill < 4 and best.drain < 4
    assert sum(b.lost > 1.5 for b in exposed.bubbles) == 3 and exposed.lost > 3 * best.lost


def test_drawn_keeps_the_dips() -> None:
    sampling = activity(sampled(shape(1.0, 3.0, 298.0, 300, [(150.0, 1.0)]), 1.0, 299.0))
    assert sampling is not None
    thin = drawn(sampling.lines["tensor"], 60)
    assert len(thin) == 60 and min(thin[5:55]) < 0.5 < max(thin)
