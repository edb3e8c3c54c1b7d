"""Each rule on real captures: where it must fire, where it must not, and what it says when its inputs are missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding, KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.rules.base import FAINT, Missing, Passed, Rule
from kscope.rules.registry import all_rules
from tests.support import captures, reports
from tests.support.edit import made, without_columns, without_metrics
from tests.support.labels import CAPTURED, LABELS, REMAINS, UNNAMED
from tests.support.sass import functions
from tests.support.thorough import some

COMPILED = {"ASY505"}  # a race that no capture shows: test_proxy_fence_on_a_profile uses compiled code
def unsourced(case: str) -> bool:
    """The capture was made without its sources."""
    return "--import-source no" in captures.tables(reports.FIXTURES)[case]["capture"]["command"]


PROMISE = 1.15  # from here on a finding counts as one
STREAMING = ("dram_bound.triad", "ldg32_x4.fast", "narrow_loads.fast", "uncoalesced.fast")


class On(NamedTuple):
    """Captures on which a rule must fire, and on which it must promise nothing."""

    fires: tuple[str, ...]
    silent: tuple[str, ...]


CASES = {
    "MEM101": On(
        (
            "csr.thread",
            "uncoalesced.slow",
            "sgemm.naive",
            "particles.aos",
            "row_stats.thread",
            "triton_rowsum.down",
        ),
        (
            "csr.warp",
            "bank_conflict.slow",
            "barrier.slow",
            "particles.soa",
            "row_stats.warp",
            "triton_rowsum.along",
            *STREAMING,
        ),
    ),
    "MEM102": On(
        ("unpack.byte", "dwconv.one", "narrow_loads.slow", "layernorm_bf16.scalar", "attn.global", "voxels.one"),
        (
            "voxels.four", "dwconv.eight", "row_stats.thread", "uncoalesced.slow", "gemm_f32.coalesced",
            "unpack.sixteen", "adam.step", "layernorm_bf16.vec8", "ldg32_x4.slow", "barrier.slow", "tail_effect.slow",
            *STREAMING,
        ),
    ),
    "MEM103": On(
        ("digits.thread_rows", "bank_conflict.slow", "gemm_bf16.mma"),
        (
            "kahan.one",
            "bank_conflict.fast",
            "sgemm.tiled",
            "barrier.slow",
            "gemm_bf16.swizzled",
            "gemm_f32.warptile",
            *STREAMING,
        ),
    ),
    "MEM104": On(
        (
            "dct8.capped",
            "spill.slow",
        ),
        ("spill.fast", "local_array.slow", "local_array.fast", *STREAMING),
    ),
    "MEM105": On(
        (
            "sort16.insertion",
            "local_array.slow",
            "lbm.directions",
            "permute.copied",
            "potential.pointer",
        ),
        ("local_array.fast", "permute.in_place", "potential.inlined", "spill.slow", "spill.fast", *STREAMING),
    ),
    "MEM106": On(
        ("softmax_rows.threepass", "triton_softmax.passes", "autocorr.lag_by_lag"),
        (
            "softmax_rows.registers",
            "triton_softmax.once",
            "nearest.plain",
            "ws_proj.free",
            "bank_conflict.fast",
            "tail_effect.slow",
            *STREAMING,
        ),
    ),
    "MEM107": On(
        (*STREAMING, "ldg32_x4.slow", "doc_mask.written", "unpack.sixteen"),
        ("bank_conflict.slow", "tail_effect.slow", "sgemm.tiled", "barrier.slow"),
    ),
    "MEM108": On(
        ("gather_rows.header4", "place_rows.header1"),
        ("gather_rows.header128", "place_rows.header32", "bank_conflict.slow", *STREAMING),
    ),
    "MEM109": On(
        ("embed_grad.scatter", "atomics.slow", "groupby_f64.global", "moe_list.each", "tickets.each", "best.each"),
        (
            "tickets.block", "best.warp", "moe_list.block", "embed_grad.runs", "atomics.fast", "groupby_f64.shared",
            "sgemm.tiled", *STREAMING,
        ),
    ),
    "MEM110": On(("scale_add.host_input",), ("scale_add.device_input", "bank_conflict.slow", *STREAMING)),
    "MEM111": On(
        (
            "conv1x1.constant",
            "lut256.constant",
        ),
        ("conv1x1.global", "lut256.shared", "sgemm.tiled", "bank_conflict.slow", "atomics.slow", *STREAMING),
    ),
    "MEM112": On(
        (
            "attn.global",
            "sgemm.tiled",
            "mm.coalesced",
            "gemm_f32.coalesced",
            "gemm_f32.shared",
            "gemm_f32.reg1d",
            "centroids.each",
            "lines.each",
            "manhattan.one",
            "steps.one",
            "window.one",
            "peaks.clipped",
        ),
        (
            "window.eight",
            "peaks.doubled",
            "build.optimised",
            "trace3d.block1024",
            "lines.eight",
            "centroids.eight",
            "steps.four",
            "sgemm.blocktile2d",
            "gemm_f32.warptile",
            "gemm_bf16.wgmma",
            "triton_matmul.stage4",
            "ws_gemm.best",
            "row_stats.thread",
            "mm.vec4",
            "bank_conflict.slow",
            "tail_effect.slow",
            *STREAMING,
        ),
    ),
    "MEM113": On(
        ("texels.fetched",), ("texels.loaded", "sgemm.tiled", "bank_conflict.slow", "gather_rows.header4", *STREAMING)
    ),
    "MEM114": On(
        ("sums.in_shared", "corners.in_memory"),
        (
            "corners.in_register", "sums.in_register", "sgemm.tiled", "barrier.slow", "topk.block", "scan1m.oneblock",
            "align.block",
            "spill.slow", *STREAMING,
        ),
    ),
    "MEM115": On(
        ("gather.records", "list_walk.four"),
        ("gather_rows.header4", "gather_rows.header128", "list_walk.serial", "embed_grad.runs", *STREAMING),
    ),
    "MEM116": On(("nearest.debug",), ("nearest.plain", "publish.fence_each", "bank_conflict.slow", *STREAMING)),
    "MEM117": On(
        ("hgemm.wmma_padded", "mma_ring.wait_three", "proj_out.fragments"),
        ("gemm_bf16.wgmma", "ws_gemm.best", "triton_matmul.stage4", "sgemm.tiled", *STREAMING),
    ),
    "MEM118": On(
        ("levels.each",),
        (
            "levels.eight",
            "centroids.eight",
            "ldg32_l2.slow",
            "softmax_rows.threepass",
            "sgemm.naive",
            "pairs.rows",
            "sums.in_shared",
            *STREAMING,
        ),
    ),
    "CMP201": On(
        ("qk.float", "sgemm.tiled", "sgemm.naive", "sgemm.blocktile2d", "hgemm.packed", "gemm_bf16.ffma"),
        ("qk.tensor", "dwconv.one", "dwconv.eight", "hgemm.wmma_padded", "tail_effect.fast", "spill.slow", *STREAMING),
    ),
    "CMP202": On(
        ("tensor_loop.mma_sync", "gemm_bf16.swizzled"),
        ("tensor_loop.wgmma", "gemm_bf16.wgmma", "gemm_bf16.mma", "sgemm.tiled", *STREAMING),
    ),
    "CMP203": On(
        (
            "gamma.double",
            "fp64_literal.slow",
        ),
        ("gamma.float", "fp64_literal.fast", "divergence.fast", *STREAMING),
    ),
    "CMP204": On(
        (
            "mie.powf",
            "quotients.divided",
            "potential.ieee",
            "wave.library",
        ),
        (
            "potential.rsqrt",
            "quotients.reciprocal",
            "gravity.blocks255",
            "wave.intrinsics",
            "sgemm.tiled",
            "bank_conflict.slow",
            "int_division.fast",
            *STREAMING,
        ),
    ),
    "CMP205": On(
        (
            "swap_heads.division",
            "int_division.slow",
        ),
        ("hash.rounds", "chacha.stream", "int_division.fast", "sgemm.blocktile2d", *STREAMING),
    ),
    "CMP206": On(("horner.separate",), ("horner.fused", "dependency_chain.slow", "sgemm.tiled", *STREAMING)),
    "CMP207": On(
        ("qdot.to_float",), ("qdot.dp4a", "sgemm.tiled", "fp64_literal.fast", "dependency_chain.slow", *STREAMING)
    ),
    "CMP208": On(
        ("tail_effect.fast", "divergence.fast", "tensor_loop.wgmma"),
        ("barrier.slow", "dependency_chain.slow", *STREAMING),
    ),
    "CMP209": On(("wgmma_flight.each",), ("wgmma_flight.sixteen", "tensor_loop.wgmma", "sgemm.tiled", *STREAMING)),
    "CMP211": On(
        ("weights.pow",),
        ("weights.root", "series_f64.base", "gamma.double", "fp64_literal.slow", "rowsum_roof.double", *STREAMING),
    ),
    "CMP212": On(
        ("build.debug",), ("build.optimised", "nearest.debug", "spill.slow", "divergence.slow", *STREAMING)
    ),
    "CMP213": On(
        ("ws_gemm.n128_stages3", "ws_gemm.one_group_stages2"),
        ("ws_gemm.best", "wgmma_flight.each", "tensor_loop.wgmma", "wgmma_gemm.unspecialised", *STREAMING),
    ),
    "LAT301": On(("occupancy_smem.slow",), ("occupancy_smem.fast", "tail_effect.slow", *STREAMING)),
    "LAT302": On(
        ("small_grid.slow", "list_walk.serial"),
        ("dependency_chain.slow", "sgemm.blocktile2d", "tail_effect.fast", *STREAMING),
    ),
    "LAT303": On(
        (
            "kahan.one",
            "dependency_chain.slow",
        ),
        ("dependency_chain.fast", "bank_conflict.slow", "spill.fast", "potential.ieee", "mha.swizzled", *STREAMING),
    ),
    "LAT304": On(
        ("topk.block", "barrier.slow", "bitonic1024.barriers", "nucleus.walk", "align.block", "nearest256.block"),
        ("topk.warp", "nearest256.warp", "dependency_chain.slow", "sgemm.blocktile2d", *STREAMING),
    ),
    "LAT305": On(
        (
            "interpret.as_they_come",
            "divergence.slow",
        ),
        ("interpret.sorted", "divergence.fast", "sgemm.tiled", *STREAMING),
    ),
    "LAT306": On(
        ("operators.specialised",),
        ("operators.generic", "sgemm.blocktile2d", "dependency_chain.slow", "tail_effect.fast", *STREAMING),
    ),
    "LAT307": On(
        ("hgemm.wmma_onestage", "triton_matmul.stage1", "mma_ring.wait_all", "mha_copy.registers"),
        (
            "mma_ring.wait_three",
            "mha.swizzled",
            "gemm_bf16.wgmma",
            "triton_matmul.stage4",
            "hgemm.packed",
            "bank_conflict.slow",
            "dependency_chain.slow",
            *STREAMING,
        ),
    ),
    "LAT308": On(("publish.fence_each",), ("publish.fence_once", "sgemm.tiled", *STREAMING)),
    "LAT310": On(("tile_sum.lanes",), ("tile_sum.elected", "gemm_bf16.wgmma", "bank_conflict.slow", *STREAMING)),
    "ASY501": On(
        ("ws_gemm.k256", "ws_gemm.block_a_tile"),
        ("ws_gemm.best", "ws_gemm.stages2", "wgmma_gemm.unspecialised", "tensor_loop.wgmma", *STREAMING),
    ),
    "ASY502": On(
        ("ws_gemm.produce_exposed",),
        ("ws_gemm.best", "ws_gemm.stages2", "tma_scale.stages2", "wgmma_gemm.unspecialised", *STREAMING),
    ),
    "ASY503": On(
        ("ws_gemm.epilogue_exposed",),
        ("ws_gemm.best", "ws_gemm.stages2", "ws_gemm.block_a_tile", "wgmma_gemm.unspecialised", *STREAMING),
    ),
    "ASY504": On(
        ("ws_gemm.stages2", "tma_scale.stages2"),
        ("ws_gemm.stages3", "ws_gemm.best", "ws_gemm.produce_exposed", "wgmma_gemm.unspecialised", *STREAMING),
    ),
    "GRD401": On(
        ("gated.serial", "scan1m.oneblock", "small_grid.slow", "triton_deep.tiles16"),
        ("small_grid.fast", "tail_effect.slow", *STREAMING),
    ),
    "GRD402": On(
        (
            "gravity.blocks270",
            "tail_effect.slow",
        ),
        ("gravity.blocks255", "tail_effect.fast", "small_grid.slow", *STREAMING),
    ),
    "GRD403": On(
        ("mandelbrot.bands", "pairs.rows", "ragged.block"),
        (
            "mandelbrot.dealt",
            "tail_effect.fast",
            "bank_conflict.slow",
            "dependency_chain.slow",
            "groupby_f64.shared",
            "atomics.fast",
            "pairs.mirrored",
            "ssm.sixteen_blocks",
            *STREAMING,
        ),
    ),
    "GRD404": On(
        ("julia.block6x6", "triton_gather.block32", "phases.cubes"),
        ("phases.rows", "julia.block32x4", "tail_effect.fast", "sgemm.tiled", "sgemm.blocktile2d", *STREAMING),
    ),
    "GRD405": On(
        ("signal_max.one", "swap_heads.division", "taper.one", "halves.global", "softmax128.block", "short_csr.warp"),
        (
            "softmax128.warp",
            "short_csr.eight",
            "bitonic1024.shuffles",
            "signal_max.many",
            "taper.eight",
            "halves.shuffle",
            "sum_roof.tree",
            "triton_rowsum.along",
            "atomics.slow",
            "groupby_f64.global",
            "bitonic1024.barriers",
            "mm.vec4",
            "nucleus.walk",
            *STREAMING,
        ),
    ),
    "OVH606": On(("launch_bound.tiny",), ("small_grid.slow", "int_division.fast", *STREAMING)),
}
"""Each rule that has something to say in the corpus fires somewhere, and is silent on the fixed version beside."""
BY_CODE = {r.code: r for r in all_rules() if issubclass(r, Rule)}
Diagnose = Callable[[str], KernelAnalysis]


def found(diagnosis: KernelAnalysis, code: str) -> Finding | None:
    return next((f for f in diagnosis.findings if f.code == code), None)


def promises(finding: Finding | None) -> bool:
    """Says that something is to be gained here; without a figure it says so unless it is information only."""
    if finding is None:
        return False
    return finding.severity != "info" if finding.estimate is None else finding.estimate.speedup >= PROMISE


def test_every_rule_has_cases() -> None:
    assert set(CASES) | COMPILED == set(BY_CODE)
    assert all(on.fires and len(on.silent) >= 3 and not set(on.fires) & set(on.silent) for on in CASES.values())


FIRES = [(c, case) for c, on in CASES.items() for case in on.fires if case in (on.fires[0], *reports.chosen())]


@pytest.mark.parametrize(("code", "case"), FIRES)
def test_fires(code: str, case: str, diagnosis: Diagnose) -> None:
    f = found(diagnosis(case), code)
    assert f is not None and f.severity != "info"
    assert f.rule == BY_CODE[code].slug and f.title and f.why and f.fix and 0 < f.confidence <= 1
    assert f.evidence and all(e.metric for e in f.evidence)
    if BY_CODE[code].needs_sass and code != "LAT306":
        assert f.locations, "it names the instruction"
    for place in f.locations:
        assert place.function == diagnosis(case).name and place.opcode and place.sass and place.opcode in place.sass
        assert place.file and place.line
        assert place.source or place.file.startswith("/usr/") or unsourced(case), "the captures have their sources"


SILENT = [
    (code, case) for code, on in CASES.items() for i, case in enumerate(on.silent) if i == 0 or case in reports.chosen()
]  # fmt: skip


@pytest.mark.parametrize(("code", "case"), SILENT)
def test_silent(code: str, case: str, diagnosis: Diagnose) -> None:
    assert not promises(found(diagnosis(case), code))


@pytest.mark.parametrize("case", [case for case in LABELS if case in reports.chosen()])
def test_labelled_cause_is_found(case: str, diagnosis: Diagnose) -> None:
    named = {f.rule for f in diagnosis(case).findings} & set(LABELS[case]["accept"])
    assert bool(named) == (case not in UNNAMED), "UNNAMED lists the cases that are missed, and no others"


@pytest.mark.parametrize("case", [case for case in CAPTURED if case in reports.chosen()])
def test_fixed_version_is_clean_of_the_cause(case: str, diagnosis: Diagnose) -> None:
    fixed = diagnosis(CAPTURED[case])
    left = [f.rule for f in fixed.findings if f.rule in LABELS[case]["accept"] and f.estimate and promises(f)]
    assert bool(left) == (case in REMAINS), f"REMAINS lists the fixes with a promise left, and no others: {left}"


# --- what is missing


def no_sass(k: Kernel) -> Kernel:
    return msgspec.structs.replace(k, program=None)


def no_counters(k: Kernel) -> Kernel:
    return msgspec.structs.replace(k, counters=None)


def no_samples(k: Kernel) -> Kernel:
    return without_columns(k, lambda name: "pcsamp" in name)


def nothing(k: Kernel) -> Kernel:
    return made({})


VARIED = (
    "bank_conflict.slow", "spill.slow", "sgemm.tiled", "atomics.slow", "divergence.slow", "launch_bound.tiny",
    "hgemm.wmma_onestage", "wgmma_flight.each", "lut256.constant", "publish.fence_each", "wave.library",
    "ws_gemm.stages2", "tma_scale.stages2",
)  # fmt: skip
PARTS: dict[str, Callable[[Kernel], Kernel]] = {
    "SASS": no_sass,
    "per-instruction counters": no_counters,
    "samples": no_samples,
    "SASS and counters": lambda k: no_counters(no_sass(k)),
    "execution counts": lambda k: without_columns(k, lambda name: name == "inst_executed"),
    "thread counts": lambda k: without_columns(k, lambda name: name.startswith("thread_inst_executed")),
    "memory columns": lambda k: without_columns(k, lambda name: name.startswith("memory_")),
    "opcode counts": lambda k: msgspec.structs.replace(k, opcodes={}),
    "sources": lambda k: msgspec.structs.replace(k, sources={}),
    "all metrics": lambda k: without_metrics(k, lambda name: True),
    "launch metrics": lambda k: without_metrics(k, lambda name: name.startswith("launch__")),
    "utilisation": lambda k: without_metrics(k, lambda name: "pct_of_peak" in name),
    "warp states": lambda k: without_metrics(k, lambda name: name.startswith("smsp__average_")),
    "cycles": lambda k: without_metrics(k, lambda name: "cycles" in name),
    "duration": lambda k: without_metrics(k, lambda name: name.startswith("gpu__time")),
    "L1 metrics": lambda k: without_metrics(k, lambda name: name.startswith("l1tex__")),
    "L2": lambda k: without_metrics(k, lambda name: name.startswith("lts__")),
    "device memory": lambda k: without_metrics(k, lambda name: name.startswith(("dram__", "gpu__dram", "fbpa__"))),
    "timelines": lambda k: msgspec.structs.replace(k, timelines=None),
    "everything": nothing,
}


def says_what_to_collect(outcome: object) -> bool:
    """Not applicable, or what counters alone tell; either names the flag that collects the rest."""
    faint = isinstance(outcome, Finding) and outcome.confidence <= FAINT and not outcome.locations
    return (isinstance(outcome, Missing) or faint) and re.search(r"--(section|set) \w", outcome.why) is not None


@pytest.mark.parametrize("what", some([*PARTS], 8))
def test_missing_part(what: str, kernel: Callable[[str], Kernel]) -> None:
    """No rule raises, whatever is not there, and one that gives up says what to collect."""
    for case in VARIED:
        facts = Facts(PARTS[what](kernel(case)))
        for code, rule in BY_CODE.items():
            outcome = rule().run(facts)
            assert isinstance(outcome, (Finding, Passed)) or says_what_to_collect(outcome), (code, case, outcome)


@pytest.mark.parametrize("code", BY_CODE)
def test_not_applicable(code: str, kernel: Callable[[str], Kernel]) -> None:
    """Each declared need, taken away from a capture on which the rule has something to say."""
    on = CASES.get(code, On((), ("tensor_loop.wgmma",)))
    rule, case = BY_CODE[code], (*on.fires, *on.silent)[0]
    k = kernel(case)
    assert not isinstance(rule().run(Facts(k)), Missing), "applicable when all is there"
    assert says_what_to_collect(rule().run(Facts(nothing(k))))
    for need in rule.needs:
        names = need.split("|")
        outcome = rule().run(Facts(without_metrics(k, lambda name, names=names: name in names)))  # type: ignore[misc]
        assert says_what_to_collect(outcome) and names[0] in outcome.why  # type: ignore[union-attr]
    if rule.needs_sass:
        assert says_what_to_collect(rule().run(Facts(no_sass(k))))
    if rule.needs_samples:
        assert says_what_to_collect(rule().run(Facts(no_samples(k))))


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_full_captures_miss_nothing(case: str, diagnosis: Diagnose) -> None:
    withdrawn = "a debug build"  # of which nothing else is said
    left = [n for n in diagnosis(case).not_applicable if not n.why.startswith(withdrawn)]
    assert left == [] and diagnosis(case).errors == []


def test_proxy_fence_on_a_profile(kernel: Callable[[str], Kernel], facts: Callable[[str], Facts]) -> None:
    """The proof of ASY505 is the code's: on the captures it is silent, on a kernel with the code of one without a
    fence it warns, whatever was counted."""
    rule = BY_CODE["ASY505"]()
    for case in ("wgmma_flight.each", "tensor_loop.wgmma", "bank_conflict.slow"):
        assert isinstance(rule.run(facts(case)), Passed)
    profiled = kernel("bank_conflict.slow")
    for name, fires in (("put_unfenced", True), ("put_fenced", False)):
        program = functions("tma.cu", "sm_90a")[name]
        outcome = rule.run(Facts(msgspec.structs.replace(profiled, program=program)))
        assert isinstance(outcome, Finding) == fires
    assert isinstance(rule.run(Facts(msgspec.structs.replace(profiled, program=None))), Missing)


ACCUSED: dict[str, str] = {}
"""Kernels that a library or a compiler wrote, accused of a race: none is one."""


def test_kernels_of_compilers_are_accused_of_no_race(diagnosis: Diagnose) -> None:
    """All captures of Triton's kernels, which multiply by wgmma what cp.async and ordinary stores have put there."""
    written = [case for case in reports.every_case() if case.startswith("triton_")]
    said = {case: f.severity for case in written if (f := found(diagnosis(case), "ASY505")) is not None}
    assert len(written) >= 8 and {case: s for case, s in said.items() if s != "info"} == ACCUSED
