"""Producers that compute what they hand over. No capture has one: that a producer computes is put into captures of a
late one and of one that waits for slots."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.engine.verdict.regime import decide
from kscope.features.facts import Facts
from kscope.features.specialized.specialization import Specialization, arithmetic
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Kernel
from kscope.rules.asynchronous.producer_bound_pipeline import COMPUTES, COPIES, ProducerBoundPipeline

LATE, AHEAD = "tma_scale.produce", "tma_scale.stages2"
Read = Callable[[str], Kernel]


def pipeline(facts: Facts) -> Specialization:
    found = facts.specialized.pipeline
    assert found is not None
    return found


def test_who_computes_and_who_is_late(kernel: Read) -> None:
    late, ahead = (pipeline(Facts(kernel(case))) for case in (LATE, AHEAD))
    assert max(late.makes, ahead.makes) < 0.001, "they copy"
    consumers = [r for r in ahead.roles.roles if r.name == "consumer"]
    assert arithmetic(ahead.code, consumers) == pytest.approx(0.214, abs=0.005)
    assert arithmetic(ahead.code, []) == 0
    assert late.asks_late and not ahead.asks_late


@pytest.mark.parametrize(
    ("makes", "case", "limiter"),
    [
        (0.19, LATE, "memory, memory_latency"),
        (0.21, LATE, "compute, dependency_latency"),
        (0.5, AHEAD, "memory, memory_latency"),
    ],
)
def test_what_is_made_is_no_memory(
    makes: float, case: str, limiter: str, kernel: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Specialization, "makes", makes)
    found = decide(Facts(kernel(case)))
    assert f"{found.regime}, {found.limiter}" == limiter


@pytest.mark.parametrize(("makes", "fix", "regime"), [(0.0, COPIES, "memory"), (0.3, COMPUTES, "compute")])
def test_the_advice_follows(
    makes: float, fix: str, regime: str, kernel: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Specialization, "makes", makes)
    found = ProducerBoundPipeline().run(Facts(kernel(LATE)))
    assert isinstance(found, Finding)
    assert (found.fix, found.regime) == (fix, regime)
    assert any("arithmetic" in one.metric for one in found.evidence) == (makes > 0)
