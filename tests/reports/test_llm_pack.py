"""The pack for a language model: what a small budget holds, that budgets are kept, that nothing in it is noise."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis
from kscope.model.contract.detail import Detail
from kscope.model.contract.fixes import Edit, Fix
from kscope.reports import Options, render
from kscope.reports.llm import tokens
from kscope.reports.llm.findings import _change
from tests.reports import sample
from tests.support.reports import fixture
from tests.support.thorough import some

CASES = ("bank_conflict.slow", "sgemm.blocktile2d", "ws_gemm.stages2", "spill.slow", "csr.thread", "multi_kernels")
OTHERS = ("chacha.stream", "autocorr.all_lags", "fft1024.packed", "triton_matmul.stage4", "lbm.directions", "kahan.one")
"""Of other machine code: ciphers, FFTs, Triton's."""
BUDGETS = (300, 2000, 20_000)


@cache
def analysed(case: str) -> tuple[Analysis, Detail]:
    detail = Detail()
    return analyze_paths([fixture(case)], detail=detail), detail


def pack(case: str, budget: int) -> str:
    analysis, detail = analysed(case)
    return render("llm", analysis, Options(budget=budget, detail=detail))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", BUDGETS)
def test_budgets_are_kept_and_used(case: str, budget: int) -> None:
    text = pack(case, budget)
    assert tokens.count(text) <= budget
    if "Left out" in text:
        assert tokens.count(text) >= 0.7 * budget
    assert sum(line.startswith("```") for line in text.splitlines()) % 2 == 0


@pytest.mark.parametrize("case", ["bank_conflict.slow", "sgemm.blocktile2d", "csr.thread"])
def test_three_hundred_tokens_hold_verdict_fix_and_place(case: str) -> None:
    kernel = analysed(case)[0].kernels[0]
    first, text = kernel.findings[0], pack(case, 300)
    assert f"{kernel.verdict.regime.upper()}-BOUND" in text
    assert f"1. {first.code} {first.rule}" in text
    assert f"- fix {first.fix[:20]}" in text
    assert f"pc {first.locations[0].pc:04x}" in text


def test_what_to_do_comes_before_the_evidence_and_the_kernel() -> None:
    text = pack("sgemm.blocktile2d", 20_000)
    order = ["verdict", "what to do", "hot instructions", "measured", "launch and resources", "source", "loops",
             "memory traffic", "hottest loops, annotated", "not known", "what would change"]  # fmt: skip
    found = [text.index(f"## Kernel 1: {part}") for part in order]
    assert found == sorted(found)
    one = text[text.index("1. ") : text.index("2. ")]
    assert one.index("- fix") < one.index("- at") < one.index("- because") < one.index("- evidence")


def test_large_budgets_hold_whole_loops_with_their_counts() -> None:
    text = pack("sgemm.blocktile2d", 20_000)
    detail = analysed("sgemm.blocktile2d")[1].kernels[0]
    outer, inner = sorted(detail.loops, key=lambda loop: loop.depth)
    assert outer.trips is not None
    assert outer.trips == pytest.approx(inner.rounds / outer.rounds * outer.trips / inner.trips, rel=0.01)  # type: ignore[operator]
    code = detail.code
    assert code is not None
    for pc in (pc for pc in code.pcs if outer.start <= pc <= outer.end):
        assert re.search(rf"^.{{5}} {pc:04x} ", text, re.M), f"{pc:04x} of the loop is not there"
    assert f"{outer.trips:,.4g} rounds each time" in text
    for name in ("hit rates", "occupancy:", "clocks while measured", "accesses a lane", "of that way's peak"):
        assert name in text


def test_rounds_and_mix_are_those_of_the_profile() -> None:
    analysis, detail = analysed("sgemm.blocktile2d")
    code = detail.kernels[0].code
    assert code is not None
    loop = detail.kernels[0].loops[0]
    inside = [i for i, pc in enumerate(code.pcs) if loop.start <= pc <= loop.end]
    assert sum(loop.mix.values()) == pytest.approx(sum(code.executed[i] for i in inside) / loop.rounds, rel=0.01)
    assert all(n <= loop.mix[pipe] + 0.01 for pipe, n in loop.invariant.items())
    warps = analysis.kernels[0].launch.grid[0] * analysis.kernels[0].launch.grid[1] * 8
    outer = min(detail.kernels[0].loops, key=lambda one: one.depth)
    assert outer.rounds == pytest.approx(warps * (outer.trips or 0), rel=0.01)


@pytest.mark.parametrize("case", CASES)
def test_no_noise(case: str) -> None:
    text = pack(case, 20_000)
    assert "Every rule had its inputs" not in text
    assert "NVIDIA's own rules" not in text
    assert not re.search(r"^ *<1 % [0-9a-f]{4} ", text, re.M), "nothing below a percent"
    headings = re.findall(r"^## .*$", text, re.M)
    assert len(headings) == len(set(headings))


def test_what_a_rewrite_needs_to_know_of_the_measurement() -> None:
    """Caches, once; whom an instruction waits for, once; what a loop computes again and again, at its place."""
    text = pack("csr.thread", 20_000)
    assert "- caches: emptied before it ran" in text and "Whether caches were emptied" not in text
    awaited = [line for line in text.splitlines() if "; waits for the LDG at" in line]
    assert awaited and not any(re.search(r"; waits for [0-9a-f]{4}\b", line) for line in awaited)
    loops = analysed("sgemm.blocktile2d")[1].kernels[0].loops
    listed = pack("sgemm.blocktile2d", 20_000)
    same = re.finditer(r"^.{5} ([0-9a-f]{4}) .*the same in every round", listed, re.M)
    marked = {int(found[1], 16) for found in same}
    assert marked and marked == {pc for loop in loops for pc in loop.same}
    import msgspec

    analysis, detail = analysed("csr.thread")
    bare = Detail(kernels=[msgspec.structs.replace(detail.kernels[0], caches="")])
    assert "Whether caches were emptied" in render("llm", analysis, Options(budget=20_000, detail=bare))


def shown(text: str) -> dict[int, str]:
    """Source lines of a pack by their numbers."""
    part = text[text.index("source (share of samples") :].split("```")[1]
    return {int(m[1]): m[2] for m in re.finditer(r"^.{5} +(\d+) ?(.*)$", part, re.M)}


def test_a_large_budget_holds_the_kernels_source_without_gaps() -> None:
    lines = shown(pack("ws_gemm.stages2", 20_000))
    code = analysed("ws_gemm.stages2")[1].kernels[0].code
    assert code is not None
    here = {n for f, n in zip(code.file, code.line, strict=True) if f >= 0 and code.files[f].endswith("/ws_gemm.cu")}
    assert len(here) > 40 and here - {0} <= set(lines)
    assert set(range(min(here - {0}), max(here) + 1)) <= set(lines), "what stands between them, too"


@pytest.mark.parametrize("case", ["autocorr.lag_by_lag", "particles.aos", "gather_rows.header4"])
def test_nothing_of_the_next_function_is_shown(case: str) -> None:
    """In our fixtures that is the better version, and its name a hint."""
    lines = shown(pack(case, 20_000))
    assert lines[max(lines)].startswith("}") and "__global__" in " ".join(lines.values())
    assert sum("__global__" in line for line in lines.values()) == 1


def test_a_loop_holds_its_own_instructions_with_what_their_accesses_take() -> None:
    text = pack("ws_gemm.stages2", 20_000)
    first = text[re.search(r"^Loop [23], whole", text, re.M).start() :].split("```")[1]  # type: ignore[union-attr]
    pcs = [int(m, 16) for m in re.findall(r"^.{5} ([0-9a-f]{4}) ", first, re.M)]
    assert pcs and not any(0x2C50 <= pc <= 0x2EB0 for pc in pcs), "the producer's loop is another"
    rows = pack("csr.thread", 20_000)
    assert re.search(r"LDG.*; 24\.5 sectors a request, 3\.27 would do", rows)
    most = rows.partition("Loop 2, whole (MEM101, CMP208 at most of it):")[2].split("```")[1]
    assert "LDG" in most and "CMP208" not in most
    assert re.search(r"STS.*4 wavefronts a request, 1 would do", pack("fft1024.padded", 20_000))


def test_a_bound_that_no_measurement_can_miss_is_no_test_of_a_cause() -> None:
    text = pack("gather_rows.header4", 20_000)
    low = analysed("gather_rows.header4")[0].kernels[0].findings[0].estimate
    assert low is not None and low.low < 1 and "have another cause" not in text
    assert "If fixing MEM106 gives less than 1.09x" in pack("autocorr.lag_by_lag", 20_000)


def test_work_is_told_in_all() -> None:
    analysis, _ = analysed("sgemm.blocktile2d")
    roof, took = analysis.kernels[0].roofline, analysis.kernels[0].duration_us
    assert roof is not None and roof.flops_per_s is not None and took is not None
    found = re.search(r"- done in all: ([\d.]+) GFLOP and", pack("sgemm.blocktile2d", 2000))
    assert found and float(found[1]) == pytest.approx(roof.flops_per_s * took / 1e15, rel=0.01)


def test_reasons_never_hang_in_the_air() -> None:
    for budget in range(150, 900, 50):
        text = pack("bank_conflict.slow", budget)
        part = text.partition("what to do")[2].partition("\n## ")[0]
        first = next((line for line in part.splitlines()[1:] if line.strip() and not line.startswith("Left")), "1. ")
        assert re.match(r"\d\. ", first), (budget, first)


def test_missing_source_is_named_with_the_flag() -> None:
    text = render("llm", sample.analysis(), Options(budget=4000, detail=analysed("bank_conflict.slow")[1]))
    assert text
    analysis, detail = analysed("bank_conflict.slow")
    import msgspec

    kernel = detail.kernels[0]
    assert kernel.code is not None
    bare = msgspec.structs.replace(kernel, code=msgspec.structs.replace(kernel.code, sources={}))
    told = render("llm", analysis, Options(budget=4000, detail=Detail(kernels=[bare])))
    assert "--import-source yes" in told


def test_a_folder_spends_on_what_is_worth_it() -> None:
    text = pack("multi_kernels", 900)
    assert "MEM112" in text.partition("what to do")[2][:400], "the kernel that most can be gained from"
    assert "5 kernels by time" in text


def counted(texts: list[str], name: str) -> list[int]:
    """Tokens of a public encoding: by toktok, which brings the vocabularies along (its ids are tiktoken's), or by
    tiktoken, which fetches them on first use."""
    try:
        import toktok
    except ImportError:
        tiktoken: Any = pytest.importorskip("tiktoken")
        try:
            encoding = tiktoken.get_encoding(name)
        except Exception:
            pytest.skip(f"the data of {name} are not on this machine (TIKTOKEN_CACHE_DIR)")
        return [len(encoding.encode(text, disallowed_special=())) for text in texts]
    return list(toktok.batch_count(texts, name))


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
@pytest.mark.parametrize("case", some([*CASES, *OTHERS], 3))
def test_counts_of_a_public_tokenizer(name: str, case: str) -> None:
    """Within 5 %, and a pack that leaves something out fills its budget by that tokenizer, too."""
    packs = [pack(case, budget) for budget in BUDGETS]
    for budget, text, real in zip(BUDGETS, packs, counted(packs, name), strict=True):
        assert tokens.count(text) == pytest.approx(real, rel=0.05)
        assert real <= 1.05 * budget


def test_a_long_change_says_that_lines_are_left_out_and_which_go() -> None:
    """A change that rewrites a function takes its old lines away; who pastes six of them must know of the others."""
    edits = [Edit(file="k.cu", line=n, was=f"line {n}", becomes="new" if n == 1 else "") for n in range(1, 9)]
    lines = _change(Fix(kind="lane_mapping", title="a row a warp", language="cuda", edits=edits))
    assert sum(" goes" in line for line in lines) == 5 and sum(" becomes " in line for line in lines) == 1
    assert lines[-1].startswith("     - 2 more lines change with these")
    short = _change(Fix(kind="lane_mapping", title="a row a warp", language="cuda", edits=edits[:6]))
    assert not any("more lines" in line for line in short)
