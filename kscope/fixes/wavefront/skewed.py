"""A wavefront of a block, a barrier a step, by one warp: each lane goes through neighbouring threads' places of one
step with their states in registers, and hands the last one's to the next lane by a shuffle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Span, indented
from kscope.fixes.recurrence.rewritten import Side, compared_in, edits, numbers
from kscope.fixes.rows.compared import arrayed
from kscope.fixes.rows.function import Function, function
from kscope.fixes.wavefront.emitted import text
from kscope.fixes.wavefront.shape import wave
from kscope.fixes.wavefront.states import states
from kscope.fixes.wavefront.traced import STEPS, Seen, seen
from kscope.fixes.wavefront.trees import parsed
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

SMALL = 64  # threads of blocks that are played: two places a lane, and then three
THREADS = 512  # that are played at once, in as many blocks as they fill (judged)
MOST = 32  # places of a lane: their states are in its registers (judged)
WARPS = 32  # of an SM that share it: fewer make their steps faster than one alone goes through many places (judged)
STATIC = 48 * 1024  # bytes of shared memory that a kernel may declare (CUDA C++ Programming Guide)
CELLS = 1 << 14  # elements of each array that is played with
TYPES = {"uint8_t": "unsigned char", "uint16_t": "unsigned short", "int16_t": "short"}
BELOW = 8  # which of the numbers that are tried have some below zero
LETTERS = 4  # that bytes are drawn of, so that some are equal
_NEVER = re.compile(
    r"\b(?:asm|goto|extern|volatile|\w+_[nc]|(?:own|left|above|new|last|came)_\d+)\b|\b(?:threadIdx|blockDim)\.[yz]"
    r"|#\s*(?!pragma\s+unroll)\w"
)
_HANDED = re.compile(r"__shared__ ([\w ]+) \w+_n\[(\d+)\];")
_BOUNDS = re.compile(r"(__launch_bounds__\s*\(\s*)([^(),]+)((?:,[^()]*)?\))")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    fn = function(setting)
    if fn is None or fn.call is not None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    block = launch.block[0]
    if block % WARP or not 2 * WARP <= block <= MOST * WARP or _NEVER.search(fn.body):
        return []
    busy = launch.blocks * launch.warps / max(setting.sms, 1)
    if busy < WARPS:
        return []  # a lane's places, one behind the other, take longer than steps of threads that are alone
    found = proved_text(fn, numbers(setting, fn), block)
    if found is None:
        return []
    new, compared = found
    more = sum(int(size) * SIZES.get(kind, 8) for kind, size in _HANDED.findall(new))
    if launch.shared_static + more > STATIC:
        return []
    code = setting.code
    barriers = total(code.executed, code.ran(code.where(lambda ins, op: ins.opcode == "BAR")))
    met = barriers / (launch.warps * launch.blocks)
    grid = ", ".join(map(str, launch.grid)) if launch.grid[1] * launch.grid[2] > 1 else str(launch.grid[0])
    grid = f"dim3({grid})" if "," in grid else grid
    dynamic = f", {launch.shared_dynamic}" if launch.shared_dynamic else ""
    return [
        Fix(
            kind="lane_mapping",
            title=f"the wavefront of a block by one warp: a lane takes {block // WARP} neighbouring threads' places a "
                  "step, with their states in registers, and hands on the last one's by a shuffle",
            language="cuda",
            code=f"{setting.name}<<<{grid}, {WARP}{dynamic}>>>(...);",
            edits=edits(setting, fn, [*_bounds(fn), (fn.opened, len(fn.code), indented(new))]),
            parameters={"block.x": WARP, "places": block // WARP},
            conditions=[
                proved("every result is the same", "values", compared,
                       "both versions played on numbers, in smaller blocks where constants have names, every result "
                       "compared; no races"),
                Condition(holds=f"every launch had blocks of {block} threads, and has blocks of {WARP} now",
                          state="check", why="how many places a lane takes is a number in the code"),
                *_besides(fn),
            ],
            proof=[
                Proof(what="barriers that a warp passes", before=met, after=0, unit="barriers",
                      how="one a step; lanes of a warp meet in shuffles"),
            ],
            costs=[f"registers for {block // WARP} places a lane",
                   *([f"{more} bytes of shared memory a block, for what threads hand to lanes"] if more else [])],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _besides(fn: Function) -> list[Condition]:
    """What the reader must know besides."""
    out = []
    if fn.code[: fn.opened].count("__restrict__") < len(fn.pointers):
        out.append(Condition(holds="none of the arrays overlap", state="check",
                             why="lanes load what threads loaded in other steps"))  # fmt: skip
    if re.search(r"__shared__\s+(?:float|double)\b", fn.body) and "*" in fn.body:
        out.append(Condition(holds="a last bit may come out otherwise", state="check",
                             why="a product that was stored may be fused with a sum now"))  # fmt: skip
    return out


def _body(fn: Function) -> str:
    """The body with types by the names that are played."""
    return re.sub(rf"\b(?:{'|'.join(TYPES)})\b", lambda m: TYPES[m[0]], fn.body)


def _bounds(fn: Function) -> list[Span]:
    m = _BOUNDS.search(fn.code[: fn.opened])
    return [(m.start(), m.end(), f"__launch_bounds__({WARP})")] if m is not None else []


def proved_text(fn: Function, known: Mapping[str, int], block: int) -> tuple[str, int] | None:
    """The body for one warp, and results that came out the same: of smaller blocks, where all that is as wide as a
    block has a name, else of blocks as they are."""
    for played in ((SMALL, SMALL + WARP), (block,)):
        if max(played) > block:
            continue
        try:
            tree = parsed(arrayed(_body(fn)))
            sized = [scaled(known, block, size) for size in played]
            step = wave(tree, played[0], sized[0]).step
            told = seen(tree, step, played[0], _memory(fn), _numbers(fn, sized[0], played[0]), fn.pointers)
            each = zip((*sized, known), (*played, block), strict=True)
            texts = [changed(tree, told, one, size) for one, size in each]
        except Unplayable:
            continue
        compared = [same(fn, text_, one, size) for text_, one, size in zip(texts, sized, played, strict=False)]
        if all(compared):
            return texts[-1], sum(compared)
    return None


def scaled(known: Mapping[str, int], block: int, size: int) -> dict[str, int]:
    """Constants for a block of another size: what is about as many times as wide stays so."""
    times = {name: (2 * v + block) // (2 * block) for name, v in known.items()}
    return {name: v + times[name] * (size - block) if v > WARP else v for name, v in known.items()}


def changed(tree: Node, told: Seen, known: Mapping[str, int], block: int) -> str:
    """The body for one warp. Raises Unplayable where there is none."""
    found = wave(tree, block, known)
    return text(found, states(found, told), block)


def _numbers(fn: Function, known: Mapping[str, int], size: int) -> dict[str, int]:
    return {"warpSize": WARP, **known, **dict.fromkeys(fn.numbers, size)}


def same(fn: Function, new: str, known: Mapping[str, int], block: int) -> int:
    """Results that came out the same in all sizes and on all numbers that are tried."""
    body = arrayed(_body(fn))
    grid = max(1, THREADS // block), 1
    sides = Side(body, grid, (block, 1), steps=STEPS), Side(new, grid, (WARP, 1), steps=STEPS)
    tried: Sequence[tuple[int, Mapping[str, int]]] = [(n, known) for n in (1, 2)]
    if fn.numbers:
        lengths = ((block, block), (block - 3, block // 2 + 5), (7, block - 1), (block // 2, 9))
        tried = [(n, {**known, **{name: pair[k % 2] for k, name in enumerate(fn.numbers)}})
                 for n, pair in enumerate(lengths)]  # fmt: skip
    return compared_in(fn, sides, [*tried, (BELOW, tried[0][1])], drawn)


def drawn(name: str, kind: str, size: int) -> Any:
    made = np.random.default_rng([size, *map(ord, name)])
    small = "char" in kind or "int8" in kind
    low = -100 if size == BELOW and not small else 0
    return made.integers(low, LETTERS if small or size % 2 else 100, CELLS)


def _memory(fn: Function) -> dict[str, Any]:
    return {name: drawn(name, kind, 1) for name, kind in fn.pointers.items()}
