"""What operators need, by the sizes of their arguments: each form by hand, and nothing where something is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.operations.operator_work import Work, work
from kscope.model.contract.timeline_figures import OperatorFigures
from kscope.model.timeline import Inputs
from kscope.parsers.timeline import kineto
from kscope.reports import Options, render
from tests.support import traces
from tests.support.traces import event, launch

BF16, F32 = "c10::BFloat16", "float"
S4 = (2, 8, 128, 64)  # of attention, a head of 64 wide


def of(name: str, *tensors: tuple[int, ...], type_: str = BF16, values: dict[int, str] | None = None,
       strides: tuple[tuple[int, ...], ...] = ()) -> Work | None:  # fmt: skip
    said = tuple((values or {}).get(i, "") for i in range(max([len(tensors), *(n + 1 for n in values or {})])))
    dims = tensors + ((),) * (len(said) - len(tensors))
    types = tuple(type_ if d else "Scalar" for d in dims)
    return work(name, Inputs(dims=dims, types=types, strides=strides, values=said))


@pytest.mark.parametrize(
    ("found", "flop", "moved", "precision"),
    [
        (of("aten::mm", (4, 8), (8, 16)), 2 * 4 * 8 * 16, 2 * (32 + 128 + 64), "bf16"),
        (of("aten::addmm", (16,), (4, 8), (8, 16), type_=F32), 1024, 4 * (16 + 32 + 128 + 64), "fp32"),
        (of("aten::bmm", (3, 4, 8), (3, 8, 16)), 3 * 1024, 3 * 2 * (32 + 128 + 64), "bf16"),
        # the second operand is one matrix for all: read once
        (of("aten::bmm", (3, 4, 8), (3, 8, 16), strides=((32, 8, 1), (0, 16, 1))), 3072, 2 * (96 + 128 + 192), "bf16"),
        (of("aten::cudnn_convolution", (2, 3, 8, 8), (4, 3, 3, 3), values={2: "[1, 1]", 3: "[2, 2]", 4: "[1, 1]",
            5: "1"}), 2 * 2 * 4 * 4 * 4 * 27, 2 * (384 + 108 + 128), "bf16"),
        (of("aten::convolution_backward", (2, 4, 4, 4), (2, 3, 8, 8), (4, 3, 3, 3),
            values={7: "False", 10: "[True, True, False]"}), 2 * 2 * 128 * 27, 2 * (128 + 2 * 384 + 2 * 108), "bf16"),
        (of("aten::convolution_backward", (2, 4, 4, 4), (2, 3, 8, 8), (4, 3, 3, 3),
            values={7: "False", 10: "[False, True, False]"}), 2 * 128 * 27, 2 * (128 + 384 + 108), "bf16"),
        (of("aten::_cudnn_attention_forward", S4, S4, S4, values={10: "False"}), 4 * 2 * 8 * 128 * 128 * 64,
            4 * 2 * 2 * 8 * 128 * 64, "bf16"),
        (of("aten::_cudnn_attention_forward", S4, S4, S4, values={10: "True"}), 2 * 2 * 8 * 128 * 128 * 64,
            4 * 2 * 2 * 8 * 128 * 64, "bf16"),
        (of("aten::_flash_attention_forward", (2, 128, 8, 64), (2, 128, 8, 64), (2, 128, 8, 64), values={8: "False"}),
            4 * 2 * 8 * 128 * 128 * 64, 4 * 2 * 2 * 8 * 128 * 64, "bf16"),
        (of("aten::native_layer_norm", (32, 64), (64,), (64,)), 0, 2 * 2 * 32 * 64, ""),
        (of("aten::_softmax", (32, 64), type_=F32), 0, 2 * 4 * 32 * 64, ""),
        (of("aten::add", (32, 1), (64,)), 0, 2 * (32 + 64 + 32 * 64), ""),
        (of("aten::add_", (32, 64), (64,)), 0, 2 * (2 * 32 * 64 + 64), ""),
    ],
)  # fmt: skip
def test_needs(found: Work | None, flop: float, moved: float, precision: str) -> None:
    assert found == Work(flop, moved, precision)


@pytest.mark.parametrize(
    "found",
    [
        of("aten::mm", (4, 8), (9, 16)),  # no product
        of("aten::mm", (4, 8)), of("aten::mm"), of("aten::mm", (4, 8), (8, 16), type_="c10::complex<float>"),
        of("aten::mm", (4, 8), (8, 16), type_="long int"),
        of("aten::cudnn_convolution", (2, 3, 8, 8), (4, 3, 3, 3)),  # its stride was not recorded
        of("aten::cudnn_convolution", (2, 3, 8, 8), (4, 3, 3, 3), values={2: "[1]", 3: "[0]", 4: "[1]"}),
        of("aten::convolution_backward", (2, 4, 4, 4), (2, 3, 8, 8), (4, 3, 3, 3),
           values={7: "True", 10: "[True, True, False]"}),  # transposed
        of("aten::_cudnn_attention_forward", S4, S4, S4),  # a mask, or none
        of("aten::_cudnn_attention_forward", S4, (2, 8, 64, 64), (2, 8, 64, 64), values={10: "True"}),
        of("aten::index_select", (4, 8)), of("mine::mm", (4, 8), (8, 16)),
    ],
)  # fmt: skip
def test_unknown(found: Work | None) -> None:
    assert found is None


def _products(folder: Path, kernel: str, us: float, type_: str, size: int = 4096) -> Path:
    """A recording of products of square matrices that take so long on an H200."""
    events: list[dict[str, Any]] = []
    for i in range(20):
        at = 3 * us * i
        events.append(event("user_annotation", f"ProfilerStep#{i}", at, 3 * us - 1))
        args = {"Input Dims": [[size, size], [size, size]], "Input type": [type_, type_],
                "Input Strides": [[size, 1], [1, size]], "Concrete Inputs": ["", ""]}  # fmt: skip
        events.append(event("cpu_op", "aten::mm", at + 1, 20, **args))
        events += launch(i + 1, at + 3, at + 10, us, name=kernel)
    path = traces.trace(folder, events)
    head = '{"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}], '
    path.write_text(path.read_text().replace("{", head, 1))
    return path


def _product(folder: Path, kernel: str, us: float, type_: str, size: int = 4096) -> OperatorFigures:
    [one] = analyze_paths([_products(folder, kernel, us, type_, size)]).timelines
    return next(o for o in one.operators if o.name == "aten::mm")


def test_a_product_against_the_peak_of_its_precision(tmp_path: Path) -> None:
    """4096^3 products: 137.4 GFLOP. In 200 us 687 TFLOP/s, of 989 published, 1071 at the highest clock."""
    roof = _product(tmp_path, "nvjet_sm90_hsh", 200, "c10::Half").roofline
    assert roof is not None and roof.known == 1 and roof.precision == "fp16" and roof.bounded_by == "fp16"
    assert analyze_paths([tmp_path / "t.json"]).timelines[0].single_precision_pct == 0
    assert roof.flop == 20 * 2 * 4096**3 and roof.flops_per_s == pytest.approx(687.2e12, rel=1e-3)
    assert roof.pct_of_roof == pytest.approx(64.2, abs=0.1) and roof.tf32_speedup is None
    text = render("text", analyze_paths([tmp_path / "t.json"]), Options(width=200))
    assert '"aten::mm" takes 100 % of the GPU\'s time, at' in text and "only less work or narrower data" in text


def test_single_precision_by_the_name_of_its_kernel(tmp_path: Path) -> None:
    """On the CUDA cores TF32 would be several times as fast; on the tensor cores it is what ran."""
    own = _product(tmp_path, "ampere_sgemm_128x64_nn", 3000, F32).roofline
    assert own is not None and own.precision == "fp32" and 40 < own.pct_of_roof < 80
    assert own.tf32_speedup is not None and 4 < own.tf32_speedup < 10
    text = render("text", analyze_paths([tmp_path / "t.json"]), Options(width=200))
    assert "TF32 (float32_matmul_precision) is up to" in text
    [one] = analyze_paths([tmp_path / "t.json"]).timelines
    assert one.single_precision_pct == 100
    tensor = _product(tmp_path, "sm80_xmma_gemm_f32f32_tf32f32_f32", 600, F32).roofline
    assert tensor is not None and tensor.precision == "tf32" and tensor.tf32_speedup is None


def test_nothing_is_said_of_what_is_faster_than_the_device(tmp_path: Path) -> None:
    assert _product(tmp_path, "nvjet_sm90_hsh", 20, "c10::Half").roofline is None


def test_small_products_have_no_headroom_below_a_launch(tmp_path: Path) -> None:
    roof = _product(tmp_path, "nvjet_sm90_hsh", 4, "c10::Half", size=64).roofline
    assert roof is not None and roof.pct_of_roof < 1 and roof.headroom == pytest.approx(2, abs=0.01)


def test_sizes_survive_events_that_are_no_sound_json(tmp_path: Path) -> None:
    path = _products(tmp_path, "k", 200, "c10::Half")
    path.write_text(path.read_text().replace("ProfilerStep#19", "ProfilerStep\x01#19"))
    read = kineto.read(path)
    assert len(read.inputs) == 1 and read.input is not None and read.input.tolist() == [1] * 20
    assert read.inputs[0].dims == ((4096, 4096), (4096, 4096)) and read.coverage.damaged == 0


def test_what_was_recorded_beyond_events_is_named(tmp_path: Path) -> None:
    events = [e for i in range(40) for e in launch(i + 1, 10.0 * i, 10.0 * i + 8, 5)]
    calm = analyze_paths([traces.trace(tmp_path, events)]).timelines[0]
    assert calm.single_precision_pct is None
    assert calm.recording is not None and calm.recording.options == [] and calm.recording.us > 0
    assert not [n for n in calm.coverage.notes if "recorded with" in n]
    events.append(event("python_function", "train.py(3): step", 1, 300))
    events.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 0, "tid": 1, "ts": 2.0})
    one = analyze_paths([traces.trace(tmp_path, events)]).timelines[0]
    assert one.recording is not None and one.recording.options == ["with_stack", "profile_memory"]
    assert one.recording.python_calls == 1
    (note,) = (n for n in one.coverage.notes if "recorded with" in n)
    assert "with_stack and profile_memory (1 call" in note
