"""How lanes share global accesses: unit stride, neighbours at adjacent offsets of one base."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kscope.features.profile.code import Code
from kscope.features.profile.excess import SECTORS
from kscope.features.sass.columns import Column
from kscope.features.sass.slices import gathers

APART = 0.7  # sectors over lanes from which every lane is somewhere else
WIDE = 16  # bytes a lane of the widest load that all chips have
ADDRESS = re.compile(r"\[([^\[\]]*?)(?:\+(-?0x[0-9a-f]+))?\]")


def contiguous(code: Code) -> list[int]:
    """Global loads and stores under 16 bytes a lane whose lanes together fill the sectors that they touch: unit
    stride. A load that all lanes share (one sector) is not narrow, it is uniform."""
    sectors = code.column(SECTORS)
    out = []
    for i in code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")):
        width, executed = code.classes[i].bytes, code.executed[i]
        if not 0 < width < WIDE or not executed or sectors is None:
            continue
        lanes = code.threads[i] / executed if code.threads[i] else 32.0
        per_request = sectors[i] / executed
        needed = max(1.0, lanes * width / 32)
        if lanes > 24 and needed * 0.8 <= per_request <= needed * 1.1 + 0.1 and not gathers(code, i):
            out.append(int(i))
    return out


def mergeable(code: Code) -> list[tuple[int, ...]]:
    """Groups of same-width global accesses at adjacent offsets of one unchanged base register pair in one block,
    with no store or barrier between them (for loads), as ascending instruction indices."""
    groups = []
    for block in code.cfg.blocks:
        runs: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for i in range(block.start, block.end):
            ins, op = code[i], code.classes[i]
            if op.access in ("store", "atomic", "reduction") or "barrier" in op.kind or "fence" in op.kind:
                runs = {k: v for k, v in runs.items() if k[0] == "store"} if op.access == "store" else {}
            if (
                op.space == "global"
                and op.access in ("load", "store")
                and 0 < op.bytes < WIDE
                and not ins.guard_negated
            ):
                match = ADDRESS.search(next((o for o in ins.operands if "[" in o and "64" in o), ""))
                if match:
                    key = (op.access, match[1], op.bytes)
                    offset = int(match[2], 16) if match[2] else 0
                    runs.setdefault(key, []).append((offset, i))
            for key in list(runs):
                base = {r for n, r in _registers(key[1]) if n}
                if base & set(ins.defs):
                    groups += _adjacent(runs.pop(key), key[2])
        for (_, _, width), found in runs.items():
            groups += _adjacent(found, width)
    return [g for g in groups if code.executed[g[0]]]


def _registers(text: str) -> list[tuple[bool, int]]:
    """(is a vector register, number) of each register in an address text; a .64 base is two."""
    out = []
    for uniform, number in re.findall(r"(?<![A-Z])(U?)R(\d+)", text):
        n = int(number)
        out += [(not uniform, n), (not uniform, n + 1)]
    return out


def _adjacent(found: list[tuple[int, int]], width: int) -> list[tuple[int, ...]]:
    """Runs of offsets that follow each other, cut into pieces of at most 16 bytes."""
    found.sort()
    pieces: list[list[int]] = []
    last = None
    for offset, index in found:
        if last is not None and offset == last + width and len(pieces[-1]) * width < WIDE:
            pieces[-1].append(index)
        else:
            pieces.append([index])
        last = offset
    return [tuple(sorted(p)) for p in pieces if len(p) > 1]


def apart(code: Code, members: Iterable[int], sectors: Column) -> list[int]:
    """Those of the accesses that touch about a sector for every active lane."""
    out = []
    for i in members:
        runs = max(code.executed[i], 1)
        lanes = code.threads[i] / runs if code.threads[i] else 32.0
        if sectors[i] > APART * lanes * runs:
            out.append(i)
    return out
