"""A row a thread becomes a row a warp: lanes walk along the row side by side and add up what they have found."""

from __future__ import annotations

import re
from math import prod

from kscope.features.lanes.strides import Walks, lane_stride
from kscope.features.sass.columns import total
from kscope.features.sass.slices import gathers, pointer, steps_from_loaded
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import (
    Loop,
    Span,
    Text,
    closing,
    index_of,
    kernel_text,
    loops,
    outside,
    spans_edited,
    statement_end,
)  # fmt: skip
from kscope.fixes.memory.lane_mapping import sectors
from kscope.model.contract.fixes import Condition, Fix, Proof

LANES = 32
SHORTEST = 16  # rounds of a thread from which half of a warp has something to do in them (judged)
_ADDED = re.compile(r"(?<![\w.\]])(\w+)\s*\+=")
_WRITTEN = re.compile(r"(?:<<|>>|[-+*/%&|^])=|(?<![=<>!])=(?!=)|\+\+|--")
_ELSEWHERE = re.compile(r"\b(?:atomic\w*|break|continue|return|goto|asm|printf)\b|[(,]\s*&\s*\w")
_DECLARED = re.compile(r"\b(?:float|double|int|unsigned|auto|float2|float4|size_t|long long)\s+(\w+\s*=[^;]*);")
_CALLED = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_][\w:]*)\s*(?:<[\w\s,]*>\s*)?\(")
_KEPT = re.compile(  # what a thread leaves behind, but for a store of `name[row] = ..`
    r"\b(?:atomic\w*|goto|asm|printf|gridDim|blockIdx|static)\b|[(,]\s*&\s*\w|(?:[;{})]|\belse)\s*\*[\w\s+*()]*=(?!=)|\]\s*(?:\+\+|--)|/\*|"
    r"\]\s*(?:<<|>>|[-+*/%&|^])=|(?:\.|->)\s*\w+\s*(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--)|"
    r"(?:\+\+|--)\s*(?:\*|\(|\w+\s*(?:\[|\.|->))"
)


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    launch, text = setting.launch, kernel_text(setting)
    if launch is None or text is None or prod((*launch.block[1:], *launch.grid[1:])) > 1 or "__s" in text.code:
        return []
    index = re.search(r"\b(\w+)\s*=\s*([^;,]*\bthreadIdx\.x[^;,]*)(?=[;,])", text.code)
    walked = [one for one in loops(text.code) if _alone(one, text.code)]
    if index is None or len(walked) != 1 or len(loops(text.code)) != 1 or text.code.count("threadIdx") != 1:
        return []
    (loop,) = walked
    row, per = index[1], index_of(index[2], "")
    if per is None or launch.threads % LANES or not re.search(rf"\b{row}\b", text.code[loop.span[0] : loop.body[1]]):
        return []
    alone = _one_row(text.code, loop, index.span(), "\n".join(setting.lines(text.file)))
    spans = _spans(text, loop, row, index.span(2)) if alone else []
    moved = _moved(asked)
    edits = spans_edited(setting, text, spans) if spans else []
    if not edits or moved is None or moved[1] >= moved[0] or moved[2] < SHORTEST:
        return []
    grid = launch.grid[0] * LANES
    return [
        Fix(
            kind="lane_mapping",
            title=f"a warp for each {row}: its lanes read side by side",
            language="cuda",
            code=f"// launch: {setting.name}<<<{grid}, {launch.threads}>>>(...), {LANES} times as many blocks",
            edits=edits,
            parameters={"grid.x": grid},
            conditions=[
                reads("each round of the loop adds to sums alone", "it writes nothing else outside, they start at 0"),
                proved("blocks are whole warps, and a warp has one row", "launch", launch.threads // LANES,
                       f"{launch.threads} threads a block, rows by 32 of them"),
                Condition(holds="the order of the sums does not matter", state="check", why="it is another one"),
            ],
            proof=[
                Proof(
                    what="sectors of one warp load, the mean of those in the loop", before=round(moved[0], 1),
                    after=round(moved[1], 1), unit="sectors",
                    how="32 lanes side by side, from where each load goes in the next round",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _alone(loop: Loop, code: str) -> bool:
    """A loop that counts by one and only adds to sums that start at 0."""
    if loop.step not in (f"{loop.name}++", f"++{loop.name}"):
        return False
    inside = code[slice(*loop.body)]
    sums = set(_ADDED.findall(_DECLARED.sub("", inside)))
    rest = _ADDED.sub("", _DECLARED.sub(_made, inside))
    if not sums or _WRITTEN.search(rest) or _ELSEWHERE.search(rest) or "while" in code or _calls_for_effect(inside):
        return False
    if any(re.search(rf"(?<![\w.]){s}\b", rest) for s in sums):
        return False  # a round asks for what the rounds before it have added
    before = code[: loop.span[0]]
    once = all(len(re.findall(rf"(?<![\w.]){s}\s*[-+*/]?=(?!=)", before)) == 1 for s in sums)
    return once and all(re.search(rf"\b{s}\s*=\s*0(?:\.0?)?f?\s*[,;]", before) for s in sums)


def _made(declared: re.Match[str]) -> str:
    """What variables are made of."""
    return ", ".join(one.partition("=")[2] for one in split_declarators(declared[1])) + ";"


def _calls_for_effect(code: str) -> bool:
    """Whether a call is a statement of its own: it changes something else."""
    for call in _CALLED.finditer(code):
        before = code[: call.start()].rstrip()
        if call[1] in ("if", "for", "while", "switch", "return"):
            continue
        if not before or before.endswith((";", "{", "}", "else")):
            return True
        if before.endswith(")"):
            opened = max((m.end() for m in re.finditer(r"\b(?:if|for)\s*\(", before)), default=None)
            if opened is not None and closing(before, opened) == len(before) - 1:
                return True
    return False


def _one_row(code: str, loop: Loop, index: tuple[int, int], file: str) -> bool:
    """Whether all that a thread does is the row's: its stores are of the row, and no function changes what it is
    given."""
    opening = code.find("{")
    around = outside(code, [(0, opening + 1), index, (loop.span[0], loop.body[1])])
    if len(re.findall(r"\b(?:for|do)\b", code)) > 1 or re.match(r"\s*else\b", code[loop.body[1] :]):
        return False
    if _KEPT.search(around) or _calls_for_effect(around):
        return False
    called = {m[1] for m in _CALLED.finditer(code[opening:])}
    return not any(re.search(rf"[\w>*]\s+{re.escape(name)}\s*\([^()]*&[^()]*\)\s*\{{", file) for name in called)


def _spans(text: Text, loop: Loop, row: str, index: tuple[int, int]) -> list[Span]:
    code = text.code
    sums = sorted(set(_ADDED.findall(_DECLARED.sub("", code[slice(*loop.body)]))))
    head = code[slice(*loop.span)]
    first = f"({loop.start})" if re.search(r"[?<>&|^=!]", loop.start) else loop.start
    new = head.replace(f"= {loop.start};", f"= {'' if first == '0' else first + ' + '}threadIdx.x % {LANES};")
    new = new.replace(loop.step, f"{loop.name} += {LANES}")
    if new.count("threadIdx") != 1 or f"+= {LANES}" not in new:
        return []
    added = " ".join(f"{s} += __shfl_xor_sync(~0u, {s}, d);" for s in sums)
    out: list[Span] = [
        (*index, f"({code[slice(*index)].strip()}) / {LANES}"),
        (*loop.span, new),
        (loop.body[1], loop.body[1], f"\n  for (int d = {LANES // 2}; d; d >>= 1) {{ {added} }}"),
    ]
    stored = 0
    for match in re.finditer(rf"(?<=[;{{}}\s])(\w+)\[{row}\]\s*=(?!=)", code):
        end, before = statement_end(code, match.start()), code[: match.start()].rstrip()
        if match.start() < loop.body[1] or end is None or not before.endswith((";", "{", "}", ")", "else")):
            return []
        if len(list(split_declarators(code[match.start() : end]))) > 1:
            return []  # another store may follow
        asked = re.match(r"\s*else\b", code[end:]) is not None  # whose if would be this one
        out.append((match.start(), match.start(), f"{'{ ' if asked else ''}if (threadIdx.x % {LANES} == 0) "))
        out += [(end, end, " }")] if asked else []
        stored += 1
    written = re.findall(r"\]\s*=(?!=)", code)
    return out if stored and stored == len(written) else []


def _moved(asked: Asked) -> tuple[float, float, float] | None:
    """Mean sectors of a warp's load in the loop as it is and with lanes side by side, and rounds of a thread. Of the
    loads that read on where they stopped."""
    setting, code = asked.setting, asked.setting.code
    walks = Walks(code, setting.block)
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    block = setting.block
    looped = [i for i in loads if code.cfg.loop_of[i] is not None]
    known = [i for i in looped if lane_stride(code, i, block) != code.classes[i].bytes]
    apart = [i for i in known if not gathers(code, i) or steps_from_loaded(code, i)]
    pointers = {pointer(code, i) for i in apart}
    if not apart or None in pointers or not walks.on_and_on(apart) or setting.launch is None:
        return None
    weight = total(code.executed, apart)
    widths = {i: code.classes[i].bytes for i in apart}
    after = sum(sectors([n * w for n in range(LANES)], w) * code.executed[i] for i, w in widths.items()) / weight
    rounds = weight / len(pointers) / (setting.launch.warps * setting.launch.blocks)
    return float(LANES), after, rounds
