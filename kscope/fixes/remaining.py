"""What single changes take away, counted in code: calls, products, branches, stores."""

from __future__ import annotations

from collections import Counter

from kscope.features.patterns.fma_loops import FMA_OPCODES
from kscope.fixes.given.setting import Setting

INSTRUCTION = 16  # bytes


def by_pointer(setting: Setting) -> float:
    """Of all loops, those that call a function through a pointer."""
    code = setting.code
    calls = code.where(lambda ins, op: ins.opcode == "CALL" and any(o.vector for o in ins.operands))
    loops = {code.cfg.loop_of[i] for i in range(len(code)) if code.cfg.loop_of[i] is not None}
    return len({code.cfg.loop_of[i] for i in calls} & loops) / len(loops) if loops else len(calls)


def fused_products(setting: Setting) -> float:
    """Of numbers of two and four bytes, on the FMA pipe; what only moves a constant is none."""
    found = setting.code.where(lambda ins, op: ins.opcode in FMA_OPCODES)
    return sum(not any("RZ" in o.text for o in setting.code[i].operands[1:3]) for i in found)


def by_fragments(setting: Setting) -> float:
    """Products whose operands pass through registers."""
    code = setting.code
    return len(code.ran(code.where(lambda ins, op: "packed_mma_sync" in op.kind)))


def unjoined(setting: Setting) -> float:
    """Global stores of a kernel whose threads never wait for each other."""
    code = setting.code
    stores = code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "store")
    return 0 if code.where(lambda ins, op: ins.opcode == "BAR") else len(stores)


def unvoted(setting: Setting) -> float:
    """Branches that some lanes take and others do not, where no vote has put the elements in the order of their ways.
    """
    code = setting.code
    voted = code.where(lambda ins, op: ins.opcode in ("VOTE", "VOTEU"))
    found = code.where(lambda ins, op: ins.opcode == "BRX" or (ins.opcode == "BRA" and ins.guard is not None))
    return 0 if voted else len(found)


def unordered(setting: Setting) -> float:
    """Atomics of a kernel in which no warp has put its elements in an order, and no block has a list of them: no votes,
    no shuffles, no loads from shared memory."""
    code = setting.code
    ordered = code.where(lambda ins, op: ins.opcode in ("VOTE", "VOTEU", "SHFL", "MATCH")
                         or (op.space == "shared" and op.access == "load"))  # fmt: skip
    return 0 if ordered else len(code.where(lambda ins, op: op.access in ("atomic", "reduction")))


def loads_apart(setting: Setting) -> float | None:
    """Of the loads of the loop that has most of them, those that a branch has in front of them since the one before."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    inside = Counter(code.cfg.loop_of[i] for i in loads if code.cfg.loop_of[i] is not None)
    if not inside:
        return None
    most = inside.most_common(1)[0][0]
    mine = [i for i in loads if code.cfg.loop_of[i] == most]
    return len({code.cfg.block_of[i] for i in mine}) / len(mine)


def stops_in_loops(setting: Setting) -> float:
    """Barriers of a block in its loops."""
    code = setting.code
    return sum(code.cfg.loop_of[i] is not None for i in code.where(lambda ins, op: ins.opcode == "BAR"))


def undealt(setting: Setting) -> float:
    """Global loads of loops in which lanes hand nothing to each other."""
    code = setting.code
    loads = code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load")
    around = {code.cfg.loop_of[i] for i in code.where(lambda ins, op: ins.opcode == "SHFL")}
    return sum(code.cfg.loop_of[i] is not None and code.cfg.loop_of[i] not in around for i in loads)


def code_bytes(setting: Setting) -> float:
    """Of what ran: what is fetched."""
    return INSTRUCTION * len(setting.code.ran(range(len(setting.code))))
