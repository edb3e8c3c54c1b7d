"""Which words of constant memory are pointers, by how the code uses them."""

from __future__ import annotations

from kscope.features.sass.listing import Listing, once_per_code
from kscope.isa.families import family


@once_per_code  # every assumption about a function asks
def pointers(code: Listing) -> frozenset[int]:
    """Byte offsets in constant bank 0 of the words that are low halves of 64-bit parameters: read as the addend of a
    wide multiply-add, as a pair whose halves meet again in one instruction, or added with a carry into the next word.
    Two 32-bit parameters that are merely loaded together do none of this."""
    found: set[int] = set()
    low: dict[int, int] = {}
    for i, ins in enumerate(code.program.instructions):
        for place, operand in enumerate(ins.operands):
            if operand.kind != "constant" or operand.bank or operand.bases or not operand.whole:
                continue
            offset = operand.value
            if ins.opcode in family("constant_read"):
                for pair in range(0, len(ins.defs) - 1, 2):
                    if _meets(code, i, ins.defs[pair], ins.defs[pair + 1]):
                        found.add(offset + 4 * pair)
            elif ("WIDE" in ins.mods and place == 3) or "64" in ins.mods:
                found.add(offset)
            elif "X" in ins.mods:
                low[offset - 4] = low.get(offset - 4, 0) | 1
            elif ins.opcode.lstrip("U") in ("IADD3", "LEA", "IADD"):
                low[offset] = low.get(offset, 0) | 2
    return frozenset(found | {offset for offset, halves in low.items() if halves == 3})


def _meets(code: Listing, index: int, low: int, high: int) -> bool:
    apart = [False, False]
    for j in code.defuse.consumers(index):
        ins = code[j]
        if low in ins.uses and high in ins.uses:
            return True
        apart[0] |= low in ins.uses
        apart[1] |= high in ins.uses and "X" in ins.mods
    return all(apart)
