"""Counters that all blocks add to in global memory: a table for each block in shared memory, added up once."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES, constants, evaluated
from kscope.fixes.given.text import Span, index_of, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 24 * 1024  # bytes of a block's tables (judged: two blocks of a chip with 64 KB of shared memory)
COPIES = (32, 16, 8, 4)  # of the table, that lanes share out among themselves
PER_SM = 8  # blocks of the new grid for each SM (judged: what keeps all warps busy at 256 threads)
_TYPES = "|".join(("int", "unsigned", "float", "double"))
_ONCE = re.compile(r"\b(?P<type>int|unsigned|size_t)\s+(?P<name>\w+)\s*=\s*(?P<start>[^;,]*threadIdx\.x[^;,]*);\s*"
                   r"if\s*\(\s*(?P=name)\s*<\s*(?P<end>\w+)\s*\)")  # fmt: skip


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    text, launch = kernel_text(setting), setting.launch
    if text is None or launch is None or not setting.sms or launch.block[1] * launch.block[2] > 1:
        return []
    code = text.code
    found = [c for c in calls_of(code, "atomicAdd") if len(c.arguments) == 2]
    if len(found) != 1 or re.search(r"\breturn\b|__shared__|__syncthreads", code):
        return []
    (call,) = found
    target = re.fullmatch(r"&\s*(\w+)\s*\[(.*)\]", call.arguments[0], re.S)
    once = _ONCE.search(code)
    result = code[: call.start].rstrip()
    if target is None or once is None or not result.endswith((")", ";", "{", "}")):
        return []
    name, index = target[1], target[2].strip()
    kind = re.search(rf"\b({_TYPES})\s*\*\s*(?:__restrict__\s+)?{name}\b", code)
    lines = setting.lines(text.file)
    count = _range(index, constants(lines))
    per = index_of(once["start"], "")
    if kind is None or count is None or per is None or len(re.findall(rf"\b{name}\b", code)) != 2:
        return []
    size = SIZES[kind[1]]
    copies = next((c for c in COPIES if c * count * size <= MOST), 0)
    opening = code.find("{")
    closing = code.rstrip().rfind("}")
    if not copies or opening < 0 or not re.match(r"\s*atomicAdd", code[once.end() :]):
        return []
    table, step = f"{name}_block", f"gridDim.x * {per}"
    head = (
        f"\n  __shared__ {kind[1]} {table}[{count}][{copies}];"
        f"\n  for (int k = threadIdx.x; k < {count * copies}; k += blockDim.x) (&{table}[0][0])[k] = 0;"
        "\n  __syncthreads();\n "
    )
    tail = (
        "\n  __syncthreads();"
        f"\n  for (int k = threadIdx.x; k < {count}; k += blockDim.x) {{"
        f"\n    {kind[1]} sum = 0;"
        f"\n    for (int c = 0; c < {copies}; c++) sum += {table}[k][(c + k) % {copies}];"
        f"\n    atomicAdd(&{name}[k], sum);"
        "\n  }\n"
    )
    at = call.start + code[call.start :].index("&")
    span = code[at : at + len(call.arguments[0])]
    end = once["end"]
    spans: list[Span] = [
        (opening + 1, opening + 1, head),
        (once.start(), once.end(),
         f"for ({once['type']} {once['name']} = {once['start'].strip()}; {once['name']} < {end}; "
         f"{once['name']} += {step})"),
        (at, at + len(span), f"&{table}[{index}][threadIdx.x % {copies}]"),
        (closing, closing, tail),
    ]  # fmt: skip
    edits = spans_edited(setting, text, spans)
    blocks = min(launch.grid[0], PER_SM * setting.sms)
    atoms = setting.code.ran(setting.code.where(lambda ins, op: op.access in ("atomic", "reduction")))
    before = 32 * total(setting.code.executed, atoms)
    if not edits or before <= blocks * count:
        return []
    return [
        Fix(
            kind="aggregate",
            title=f"{name}[] summed up in shared memory by each block",
            language="cuda",
            code=f"{setting.name}<<<{blocks}, {launch.threads}>>>(...);",
            edits=edits,
            parameters={"entries": count, "copies": copies, "grid.x": blocks},
            conditions=[
                Condition(
                    holds=f"the index is below {count}", state="proved", why=f"`{index}` leaves nothing else",
                ),
                Condition(holds="all threads of the block get to the barriers", state="proved", why="no return before"),
                Condition(holds="the order of the sums does not matter", state="check", why="atomics have none"),
            ],
            proof=[
                Proof(
                    what="atomics on global memory", before=before, after=blocks * count, unit="atomics",
                    how=f"32 lanes of each warp's; {count} entries of {blocks} blocks",
                )
            ],
            costs=[f"{count * copies * size} bytes of shared memory a block"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _range(index: str, known: dict[str, int]) -> int | None:
    """Entries that a masked index reaches: `.. & 63`, of an integer; None where the text does not say it."""
    match = re.search(r"&\s*(\w+)$", index)
    mask = evaluated(match[1], known) if match is not None else None
    depth = sum((c in "([") - (c in ")]") for c in index[: match.start()]) if match is not None else 1
    return mask + 1 if mask is not None and not depth and mask & (mask + 1) == 0 else None
