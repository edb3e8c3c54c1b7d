"""Conditions of a change by what shows them. Only what was run, or read in the machine code or the launch, is called
proved; how the source's text reads is assumed."""

from __future__ import annotations

from collections.abc import Sized

from kscope.model.contract.fixes import Condition, Ground


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


def shown(yes: bool, holds: str, by: Ground, ran: int | Sized, why: str, otherwise: str = "") -> Condition:
    """Proved where it came out so, else for the reader to check."""
    return proved(holds, by, ran, why) if yes else Condition(holds=holds, state="check", why=otherwise)
