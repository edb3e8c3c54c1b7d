"""Labels, numbers, names made short, wrapping."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Evidence, Headroom, Limiter
from kscope.model.contract.limiters import LIMITERS, SHORT
from kscope.model.units import counted
from kscope.reports import REPORTERS, render, terminal, words
from tests.support import traces

GOLDEN = Path(__file__).resolve().parents[2] / "reports" / "h200"

CUTLASS = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "
    "cutlass::epilogue::Foo<(bool)1>>>(cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>>::Params)"
)


RETURNS = (
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long, float, int)"
)


@pytest.mark.parametrize(
    ("name", "limit", "short"),
    [
        ("void copy<4>(float const*)", 80, "copy<4>(float const*)"),
        ("void copy<(int)4, (bool)1, (unsigned int)-2>(int)", 80, "copy<4, 1, -2>(int)"),
        ("f<(anonymous namespace)::(int)>(int)", 80, "f<(anonymous namespace)::(int)>(int)"),
        ("void copy<4>(float const*)", 14, "copy<4>(...)"),
        ("void copy<4>(float const*)", 8, "copy<4>"),
        (CUTLASS, 80, "cutlass::device_kernel<...>(...)"),
        (CUTLASS, 30, "cutlass::device_kernel<...>"),
        (CUTLASS, 20, "device_kernel<...>"),
        (CUTLASS, 15, "device_kernel"),
        (CUTLASS, 9, "dev...nel"),
        ("ns::sort(int*)::{lambda(int)#1}::operator()(int) const", 30, "ns::sort(int*)...()(int) const"),
        ("bool a::operator<< <b<int>, c<int>, d>(int)", 29, "bool a::operator<< <...>(...)"),
        (RETURNS, 60, "vllm::fused_add_rms_norm_kernel<...>(...)"),
        ("unsigned long (anonymous namespace)::tally<int, 3>(int)", 34, "(anonymous namespace)::tally<...>"),
        ("k<(unbalanced(int, int, int, int, int)", 12, None),
        ("x" * 50, 10, "xxxx...xxx"),
    ],
)
def test_shorten(name: str, limit: int, short: str | None) -> None:
    made = words.shorten(name, limit)
    assert len(made) <= limit
    if short is not None:
        assert made == short


@given(st.text(alphabet="ab<>()::, operator~*\x1b\n", max_size=80), st.integers(1, 60))
def test_shorten_never_exceeds_nor_fails(name: str, limit: int) -> None:
    made = words.shorten(name, limit)
    assert len(made) <= limit
    assert made.isprintable()


@given(st.text(alphabet="ab 中e\u0301%1", max_size=120), st.integers(2, 40), st.integers(2, 40))
def test_wrap_keeps_the_text_and_the_width(text: str, first: int, rest: int) -> None:
    lines = terminal.wrap(text, first, rest)
    assert terminal.cells(lines[0]) <= first
    assert all(terminal.cells(line) <= rest for line in lines[1:])
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wrap_keeps_a_number_with_its_unit() -> None:
    assert terminal.wrap("L1 is busy 89 % of it", 13, 20) == ["L1 is busy", "89 % of it"]
    assert terminal.wrap("takes about 12 us now", 15, 20) == ["takes about", "12 us now"]


def test_bar_shows_any_share_above_zero_and_never_overflows() -> None:
    shown = [terminal.bar(share, 4) for share in (0.0, 0.001, 0.5, 0.62, 1.0, 7.0)]
    assert shown == ["", "▌", "██", "██▌", "████", "████"]


def test_clip_counts_columns() -> None:
    assert terminal.clip("abcdef", 4) == "abc…"
    assert terminal.clip("中文字", 4) == "中…"
    assert terminal.pad("中", 4) == "中  "


def test_every_limiter_has_words_that_fit_the_table() -> None:
    assert set(LIMITERS) == set(get_args(Limiter))
    assert max(len(label) for label in SHORT.values()) <= 14


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (None, "time unknown"), (0.5, "500 ns"), (1.0, "1.00 us"), (327.68, "327.7 us"), (1234.5, "1.23 ms"),
        (2.5e6, "2.50 s"),
    ],
)  # fmt: skip
def test_time(us: float | None, shown: str) -> None:
    assert words.time(us) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "not collected"), (67108864.0, "67,108,864"), (0.123456, "0.1235"), (3.0, "3"),
        (float("nan"), "not a number"), (float("inf"), "not a number"), (2e18, "2e+18"), (-5.0, "-5"),
    ],
)  # fmt: skip
def test_number(value: float | None, shown: str) -> None:
    assert words.number(value) == shown


def test_evidence_that_is_text_is_one_line() -> None:
    assert words.evidence(Evidence(metric="m", value="a\nb", unit="u")) == "m = a b u"


def test_warp_states_are_words_and_unknown_ones_are_quoted() -> None:
    assert words.reason("long_scoreboard") == "long scoreboard"
    assert words.reason('be "nice"') == "\"be 'nice'\""


def test_small_words() -> None:
    assert words.si(1.58e12, "B/s") == "1.58 TB/s"
    assert words.percent(0.004) == "<1 %"
    assert words.percent(0.0) == "0 %"
    assert [words.times(x) for x in (1.09, 2.21, 20.8)] == ["1.09x", "2.2x", "21x"]
    rooms = [words.headroom(Headroom(speedup_bound=x, bounded_by="L2")) for x in (2.81, 99.0, 100.4, 3058.0)]
    assert rooms == ["2.8x", "99x", ">100x", ">100x"]
    assert words.dims((256, 1, 1)) == "256"
    assert words.dims((1, 2, 1)) == "1x2"
    assert words.basename("C:\\src\\k.cu") == "k.cu"
    assert words.evidence(Evidence(metric="dram__bytes.sum", value=12.5, unit="MB")) == "dram__bytes.sum = 12.5 MB"
    assert words.expectation(None) == "gain not estimated"


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("a/slow.ncu-rep", "b/fast.ncu-rep", ("slow.ncu-rep", "fast.ncu-rep")),
        ("a/slow/report.ncu-rep", "a/fast/report.ncu-rep", ("slow/report.ncu-rep", "fast/report.ncu-rep")),
        ("report.ncu-rep", "new/report.ncu-rep", ("report.ncu-rep", "new/report.ncu-rep")),
        (r"C:\old\r.ncu-rep", r"C:\new\r.ncu-rep", ("old/r.ncu-rep", "new/r.ncu-rep")),
        ("x/r.ncu-rep", "x/r.ncu-rep", ("r.ncu-rep", "r.ncu-rep")),
    ],
)
def test_two_paths_are_told_apart(one: str, two: str, expected: tuple[str, str]) -> None:
    assert words.told_apart(one, two) == expected


@pytest.mark.parametrize(
    ("number", "noun", "form", "text"),
    [
        (1, "block", ",.0f", "1 block"), (2048, "block", ",.0f", "2,048 blocks"), (0, "gap", ",.0f", "0 gaps"),
        (4, "copy", ",.0f", "4 copies"), (1.0, "wave", ".3g", "1 wave"), (1.04, "wave", ".3g", "1.04 waves"),
        (3, "pass", ",.0f", "3 passes"), (2, "launch", ",.0f", "2 launches"), (2, "delay", ",.0f", "2 delays"),
    ],
)  # fmt: skip
def test_counted(number: float, noun: str, form: str, text: str) -> None:
    assert counted(number, noun, form) == text


ONE_OF_MANY = re.compile(r"(?<![\w.,])1 (blocks|warps|waves|loads|instructions|gaps|bytes|regions|copies|operations)\b")


def test_no_plural_of_one_in_the_golden_reports() -> None:
    for path in sorted(GOLDEN.glob("*.txt")):
        assert not ONE_OF_MANY.search(path.read_text("utf-8")), path.name


@pytest.mark.parametrize("name", ["compiled_breaks", "input_bound"])
def test_shares_of_a_recording_leave_the_profiler_out(name: str) -> None:
    """Busy, idle by cause and the sentence are shares of one thing; the profiler's own time is no share of it."""
    analysis = analyze_paths([traces.path(name)])
    text = render("text", analysis)
    timeline = analysis.timelines[0]
    own = sum(i.us for i in timeline.idle if i.cause == "profiler")
    assert own > 0.01 * timeline.span_us
    share = timeline.gpu_busy_pct * timeline.span_us / (timeline.span_us - own)
    assert f"GPU busy {share:.1f} %" in text.splitlines()[0]
    line = next(line for line in text.splitlines() if "in the profiler" in line)
    assert "%" not in line and words.time(own) in line
    assert not ONE_OF_MANY.search(text)
    during = next(i for i in timeline.idle if i.during and i.pct > 1).during[0]
    assert during[:30] in text, "where the host is stays readable at 80 columns"


@pytest.mark.parametrize("name", REPORTERS.values())
def test_every_reporter_is_one(name: str) -> None:
    given = inspect.signature(importlib.import_module(name).render).parameters
    assert list(given) == ["analysis", "options"]
