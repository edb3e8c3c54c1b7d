"""Ranked findings as an order to work in: none beside one that it contradicts, none before what it pays only after, and
a word of why where the order is not that of gain.

Two fixes contradict each other where one takes more of what the other takes less of (`pulls` of a finding): registers,
shared memory, threads, the size of a tile. The one that ranks lower is set aside for information. A finding names the
findings that must come before it (`first`); where they were made and promise something, they do. The gains stay those
of each fix alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from kscope.model.contract.findings import Finding
from kscope.model.units import percent

WORDS = {
    "registers": ("more registers a thread", "fewer registers a thread"),
    "shared memory": ("more shared memory a block", "less shared memory a block"),
    "threads": ("more threads", "fewer threads"),
    "tile": ("more work a block", "less work a block"),
    "unrolling": ("more unrolling", "less unrolling"),
}
"""What fixes pull at, in words: more of it, less of it."""
CLEARLY = 1.02  # times a finding's gain, from which a larger one below it wants a word: what reports round away is none


def in_working_order(ranked: Sequence[Finding]) -> list[Finding]:
    """ranked: best first, information last. The same findings."""
    counted, info = _consistent([f for f in ranked if f.severity != "info"])
    counted = _prerequisites_first(counted)
    info += [structs.replace(f, first=[]) if f.first else f for f in ranked if f.severity == "info"]
    return [*(_reasoned(f, counted[i + 1 :]) for i, f in enumerate(counted)), *info]


def _consistent(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """(those that agree with all above them, those set aside)."""
    kept: list[Finding] = []
    aside: list[Finding] = []
    for f in findings:
        against = next(((g, pull) for g in kept for pull in f.pulls if _opposite(pull) in g.pulls), None)
        if against is None:
            kept.append(f)
            continue
        other, pull = against
        words = f"set aside: it takes {_says(pull)}, and {other.code} above takes {_says(_opposite(pull))}"
        aside.append(structs.replace(f, severity="info", order=words))
    return kept, aside


def _prerequisites_first(findings: Sequence[Finding]) -> list[Finding]:
    """Each finding behind those that it pays only after; what was not found, or promises nothing, is no condition."""
    present = {f.code for f in findings}
    out = [structs.replace(f, first=[c for c in f.first if c in present]) if f.first else f for f in findings]
    for f in list(out):
        for code in f.first:
            here = out.index(f)
            other = next((i for i, g in enumerate(out) if g.code == code), here)
            if other > here and f.code not in out[other].first:
                out.insert(here, out.pop(other))
    return out


def _reasoned(finding: Finding, below: Sequence[Finding]) -> Finding:
    """Why it stands above those below that promise more."""
    if finding.first:
        return structs.replace(finding, order=f"first {' and '.join(finding.first)}, then this")
    waiting = [g.code for g in below if finding.code in g.first]
    if waiting:
        pay = "pays" if len(waiting) == 1 else "pay"
        return structs.replace(finding, order=f"first: {' and '.join(waiting)} only {pay} after it")
    gain = finding.estimate.speedup if finding.estimate is not None else 1.0
    larger = [g for g in below if g.estimate is not None and g.estimate.speedup > CLEARLY * gain]
    if not larger:
        return finding
    most = max(larger, key=lambda g: g.estimate.speedup if g.estimate else 1.0)
    promised = most.estimate.speedup if most.estimate else 1.0
    if finding.estimate is None:
        why = f"before {most.code}, though that promises {promised:.2f}x: too little is sure of it"
    else:
        why = f"before {most.code}, which promises more ({promised:.2f}x): {_surer(finding, most)}"
    return structs.replace(finding, order=why)


def _surer(finding: Finding, other: Finding) -> str:
    """Why a smaller gain comes first, in words."""
    if finding.confidence > other.confidence:
        return f"this cause is surer ({percent(finding.confidence)} against {percent(other.confidence)})"
    ends = [f.estimate.low if f.estimate is not None else 1.0 for f in (finding, other)]
    return f"this brings {ends[0]:.2f}x at least, that {ends[1]:.2f}x"


def _opposite(pull: str) -> str:
    return ("-" if pull.startswith("+") else "+") + pull[1:]


def _says(pull: str) -> str:
    more, less = WORDS[pull[1:]]
    return more if pull.startswith("+") else less
