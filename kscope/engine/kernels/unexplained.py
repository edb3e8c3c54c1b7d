"""Waits that no finding explains: said so, with the instructions at which they are sampled, rather than passed over."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.engine.kernels.reading import unreadable
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.quoted import quoted
from kscope.model.units import percent

LARGE = 0.15  # of all samples, from which a wait deserves a word; judged: one round in seven is what a reader looks for
SHOWN = 2  # instructions named
PLACE = 0.02  # of all samples: an instruction with less names nothing
WORK = frozenset({"selected", "not_selected"})
"""Warps that issue, or could: no wait."""
AT_THE_ROOF = ("MEM107", "CMP208", "CMP212")
"""Where these lead, every wait is the roof's, or the debug build's."""
MEMORY = "MEM107"
"""Where it names a memory that is not full, waits for it are no queue."""
SLOW_OR_FEW = ("LAT301", "GRD401", "OVH606")
"""Warps are too few to cover any latency."""
EXPLAINS: dict[str, tuple[str, ...]] = {
    "long_scoreboard": (
        "MEM", "LAT302", "LAT307", "LAT310", "ASY", "CMP201", "CMP202", "GRD404", "GRD405", *SLOW_OR_FEW,
    ),
    "lg_throttle": ("MEM", "LAT302"),
    "drain": ("MEM", "LAT302"),
    "tex_throttle": ("MEM",),
    "short_scoreboard": ("MEM", "CMP", "LAT303", "LAT304", "LAT307", *SLOW_OR_FEW),
    "mio_throttle": ("MEM", "CMP", "LAT304", "LAT307"),
    "barrier": ("LAT304", "LAT307", "LAT309", "CMP209", "CMP213", "GRD403", "ASY"),
    "wait": ("CMP", "LAT303", "LAT305", *SLOW_OR_FEW),
    "math_pipe_throttle": ("CMP", "LAT305", "MEM112", "MEM117"),
    "branch_resolving": ("LAT305", "CMP204", "CMP205", *SLOW_OR_FEW),
    "no_instructions": ("LAT306", *SLOW_OR_FEW),
    "imc_miss": ("MEM111",),
    "membar": ("LAT308", "MEM109"),
    "dispatch_stall": ("CMP210", "CMP2"),
    "warpgroup_arrive": ("CMP209", "CMP213", "ASY"),
}
"""Codes (or their beginnings) of the rules whose findings say why warps wait for this reason. Judged: what each rule's
evidence is about."""


NAMED = {"wait": "a fixed latency", "membar": "a memory fence", "imc miss": "constants", "drain": "stores to drain"}

HINTS = {
    "imc_miss": "; tables that a loop walks can miss their cache there, and do not in shared memory (explain MEM111)"
}
"""What is known of a wait for which there is no rule: in a public kernel whose warps waited so for 79 % of their time
tables in shared memory brought 3.1x, in one of ours whose constants stayed in their cache 0.9x."""


def unexplained(facts: Facts, findings: Iterable[Finding]) -> list[str]:
    """A sentence for every wait of LARGE or more of the samples that no finding with a gain explains. A kernel at a
    roof has none, nor one of specialised warps: those wait by design, and the pipeline says for what."""
    told = list(findings)
    codes = {f.code for f in told if f.severity != "info" and (f.code != MEMORY or f.severity != "minor")}
    if any(f.code in AT_THE_ROOF and f.severity != "minor" for f in told) or facts.specialized.pipeline is not None:
        return []
    out = []
    whole = "all samples" if facts.counters.stalls.samples else "the time of warps is a"
    for reason, share in sorted(facts.counters.stalls.share.items(), key=lambda row: -row[1]):
        why = EXPLAINS.get(reason, ())
        if reason in WORK or share < LARGE or any(code.startswith(why) for code in codes if why):
            continue
        name = reason.replace("_", " ")
        called = f"{NAMED[name]} ({name})" if name in NAMED else name
        out.append(
            f"Unexplained: {percent(share)} of {whole} wait for {called}, and no finding says why"
            f"{_where(facts, reason)}{_known(facts, reason)}"
        )
    return out


def _known(facts: Facts, reason: str) -> str:
    """The hint, where most of the wait is in a loop: short kernels miss every constant once."""
    code = facts.code
    if reason not in HINTS or code is None or reason not in code.stall:
        return ""
    waits = code.stall[reason]
    looped = sum(waits[i] for i in range(len(code)) if code.cfg.loop_of[i] is not None)
    return HINTS[reason] if 2 * looped > sum(waits) else ""


def _where(facts: Facts, reason: str) -> str:
    code = facts.code
    if code is None or reason not in code.stall:
        lost = "; where, its code would tell, which cannot be read here"
        return lost if unreadable(facts.kernel) else "; where, samples would tell (--section SourceCounters)"
    every = sum(code.samples)
    waits = code.stall[reason]
    hot = [i for i in code.hottest(range(len(code)), waits)[:SHOWN] if every and waits[i] >= PLACE * every]
    if not hot:
        return "; they are spread over the code"
    places = []
    for i in hot:
        ins = code[i]
        line = f", line {ins.line}" if ins.line is not None else ""
        places.append(f"{quoted(ins.text)} at {ins.pc:#x}{line} ({percent(waits[i] / every)})")
    return f"; most of them at {' and '.join(places)}"
