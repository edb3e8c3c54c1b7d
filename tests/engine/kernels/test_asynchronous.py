"""Waits for TMA and wgmma are by design: no advice from their raw shares, with samples or with counters alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.features.profile.code import Code
from kscope.reports.phrases.pipeline import sampling
from kscope.rules.base import PASSED
from kscope.rules.latency.exposed_memory_latency import ExposedMemoryLatency

MISLED = {"LAT301", "LAT302", "LAT304"}
KERNELS = (
    "ws_gemm.best", "ws_gemm.epilogue_exposed", "ws_gemm.stages2", "tma_scale.stages2", "wgmma_flight.each",
    "wgmma_gemm.unspecialised", "gemm_bf16.wgmma",
)  # fmt: skip


@pytest.mark.parametrize("case", KERNELS)
def test_counters_alone_do_not_mislead(case: str, facts: Callable[[str], Facts]) -> None:
    """No SASS and no samples: the counters call the wait for products barrier and that for copies long scoreboard."""
    kernel = msgspec.structs.replace(facts(case).kernel, program=None, counters=None)
    found = analyze_kernel(kernel, "0")
    assert {f.code for f in found.findings}.isdisjoint(MISLED)
    assert found.verdict.limiter != "barrier" and found.errors == []
    assert {"LAT302", "LAT304"} <= {n.code for n in found.not_applicable}, "it takes samples to say more"


@pytest.mark.parametrize(("case", "code"), [("occupancy_smem.slow", "LAT301"), ("row_stats.thread", "LAT302"),
                                            ("bitonic1024.barriers", "LAT304")])  # fmt: skip
def test_counters_alone_still_speak_of_others(case: str, code: str, facts: Callable[[str], Facts]) -> None:
    kernel = msgspec.structs.replace(facts(case).kernel, program=None, counters=None)
    assert code in {f.code for f in analyze_kernel(kernel, "0").findings}


def test_products_by_counters_are_compute(facts: Callable[[str], Facts]) -> None:
    kernel = facts("wgmma_flight.each").kernel
    few = analyze_kernel(msgspec.structs.replace(kernel, program=None, counters=None), "0").verdict
    full = analyze_kernel(kernel, "0").verdict
    assert (few.regime, few.limiter) == (full.regime, full.limiter) == ("compute", "tensor_pipe")
    assert few.confidence <= 0.5 < full.confidence


def test_a_part_of_the_waits_is_no_more_exposed_than_all_of_them(facts: Callable[[str], Facts]) -> None:
    for case in ("ws_gemm.best", "ws_gemm.stages2", "tma_scale.stages2"):
        sp = facts(case).specialized.pipeline
        assert sp is not None
        share = sum(sp.code.stall["long_scoreboard"]) / sum(sp.code.samples)
        left = sp.exposed("long_scoreboard", share)
        assert 0 <= left < 0.7 * share
        assert sp.exposed_of("long_scoreboard", share) == left
        assert sp.exposed_of("long_scoreboard", left / 2) == left / 2, "loads that wait elsewhere stay what they are"


def test_covered_waits_are_no_exposed_latency(monkeypatch: pytest.MonkeyPatch, facts: Callable[[str], Facts]) -> None:
    """A copy by cp.async would be blamed for what its role waits: as long as the tensor pipe is busy, that is fine."""
    monkeypatch.setattr(Code, "blamed_share", lambda self, chosen, *reasons: 0.6 if reasons else 0.0)
    assert ExposedMemoryLatency().run(facts("ws_gemm.best")) is PASSED
    assert ExposedMemoryLatency().run(facts("list_walk.serial")) is not PASSED


def test_a_wait_for_bulk_copies_is_seen_behind_its_instruction(facts: Callable[[str], Facts]) -> None:
    """cp.async.bulk.wait_group is a DEPBAR: the warp that waits is sampled at the instruction behind it."""
    sp = facts("tma_scale.stages2").specialized.pipeline
    assert sp is not None
    (site,) = [w for w in sp.waits.sites if w.kind == "copies" and sp.code.cfg.loop_of[w.index] is not None]
    assert site.members == {site.index, site.index + 1}
    assert sp.samples.all[site.index] < sp.samples.all[site.index + 1]


def test_a_producer_drains_with_the_unit(facts: Callable[[str], Facts]) -> None:
    """It has asked for the last data before the unit works on them, whatever its own code does until the end."""
    for case in ("ws_gemm.best", "ws_gemm.epilogue_exposed"):
        sp = facts(case).specialized.pipeline
        assert sp is not None and sp.main is not None
        drain = {t.role.name: t.drain.point for t in sp.times}
        assert drain["producer"] >= drain["MMA"] > 0
        for t in sp.times:
            assert sum(s.point for s in (t.priming, t.issued, t.covered, t.exposed, t.drain)) == pytest.approx(1)


def test_what_the_sampler_cannot_tell_is_said(facts: Callable[[str], Facts]) -> None:
    """One warp an SM in 2,048 cycles: the role of one warp was looked at a few dozen times."""
    found = analyze_kernel(facts("ws_gemm.best").kernel, "0")
    ws = found.warp_specialization
    assert ws is not None and ws.sampled_every == 2048
    one, eight = (next(r for r in ws.roles if r.role == name) for name in ("producer", "MMA"))
    assert one.sampling_error > eight.sampling_error > 0
    text = sampling(ws)
    assert f"producer may be off by {100 * one.sampling_error:.0f} points" in text
    assert "ncu --warp-sampling-interval 0" in text
    assert not sampling(msgspec.structs.replace(ws, sampled_every=32.0)), "it cannot look more often"
