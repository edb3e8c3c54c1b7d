"""torch.compile in a recording: which kernels it made from what, graphs a step, compilations in the window."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.operations.torch_compile import fused
from kscope.model.contract.analysis import TimelineAnalysis
from kscope.reports import Options, render
from tests.support import traces
from tests.support.traces import event, launch


@cache
def seen(name: str) -> TimelineAnalysis:
    return analyze_paths([traces.path(name)]).timelines[0]


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("triton_poi_fused_gelu_1", ["gelu"]),
        ("triton_per_fused_add_native_layer_norm_2", ["add", "native_layer_norm"]),
        ("triton_per_fused_gelu_gelu_backward_sum_1", ["gelu", "gelu_backward", "sum"]),
        ("triton_red_fused__softmax__to_copy_add_0", ["_softmax", "_to_copy", "add"]),
        ("triton_tem_fused_addmm_relu_3", ["addmm", "relu"]),
        ("triton_poi_fused_somethingnew_other_4", ["somethingnew", "other"]),
        ("my_kernel", []),
        ("triton_mm_kernel", []),
    ],
)
def test_operators_of_a_generated_kernel(name: str, operators: list[str]) -> None:
    assert fused(name) == operators


@pytest.mark.parametrize("name", ["compiled", "compiled_breaks", "compiled_train"])
def test_kernels_name_their_source(name: str) -> None:
    kernels = [k for k in seen(name).top_kernels if k.name.startswith("triton_")]
    assert len(kernels) >= 4
    for k in kernels:
        assert k.operators and k.source.endswith(".py") and "torchinductor" in k.source
    assert all(not k.source and not k.operators for k in seen(name).top_kernels if not k.name.startswith("triton_"))


def test_regions_and_graphs() -> None:
    """Three blocks, each with a branch on a value: two graphs a block. The backward pass is no break."""
    sound, broken, train = (seen(n).compiled for n in ("compiled", "compiled_breaks", "compiled_train"))
    assert sound is not None and (sound.graphs_per_step, sound.regions) == (1, {"0/0": 5})
    assert broken is not None and (broken.graphs_per_step, broken.regions) == (6, {"0/0": 5, "1/0": 15, "2/1": 15})
    assert train is not None and train.graphs_per_step == 1
    assert seen("gpu_bound").compiled is None
    for one in (sound, broken, train):
        assert one.compilations == 0


def test_recompilation() -> None:
    """The fourth of five steps has another shape."""
    one = seen("compiled_recompile")
    assert one.compiled is not None and one.compiled.recompilations == ["0/1"]
    assert one.compiled.regions == {"0/0": 3, "0/1": 2} and one.compiled.compile_us > 1e6
    assert one.idle[0].cause == "code_loading" and one.findings[0].code == "OVH607"
    assert "0/1" in one.findings[0].why


def test_graph_breaks_are_named() -> None:
    (found,) = (f for f in seen("compiled_breaks").findings if f.code == "OVH608")
    assert "6 compiled graphs" in found.title and "graph_breaks" in found.fix
    assert "OVH608" in seen("compiled").passed and "OVH607" in seen("compiled").passed
    assert {"OVH607", "OVH608"} <= {n.code for n in seen("gpu_bound").not_applicable}


def test_compilers_of_other_versions(tmp_path: Path) -> None:
    """Regions without a number (torch 2.2), compile spans under their older name alone, annotations as ranges."""
    steps = [event("user_annotation", f"step {s}", 1000 * s, 990) for s in range(4)]
    regions = [event("cpu_op", "Torch-Compiled Region", 1000 * s + 100, 300) for s in range(4)]
    compiling = [
        event("cpu_op", "_compile.<locals>.compile_inner (dynamo_timed)", 2450, 400),
        event("user_annotation", "entire_frame_compile_data: compile_id=3/2", 2460, 1),
    ]
    calls = [event("user_annotation", "## Call CompiledFxGraph f1a ##", 1000 * s + 110, 200) for s in range(4)]
    at = [(9 * s + i + 1, 1000 * s + 120 + 9 * i) for s in range(4) for i in range(9)]
    kernels = [e for number, call in at for e in launch(number, call, call + 5, 3)]
    path = traces.trace(tmp_path, [*steps, *regions, *compiling, *calls, *kernels])
    one = analyze_paths([path]).timelines[0]
    assert one.steps is not None and one.steps.name == "step #" and one.steps.count == 4
    assert one.compiled is not None and one.compiled.regions == {"?": 4} and one.compiled.graphs_per_step == 1
    assert one.compiled.recompilations == ["3/2"] and one.compiled.compile_us == 400


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_reports(format_: str) -> None:
    analysis = analyze_paths([traces.path("compiled_breaks")])
    text = render(format_, analysis, Options(width=100, verbose=True, budget=4000))
    assert "6 compiled graphs a step" in text and "native_layer_norm" in text and "torchinductor" in text
