"""A timeline and kernel reports of one program: matched by name, grid and block, weighed by time, one verdict."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.comparing.kernel_names import bare, base, canonical
from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis, JoinedAnalysis, from_json, to_json
from kscope.reports import Options, render
from tests.support import traces
from tests.support.reports import fixture
from tests.support.traces import launch
from tests.test_schema import validator

REPORT = traces.TRACES / "app_kernels.ncu-rep.xz"
PRODUCT = {"grid": [32, 32, 1], "block": [32, 32, 1]}
BIAS = {"grid": [8, 1, 1], "block": [128, 1, 1]}


@cache
def app() -> Analysis:
    return analyze_paths([traces.path("app"), REPORT])


def made(folder: Path, events: list[dict[str, Any]], **options: Any) -> list[JoinedAnalysis]:
    return analyze_paths([REPORT, traces.trace(folder, events)], **options).joined


@pytest.mark.parametrize(
    ("ncu", "cupti"),
    [
        ("void layer::transpose<(int)0>(const float *, float *, int)",
         "void layer::transpose<0>(float const*, float*, int)"),
        ("void at::native::<unnamed>::norm<c10::BFloat16, float, (bool)1>(int, const T1 *)",
         "void at::native::(anonymous namespace)::norm<c10::BFloat16, float, true>(int, c10::BFloat16 const*)"),
        ("void at::native::k<(int)8, at::native::<unnamed>::silu(at::B &)::[lambda() (instance 1)]::operator ()() "
         "const::[lambda(float) (instance 6)], std::array<char *, (unsigned long)2>>(int, T2)",
         "void at::native::k<8, at::native::(anonymous namespace)::silu(at::B&)::{lambda()#1}::operator()() const::"
         "{lambda(float)#6}, std::array<char*, 2ul> >(int, at::native::x)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ],
)  # fmt: skip
def test_one_kernel_in_two_spellings(ncu: str, cupti: str) -> None:
    assert canonical(ncu) == canonical(cupti) and base(ncu) == base(cupti)


def test_kernels_that_differ() -> None:
    names = ["void f<(int)8, g>(int)", "void f<4, g>(int)", "void f<8, h>(int)", "n::f<8, g>(int)"]
    assert len({canonical(n) for n in names}) == 4 and {base(n) for n in names} == {"f"}


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("_ZN5layer9transposeILi0EEEvPKfPfi", "transpose"),
        ("_Z4biasPfPKfi", "bias"),
        ("_ZN2at6native12_GLOBAL__N_17softmaxEv", "softmax"),
        ("_Z", ""),
        ("_ZN9999999999x", ""),
        ("", ""),
        ("((((", "(((("),
    ],
)
def test_base(name: str, function: str) -> None:
    assert base(name) == function and (bare(name) or "(" in name)


def test_every_kernel_is_matched_and_weighed() -> None:
    (one,) = app().joined
    by_name = {k.name.partition("(")[0].rpartition("::")[2]: k for k in one.kernels}
    assert one.matched_pct == pytest.approx(100) and one.unused == []
    assert {n: k.limiter for n, k in by_name.items()} == {
        "softmax": "l2_bandwidth", "transpose<0>": "shared_memory", "product<32>": "shared_memory", "bias": "launch",
    }  # fmt: skip
    assert sum(r.share for r in one.regimes) == pytest.approx(1, abs=1e-4)
    assert one.regimes[0].limiter == "shared_memory"
    assert one.regimes[0].share == pytest.approx(by_name["transpose<0>"].share + by_name["product<32>"].share, abs=1e-5)
    assert one.verdict is not None and (one.verdict.regime, one.verdict.limiter) == ("overhead", "host")
    assert "36 % of the time is host work" in one.verdict.sentence and "memory-bound" in one.verdict.sentence


def test_gains_are_the_programs_by_amdahl() -> None:
    (one,) = app().joined
    assert [s.code for s in one.suggestions[:3]] == ["OVH602", "MEM103", "MEM112"]
    conflicts = one.suggestions[1]
    assert conflicts.kernel == "transpose" and conflicts.share is not None and conflicts.kernel_speedup is not None
    gain = 1 / (1 - conflicts.share * (1 - 1 / conflicts.kernel_speedup))
    assert conflicts.estimate.speedup == pytest.approx(gain, abs=2e-3)
    part = next(k.share for k in one.kernels if "transpose" in k.name)
    assert conflicts.share == pytest.approx(part * one.kernels_pct / 100, abs=1e-4)
    assert conflicts.busy_speedup == pytest.approx(1 / (1 - part * (1 - 1 / conflicts.kernel_speedup)), abs=2e-3)
    for s in one.suggestions:
        assert s.estimate.low <= s.estimate.speedup <= s.estimate.high
        assert s.busy_speedup is None or s.estimate.speedup <= s.busy_speedup + 1e-3


def test_a_busy_program_takes_its_kernels_regime(tmp_path: Path) -> None:
    """Kernels whose names tell nothing: the timeline alone abstains, with counters there is a verdict."""
    name = "layer::product<32>(float const*, float const*, float*, int)"
    events = [e for i in range(20) for e in launch(i + 1, 3 * i, 100 + 100 * i, 99, name, **PRODUCT)]
    alone = analyze_paths([traces.trace(tmp_path, events)]).timelines[0]
    assert alone.verdict is None
    (one,) = made(tmp_path, events)
    assert one.verdict is not None and (one.verdict.regime, one.verdict.limiter) == ("memory", "shared_memory")
    assert len(one.unused) == 3 and one.suggestions[0].code == "MEM112"


def test_too_little_is_profiled(tmp_path: Path) -> None:
    events = [e for i in range(20) for e in launch(i + 1, 3 * i, 100 + 100 * i, 99, "frobnicate")]
    events += launch(90, 70, 2200, 2, "layer::bias(float*, float const*, int)", **BIAS)
    (one,) = made(tmp_path, events)
    assert one.verdict is None and "has counters" in one.abstained
    assert one.kernels[0].why == "not in the reports" and one.kernels[0].kernel is None


def test_a_late_host_hides_what_a_kernel_would_save(tmp_path: Path) -> None:
    """The GPU waits for each launch: faster kernels would wait longer."""
    name = "layer::product<32>(float const*, float const*, float*, int)"
    events = [e for i in range(50) for e in launch(i + 1, 60 * i, 60 * i + 5, 30, name, **PRODUCT)]
    (one,) = made(tmp_path, events)
    assert one.verdict is not None and one.verdict.limiter == "launch"
    assert {s.kernel for s in one.suggestions} == {None}
    assert analyze_paths([traces.trace(tmp_path, events)]).timelines[0].top_kernels[0].hidden > 0.9


@pytest.mark.parametrize(
    ("name", "shape", "why"),
    [
        ("_ZN5layer7productILi32EEEvPKfS2_Pfi", PRODUCT, ""),
        ("product", PRODUCT, ""),
        ("product", {"grid": [0, 0, 0], "block": [0, 0, 0]}, "not in the reports"),
        ("layer::product<32>(float const*, float const*, float*, int)", BIAS, "another shape"),
        ("layer::product<16>(float const*, float const*, float*, int)", PRODUCT, "not in the reports"),
    ],
)
def test_matching(name: str, shape: dict[str, list[int]], why: str, tmp_path: Path) -> None:
    """Bare and mangled names match by the function's own name; other template arguments or shapes do not."""
    events = [e for i in range(20) for e in launch(i + 1, 3 * i, 100 + 100 * i, 9, name, **shape)]
    events += launch(90, 70, 2200, 900, "layer::bias(float*, float const*, int)", **BIAS)
    (one,) = made(tmp_path, events)
    (row,) = (k for k in one.kernels if "bias" not in k.name)
    assert (row.kernel is None) == bool(why) and why in row.why


def test_reports_of_another_program_are_not_joined() -> None:
    analysis = analyze_paths([traces.path("gpu_bound"), fixture("bank_conflict.slow")])
    assert analysis.joined == [] and "not joined" in analysis.timelines[0].coverage.notes[-1]


def test_top_and_kernel_cut_the_lists_not_the_verdict() -> None:
    one = analyze_paths([traces.path("app"), REPORT], top=1)
    assert len(one.kernels) == 1 and len(one.timelines[0].top_kernels) == 1
    assert one.joined == app().joined
    some = analyze_paths([traces.path("app"), REPORT], kernel="transpose").joined[0]
    assert [k.limiter for k in some.kernels] == ["shared_memory"]


def test_json() -> None:
    validator().validate(json.loads(render("json", app())))
    assert from_json(to_json(app())) == app()


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_reports(format_: str) -> None:
    text = render(format_, app(), Options(width=80, budget=4000))
    program = text.index("The program")
    assert program < text.index("MEM103") and "36 % of the time is host work" in " ".join(text.split())
    assert program < text.index("22 % of the window")
    if format_ == "text":
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("format_", ["text", "md", "llm"])
def test_hostile_names(format_: str, tmp_path: Path) -> None:
    name = "a|b`</details>\x1b[31m\n# heading"
    events = [e for i in range(30) for e in launch(i + 1, 10 * i, 10 * i + 5, 3, name)]
    events += launch(90, 400, 405, 9, "layer::bias(float*, float const*, int)", **BIAS)
    text = render(format_, analyze_paths([traces.trace(tmp_path, events), REPORT]), Options(width=100))
    assert "\x1b" not in text and "\n# heading" not in text
