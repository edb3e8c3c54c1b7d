"""The text of a kernel whose threads carry several chains: some neighbouring lanes for each thread, each with a part of
its chains, which the first of them takes over behind the loop, so that the end is the text's."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.given.text import Span, indented
from kscope.fixes.rows.function import Function
from kscope.fixes.rows.regrouped import applied
from kscope.fixes.tiling.chains import Chains
from kscope.fixes.tiling.smaller import BLOCK, PLACE, THREAD, spans

WARP = 32
LANE, GROUP, AT, PIECE, OF = "lane_n", "group_n", "at_n", "piece_n", "of_n"


class Plan(Struct, frozen=True):
    """Pieces of a block; lanes for each thread of pieces from `whole` on."""

    pieces: int
    lanes: int
    whole: int = 0


def rewritten(fn: Function, source: Function, one: Chains, plan: Plan) -> list[Span]:
    """Spans of the function's text; none where its places are asked for in another way. source: the text that has the
    chains, which may be another one of the same."""
    code, opened = fn.code, fn.opened
    taken = set(re.findall(r"\w+", source.code)) & {LANE, GROUP, AT, PIECE, OF, THREAD, BLOCK}
    if taken or not PLACE.search(code, opened) or (plan.whole and re.search(r"\bgridDim\b", code)):
        return []
    first, end = opened + 1, len(code.rstrip()) - 1
    mine = [*_chained(source.code, one, plan.lanes), *_placed(source.code, opened, plan)]
    behind = "" if code[first] == "\n" else "\n "
    if not plan.whole and source is fn:
        return [(first, first, f"\n  {_places(plan)}{behind}"), *mine]
    stop = len(source.code.rstrip()) - 1
    inner = applied(source.code[first:stop], [(a - first, b - first, new) for a, b, new in mine])
    if not plan.whole:
        lines = "\n".join(f"  {line}" for line in indented(inner).split("\n"))
        return [(first, end, f"\n  {_places(plan)}\n{lines}\n")]
    was = spans(code, plan.pieces) if plan.pieces > 1 else [(first, first, "")]
    lines = "\n".join(f"    {line}" for line in indented(inner).split("\n"))
    put = f"\n  if (blockIdx.x >= {plan.whole}) {{\n    {_places(plan)}\n{lines}\n    return;\n  }}"
    # What stands there first are the places of the whole ones.
    (at, to, own), *rest = was or [(first, first, "")]
    return [(at, to, put + (own or behind)), *rest] if was else []


def _places(plan: Plan) -> str:
    """The block and the thread that a thread stands for, and which of its lanes it is."""
    p, n = plan.pieces, plan.lanes
    at, piece = "blockIdx.x", f"blockIdx.x / {n}"
    out = "const unsigned "
    if plan.whole:
        at, piece = AT, PIECE
        out += f"{AT} = blockIdx.x - {plan.whole}, {PIECE} = {plan.whole} + {AT} / {n}, "
    of = f"{at} / {n * p}" if not plan.whole else piece if p == 1 else f"{piece} / {p}"
    before = "" if p == 1 else f"{piece} % {p} * blockDim.x + "
    return (
        f"{out}{BLOCK} = {of}, {LANE} = threadIdx.x % {n},\n"
        f"      {THREAD} = {before}({at} % {n} * blockDim.x + threadIdx.x) / {n};"
    )


def _placed(code: str, opened: int, plan: Plan) -> list[Span]:
    wide = "blockDim.x" if plan.pieces == 1 else f"(blockDim.x * {plan.pieces})"
    become = {"threadIdx": THREAD, "blockIdx": BLOCK, "blockDim": wide,
              "gridDim": f"(gridDim.x / {plan.pieces * plan.lanes})"}  # fmt: skip
    return [(*m.span(), become[m[1]]) for m in PLACE.finditer(code, opened) if become[m[1]] != m[0]]


def _chained(code: str, one: Chains, lanes: int) -> list[Span]:
    """What each lane takes in front of the loop, less statements in it, and what the first lane takes over."""
    each = len(one.states) // lanes
    before = [f"{name} = {_which([one.states[n + k * each][s] for k in range(lanes)])};"
              for n in range(each) for s, name in enumerate(one.states[n])]  # fmt: skip
    out = list[Span]()
    for words in one.chosen:
        for n in range(each):
            values = [words[n + k * each].text for k in range(lanes)]
            if len(set(values)) > 1:
                name = f"{OF}{len(out)}"
                out.append((words[n].at, words[n].at + len(words[n].text), name))
                before.append(f"const auto {name} = {_which(values)};")
    for span in (s for part in one.parts[each:] for s in part):
        start = span[0] - (len(code[: span[0]]) - len(code[: span[0]].rstrip(" \t")))
        out.append((start, span[1], ""))
    bits = "~0u" if lanes == WARP else f"{(1 << lanes) - 1}u << (threadIdx.x % {WARP} / {lanes} * {lanes})"
    after = [f"const unsigned {GROUP} = {bits};"]
    for k in reversed(range(lanes)):  # its own last: the others are of the same name until then
        after += [f"{one.states[n + k * each][s]} = __shfl_sync({GROUP}, {name}, {k}, {lanes});"
                  for n in range(each) for s, name in enumerate(one.states[n])]  # fmt: skip
    after.append(f"if ({LANE} != 0) return;")
    start, end = one.loop
    indent = code[code.rfind("\n", 0, start) + 1 : start]
    lead = f"\n{indent}" if not indent.strip() else "\n  "
    return [(start, start, "".join(b + lead for b in before)), *out, (end, end, "".join(lead + a for a in after))]


def _which(values: list[str]) -> str:
    """Of a value for each lane a lane's own."""
    *some, last = values
    return "".join(f"{LANE} == {k} ? {value} : " for k, value in enumerate(some)) + last
