"""tools/eval.py: what it leaves out of kscope for its table leaves everything else at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.kernel import Kernel
from tests.support import reports, tools

judge = tools.load("eval")


@pytest.mark.parametrize("case", ["gemm_f32.shared", "bank_conflict.slow", "small_grid.slow"])
def test_without_caps_every_rule_still_speaks(case: str, kernel: Callable[[str], Kernel]) -> None:
    plain = analyze_kernel(kernel(case), case)
    (free,) = judge.without_caps(lambda: [judge.whole(analyze_kernel(kernel(case), case))])
    promised = {f.code: f.estimate.high for f in plain.findings if f.estimate is not None}
    without = {f.code: f.estimate.high for f in free.findings if f.estimate is not None}
    assert free.errors == [] and promised.keys() <= without.keys()
    assert any(without[code] > promised[code] for code in promised), "a cap was at work"
    assert analyze_kernel(kernel(case), case) == plain, "and is again"


def test_a_rule_that_failed_is_no_figure(kernel: Callable[[str], Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.features.estimate.bounds import Bounds

    monkeypatch.setattr(Bounds, "next_limit", lambda self: (0.0, ""))
    with pytest.raises(SystemExit, match="gemm_shared: RuleError"):
        judge.whole(analyze_kernel(kernel("gemm_f32.shared"), "gemm_f32.shared"))


@pytest.mark.parametrize(
    ("built", "alarm"), [({}, True), ({"barrier-stalls": 1.05}, True), ({"barrier-stalls": 1.9}, False)]
)
def test_a_promise_that_was_built_and_kept_is_no_alarm(
    built: dict[str, float], alarm: bool, kernel: Callable[[str], Kernel]
) -> None:
    fixed = judge.Case(
        "bitonic1024.shuffles", None, {"accept": ["barrier-stalls"]}, None, kernel("bitonic1024.shuffles"), built
    )
    promised = judge.Promise(("barrier-stalls",), 1.18, 0.9, 2.5)
    assert judge.figures([fixed], [[promised]], None)["false alarms"] == alarm


def test_what_was_built_beyond_planted_faults_is_known() -> None:
    gains = judge.further(reports.FIXTURES, "bitonic1024.shuffles")
    assert list(gains) == ["barrier-stalls"] and gains["barrier-stalls"] == pytest.approx(1.82, abs=0.01)
    assert judge.further(reports.FIXTURES, "best.warp") == {}
