"""Sums of very different lengths, one a thread: each in parts by several blocks, which add them up."""

from __future__ import annotations

import random
import re

from msgspec import Struct

from kscope.features.sass.slices import pointer
from kscope.fixes.atomics.reading import one_each, plain_ends
from kscope.fixes.given.conditions import WRITES, proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Loop, Span, asked_here, hidden, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 32  # parts of a sum: blocks that find nothing to do cost, too (judged)
DRAWN, LONGEST = 64, 300  # sums that are played, and the rounds of the longest
TOGETHER = ("SHFL", "VOTE", "MATCH", "REDUX")
_TYPES = "float|double|int|unsigned"  # that atomicAdd takes
_CALLS = frozenset({
    "fabsf", "fabs", "sqrtf", "rsqrtf", "expf", "__expf", "logf", "__logf", "fmaxf", "fminf", "max", "min", "__ldg",
    "float", "double", "int", "__half2float", "__bfloat162float", "fmaf", "size_t",
})  # fmt: skip
_STORE = re.compile(r"\s*(?P<name>\w+)\s*\[(?P<at>[^][;]*)\]\s*=\s*(?P<sum>\w+)\s*;\s*\}\s*$")


class _Sum(Struct, frozen=True):
    """`for (r = first; r < end; r++) sum += ..;` and `name[at] = sum;`, the kernel's last words."""

    loop: Loop
    name: str
    at: str
    sum: str
    kind: str
    store: tuple[int, int]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, price = asked.setting, asked.setting.launch, asked.finding.estimate
    text = kernel_text(setting)
    found = _found(text.code) if text is not None else None
    if text is None or found is None or launch is None or price is None or max(launch.grid[1:]) > 1:
        return []
    parts = min(MOST, 1 << max(0, int(price.speedup).bit_length() - 1))
    if parts < 2 or not _alone(setting) or not one_each(setting, text, found.at):
        return []
    if not asked_here(setting.code, text, "CTAID") or hidden(text.code, setting.lines(text.file)):
        return []
    edits, code = spans_edited(setting, text, _spans(text.code, found)), setting.code
    grid = f"dim3({launch.grid[0]}, {parts})"
    return [
        Fix(
            kind="lane_mapping",
            title=f"each sum in {parts} parts, by as many blocks, which add them up",
            language="cuda",
            code=f"// {found.name} is zero before: cudaMemsetAsync({found.name}, 0, bytes)\n"
                 f"// launch: {setting.name}<<<{grid}, dim3{launch.block}>>>(...)",
            edits=edits,
            parameters={"grid.y": parts},
            conditions=[
                shown(_played(parts) > 0, "each round of a sum is done once", "values", _played(parts),
                      "sums of random lengths, empty ones too"),
                proved("each thread works alone, and stores once", "code", code,
                       "no barrier, no shared memory, no exchange of lanes, no atomic; one store, not in a loop"),
                reads("each element is one thread's", "its index is the thread's number in the grid"),
                reads("nothing but the sum is carried from round to round", f"{found.sum} += stands alone in the loop"),
                Condition(holds=f"{found.name} is zero before the launch", state="check", why="parts are added to it"),
                Condition(holds="the order in which a sum is added up does not matter", state="check",
                          why="parts of floats round differently"),
                Condition(holds=f"{found.name} is not what the kernel reads", state="check",
                          why="two parameters may point into one array"),
            ],
            proof=[
                Proof(what="rounds that one block does of the longest sum, a share", before=1, after=1 / parts,
                      how=f"every {parts}th round, from the block's own number on"),
            ],
            costs=["sums in another order from run to run"],
            price=None,  # measured: 1.73x where the finding, which is about even work however it comes about, has 19.6x
        )
    ] if edits else []  # fmt: skip


def _alone(setting: Setting) -> bool:
    """Whether no thread needs another, and each stores one value behind its loops, where it loads nothing from."""
    code = setting.code
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space in ("shared", "local")
                          or ins.opcode in TOGETHER)  # fmt: skip
    writes = code.ran(code.where(lambda ins, op: op.access in WRITES))
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    if together or len(writes) != 1 or code.classes[writes[0]].access != "store":
        return False
    to, of = pointer(code, writes[0]), {pointer(code, i) for i in loads}
    return code.cfg.loop_of[writes[0]] is None and to is not None and None not in of and to not in of


def _found(code: str) -> _Sum | None:
    """The one loop of a kernel and the store behind it, the last statement."""
    every, opening = loops(code), code.find("{")
    if len(every) != 1 or re.search(r"blockIdx\.y|gridDim|\breturn\b|\basm\b|__shared__", code):
        return None
    (loop,) = every
    store = _STORE.match(code, loop.body[1])
    body = code[slice(*loop.body)].strip()
    body = body[1:-1].strip() if body.startswith("{") else body
    added = re.fullmatch(r"(\w+)\s*\+=\s*([^;]*);", body)
    counts = loop.step in (f"{loop.name}++", f"++{loop.name}") and loop.kind in ("int", "unsigned")
    if store is None or added is None or added[1] != store["sum"] or not counts:
        return None
    declared = re.findall(rf"\b({_TYPES})\s+(?:[^;()]*,\s*)?{added[1]}\s*=\s*0(?:\.0*f?|\.f)?\s*[,;]", code[opening:])
    calls = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", added[2]))
    own = re.search(rf"\b(?:{added[1]}|{loop.name})\b", store["at"])
    uses = len(re.findall(rf"\b{added[1]}\b", code[opening:]))
    pointed = re.search(rf"\b({_TYPES})\s*\*\s*(?:__restrict__\s+)?{store['name']}\b", code[:opening])
    if len(declared) != 1 or uses != 3 or calls - _CALLS or own is not None or "=" in added[2] or pointed is None:
        return None
    if pointed[1] != declared[0] or len(re.findall(rf"\b{store['name']}\b", code[opening:])) != 1:
        return None
    if not _whole(code, loop, opening) or re.search(r"\+\+|--", added[2]):
        return None
    return _Sum(loop, store["name"], store["at"].strip(), added[1], declared[0], (store.start("name"), store.end()))


def _whole(code: str, loop: Loop, opening: int) -> bool:
    """Whether every thread comes to the loop, and goes on behind it, where it ends at a number."""
    before = re.sub(r"[ \t]*#[^\n]*\n\s*$", "", code[opening + 1 : loop.span[0]]).rstrip()
    if not plain_ends(loop, _CALLS):
        return False
    return before[-1:] == ";" and "{" not in before and not re.search(r"\b(?:if|while|for|switch|goto)\b", before)


def _spans(code: str, found: _Sum) -> list[Span]:
    loop = found.loop
    first, end = (x if re.fullmatch(r"[\w\s.+*\[\]]+", x) else f"({x})" for x in (loop.start, loop.end))
    head = f"for ({loop.kind} {loop.name} = {first} + blockIdx.y; {loop.name} < {end}; {loop.name} += gridDim.y)"
    start = code.index(found.name, found.store[0])
    stop = code.index(";", start) + 1
    added = f"if ({loop.kind}({first} + blockIdx.y) < {end}) atomicAdd(&{found.name}[{found.at}], {found.sum});"
    return [(loop.span[0], loop.span[1], head), (start, stop, added)]


def _played(parts: int) -> int:
    """How many sums were played, if the parts took each of their rounds once; 0 otherwise."""
    generator = random.Random(parts)
    for _ in range(DRAWN):
        first = generator.randrange(LONGEST)
        end = generator.randrange(LONGEST)
        done = sorted(r for part in range(parts) for r in range(first + part, end, parts))
        if done != list(range(first, end)):
            return 0
    return DRAWN
