"""Counters that all blocks add to in global memory: a table for each block in shared memory, added up once."""

from __future__ import annotations

import re
from math import prod

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES, constants, evaluated
from kscope.fixes.given.text import Span, index_of, kernel_text, outside, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.quoted import quoted

MOST = 24 * 1024  # bytes of a block's tables (judged: two blocks of a chip with 64 KB of shared memory)
COPIES = (32, 16, 8, 4)  # of the table, that lanes share out among themselves
PER_SM = 8  # blocks of the new grid for each SM (judged: what keeps all warps busy at 256 threads)
_TYPES = "|".join(("int", "unsigned int", "unsigned", "float", "double"))
_ONCE = re.compile(r"\b(?P<type>int|unsigned|size_t)\s+(?P<name>\w+)\s*=\s*(?P<start>[^;,]*threadIdx\.x[^;,]*);\s*"
                   r"if\s*\(\s*(?P=name)\s*<\s*(?P<end>\w+)\s*\)")  # fmt: skip


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    text, launch = kernel_text(setting), setting.launch
    if text is None or launch is None or not setting.sms or prod((*launch.block[1:], *launch.grid[1:])) > 1:
        return []
    code = text.code
    call = _atomic(code)
    if call is None:
        return []
    target = re.fullmatch(r"&\s*(\w+)\s*\[(.*)\]", call.arguments[0], re.S)
    once = _ONCE.search(code)
    result = code[: call.start].rstrip()
    if target is None or once is None or not result.endswith((")", ";", "{", "}")):
        return []
    name, index = target[1], target[2].strip()
    kind = re.search(rf"[(,]\s*({_TYPES})\s*\*\s*(?:__restrict__\s+)?{name}\b", code)
    lines = setting.lines(text.file)
    count = masked(index, constants(lines))
    per = index_of(once["start"], "")
    if kind is None or count is None or per is None or len(re.findall(rf"\b{name}\b", code)) != 2:
        return []
    size = SIZES[kind[1]]
    copies = next((c for c in COPIES if c * count * size <= MOST), 0)
    opening = code.find("{")
    closing = code.rstrip().rfind("}")
    if not copies or opening < 0 or not _nothing_else(code, once, call, name):
        return []
    shape = (kind[1], name, count, copies)
    spans = _spans(code, shape, (once, per), (call.start, call.arguments[0], index), (opening, closing))
    edits = spans_edited(setting, text, spans)
    blocks = min(launch.grid[0], PER_SM * setting.sms)
    atoms = setting.code.ran(setting.code.where(lambda ins, op: op.access in ("atomic", "reduction")))
    before = 32 * total(setting.code.executed, atoms)
    if not edits or before <= blocks * count:
        return []
    size_all = count * copies * size
    return [_summed(asked, (name, index, count, copies, blocks), edits, before, size_all)]


def _atomic(code: str) -> Call | None:
    """The one atomicAdd of a kernel without barriers, shared memory and early returns."""
    found = [c for c in calls_of(code, "atomicAdd") if len(c.arguments) == 2]
    alone = len(found) == 1 and not re.search(r"\breturn\b|__shared__|__syncthreads", code)
    return found[0] if alone else None


def _nothing_else(code: str, once: re.Match[str], call: Call, name: str) -> bool:
    """Whether the kernel does nothing but add, an element a thread: another number of blocks would do the rest more or
    less often, and ask for other blocks."""
    if not re.match(r"\s*atomicAdd", code[once.end() :]) or name in ("k", "c", "sum") or f"{name}_block" in code:
        return False
    before = code[code.find("{") + 1 : once.start()]
    asked = re.search(r"\b(?:blockIdx|gridDim)\b", outside(code, [once.span()]))
    made = re.search(rf"\]{MODIFIED}|\+\+|--|[-+*/%&|^]=|[*.>]\s*\w+\s*=(?!=)|\)\s*;|#", before)
    steps = re.search(rf"[\w\])]{MODIFIED}|\+\+|--", code[call.start : call.end])
    return not asked and not made and not steps and re.fullmatch(r"\s*;[\s}]*", code[call.end :]) is not None


def _summed(
    asked: Asked, table: tuple[str, str, int, int, int], edits: list[Edit], before: float, size: int
) -> Fix:  # fmt: skip
    """table: its name, the index's text, entries, copies, and the blocks that have one; before: atomics of all lanes;
    size: bytes of a block's."""
    setting, (name, index, count, copies, blocks) = asked.setting, table
    threads = setting.launch.threads if setting.launch is not None else 0
    return Fix(
        kind="aggregate",
        title=f"{name}[] summed up in shared memory by each block",
        language="cuda",
        code=f"// launch: {setting.name}<<<{blocks}, {threads}>>>(...)",
        edits=edits,
        parameters={"entries": count, "copies": copies, "grid.x": blocks},
        conditions=[
            reads(f"the index is below {count}", f"{quoted(index)} leaves nothing else"),
            reads("all threads of the block get to the barriers", "no return before"),
            Condition(holds="the order of the sums does not matter", state="check", why="atomics have none"),
        ],
        proof=[
            Proof(
                what="atomics on global memory", before=before, after=blocks * count, unit="atomics",
                how=f"32 lanes of each warp's; {count} entries of {blocks} blocks",
            )
        ],
        costs=[f"{size} bytes of shared memory a block"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _spans(
    code: str, shape: tuple[str, str, int, int], walk: tuple[re.Match[str], str], atomic: tuple[int, str, str],
    braces: tuple[int, int],
) -> list[Span]:  # fmt: skip
    """The table cleared at the kernel's opening brace and added up at its closing one, the element's test as a loop
    over the grid, the atomic on the table. shape: type, name, entries, copies; walk: where the element is chosen,
    threads a block; atomic: where it is, its target and index."""
    (kind, name, count, copies), (once, per), (start, target, index), (opening, closing) = shape, walk, atomic, braces
    table, step = f"{name}_block", f"gridDim.x * {per}"
    head = (
        f"\n  __shared__ {kind} {table}[{count}][{copies}];"
        f"\n  for (int k = threadIdx.x; k < {count * copies}; k += blockDim.x) (&{table}[0][0])[k] = 0;"
        "\n  __syncthreads();" + ("" if not code[opening + 1 :].partition("\n")[0].strip() else "\n ")
    )
    tail = (
        "\n  __syncthreads();"
        f"\n  for (int k = threadIdx.x; k < {count}; k += blockDim.x) {{"
        f"\n    {kind} sum = 0;"
        f"\n    for (int c = 0; c < {copies}; c++) sum += {table}[k][(c + k) % {copies}];"
        f"\n    atomicAdd(&{name}[k], sum);"
        "\n  }\n"
    )
    at = start + code[start:].index("&")
    end = once["end"]
    return [
        (opening + 1, opening + 1, head),
        (once.start(), once.end(),
         f"for ({once['type']} {once['name']} = {once['start'].strip()}; {once['name']} < {end}; "
         f"{once['name']} += {step})"),
        (at, at + len(target), f"&{table}[{index}][threadIdx.x % {copies}]"),
        (closing, closing, tail),
    ]  # fmt: skip


def masked(index: str, known: dict[str, int]) -> int | None:
    """Entries that a masked index reaches: `.. & 63`, of an integer; None where the text does not say it."""
    match = re.search(r"&\s*(\w+)$", index)
    bare = index
    while (less := re.sub(r"\([^()]*\)|\[[^][]*\]", "", bare)) != bare:
        bare = less
    if re.search(r"[|^?:=]|&&", bare):
        return None  # what binds less: the mask is not of all of it
    mask = evaluated(match[1], known) if match is not None else None
    if match is None or mask is None or mask & (mask + 1):
        return None
    depth, loose = 0, False
    for c in index[: match.start()]:
        depth += (c in "([") - (c in ")]")
        loose = loose or (not depth and c in "|^?:,=")  # what binds less than the mask does
    return None if depth or loose else mask + 1
