"""tools/eval.py: what it leaves out of kscope for its table leaves everything else at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.kernel import Kernel
from tests.support import tools

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
