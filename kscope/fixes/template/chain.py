"""How much of a loop's arithmetic is one chain."""

from __future__ import annotations

from kscope.features.patterns.dependency_chains import recurrences
from kscope.fixes.given.setting import Setting

MADE = ("FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA", "IADD3", "IMAD")


def one_chain(setting: Setting) -> float | None:
    """Cycles of the longest chain that a loop carries, for each sum or product of its rounds."""
    code = setting.code
    most = max(recurrences(code), key=lambda r: r.latency, default=None)
    if most is None:
        return None
    return most.latency / max(1, sum(code[i].opcode in MADE for i in code.cfg.loops[most.loop].instructions))
