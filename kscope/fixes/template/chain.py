"""How much of a loop's arithmetic is one chain."""

from __future__ import annotations

from kscope.features.patterns.dependency_chains import recurrences
from kscope.fixes.given.setting import Setting

COUNTED = ("IADD3", "VIADD", "IADD", "UIADD3")
MADE = ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA", "IADD3", "IMAD")


def one_chain(setting: Setting) -> float | None:
    """Cycles of the longest chain that a loop carries, for each sum or product of its rounds."""
    code = setting.code
    most = max(recurrences(code), key=lambda r: r.latency, default=None)
    if most is None:
        return None
    return most.latency / max(1, sum(code[i].opcode in MADE for i in code.cfg.loops[most.loop].instructions))


def a_round(setting: Setting) -> float | None:
    """Cycles of the longest chain that a loop carries, for each round that its number counts; None where none does."""
    code = setting.code
    most = max(recurrences(code), key=lambda r: r.latency, default=None)
    if most is None:
        return None
    steps = []
    for i in code.cfg.loops[most.loop].instructions:
        to, *given = code[i].operands if code[i].opcode in COUNTED else (None,)
        if to is not None and any(o.kind == "register" and o.text == to.text for o in given):
            steps += [abs(o.value) for o in given if o.kind == "integer" and isinstance(o.value, int)]
    return most.latency / max(steps) if max(steps, default=0) > 0 else None
