"""A realistic Analysis after design/ux.md's first sketch (a dev capture of an H200), and a hostile one."""

from __future__ import annotations

import msgspec

from kscope.model.contract.analysis import (
    Analysis,
    DeviceInfo,
    Estimate,
    Evidence,
    Finding,
    Headroom,
    HotInstruction,
    Input,
    KernelAnalysis,
    LaunchInfo,
    Location,
    NotApplicable,
    NvidiaFinding,
    Repeats,
    Roofline,
    RuleError,
    SkippedInput,
    Stall,
    Utilization,
    Verdict,
)

HOSTILE = "evil\x1b[31m\n</script>```|[red]`x`\u202e<b>&|[/red]\r\x07"
"""Everything a kernel name can try: terminal codes, line breaks, HTML, Markdown, rich markup, bidi override."""


def stall(reason: str, raw: float, adjusted: float | None = None) -> Stall:
    share = raw if adjusted is None else adjusted
    return Stall(reason=reason, share_raw=raw, share_adjusted=share, low=share - 0.01, high=share + 0.01)


def bank_conflicts() -> Finding:
    return Finding(
        rule="shared-bank-conflicts", code="MEM103", title="Shared memory accesses conflict 32 ways", regime="memory",
        severity="critical",
        estimate=Estimate(speedup=2.2, low=1.8, high=2.4, capped_by="L2", kind="modelled"),
        why="67,108,864 wavefronts where 2,097,152 would do: a 32-way conflict, by access pattern, not arbitration.",
        fix="pad the row: t[32][33], or swizzle the column with the row",
        evidence=[
            Evidence(metric="memory_l1_wavefronts_shared", value=67108864.0, unit="", note="per instruction"),
            Evidence(metric="memory_l1_wavefronts_shared_ideal", value=2097152.0),
        ],
        locations=[
            Location(
                function="transpose_tile", pc=0x2A0 + 0x20 * i, opcode="LDS", file="/data/dev_kernels.cu", line=75,
                share=0.0625, sass=f"LDS R{11 + i}, [R14+{i * 4:#x}]", source="out[y * n + x] = t[tx][ty + j];",
            )
            for i in range(4)
        ],
        confidence=0.9,
    )  # fmt: skip


def latency() -> Finding:
    return Finding(
        rule="exposed-memory-latency", code="LAT302", title="Loads are waited for at once", regime="memory",
        severity="major", estimate=Estimate(speedup=1.12, low=1.02, high=1.3, capped_by="DRAM", kind="modelled"),
        why="15 % of samples wait on long scoreboard while DRAM is at 33 %: one load in flight per thread.",
        fix="unroll the copy loop by 4 and issue the loads before the first use",
        evidence=[Evidence(metric="smsp__pcsamp_warps_issue_stalled_long_scoreboard", value=15.2, unit="%")],
        overlaps=["MEM103"], confidence=0.6,
    )  # fmt: skip


BODY = (
    "on shared memory: L1 data pipe 89 % busy while DRAM is at 33 % of peak (1.58 of 4.81 TB/s) and the issue slots at "
    "8 %. Four LDS replay 32 times each. Removing that leaves L2 as the next limit: up to 2.4x."
)


def kernel(name: str = "void transpose_tile<0>(float const*, float*, int)", us: float = 327.7) -> KernelAnalysis:
    info = Finding(
        rule="tail-effect", code="GRD402", title="The last wave is 12 % full", regime="overhead", severity="info",
        estimate=Estimate(speedup=1.01, low=1.0, high=1.02, capped_by="waves", kind="modelled"), why="12 % full.",
    )  # fmt: skip
    return KernelAnalysis(
        id=f"0:{name[:8]}", name="transpose_tile", demangled=name, input="bank_conflict.slow.ncu-rep", duration_us=us,
        device=DeviceInfo(name="NVIDIA H200", cc="9.0", sms=132),
        launch=LaunchInfo(grid=(256, 256, 1), block=(32, 8, 1), cluster=(1, 1, 1), registers=22,
                          shared_static=4096, shared_dynamic=0, waves=62.06),
        verdict=Verdict(
            regime="memory", limiter="shared_memory", confidence=0.92,
            sentence=f"MEMORY-BOUND {BODY}", body=BODY,
        ),
        headroom=Headroom(speedup_bound=2.4, bounded_by="L2"),
        roofline=Roofline(flops_per_s=2.1e11, bytes_per_s=1.58e12, intensity=0.13, ridge=13.9, pct_of_roof=32.8,
                          precision="fp32", peak_flops_per_s=6.69e13, peak_bytes_per_s=4.81e12),
        utilization=[
            Utilization(unit="compute", pct=11.2, metric="sm__throughput.avg.pct_of_peak_sustained_elapsed"),
            Utilization(unit="L1/shared", pct=89.1, metric="l1tex__throughput.avg.pct_of_peak_sustained_active"),
            Utilization(unit="L2", pct=41.0, metric="lts__throughput.avg.pct_of_peak_sustained_elapsed"),
            Utilization(unit="DRAM", pct=32.8, metric="dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        ],
        stalls=[
            stall("mio_throttle", 0.43), stall("barrier", 0.24, 0.15), stall("long_scoreboard", 0.15),
            stall("short_scoreboard", 0.12), stall("drain", 0.08), stall("wait", 0.004),
        ],
        findings=[bank_conflicts(), latency(), info],
        passed=["MEM101", "MEM102", "MEM104", "CMP201"],
        not_applicable=[NotApplicable(code="CMP204", why="sm__inst_executed_pipe_xu.sum was not collected; "
                                      "profile with --set full")],
        nvidia=[
            NvidiaFinding(rule="SharedMemoryConflicts", title="Shared Load Bank Conflicts", speedup_pct=86.2,
                          message="The memory access pattern for shared loads is bad. " * 3, type="global"),
            NvidiaFinding(rule="UncoalescedSharedAccess", title="Uncoalesced Shared Accesses", speedup_pct=93.4,
                          message="This kernel has uncoalesced shared accesses.", type="global"),
        ],
        hot=[
            HotInstruction(pc=0x2A0, sass="LDS R11, [R14]", share=0.25, stall="mio_throttle",
                           file="/data/dev_kernels.cu", line=75, source="out[y * n + x] = t[tx][ty + j];"),
            HotInstruction(pc=0x150, sass="STS [R9], R6", share=0.11, stall="barrier"),
        ],
    )  # fmt: skip


def analysis(*kernels: KernelAnalysis) -> Analysis:
    return Analysis(
        kscope="0.1.0",
        inputs=[Input(path="bank_conflict.slow.ncu-rep", kind="ncu", tool_version="2026.3.1")],
        kernels=list(kernels) or [kernel()],
    )


def many(count: int = 28) -> Analysis:
    """One long-named template a kernel, times falling; the second is a group of identical launches."""
    made = []
    for i in range(count):
        name = (
            f"void at::native::vectorized_elementwise_kernel<{i}, at::native::CUDAFunctor_add<float>, "
            "std::array<char*, 3ul>>(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
        )
        made.append(kernel(name, us=1000.0 / (i + 1)))
    repeats = Repeats(count=12, min_us=480.0, median_us=500.0, max_us=520.5, total_us=6000.0)
    made[1] = msgspec.structs.replace(made[1], repeats=repeats)
    return analysis(*made)


def hostile() -> Analysis:
    """Untrusted text in every field that comes from a report."""
    place = Location(
        function=HOSTILE, pc=16, opcode=HOSTILE, file=HOSTILE, line=3, share=0.5, sass=HOSTILE, source=HOSTILE
    )  # fmt: skip
    finding = Finding(
        rule="uncoalesced-global-access", code="MEM101", title=HOSTILE, regime="memory", severity="major",
        why=HOSTILE, fix=HOSTILE, locations=[place],
        evidence=[Evidence(metric=HOSTILE, value=HOSTILE, unit=HOSTILE, note=HOSTILE)],
        estimate=Estimate(speedup=3.0, low=2.0, high=4.0, capped_by=HOSTILE, kind="measured"),
    )  # fmt: skip
    bad = KernelAnalysis(
        id="0", name=HOSTILE, demangled=HOSTILE, input=HOSTILE, duration_us=None,
        device=DeviceInfo(name=HOSTILE, cc="9.0", sms=1),
        launch=LaunchInfo(grid=(1, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1), registers=1, shared_static=0,
                          shared_dynamic=0, waves=None),
        verdict=Verdict(regime="memory", limiter="dram_bandwidth", confidence=0.5, sentence=HOSTILE, body=HOSTILE),
        findings=[finding],
        nvidia=[NvidiaFinding(rule=HOSTILE, title=HOSTILE, message=HOSTILE, speedup_pct=None, type="")],
        errors=[RuleError(code="MEM102", message=HOSTILE)],
        not_applicable=[NotApplicable(code="MEM103", why=HOSTILE)], nvtx=[HOSTILE], notes=[HOSTILE],
        stalls=[stall(HOSTILE, 0.5, 0.4)], utilization=[Utilization(unit=HOSTILE, pct=50.0, metric=HOSTILE)],
        hot=[HotInstruction(pc=16, sass=HOSTILE, share=0.5, stall=HOSTILE, file=HOSTILE, line=3, source=HOSTILE)],
        roofline=Roofline(
            flops_per_s=0.0, bytes_per_s=0.0, intensity=None, ridge=None, pct_of_roof=0.0, precision=HOSTILE
        ),
        workload=HOSTILE,
    )  # fmt: skip
    skipped = [SkippedInput(input=HOSTILE, what=HOSTILE, message=HOSTILE)]
    return Analysis(kscope="0.1.0", inputs=[Input(path=HOSTILE, kind="ncu")], kernels=[bad], skipped=skipped)
