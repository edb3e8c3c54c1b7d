"""A recording of `kscope run --deep` on a real device: what is worth a profile, and what would shorten it."""

from __future__ import annotations

from pathlib import Path

from kscope.cli.machine._deep import plans
from kscope.cli.machine._record import Plan
from kscope.engine.run import analyze_paths
from kscope.reports import Options, render
from tests.support import traces

TRACE = traces.path("fp32_products")


def test_the_few_launches_that_matter_in_the_steady_state() -> None:
    analysis = analyze_paths([TRACE])
    (one,) = analysis.timelines
    assert one.steps is not None and one.steps.count == 5
    share = sum(k.share for k in one.to_profile)
    assert len(one.to_profile) == 3 and share > 0.9, "three products, and nothing element by element"
    # three layers: a step launches three forward products and their gradients; the first steps are passed over
    found = plans(analysis, Plan(out=Path("train.json.gz")))
    assert [p.launches for p in found] == [1, 1, 1] and all(p.skip >= 3 for p in found)
    assert [p.out.name for p in found] == ["train.1.ncu-rep", "train.2.ncu-rep", "train.3.ncu-rep"]
    assert found[1].kernel == "^Kernel2$"


def test_what_would_shorten_them_is_said() -> None:
    analysis = analyze_paths([TRACE])
    (one,) = analysis.timelines
    assert one.single_precision_pct is not None and one.single_precision_pct > 90
    text = render("text", analysis, Options())
    assert "at 78 % of the peak of fp32: TF32" in text and "float32_matmul_precision" in text
    assert "OVH614" in text and "is that allowed here?" in " ".join(text.split())
    silent = render("text", analyze_paths([TRACE], select=["OVH601"]), Options())
    plain = " ".join(silent.split())
    assert "no rule prices what \"aten::mm\" and others could gain" in plain, "silence is no good news here"
