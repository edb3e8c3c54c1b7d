"""Control fields in words."""

from __future__ import annotations

from kscope.model.program import Control

_SLOTS = "ABC"


def words(control: Control, *, writes: str = "written", reads: str = "read") -> str:
    """What the scheduling fields of an instruction ask for: "waits for SB1; sets SB0 when loaded; stall 4".

    A scoreboard counts up at issue and down at the event named: `writes` is that of the result ("loaded" for a load),
    `reads` that of the operands.
    """
    parts = []
    if control.waits:
        parts.append("waits for " + ", ".join(f"SB{n}" for n in control.waits))
    if control.write_barrier is not None:
        parts.append(f"sets SB{control.write_barrier} when {writes}")
    if control.read_barrier is not None:
        parts.append(f"sets SB{control.read_barrier} when operands are {reads}")
    parts.append(f"stall {control.stall}")
    if control.yields:
        parts.append("yields")
    if control.reuse:
        parts.append("keeps " + ", ".join(_SLOTS[n] for n in range(3) if control.reuse >> n & 1))
    return "; ".join(parts)
