"""Reports with less than `--set full`: the labelled captures, reduced to what ncu's sets and sections hold."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.kernels.collecting import FULL, one_launch
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Analysis, KernelAnalysis
from kscope.model.faults import NO_CODE
from kscope.model.kernel import Kernel, Metrics
from kscope.model.metric_names import is_read
from kscope.reports import Options, render
from tests.support import reduced
from tests.support.labels import LABELS
from tests.support.thorough import often
from tools.partial import SURE, Judged, judge, names_it

Read = Callable[[str], Kernel]
CASES = sorted(LABELS)[:: often(6, 14)]
REAL = ("sol", "basic", "detailed", "counters")


@pytest.fixture(scope="module")
def rows(kernel: Read) -> list[Judged]:
    """Some labelled captures in every set."""
    return [
        judge(case, name, analyze_kernel(reduced.reduced(kernel(case), name), case), visible=shown)
        for case in CASES for shown in [names_it(case, analyze_kernel(kernel(case), case))] for name in reduced.SETS
    ]  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_sections_hold_what_the_captures_of_the_sets_hold(name: str) -> None:
    """What a full report says of its sections is what a capture with only these holds, but for what NVIDIA's rules
    collect beside them."""
    real, told = (
        {n for n in found if is_read(n) and not n.startswith(reduced.ALWAYS)}
        for found in (reduced.names(name), reduced.of_sections(*reduced.SETS[name]))
    )
    assert len(real & told) >= 0.94 * len(real | told) and len(real) > 50


def test_regimes(rows: list[Judged]) -> None:
    assert len({r.case for r in rows}) > 10
    wrong = [(r.case, r.collected, r.regime, r.confidence) for r in rows if r.wrong]
    assert len(wrong) <= 0.05 * len(rows), wrong
    assert not [w for w in wrong if w[3] > SURE]


def test_full_sets_without_rules_are_full(rows: list[Judged]) -> None:
    assert all(r.right for r in rows if r.collected == "no_rules")


def test_the_command_comes_first_where_the_cause_is_hidden(rows: list[Judged]) -> None:
    """By both definitions: every cause that no finding names, and those that the full report shows."""
    hidden = [r for r in rows if r.hidden]
    assert len(hidden) > 80
    for some in (hidden, [r for r in hidden if r.visible]):
        assert sum(r.told for r in some) >= 0.98 * len(some), [(r.case, r.collected) for r in some if not r.told]


def test_no_alarms(rows: list[Judged]) -> None:
    """Nothing is promised of kernels at their roof but what counters prove."""
    assert [(r.case, r.collected) for r in rows if r.alarm and r.collected != "counters"] == []


@pytest.mark.parametrize("name", ["basic", "states", "time", "detailed"])
def test_the_command_is_one_of_ncu(name: str, kernel: Read) -> None:
    found = analyze_kernel(reduced.reduced(kernel("ws_gemm.stages2"), name), "a")
    assert found.next_step is not None and found.next_step.do == "measure"
    words = shlex.split(found.next_step.command or "")
    assert words[0] == "ncu" and words[-1] == "PROGRAM"
    assert words[words.index("-k") + 1] == kernel("ws_gemm.stages2").name
    assert words[words.index("--launch-skip") + 1] == "1", "as the capture was recorded: by name, the second launch"
    assert words[words.index("-c") + 1] == "1"
    asked = {words[i + 1] for i, word in enumerate(words) if word == "--section"}
    assert not asked & set(reduced.SETS[name]), "what is there is not collected again"
    if name == "time":
        assert FULL in (found.next_step.command or "")
    if name == "detailed":
        assert "PmSampling" in asked, "an asynchronous kernel is judged by the timeline of its units"


def test_names_of_a_report_are_no_shell(kernel: Read) -> None:
    own = msgspec.structs.replace(kernel("bank_conflict.slow"), recorded={})
    for name in ("$(reboot)", "a b", "x;y", "", "k'", "-k"):
        hostile = msgspec.structs.replace(own, name=name, index=3)
        assert one_launch(hostile, 7) == "--launch-skip 3 -c 1"
    assert one_launch(own, 7) == "-k transpose_tile --launch-skip 7 -c 1"
    odd = msgspec.structs.replace(own, recorded={"kernel-name": "", "launch-skip": "x"})
    assert one_launch(odd, 7) == "-k transpose_tile --launch-skip 7 -c 1"


def test_what_knowing_is_worth(kernel: Read) -> None:
    found = analyze_kernel(reduced.reduced(kernel("bank_conflict.slow"), "basic"), "a")
    assert found.next_step is not None and found.headroom is not None
    assert f"at most {found.headroom.speedup_bound:.1f}x" in found.next_step.why
    assert re.search(r"\d+ of \d+ rules could not look", found.next_step.why)


def test_what_other_code_would_gain_is_open(kernel: Read) -> None:
    """The special functions are full as the code stands: knowing why is not worth nothing."""
    found = analyze_kernel(reduced.reduced(kernel("exp_chain.base"), "basic"), "a")
    assert found.next_step is not None and found.headroom is not None
    assert found.headroom.speedup_bound < 1.05 and "at most" not in found.next_step.why
    assert "other code would gain" in found.next_step.why
    assert re.search(r"\d+ of \d+ rules could not look", found.next_step.why)


@pytest.mark.parametrize("name", ["sol", "basic"])
def test_memory_across_the_bus_shows_in_few_sections(name: str, kernel: Read) -> None:
    away, home = (
        analyze_kernel(reduced.reduced(kernel(f"scale_add.{which}_input"), name), which) for which in ("host", "device")
    )
    assert [f.code for f in away.findings] == ["MEM110"] and away.verdict.regime == "memory"
    assert "bus to the host" in away.verdict.reason and away.verdict.limiter == "transfer"
    assert home.findings == []


def test_fills_count_the_sectors_over_the_bus(kernel: Read) -> None:
    full = kernel("scale_add.host_input")
    counted = Facts(full).counters.traffic.sysmem_sectors
    few = Facts(reduced.reduced(full, "basic")).counters.traffic.sysmem_sectors
    assert counted > 1e5 and abs(few / counted - 1) < 0.01


def test_bytes_from_the_share_of_the_peak(kernel: Read) -> None:
    """The share, the bus and its clock say what the counters of bytes say."""
    for case in ("dram_bound.triad", "row_stats.thread"):
        full, few = (Facts(k).counters.roofline for k in (kernel(case), reduced.reduced(kernel(case), "sol")))
        assert full is not None and few is not None and full.counted and not few.counted
        assert few.bandwidth == pytest.approx(full.bandwidth, rel=0.01)
        assert few.bytes_per_s == pytest.approx(full.bytes_per_s, rel=0.02)


def shown(kernel: KernelAnalysis, *, color: bool) -> str:
    return render("text", Analysis(kscope="0", kernels=[kernel]), Options(width=120, color=color))


@pytest.mark.parametrize("name", ["sol", "basic", "compute", "states", "launch", "time", "memory"])
def test_nothing_unknown_is_a_figure(name: str, kernel: Read) -> None:
    """No rate, share or time of zero is printed of what was not collected."""
    found = analyze_kernel(reduced.reduced(kernel("bank_conflict.slow"), name), "a")
    text = " ".join(shown(found, color=False).split())
    for zero in ("0 % of the memory roof", "DRAM 0 B/s", " 0 ns", "0.0 MB", "no floating-point work", "0 registers"):
        assert zero not in text
    if found.roofline is not None:
        assert found.roofline.bytes_per_s > 0


def test_silence_of_blind_rules_is_not_green(kernel: Read) -> None:
    few = shown(analyze_kernel(reduced.reduced(kernel("exp_chain.base"), "time"), "a"), color=True)
    line = next(line for line in few.splitlines() if "No suggestion" in line)
    assert "rules could not look" in line and "\x1b[32m" not in line
    bare = msgspec.structs.replace(analyze_kernel(kernel("exp_chain.base"), "a"), findings=[])
    full = shown(bare, color=True)
    green = next(line for line in full.splitlines() if "No suggestion" in line)
    assert "\x1b[32m" in green and "none found a fault" in green


def test_promises_without_a_cap_are_ranges(kernel: Read) -> None:
    """Device memory is full and only the code was collected: nothing in the report stops a promise of more loads."""
    full = analyze_kernel(kernel("dram_bound.triad"), "a")
    few = analyze_kernel(reduced.reduced(kernel("dram_bound.triad"), "source"), "a")
    assert full.next_step is not None and full.next_step.do == "stop"
    assert few.next_step is not None and few.next_step.do == "measure"
    promised = [f for f in few.findings if f.estimate is not None]
    assert promised and all(f.estimate.low == 0.966 and f.confidence < 0.5 for f in promised if f.estimate)
    assert all("not collected" in f.estimate.capped_by for f in promised if f.estimate)


@pytest.mark.parametrize(
    ("case", "code"), [("spill.slow", "MEM104"), ("sort16.insertion", "MEM105"), ("chol8.direct", "MEM101")]
)
def test_what_the_detailed_set_counts_at_instructions_only(case: str, code: str, kernel: Read) -> None:
    """Sectors and requests that only the memory tables hold are added up from the source counters."""
    full, few = (analyze_kernel(k, "a") for k in (kernel(case), reduced.reduced(kernel(case), "detailed")))
    for found in (full, few):
        assert found.next_step is not None and found.next_step.code == code
    gains = [next(f.estimate for f in found.findings if f.code == code) for found in (full, few)]
    assert gains[0] is not None and gains[1] is not None
    assert 2.0 < gains[1].speedup <= 1.1 * gains[0].speedup, "no more than the tables would allow"


@pytest.mark.parametrize("case", ["rope_bf16.pairs", "spill.slow", "atomics.slow", "staged_copy.base"])
def test_instructions_add_up_to_the_tables(case: str, kernel: Read) -> None:
    full, few = (Facts(k).counters.traffic for k in (kernel(case), reduced.reduced(kernel(case), "source")))
    for name in ("global_load_sectors", "global_store_sectors", "local_sectors", "global_load_requests"):
        assert getattr(few, name) == pytest.approx(getattr(full, name), rel=0.02, abs=1), name


def test_shared_memory_that_ldmatrix_reads_is_touched(kernel: Read) -> None:
    """sass__inst_executed_shared_loads is 0 for a kernel that loads by ldmatrix alone."""
    few = analyze_kernel(reduced.reduced(kernel("gemm_bf16.swizzled"), "counters"), "a")
    assert not any("no instruction touches it" in f.why for f in few.findings)
    assert few.next_step is not None and few.next_step.do == "measure"


def test_a_last_wave_is_foretold_by_the_number_of_blocks(kernel: Read) -> None:
    """1.02 waves: the last has six blocks. 1.29 waves on the same chip: it has one for each SM."""
    few, many = (
        analyze_kernel(reduced.reduced(kernel(case), "states"), case).verdict
        for case in ("gravity.blocks270", "qdot.to_float")
    )
    assert (few.regime, few.limiter) == ("overhead", "tail") and few.confidence <= SURE
    assert many.limiter != "tail"


@pytest.mark.parametrize("case", ["lut256.constant", "nf4.constant", "conv1x1.constant"])
def test_constants_that_lanes_index_are_memory(case: str, kernel: Read) -> None:
    assert analyze_kernel(reduced.reduced(kernel(case), "source"), case).verdict.regime in ("memory", "unknown")


def test_bytes_and_time_alone_name_device_memory(kernel: Read) -> None:
    """`--metrics dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum`."""
    full = kernel("dram_bound.triad")
    few = reduced.reduced(full, "time")
    names = ("dram__bytes_read.sum", "dram__bytes_write.sum")
    m = {**few.metrics, **{n: full.metrics[n] for n in names}}
    found = analyze_kernel(msgspec.structs.replace(few, metrics=Metrics(m, {})), "a")
    assert (found.verdict.regime, found.verdict.limiter) == ("memory", "dram_bandwidth")
    assert found.verdict.confidence <= 0.7, "what else is full was not collected"
    assert found.headroom is not None and found.headroom.speedup_bound < 1.1


def test_the_roofline_set_counts_operations(kernel: Read) -> None:
    full, few = (
        Facts(k).counters.roofline
        for k in (kernel("gemm_f32.naive"), reduced.reduced(kernel("gemm_f32.naive"), "roofline"))
    )
    assert full is not None and few is not None and full.main is not None and few.main is not None
    assert few.main.precision == full.main.precision == "fp32"
    assert few.main.flops == pytest.approx(full.main.flops, rel=0.01)
    assert few.main.peak == pytest.approx(full.main.peak, rel=0.01)


def test_textures_alone_are_not_l1(kernel: Read) -> None:
    """The memory tables hold of L1 what textures write back: 0 % of that is not 0 % of L1."""
    found = analyze_kernel(reduced.reduced(kernel("spill.slow"), "memory"), "a")
    assert "L1 and shared memory" not in {u.unit for u in found.utilization}


def test_unknown_memory_is_not_idle(kernel: Read) -> None:
    found = analyze_kernel(reduced.reduced(kernel("list_walk.serial"), "source"), "a")
    lat = next(f for f in found.findings if f.code == "LAT302")
    assert "memory runs at" not in lat.why and "was not collected" in lat.title
    assert lat.estimate is not None and lat.estimate.speedup == 1.0 and lat.estimate.high > 1.0


def test_code_that_cannot_be_read_names_what_reads_it(kernel: Read) -> None:
    own = reduced.reduced(kernel("exp_chain.base"), "no_sass")
    found = analyze_kernel(own, "a")
    assert found.next_step is not None and found.next_step.command == (
        "pip install nvidia-cuda-nvdisasm --upgrade && kscope analyze REPORT"
    )
    volta = msgspec.structs.replace(own, device=msgspec.structs.replace(own.device, cc=(7, 0), name="Tesla V100"))
    found = analyze_kernel(volta, "a")
    assert found.next_step is not None and found.next_step.command == (
        "KSCOPE_NVDISASM=/usr/local/cuda-13.0/bin/nvdisasm kscope analyze REPORT"
    )
    assert "does not read sm_70" in found.next_step.why and "--set full" not in found.next_step.why
    bare = msgspec.structs.replace(own, notes=(f"SASS could not be read: {NO_CODE}",))
    found = analyze_kernel(bare, "a")
    assert found.next_step is not None and (found.next_step.command or "").startswith("ncu ")


def test_products_that_nobody_counted_are_work(kernel: Read) -> None:
    """The detailed set counts scalar operations alone: a product on tensor cores is not "no floating-point work"."""
    found = analyze_kernel(reduced.reduced(kernel("gemm_bf16.mma"), "detailed"), "a")
    assert "no floating-point work" not in shown(found, color=False)
    assert found.roofline is not None and found.roofline.precision == "not collected"
    assert found.headroom is not None and found.headroom.bounded_by == "tensor pipe"
    plain = analyze_kernel(reduced.reduced(kernel("bank_conflict.slow"), "detailed"), "a")
    assert plain.roofline is not None and plain.roofline.precision == "none"


def test_a_promise_that_nothing_caps_ends_with_what_the_rule_computed(kernel: Read) -> None:
    found = analyze_kernel(reduced.reduced(kernel("list_walk.serial"), "source"), "a")
    assert all(f.estimate.high < 20 for f in found.findings if f.estimate is not None)
