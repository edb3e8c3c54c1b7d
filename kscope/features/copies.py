"""Tiles that travel from global to shared memory in a loop, and whether anything computes meanwhile."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.listing import Listing

_COMPUTES = frozenset({"LDS", "LDSM", "HMMA", "IMMA", "DMMA", "QMMA", "FFMA", "HFMA2", "DFMA", "FFMA2"})
NEAR = 4  # of the tile's uses that may stand in the shadow of the copy without counting as overlap


class Copy(Struct, frozen=True):
    """An exposed copy: the loop, the loads (or LDGSTS) that start it, and where the loop waits for it."""

    loop: int
    loads: tuple[int, ...]
    waits: tuple[int, ...]
    asynchronous: bool


def exposed_copies(code: Listing) -> list[Copy]:
    """Loops that start a copy into shared memory and wait for it in the same round, before anything uses the tile.

    Two shapes: a global load whose value is stored to shared memory further down the same round, in a loop with a
    barrier; and cp.async with a wait for all of it behind it. A load whose value is stored at the top of the next
    round, or use of an earlier tile between start and wait, is a pipeline.
    """
    out = []
    for number, loop in enumerate(code.cfg.loops):
        body = [i for i in loop.instructions if code.executed[i] > 0]
        if not loop.innermost and not any(code[i].opcode == "BAR" for i in code.cfg.loop_body(number)):
            continue
        if not any(code[i].opcode == "BAR" for i in body):
            continue
        uses = [i for i in body if code[i].opcode in _COMPUTES]
        if any(code.classes[i].access == "async_copy" for i in body):
            found = _asynchronous(code, number, body, uses)
        else:
            found = _through_registers(code, number, body, uses)
        if found is not None and any(code[i].opcode in ("LDS", "LDSM") for i in body):
            out.append(found)
    return out


def _through_registers(code: Listing, number: int, body: list[int], uses: list[int]) -> Copy | None:
    inside = set(body)
    pairs = []
    for store in body:
        if code[store].opcode not in ("STS", "STSM"):
            continue
        loads = {p for ps in code.defuse.sources(store).values() for p in ps}
        pairs += [(p, store) for p in loads if p in inside and code.classes[p].space == "global"]
    if not pairs or any(load > store for load, store in pairs):
        return None  # stored in the next round: the loop is pipelined through registers
    load, store = min(pairs, key=lambda pair: pair[1])  # all loads are under way when the first store waits
    if sum(load < u < store for u in uses) > NEAR:
        return None
    return Copy(number, tuple(sorted({a for a, _ in pairs})), tuple(sorted({b for _, b in pairs})), False)


def _asynchronous(code: Listing, number: int, body: list[int], uses: list[int]) -> Copy | None:
    copies = [i for i in body if code[i].opcode == "LDGSTS"]
    waits = [i for i in body if code[i].opcode == "DEPBAR" and code[i].operands[:2] == ("SB0", "0x0")]
    others = [i for i in body if code[i].opcode == "DEPBAR" and code[i].operands[:1] == ("SB0",) and i not in waits]
    if not copies or not waits or others:
        return None
    wait = next((w for w in waits if w > copies[-1]), None)
    if wait is None or sum(copies[-1] < u < wait for u in uses) > NEAR:
        return None
    return Copy(number, tuple(copies), (wait,), True)
