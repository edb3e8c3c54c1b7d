"""Tiles that travel from global to shared memory in a loop, and whether anything computes meanwhile."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.sass.listing import Listing
from kscope.isa.families import family

_COMPUTES = family("tile_use")
NEAR = 4  # of the tile's uses that may stand in the shadow of the copy without counting as overlap


class Copy(Struct, frozen=True):
    """An exposed copy: the loop, the loads (or LDGSTS) that start it, and where the loop waits for it. `ahead`: groups
    of copies that are started before the loop, which the wait could leave in flight; `left`: those it does leave."""

    loop: int
    loads: tuple[int, ...]
    waits: tuple[int, ...]
    asynchronous: bool
    ahead: int = 0
    left: int = 0


def exposed_copies(code: Listing) -> list[Copy]:
    """Loops that start a copy into shared memory and wait for it before anything uses an earlier tile.

    Two shapes: a global load whose value is stored to shared memory further down the same round, in a loop with a
    barrier; and cp.async with a wait that covers the copies just started. A load whose value is stored at the top of
    the next round, or use of an earlier tile between start and wait, is a pipeline.
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
            found = _asynchronous(code, number, body)
        else:
            found = _through_registers(code, number, body, uses)
        if found is not None and any("shared_read" in code.classes[i].kind for i in body):
            out.append(found)
    return out


def _through_registers(code: Listing, number: int, body: list[int], uses: list[int]) -> Copy | None:
    inside = set(body)
    pairs = []
    for store in body:
        if "shared_write" not in code.classes[store].kind:
            continue
        loads = {p for ps in code.defuse.sources(store).values() for p in ps}
        pairs += [(p, store) for p in loads if p in inside and code.classes[p].space == "global"]
    if not pairs or any(load > store for load, store in pairs):
        return None  # stored in the next round: the loop is pipelined through registers
    load, store = min(pairs, key=lambda pair: pair[1])  # all loads are under way when the first store waits
    if sum(load < u < store for u in uses) > NEAR:
        return None
    return Copy(number, tuple(sorted({a for a, _ in pairs})), tuple(sorted({b for _, b in pairs})), False)


def _asynchronous(code: Listing, number: int, body: list[int]) -> Copy | None:
    """A wait of the loop that covers copies started since the last use of a tile.

    LDGDEPBAR closes a group of copies, `DEPBAR.LE SB0, N` returns when all but the newest N closed groups have
    arrived (PTX ISA, cp.async.wait_group). So the copies that a wait may not leave in flight are found by going back
    from it, round the loop once, over N closed groups. Nothing is said where waits differ or where a group is closed
    on some ways only.
    """
    waits = [(i, left) for i in body if (left := _left(code, i)) is not None]
    closing = [i for i in body if code[i].opcode == "LDGDEPBAR"]
    if len({left for _, left in waits}) != 1 or not all(code.cfg.every_round(number, i) for i in closing):
        return None
    for wait, left in waits:
        place = body.index(wait)
        copies = _covered(code, [*reversed(body[:place]), *reversed(body[place + 1 :])], left)
        if copies:
            before = [i for i in code.where(lambda ins, op: ins.opcode == "LDGDEPBAR") if i < body[0]]
            ahead = sum(1 for i in before if not code.cfg.depth[i] and code.executed[i])
            return Copy(number, tuple(sorted(copies)), (wait,), True, ahead, left)
    return None


def _covered(code: Listing, back: list[int], left: int) -> list[int]:
    """The copies that a wait covers which leaves `left` groups in flight, none from before the last use of a tile.
    back: the round's instructions from the wait backwards."""
    closed = uses = 0
    copies: list[int] = []
    for i in back:
        opcode = code[i].opcode
        closed += opcode == "LDGDEPBAR"
        if opcode in _COMPUTES and not _never(code, i):
            uses += 1
            if copies or uses > NEAR:
                break
        elif opcode == "LDGSTS" and closed > left:
            copies.append(i)
    return copies


def _never(code: Listing, i: int) -> bool:
    """@!PT: what the compiler puts before LDGSTS on some chips, and nothing executes."""
    return code[i].guard is None and code[i].guard_negated


def _left(code: Listing, i: int) -> int | None:
    """How many groups of copies a wait leaves in flight; None for every other instruction."""
    ins = code[i]
    if ins.opcode != "DEPBAR" or len(ins.operands) < 2:
        return None
    board, left = ins.operands[:2]
    return left.value if board.kind == "scoreboard" and board.value == 0 and left.kind == "integer" else None
