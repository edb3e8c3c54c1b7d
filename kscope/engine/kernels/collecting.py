"""The command that would tell: `ncu` with the sections that a report lacks, on the one launch that it is about."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from kscope.engine.kernels.reading import unreadable
from kscope.features.counters.collected import SECTIONS, Part
from kscope.features.facts import Facts
from kscope.model.contract.analysis import NotApplicable
from kscope.model.kernel import Kernel
from kscope.rules.base import Rule
from kscope.rules.registry import rule

ORDER = (
    "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Chart",
    "MemoryWorkloadAnalysis_Tables", "LaunchStats", "Occupancy", "WorkloadDistribution", "SchedulerStats",
    "WarpStateStats", "InstructionStats", "SourceCounters", "PmSampling",
)  # fmt: skip
"""The sections that rules read, as ncu lists them."""
SINCE = {"WorkloadDistribution": (2024, 1), "PmSampling": (2024, 1)}
"""First version of ncu with a section that older ones do not know, and refuse. Source: the sections of public full
reports, of 2023.2 without them and of 2024.1 with both."""
MOST = 6  # sections, from which naming them is longer than `--set full` and collects hardly less
NAME = re.compile(r"[A-Za-z_][\w$]*")
FULL = "--set full --import-source yes"
ASYNCHRONOUS = 90  # compute capability from which kernels keep other units busy (TMA, wgmma)
PROGRAM = "PROGRAM"
BARRIERS = ("SYNCS", "UTMALDG", "UBLKCP", "UTCBAR")


def command(facts: Facts, silent: Sequence[NotApplicable], before: int = 0) -> str | None:
    """`ncu --section ... -k NAME --launch-skip N -c 1 PROGRAM`; None where no section would bring more. silent: rules
    without their inputs; before: launches of the kernel that came earlier in the report."""
    kernel = facts.kernel
    wanted = sections(facts, silent)
    if not wanted or facts.chip.elder:
        return None
    what = " ".join(f"--section {name}" for name in wanted)
    if len(wanted) > MOST:
        what = FULL
    elif "SourceCounters" in wanted:
        what += " --import-source yes"
    return f"ncu {what} {one_launch(kernel, before)} {PROGRAM}"


def one_launch(kernel: Kernel, before: int) -> str:
    """`-k NAME --launch-skip N -c 1`: the kernel by its function's own name, which ncu compares whole. A name that is
    none (a report can hold any text) is left out."""
    name = kernel.name if NAME.fullmatch(kernel.name or "") else ""
    chosen = f"-k {shlex.quote(name)} " if name else ""
    if name and "kernel-name" in kernel.recorded:  # what it left out then were launches of the same name
        before += skipped(kernel)
    return f"{chosen}--launch-skip {max(0, before if name else kernel.index)} -c 1"


def skipped(kernel: Kernel) -> int:
    """Launches that the recording of the report left out before its first; 0 where it does not say."""
    said = kernel.recorded.get("launch-skip", "")
    return int(said) if said.isdecimal() and len(said) < 10 else 0


def sections(facts: Facts, silent: Sequence[NotApplicable]) -> list[str]:
    """What the report lacks of ORDER: for the verdict, and for the rules that could not look."""
    kernel, known = facts.kernel, facts.counters.collected
    wanted: set[str] = set()
    for part in known.missing:
        wanted.update(SECTIONS[part])
    for one in silent:
        kind = rule(one.code)
        if issubclass(kind, Rule):
            wanted.update(re.findall(r"--section (\w+)", kind.collect))
            if kind.needs_sass or kind.needs_samples:
                wanted.add("SourceCounters")
    if unreadable(kernel):  # the code is there, and no section makes it readable
        wanted.discard("SourceCounters")
    if unsampled(facts):
        wanted.add("PmSampling")
    elif facts.code is not None or kernel.device.sm < ASYNCHRONOUS:  # nothing there is worth a timeline
        wanted.discard("PmSampling")
    wanted -= {name for name in kernel.sections if not _empty(name, known.missing)}
    version = _version(kernel.tool_version)
    return [name for name in ORDER if name in wanted and (version is None or version >= SINCE.get(name, (0, 0)))]


def _empty(section: str, missing: Sequence[Part]) -> bool:
    """Whether the report names the section and holds nothing of it: counters were not permitted, or a replay failed."""
    parts = [part for part, names in SECTIONS.items() if section in names]
    return bool(parts) and all(part in missing for part in parts)


def unsampled(facts: Facts) -> bool:
    """Whether the kernel hands its work to other units (barriers of the asynchronous kind show it) and the report has
    no timeline of them: what its warps wait for then says little, and the rules of pipelines cannot look."""
    code = facts.code
    if code is None or facts.kernel.timelines is not None:
        return False
    return bool(code.where(lambda ins, op: ins.opcode in BARRIERS))


def _version(text: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d{4})\.(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else None
