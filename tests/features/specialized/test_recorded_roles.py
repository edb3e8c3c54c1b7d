"""Exact breakdown by role: sums, and what the dials of our own GEMM do to it."""

from __future__ import annotations

import tomllib

import pytest

from kscope.features.specialized.recorded_roles import RoleShare, busy, roles, unit_share
from kscope.model.trace import KernelTrace, Scope, TraceWarp
from tests.support import thorough
from tests.support.dials import DIALS, TRACED, trace
from tests.support.thorough import some

SETTINGS = tomllib.loads((DIALS / "settings.toml").read_text(encoding="utf-8"))


def role(case: str, name: str) -> RoleShare:
    return next(r for r in roles(trace(case)) if r.role == name)


def hand_made() -> KernelTrace:
    """One SM, 100 ns at 1 GHz. Producer: copies at 10 and 50. Consumer: data at 30, an issue of 20 cycles, waits for it
    until 50, data at 70, another issue, waits until 90."""
    scopes = (Scope("slot", "wait", "tensor"), Scope("data", "wait", "memory"), Scope("mma", "issue", "tensor", 20),
              Scope("done", "wait", "tensor"), Scope("copy", "issue", "memory"))  # fmt: skip
    warps = (TraceWarp("producer", 0, 0, 0, 0.0, 60.0, 0, 0), TraceWarp("consumer", 0, 0, 1, 0.0, 100.0, 0, 0))
    rows = [
        (0, 4, 10, 10), (0, 0, 12, 50), (0, 4, 50, 50),
        (1, 1, 5, 30), (1, 2, 30, 32), (1, 3, 32, 50), (1, 1, 52, 70), (1, 2, 70, 72), (1, 3, 72, 90),
    ]  # fmt: skip
    warp, scope, begin, end = (list(c) for c in zip(*rows, strict=True))
    return KernelTrace(
        "kscope", "k", "", 1, 1, 1, 1.0, {}, scopes, warps, warp, scope, [float(t) for t in begin],
        [float(t) for t in end], [0] * len(rows),
    )  # fmt: skip


def test_by_hand() -> None:
    t = hand_made()
    assert busy(t) == ("tensor", {0: [(30.0, 50.0), (70.0, 90.0)]})
    producer, consumer = roles(t)
    means = [[s.mean for s in (r.priming, r.issued, r.covered, r.exposed, r.drain) if s] for r in (producer, consumer)]
    # Producer: priming to its first copy; waits 12-50 of which 30-50 under a busy pipe; after its last copy it waits
    # for the end of the pipe's work, 50-90, of which 70-90 is busy. Drain 90-100.
    assert means[0] == pytest.approx([10, 2, 40, 38, 10])
    assert means[1] == pytest.approx([30, 2, 40, 18, 10])
    unit = unit_share(t)
    assert unit is not None and (unit.busy, unit.fill, unit.drain) == pytest.approx((40, 30, 10))


@pytest.mark.parametrize("case", some(TRACED, 7))
def test_the_parts_are_the_whole(case: str) -> None:
    for r in roles(trace(case)):
        parts = [r.priming, r.issued, r.exposed, r.drain, *([r.covered] if r.covered else [])]
        assert sum(s.mean for s in parts) == pytest.approx(100, abs=1e-6)
        assert all(-1e-6 <= s.low <= s.mean <= s.high <= 100 + 1e-6 for s in parts)


@pytest.mark.parametrize("case", [c for c in TRACED if c.startswith("ws_gemm")])
def test_the_tensor_pipe_does_the_work_that_there_is(case: str) -> None:
    """Busy time, counted from issues, is the GEMM's operations over the pipe's rate (4,096 an SM and cycle)."""
    t, dials, unit = trace(case), SETTINGS[case], unit_share(trace(case))
    assert unit is not None and t.clock_ghz is not None
    rate = 132 * 4096 * t.clock_ghz * 1e9
    seconds = 2.0 * dials["m"] * dials["n"] * dials["k"] / rate
    assert unit.busy / 100 * t.span_us * 1e-6 == pytest.approx(seconds, rel=0.14)  # recorded: 12 of 132 blocks


def test_dials_do_what_they_are_for() -> None:
    sizes = ("k128", "k256", "k512", "k1024", "k2048", "best", "k8192")
    fill = [role(f"ws_gemm.{k}", "consumer").priming.mean for k in sizes]
    assert fill == sorted(fill, reverse=True) and fill[0] > 10 and fill[-1] < 1.5
    delays = ("best", "produce_near", "produce_1500", "produce_exposed")
    starved = [role(f"ws_gemm.{c}", "consumer").exposed.mean for c in delays]
    assert starved == sorted(starved) and starved[0] < 2 and starved[-1] > 50
    shallow = [role(f"ws_gemm.n128_stages{n}", "consumer").exposed.mean for n in (6, 4, 3, 2)]
    assert shallow == sorted(shallow)
    covered = role("ws_gemm.produce_covered", "consumer").exposed.mean
    assert covered < 3, "a delay that fits under the tensor pipe exposes nothing"
    bubbles = [unit_share(trace(f"ws_gemm.{c}")) for c in ("best", "epilogue_exposed", "epilogue_slow")]
    shares = [u.gap_share for u in bubbles if u]
    assert shares == sorted(shares) and shares[0] < 5 and shares[1] > 10


def test_counterfactuals_as_measured() -> None:
    """A covered wait shortened changes the time by less than 2 %, an exposed one removed pays."""
    for case in ("ws_gemm.produce_covered", "ws_gemm.store_small"):
        now, before = SETTINGS[SETTINGS[case]["fixed"]], SETTINGS[case]
        assert before["time_us"] / now["time_us"] == pytest.approx(1, abs=0.02)
    for case, dials in SETTINGS.items():
        if "fixed" in dials and not dials.get("no_gain"):
            assert dials["time_us"] > 1.02 * SETTINGS[dials["fixed"]]["time_us"], case


@thorough.only
def test_truth_is_the_traces() -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("dials", DIALS.parents[1] / "tools" / "dials.py")
    assert spec is not None and spec.loader is not None
    dials = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dials)
    assert (DIALS / "truth.csv").read_text(encoding="utf-8") == dials.table(DIALS), "run tools/dials.py"
