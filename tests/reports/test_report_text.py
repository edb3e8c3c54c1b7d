"""The terminal report: width, order, words, hostile text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis, KernelAnalysis, RuleError, SkippedInput
from kscope.reports import Options, render, words
from tests.reports import sample
from tests.support import traces
from tests.support.reports import fixture, plain

SGR = re.compile(r"\x1b\[[0-9;]*m")
CASES: dict[str, Callable[[], Analysis]] = {
    "one": lambda: sample.analysis(),
    "many": lambda: sample.many(28),
    "hostile": sample.hostile,
}


def text(analysis: Analysis, **options: object) -> str:
    return render("text", analysis, Options(**options))  # type: ignore[arg-type]


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def flat(report: str) -> str:
    """The report on one line: wrapping may break any phrase."""
    return " ".join(report.split())


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("case", CASES)
def test_no_line_is_wider_than_asked(case: str, width: int, verbose: bool) -> None:
    lines = text(CASES[case](), width=width, verbose=verbose).splitlines()
    assert [line for line in lines if columns(line) > width] == []
    assert max(map(columns, lines)) > width - 12  # the width is used, not only kept


def test_wide_characters_in_a_source_line_count_twice() -> None:
    kernel = sample.kernel()
    finding = sample.bank_conflicts()
    place = msgspec.structs.replace(finding.locations[0], source="t[j] = 0; // " + "共享内存" * 20)
    finding = msgspec.structs.replace(finding, locations=[place], why="重复访问 " * 40)
    report = text(sample.analysis(msgspec.structs.replace(kernel, findings=[finding])))
    assert "共享内存" in report
    assert all(columns(line) <= 80 for line in report.splitlines())


@pytest.mark.parametrize("case", CASES)
def test_colour_changes_no_word(case: str) -> None:
    plain, coloured = text(CASES[case]()), text(CASES[case](), color=True)
    assert coloured.count("\x1b[") > 10
    assert SGR.sub("", coloured) == plain


def test_ascii_fallback_keeps_the_words() -> None:
    plain, ascii_only = text(sample.many()), text(sample.many(), unicode=False)
    assert ascii_only.isascii()
    assert not plain.isascii()
    assert re.findall(r"\w+", plain) == re.findall(r"\w+", ascii_only)
    assert [len(a) for a in plain.splitlines()] == [len(b) for b in ascii_only.splitlines()]


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("verbose", [False, True])
def test_hostile_names_cannot_drive_the_terminal(color: bool, verbose: bool) -> None:
    report = SGR.sub("", text(sample.hostile(), color=color, verbose=verbose))
    assert all(c.isprintable() or c == "\n" for c in report)
    assert "[red]`x`" in report  # shown as it is: markup is not interpreted


def test_sentence_then_proof_then_next_step() -> None:
    report = flat(text(sample.analysis()))
    order = [
        "transpose_tile<0>(float const*, float*, int) 327.7 us", "MEMORY-BOUND on shared memory: L1 data pipe 89 %",
        "L1/shared █", "33 % of the memory roof", "mio throttle █", "1 shared-bank-conflicts MEM103",
        "expect 2.2x (1.8 - 2.4, capped by L2)", "67,108,864 wavefronts", "dev_kernels.cu:75 LDS R11, [R14+0x0]",
        "waited for by 6 %", "out[y * n + x] = t[tx][ty + j];", "+2 more, waited for by 25 % at all 4",
        "fix pad the row",
        "kscope explain MEM103", "2 exposed-memory-latency LAT302", "expect 1.12x", "tail-effect GRD402",
        "passed 4 · not applicable 1", "93 % UncoalescedSharedAccess", "86 % SharedMemoryConflicts",
    ]  # fmt: skip
    found = [report.find(piece) for piece in order]
    assert -1 not in found, order[found.index(-1)]
    assert found == sorted(found)
    assert report.count("MEMORY-BOUND") == 1


def test_sentence_without_a_badge_gets_one() -> None:
    kernel = sample.kernel()
    sentence = "12 blocks for 132 SMs."
    bare = msgspec.structs.replace(kernel.verdict, regime="overhead", limiter="small_grid", sentence=sentence, body="")
    report = text(sample.analysis(msgspec.structs.replace(kernel, verdict=bare)))
    assert "  OVERHEAD-BOUND by small grid: 12 blocks for 132 SMs.\n" in report


def test_verbose_shows_what_is_otherwise_folded() -> None:
    short, full = flat(text(sample.analysis())), flat(text(sample.analysis(), verbose=True))
    folded = [
        "memory_l1_wavefronts_shared = 67,108,864 (per instruction)", "MEM101 MEM102 MEM104 CMP201",
        "CMP204 sm__inst_executed_pipe_xu.sum was not collected", "12 % full.", "hottest instructions",
        "/data/dev_kernels.cu:75", "This kernel has uncoalesced shared accesses.",
    ]  # fmt: skip
    assert [piece for piece in folded if piece in short] == []
    assert [piece for piece in folded if piece not in full] == []


def test_many_kernels_start_with_a_table_by_time() -> None:
    report = text(sample.many())
    assert report.startswith("28 kernels, 9.43 ms on NVIDIA H200 (sm_90)\n")
    rows = re.findall(r"^ +<?(\d+) % +[\d.]+ [mu]s +memory +shared memory +2.4x +MEM103 2.2x$", report, re.MULTILINE)
    assert len(rows) == 20
    assert [int(row) for row in rows] == sorted(map(int, rows), reverse=True)
    assert re.search(r"8 more, \d % of the time", report)
    assert report.count("MEMORY-BOUND") == 3
    assert "25 more kernels in the table only" in report
    assert text(sample.many(), verbose=True).count("MEMORY-BOUND") == 28


def test_repeats_show_count_and_spread() -> None:
    report = text(sample.many())
    assert "12 launches, 480.0 us to 520.5 us, median 500.0 us" in report
    assert re.search(r"x12\n +64 % +6.00 ms +memory", report, re.MULTILINE)


@pytest.mark.parametrize(
    ("intensity", "roof", "side"),
    [(0.13, "the memory roof", "╱"), (500.0, "the FP32 roof", "─"), (None, "the FP32 roof", "")],
)
def test_roofline_marks_the_side_that_the_kernel_is_on(intensity: float | None, roof: str, side: str) -> None:
    kernel = sample.kernel()
    assert kernel.roofline is not None
    moved = msgspec.structs.replace(kernel.roofline, intensity=intensity)
    report = text(sample.analysis(msgspec.structs.replace(kernel, roofline=moved)))
    assert f"33 % of {roof}:" in flat(report)
    line = next(line for line in report.splitlines() if line.startswith("  roofline memory "))
    dots = re.findall("(.)●(.)", line)
    assert dots == ([(side, side)] if side else [])


def test_adjusted_stalls_say_what_the_raw_ones_were() -> None:
    report = flat(text(sample.analysis()))
    assert "% of their time (adjusted)" in report
    assert "raw samples say barrier 24 %" in report
    assert re.search(r"barrier █+▌? +15 %", report)


def test_kernel_without_findings_says_so_and_keeps_the_errors() -> None:
    bare = msgspec.structs.replace(
        sample.kernel(), findings=[], errors=[RuleError(code="MEM104", message="division by zero")],
        headroom=None, roofline=None, utilization=[], stalls=[], nvidia=[], hot=[], notes=["no SASS"],
    )  # fmt: skip
    report = text(sample.analysis(bare))
    said = "No suggestion: 4 rules looked, none found a fault worth 3 % or more, 2 rules could not look."
    assert said in flat(report)
    assert "MEM104 failed  division by zero" in report
    assert "note  no SASS" in report
    assert "NVIDIA's" not in report


def test_skipped_inputs_and_no_kernels() -> None:
    report = text(msgspec.structs.replace(sample.hostile(), kernels=[]))
    assert report.startswith("No kernels to show.\n")
    assert "skipped  evil" in report
    skip = SkippedInput(input="gone.json", what="report", message="gone.json: no such file; check the path")
    report = text(msgspec.structs.replace(sample.analysis(), kernels=[], skipped=[skip]))
    assert flat(report).endswith("skipped gone.json: report: no such file; check the path"), "named once"


def test_sentences_agree_with_the_figures_below_them() -> None:
    assert len(re.findall(r"issue slots [0-9]", sentence("julia.block6x6"))) == 1
    assert "short scoreboard" not in sentence("scale_add.host_input")  # 0.1 % of the samples
    roles = sample_of("ws_gemm.epilogue_exposed").warp_specialization
    assert roles is not None and roles.lost is not None
    lost = roles.lost
    whole = sum(getattr(lost, name) for name in lost.__struct_fields__)
    told = re.search(r"([0-9.]+) % of the time is lost", sentence("ws_gemm.epilogue_exposed"))
    assert told and float(told[1]) == pytest.approx(100 * whole, abs=0.6)
    conflicts = sample_of("bank_conflict.slow").findings
    assert any("wait at one barrier, which each warp passes once" in f.why for f in conflicts)


def sample_of(case: str) -> KernelAnalysis:
    return analyze_paths([fixture(case)]).kernels[0]


def sentence(case: str) -> str:
    return sample_of(case).verdict.sentence


def test_a_window_says_what_of_it_is_the_profilers() -> None:
    analysis = analyze_paths([traces.path("app"), traces.TRACES / "app_kernels.ncu-rep.xz"])
    shown = flat(text(analysis))
    (own,) = (i for i in analysis.timelines[0].idle if i.cause == "profiler")
    assert f"window 9.45 ms ({words.time(own.us)} of it the profiler's" in shown
    assert "kernels run 62.9 % of it less the profiler's part" in shown


def test_a_skipped_input_is_named_once(tmp_path: Path) -> None:
    cut = tmp_path / "cut.ncu-rep"
    cut.write_bytes(plain("bank_conflict.slow")[:50_000])
    analysis = analyze_paths([cut, fixture("bank_conflict.slow")])
    (skipped,) = analysis.skipped
    assert skipped.input == str(cut) and str(cut) not in skipped.message and "cut short" in skipped.message
