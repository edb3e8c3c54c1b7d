"""Rows that start in the middle of a sector: the offset that moves them, rounded up."""

from __future__ import annotations

import re

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.values import Lanes
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import kernel_text
from kscope.fixes.memory.lane_mapping import sectors
from kscope.model.contract.fixes import Condition, Fix, Proof

LINE = 128  # bytes of a cache line, to which rows are aligned
SEEDS = (1, 2, 3, 4)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    at = {x.pc for x in asked.finding.locations}
    found = [i for i in range(len(code)) if code[i].pc in at and code.classes[i].space == "global"]
    if text is None or not found:
        return []
    brace = text.code.find("{")
    head, body = text.code[:brace], text.code[brace:]
    moved = []
    for kind, name in re.findall(r"\b([\w ]+?)\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])", head):
        size = SIZES.get(kind.replace("const", "").strip())
        for offset in re.findall(r"\b(?:int|unsigned|size_t|long long)\s+(\w+)\s*(?=[,)])", head):
            plus = re.findall(rf"=\s*{name}\s*(?:\+[^;,]*)?\+\s*{offset}\s*[;,]", body)
            if size is not None and len(plus) == 1 and len(re.findall(rf"\b{offset}\b", body)) == 1:
                moved.append((size, offset))
    if len(moved) != 1:
        return []
    size, offset = moved[0]
    was = max((_sectors(asked, i, even=False) or 0 for i in found), default=0)
    will = max((_sectors(asked, i, even=True) or was for i in found), default=was)
    if will >= was:
        return []
    count = LINE // size
    return [
        Fix(
            kind="align",
            title=f"{offset} a multiple of {count}: rows start at multiples of {LINE} bytes",
            language="cuda",
            code=f"{offset} = ({offset} + {count - 1}) / {count} * {count};  // where rows are laid out and launched",
            parameters={"elements": count},
            conditions=[
                reads(f"{offset} does nothing but move the rows", "its one use"),
                Condition(holds="whoever lays out the rows uses the same number", state="check"),
                Condition(holds="rows are as far apart as before", state="check", why="a multiple of 128 bytes"),
            ],
            proof=[
                Proof(
                    what="sectors of one access", before=was, after=will, unit="sectors",
                    how="the 32 lanes' addresses, with launch values of any size and with multiples of 64",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _sectors(asked: Asked, index: int, *, even: bool) -> int | None:
    """The most sectors of the values tried; None where the code does not tell."""
    code = asked.setting.code
    out = []
    for seed in SEEDS:
        given = Assumption(seed, asked.setting.block, even=even, scattered=False, opaque=True)
        address = Lanes(code, given).address(index)
        if isinstance(address, tuple):
            out.append(sectors(address, code.classes[index].bytes))
    return max(out) if len(out) == len(SEEDS) else None
