"""What is promised of kernels as long as their launch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.rules.overhead.tiny_kernel import SHORT_US, TinyKernel


def test_the_upper_end_is_what_the_host_takes_for_a_launch(facts: Callable[[str], Facts]) -> None:
    """Rows of the shortest public kernels took up to 4.9 times as long as their graphs, where 3.2 to 4.4 was the end: a
    launch that the host issues every 5 us is all but the work inside."""
    known = facts("launch_bound.tiny")
    found, launch = TinyKernel().check(known), known.counters.launch
    assert isinstance(found, Finding) and found.estimate is not None and launch.duration_us is not None
    work = launch.duration_us * (1 - launch.own)
    assert found.estimate.high == pytest.approx(known.estimate.constants.more_balance * SHORT_US / work, rel=0.001)
    assert found.estimate.speedup < found.estimate.high / 2


def test_a_longer_kernel_keeps_its_upper_end(facts: Callable[[str], Facts]) -> None:
    """Of one that takes longer than the host takes to launch it, the launch itself is all there is to save."""
    known = facts("quotients.divided")
    found = TinyKernel().check(known)
    assert isinstance(found, Finding) and found.estimate is not None
    assert known.counters.launch.duration_us is not None and known.counters.launch.duration_us > SHORT_US
    balanced = found.estimate.speedup * known.estimate.constants.more_balance
    assert found.estimate.high == pytest.approx(balanced, rel=0.001)
