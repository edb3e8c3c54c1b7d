"""Long loops of few threads that sum up alone: each loop's rounds shared out over blocks, which add up their parts."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.slices import pointer
from kscope.fixes.atomics.reading import one_each
from kscope.fixes.atomics.summed import Summed, summed
from kscope.fixes.given.conditions import WRITES, proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Span, hidden, shape, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

LEAST = 32  # rounds of a part: so many pay for its start and for the atomics at its end (judged)
FEWEST = 4  # parts of a sum: fewer do not make up for the sums' order and the array that must be zero (judged)
TRIED = ((0, 1), (0, 31), (0, 32), (3, 3), (7, 5), (5, 4101), (-40, 77), (0, 100_003))  # first and end that are played
_TOGETHER = ("SHFL", "VOTE", "MATCH", "REDUX", "MEMBAR")


class _Shares(Struct, frozen=True):
    """`rounds` of a thread, `slots` for blocks on the chip, the `parts` that were chosen and the grid's `axis`."""

    rounds: int
    slots: int
    parts: int
    axis: str


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    found = summed(setting)
    chosen = _chosen(setting, found) if found is not None else None
    if found is None or chosen is None or not _alone(setting, found):
        return []
    if hidden(found.kernel.body + found.called, found.kernel.lines):
        return []
    taken = any(re.search(rf"\b{name}\b", found.kernel.text.code) for name in made_of(found.loop.name))
    if taken or not all(one_each(setting, found.kernel.text, one.at) for one in found.stores):
        return []
    edits = spans_edited(setting, found.kernel.text, _spans(found, chosen.axis))
    return [_fix(asked, found, chosen, edits)] if edits else []


def _fix(asked: Asked, found: Summed, chosen: _Shares, edits: list[Edit]) -> Fix:
    setting, launch, parts = asked.setting, asked.setting.launch, chosen.parts
    grid = [*(launch.grid if launch is not None else (1, 1, 1))]
    blocks, warps = (launch.blocks, launch.warps) if launch is not None else (1, 1)
    grid["xyz".index(chosen.axis)] = parts
    names = " and ".join(one.name for one in found.stores)
    zero = "\n".join(f"cudaMemsetAsync({one.name}, 0, bytes, stream);" for one in found.stores)
    block = shape(launch.block) if launch is not None else ""
    played = _played(parts)
    return Fix(
        kind="lane_mapping",
        title=f"each sum in {parts} parts, by as many blocks, which add them up",
        language="cuda",
        code=f"{zero}\n{setting.name}<<<{shape(grid)}, {block}>>>(...);",
        edits=edits,
        parameters={f"grid.{chosen.axis}": parts},
        conditions=[
            shown(played > 0, "each round of a sum is done once", "values", played,
                  "sums of several lengths, empty ones too"),
            proved("each thread works alone, and stores behind its loop", "code", setting.code,
                   "no barrier, no shared memory, no exchange of lanes, no atomic; no store in a loop"),
            reads(f"{names}: loaded nowhere", "named once, where it is stored"),
            reads("each element is one thread's", "its index is the thread's number in the grid"),
            reads("nothing but the sums is carried from round to round", "all else that a round changes is its own"),
            Condition(holds=f"{names}: zero before the launch", state="check",
                      why="parts are added to it; what no thread stores to is zero then, too"),
            Condition(holds="the order in which a sum is added up does not matter", state="check",
                      why="parts of floats round differently"),
            Condition(holds=f"{names}: not what the kernel reads", state="check",
                      why="two parameters may point into one array"),
        ],
        proof=[
            Proof(
                what="warps that the chip holds", before=blocks * warps,
                after=min(chosen.slots, parts * blocks) * warps, unit="warps",
                how=f"{chosen.rounds} rounds in {parts} parts; {chosen.slots} blocks fit on {setting.sms} SMs",
            ),
        ],
        costs=["sums in another order from run to run", f"{found.atomics * parts} atomics for each sum's thread"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _chosen(setting: Setting, found: Summed) -> _Shares | None:
    """As many parts as fill the chip once, if each has rounds enough; None where it is not worth it."""
    launch, held = setting.launch, setting.occupancy()
    if launch is None or held is None or not setting.sms or not launch.blocks:
        return None
    axis = next((a for n, a in ((1, "y"), (2, "z")) if launch.grid[n] == 1 and not found.asks(a)), "")
    rounds, slots = _rounds(setting, found), held.blocks * setting.sms
    parts = min(slots // launch.blocks, rounds // LEAST)
    parts = 1 << max(0, parts.bit_length() - 1)
    return _Shares(rounds, slots, parts, axis) if axis and parts >= FEWEST else None


def _rounds(setting: Setting, found: Summed) -> int:
    """Rounds of a thread's loop, the mean: by the bytes that it loads, where the text says them of a round; else as
    often as the machine code goes round, which takes several at once."""
    code, launch = setting.code, setting.launch
    warps = launch.warps * launch.blocks if launch is not None else 1
    loads = [i for i in code.where(lambda ins, op: op.space == "global" and op.access == "load")
             if code.cfg.loop_of[i] is not None]  # fmt: skip
    sizes = [SIZES.get(kind, 0) for kind in found.loaded]
    moved = sum(code.executed[i] * code.classes[i].bytes for i in loads)
    if sizes and all(sizes):
        return int(moved / warps / sum(sizes))
    depth = code.cfg.depth
    outer = [n for n, loop in enumerate(code.cfg.loops) if min(depth[i] for i in loop.instructions) == 1]
    turns = sum(max(code.executed[i] for i in code.cfg.loops[n].instructions if depth[i] == 1) for n in outer)
    return int(turns / warps)


def _alone(setting: Setting, found: Summed) -> bool:
    """Whether no thread needs another, and each stores what the text says behind its loops. What a loop goes on through
    has no start that code shows: that it is not what is stored the text says."""
    code = setting.code
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space in ("shared", "local")
                          or ins.opcode in _TOGETHER)  # fmt: skip
    writes = code.ran(code.where(lambda ins, op: op.access in WRITES))
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    behind = all(code.classes[i].access == "store" and code.cfg.loop_of[i] is None for i in writes)
    into, of = {pointer(code, i) for i in writes}, {pointer(code, i) for i in loads}
    return not together and behind and None not in into and not into & of and len(into) == len(found.stores)


def _spans(found: Summed, axis: str) -> list[Span]:
    """The loop's bounds, made in front of it, and the stores as atomics."""
    loop, kernel = found.loop, found.kernel
    name, by, of = loop.name, f"(int)blockIdx.{axis}", f"(int)gridDim.{axis}"
    first, each, end = made_of(name)
    at = found.start
    line = kernel.text.code[kernel.text.code.rfind("\n", 0, at) + 1 :]
    margin = line[: len(line) - len(line.lstrip(" \t"))] if line[: at - len(kernel.text.code)].strip() else ""
    margin = margin or "  "
    step = found.step
    until, begin = _whole(loop.end, kernel.parameters), _whole(loop.start, kernel.parameters)
    count = until if begin == "0" else f"{until} - {begin}"
    count, turn = (f"({count} + {step - 1}) / {step}", f" * {step}") if step != 1 else (count, "")
    from_ = "" if begin == "0" else f"{begin} + "
    made = (
        f"const int {each} = ({count} + {of} - 1) / {of}{turn};\n"
        f"{margin}const int {first} = {from_}{by} * {each}, {end} = min({first} + {each}, {until});\n{margin}"
    )
    head = f"for ({loop.kind} {name} = {first}; {name} < {end}; {loop.step})"
    spans = [(at, at, made), (*loop.span, head)]
    for one in found.stores:
        added = " ".join(f"atomicAdd(&{one.name}[{one.at}]{part}, {value});" for part, value in one.values)
        spans.append((*one.span, f"if ({first} < {end}) {{ {added} }}"))
    return spans


def made_of(name: str) -> tuple[str, str, str]:
    """Names of a part's first round, of their number, and of what is behind its last."""
    return f"{name}_first", f"{name}_each", f"{name}_end"


def _whole(bound: str, parameters: dict[str, str]) -> str:
    """A bound as an int: a number, or a parameter that is one, as it stands."""
    return bound if bound.isdigit() or parameters.get(bound, "").replace("const ", "") == "int" else f"(int)({bound})"


def _played(parts: int) -> int:
    """How many rounds were played, if the parts took each of them once; 0 otherwise."""
    count = 0
    for first, end in TRIED:
        for step in (1, 3):
            rounds = int(np.trunc((end - first + step - 1) / step))
            each = int(np.trunc((rounds + parts - 1) / parts)) * step  # as C divides
            starts = [first + part * each for part in range(parts)]
            done = [r for s in starts for r in range(s, min(s + each, end), step)]
            if done != list(range(first, end, step)):
                return 0
            count += len(done)
    return count
