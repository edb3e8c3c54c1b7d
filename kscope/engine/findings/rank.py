"""Severity, order and overlap of findings. Nothing is added up: each estimate stands for itself."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

import msgspec

from kscope.engine.findings.working_order import in_working_order
from kscope.model.contract.analysis import Finding, Severity

ROOFS = ("MEM107", "CMP208")
"""Findings that say the kernel is at its roof: they lead where nothing else pays."""
MEMORY = "MEM107"
"""Loads that queue for memory: full or not, more of them in flight only wait longer. It leads where nothing pays."""
GRID = "GRD401"
SAME_WAITS = frozenset({"LAT301", "LAT302", "LAT303", "GRD401", "GRD405"})
"""Findings whose fixes all keep more work in flight: what one of them hides, the others cannot hide again."""
DEBUG_BUILD = "CMP212"
"""Counts whatever it promises: nothing else can be said of such code."""
PROGRAM = "OVH6"
"""Rules on recordings of whole programs."""
WEIGHT = 2.0
"""Power of the confidence. Fitted (tools/ordering.py): which of two findings of one kernel names a labelled cause, as a
logistic function of the logarithms of gain and confidence. Confidence weighs 3.3 to 4.1 times as much as gain,
whichever of fixtures/h200 and three sets of public programs is left out (by themselves: 5, 3, 6, and 0.5 the smallest,
of 15 kernels): a large gain is the likelier to be an error of the promise, a sure cause is rarely one. Rounded down to
what orders each set as well as any larger power does, so that a gain still counts."""
PAYS, SURE = 1.1, 0.05
"""Gain, and gain times confidence, from which a fault is worth more attention than the roof."""


def severity(finding: Finding) -> Severity:
    """From the promised gain: below 3 % is information only. Findings without a figure keep their own, and so do those
    that were set aside (kscope.engine.findings.thin)."""
    if finding.estimate is None or finding.order:
        return finding.severity
    gain = finding.estimate.speedup
    if gain < 1.03:
        return "minor" if one_chain(finding) or finding.code == DEBUG_BUILD else "info"
    return "critical" if gain >= 2 else "major" if gain >= 1.25 else "minor"


def at_roof(finding: Finding) -> bool:
    """Whether it says that the kernel is at its roof. A unit that leads without being full is none."""
    return finding.code in ROOFS and finding.severity != "minor"


def one_chain(finding: Finding) -> bool:
    """An almost empty device on which each thread runs a chain that no other can share: a limit like a roof. The same
    work gains nothing, a method with more or shorter chains much (the promise's upper end)."""
    if finding.code != GRID or finding.estimate is None:
        return False
    from kscope.features.facts import CHAIN  # here, where it is there already: recordings do without all of it

    return finding.estimate.capped_by == CHAIN and finding.estimate.speedup < PAYS


def worth(finding: Finding) -> float:
    """Expected gain times confidence squared (WEIGHT), on a log scale so that 2x is twice as good as 1.41x. What is
    expected lies half way between the point and the low end: a promise that may come to nothing is worth less than one
    that cannot."""
    if finding.estimate is None:
        return 0.0
    point, low = finding.estimate.speedup, finding.estimate.low
    if finding.code.startswith(PROGRAM):  # the ends of a program's promise are what of the idle time may be left over
        low = point
    return math.log(max(point, 1.0) * max(low, 1.0)) / 2 * math.pow(finding.confidence, WEIGHT)


def pays(finding: Finding) -> bool:
    gain = finding.estimate.speedup if finding.estimate is not None else 1.0
    return gain >= PAYS and (gain - 1) * finding.confidence >= SURE


def lowers(finding: Finding, roofs: Container[str]) -> bool:
    """Whether it promises something and asks less of a unit that others call full: work that goes is what such a unit
    wants, so it is no roof to this fix, however little sure the promise is."""
    if finding.severity == "info" or finding.estimate is None:
        return False
    return any(unit in roofs for unit in finding.estimate.relieves or ())


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """The order to work in, with severities and overlaps filled in; a kernel at its roof leads with that, unless
    something else promises a real gain, and behind what asks less of the unit that is full."""
    findings = [msgspec.structs.replace(f, severity=severity(f)) for f in found]
    paying = any(pays(f) for f in findings)
    roofs = [f.roof for f in findings if f.roof]

    def key(f: Finding) -> tuple[int, float, str]:
        limit = at_roof(f) or one_chain(f) or f.code == MEMORY
        first = 0 if lowers(f, roofs) else 1 if limit else 2
        group = 3 if f.severity == "info" else 2 if paying else first
        return group, -worth(f), f.code

    return _overlaps(in_working_order(sorted(findings, key=key)))


def _overlaps(findings: list[Finding]) -> list[Finding]:
    """Name, for each finding, the others that blame the same instructions or hide the same waits: their gains cannot
    be added."""
    places = [{(p.function, p.pc) for p in f.locations} for f in findings]
    waits = [(f.code in SAME_WAITS or "+threads" in f.pulls) and f.severity != "info" for f in findings]
    out = []
    for i, f in enumerate(findings):
        shared = [
            g.code for j, g in enumerate(findings) if j != i and (places[i] & places[j] or (waits[i] and waits[j]))
        ]
        out.append(msgspec.structs.replace(f, overlaps=shared))
    return out
