"""Conditions of a change by what shows them. Only what was run, or read in the machine code or the launch, is called
proved; how the source's text reads is assumed."""

from __future__ import annotations

from collections.abc import Sequence, Sized

from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import pointer
from kscope.model.contract.fixes import Condition, Ground

WRITES = ("store", "atomic", "reduction")


def proved(holds: str, by: Ground, ran: int | Sized, why: str) -> Condition:
    """What was shown. by: lanes (addresses of lanes that were run), code (machine instructions that were looked at),
    launch (numbers of the launch and limits of the chip), values (values that the changed code was played with). ran:
    how many of them, or they themselves: without one nothing is proved, and the condition is the reader's to check."""
    count = ran if isinstance(ran, int) else len(ran)
    if count <= 0:
        return Condition(holds=holds, state="check", why=why)
    return Condition(holds=holds, state="proved", by=by, ran=count, why=why)


def reads(holds: str, why: str) -> Condition:
    """What the source's text says, as far as patterns over it tell."""
    return Condition(holds=holds, state="assumed", why=f"as the text reads: {why}")


def not_written(code: Listing, loads: Sequence[int]) -> list[Condition]:
    """That a kernel leaves alone what these load. Machine code shows through which parameters it stores; whether two of
    them point into one array only the caller knows."""
    stores = code.where(lambda ins, op: op.space in ("global", "generic") and op.access in WRITES)
    read, written = {pointer(code, i) for i in loads}, {pointer(code, i) for i in stores}
    apart = None not in read | written and not read & written
    return [
        shown(apart, "the kernel stores through other parameters than it loads these from", "code", [*loads, *stores],
              "address slices of its stores and of the loads", "where some of its accesses start is not known"),
        Condition(holds="none of those arrays overlap", state="check", why="two parameters may point into one array"),
    ]  # fmt: skip


def written_there(code: Listing, loop: int, loads: Sequence[int]) -> bool:
    """Whether a loop may store to what these load: it stores, and not through other parameters alone."""
    stores = [
        i for i in code.cfg.loop_body(loop)
        if code.classes[i].space in ("global", "generic") and code.classes[i].access in WRITES
    ]  # fmt: skip
    read, written = {pointer(code, i) for i in loads}, {pointer(code, i) for i in stores}
    return bool(stores) and (None in read | written or bool(read & written))


def shown(yes: bool, holds: str, by: Ground, ran: int | Sized, why: str, otherwise: str = "") -> Condition:
    """Proved where it came out so, else for the reader to check."""
    return proved(holds, by, ran, why) if yes else Condition(holds=holds, state="check", why=otherwise)
