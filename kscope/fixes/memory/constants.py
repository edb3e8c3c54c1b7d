"""Tables in constant memory that lanes index apart: a copy in shared memory, where 32 words come at once."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Sequence

from kscope.fixes.given.conditions import reads
from kscope.fixes.given.rewrite import changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES, body, constants, evaluated
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

LARGEST = 16 * 1024  # bytes of a table that each block may well copy (judged: a third of what can be declared)
DRAWS = 1000
_TABLE = re.compile(r"__constant__\s+(?:const\s+)?([\w:]+)\s+(\w+)\s*((?:\[[^]]+\]\s*){1,2})[;={]", re.ASCII)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    loads = code.ran(code.where(lambda ins, op: ins.opcode == "LDC"))
    indexed = [i for i in loads if any(o.bases for o in code[i].operands)]
    used = places(setting, indexed)
    for place in used:
        lines = setting.lines(place.file)
        for number, text in enumerate(lines, 1):
            for match in _TABLE.finditer(text):
                kind, name, sizes = match.groups()
                dims = [evaluated(d, constants(lines)) for d in re.findall(r"\[([^]]+)\]", sizes)]
                shape = tuple(d for d in dims if d is not None)
                if kind not in SIZES or not any(re.search(rf"\b{name}\s*\[", p.text) for p in used):
                    continue
                if len(shape) == len(dims) and math.prod(shape) * SIZES[kind] <= LARGEST and SIZES[kind] == 4:
                    made = _copied(asked, place.file, number, name, kind, shape)
                    return [made] if made is not None else []
    return []


def _copied(asked: Asked, file: str, declared: int, name: str, kind: str, shape: tuple[int, ...]) -> Fix | None:
    count = math.prod(shape)
    setting = asked.setting
    lines = setting.lines(file)
    used = [p for p in places(setting, range(len(setting.code))) if p.file == file]
    inside = [p for p in used if re.search(rf"(?<![\w.])(?<!->){name}\s*\[", p.text) and p.number != declared]
    if not inside:
        return None
    opening = _opening(lines, name, [p.number for p in inside])
    if opening is None:
        return None
    thread = "threadIdx.x" if setting.block[1] * setting.block[2] == 1 else (
        "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
    )
    threads = "blockDim.x" if setting.block[1] * setting.block[2] == 1 else "blockDim.x * blockDim.y * blockDim.z"
    size, at = (f"[{count}]", "[i]") if len(shape) == 1 else (  # rows of odd length: a column is free of conflicts
        f"[{shape[0]}][{shape[1] | 1}]", f"[i / {shape[1]}][i % {shape[1]}]"
    )
    copy = (
        f"  __shared__ {kind} {name}_shared{size}; for (int i = {thread}; i < {count}; i += {threads}) "
        f"{name}_shared{at} = {name}{at}; __syncthreads();"
    )
    edits = changed(inside, lambda text: re.sub(rf"(?<![\w.])(?<!->){name}(?=\s*\[)", f"{name}_shared", text))
    first = lines[opening - 1]
    if any(e.line == opening for e in edits):
        return None
    brace = first.index("{") + 1
    edits.append(Edit(file=file, line=opening, was=first, becomes=f"{first[:brace]}\n{copy}{first[brace:]}"))
    apart, banks = _drawn(count) if len(shape) == 1 else _column(*shape)
    was, will = setting.occupancy(), setting.occupancy(more_shared=4 * count)
    fewer = was is not None and (will is None or will.blocks < was.blocks)
    return Fix(
        kind="copy_constants",
        title=f"{name} in shared memory",
        language="cuda",
        edits=sorted(edits, key=lambda e: e.line),
        conditions=[
            reads("all threads of the block get to the barrier", "it is the first line"),
            Condition(holds="indices are spread evenly" if len(shape) == 1 else "lanes are in rows of their own",
                      state="assumed", why="the figures are for such"),
        ],
        proof=[
            Proof(
                what="words that one access fetches one after the other", before=round(apart, 1),
                after=round(banks, 1), unit="wavefronts",
                how=f"{DRAWS} draws of 32 indices: distinct words of constant memory, the fullest of 32 banks"
                if len(shape) == 1 else "32 rows of one column: distinct words, the fullest of 32 banks",
            )
        ],
        costs=[f"{4 * count} bytes of shared memory a block"],
        price=None if fewer else asked.finding.estimate,
    )  # fmt: skip


def _alone(lines: Sequence[str], opening: int, name: str, used: Sequence[int]) -> bool:
    """Whether a kernel has all that is used of a table, element by element: an address goes on by rows, or is one of
    wider words, which a copy would have to be like the table for."""
    mine = body(lines, opening)
    text = "\n".join(lines[n - 1] for n in mine)
    head = lines[opening - 1][: lines[opening - 1].index("{")]
    return (
        all(n in mine for n in used) and head.count("(") <= head.count(")")
        and not re.search(rf"&\s*{name}\s*\[|\b{name}_shared\b", text)
    )  # fmt: skip


def _opening(lines: Sequence[str], name: str, used: Sequence[int]) -> int | None:
    """The line whose brace opens the kernel around lines that read a table, which a copy can stand for."""
    number = used[0]
    head = next((n for n in range(number, 0, -1) if "__global__" in lines[n - 1]), None)
    opening = next((n for n in range(head, number + 1) if "{" in lines[n - 1]), None) if head else None
    return opening if opening is not None and _alone(lines, opening, name, used) else None


def _column(rows: int, columns: int) -> tuple[float, float]:
    """The same of a column: lanes in rows one after the other."""
    banks = Counter(n % rows * (columns | 1) % 32 for n in range(min(32, rows)))
    return float(min(32, rows)), float(max(banks.values()))


def _drawn(count: int) -> tuple[float, float]:
    """Distinct words, and the most in one bank, of 32 indices below `count`: means of DRAWS."""
    generator = random.Random(count)
    distinct = fullest = 0
    for _ in range(DRAWS):
        words = {generator.randrange(count) for _ in range(32)}
        distinct += len(words)
        fullest += max(Counter(w % 32 for w in words).values())
    return distinct / DRAWS, fullest / DRAWS
