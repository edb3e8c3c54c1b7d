"""Loops of few blocks whose rounds need nothing of each other: several blocks take them in turn. Shown by playing both
texts: no two rounds, which are threads of their own then, use one place."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec import Struct

from kscope.features.estimate.gains import expected_at_most
from kscope.features.patterns.loop_parallelism import trips
from kscope.features.sass.columns import total
from kscope.fixes.atomics.regions import clear
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, kernel_text, shape, spans_edited
from kscope.fixes.shared_sums.parted import fixes as not_played
from kscope.fixes.shared_sums.rounds import machine_loops
from kscope.fixes.tiling.hidden import hides_places
from kscope.fixes.tiling.turns import Turn, spans, turns
from kscope.fixes.tiling.turns_played import Kernel, kernel, same
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

WORTH = 1.5  # times as fast at least, as far as the loops' share of the instructions tells (judged)
MOST = 65535  # blocks along y and z (CUDA C++ Programming Guide)
_STRANGE = re.compile(
    r"\b(?:asm|volatile|goto|atomicCAS|atomicExch|__threadfence\w*|__nanosleep|cooperative_groups|__cluster_dims__|"
    r"clock\w*|curand\w*|__activemask|assert|printf)\b|\bcg\s*::|#(?!\s*pragma)|"
    r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b(?!\s*\.\s*[xyz]\b)"
)


class Shared(Struct, frozen=True):
    """`parts` blocks for each of now along `axis`; `many`: rounds of a thread; `left`: of the time of now, by
    instructions."""

    axis: str
    parts: int
    many: int
    left: float


def fixes(asked: Asked) -> list[Fix]:
    return played(asked) or not_played(asked)


def played(asked: Asked) -> list[Fix]:
    setting, launch, text = asked.setting, asked.setting.launch, kernel_text(asked.setting)
    if text is None or launch is None or not setting.sms or max(launch.cluster) > 1 or asked.finding.estimate is None:
        return []
    code, lines = clear(text.code), setting.lines(text.file)
    if _STRANGE.search(code[code.find("{") :]) or hides_places(lines, code):
        return []
    one = kernel(setting, Text(text.file, text.first, code))
    if one is None:
        return []
    levels = turns(code, one.opened, one.plainly)
    ways = [(found, way) for found in levels if (way := _chosen(setting, text, code, found)) is not None]
    known = setting.code.found
    for found, way in sorted(ways, key=lambda w: round(w[1].left, 1)):
        key = (same, code, way.axis, tuple(t.whole for t in found))  # played once, whatever rule asks
        if key not in known:
            known[key] = same(setting, one, found, way.axis)
        edits = spans_edited(setting, text, spans(found, way.axis)) if known[key] else []
        if edits:
            return [_fix(asked, one, way, edits, known[key])]
    return []


def _fix(asked: Asked, one: Kernel, chosen: Shared, edits: list[Edit], compared: int) -> Fix:
    setting, launch, price = asked.setting, asked.setting.launch, asked.finding.estimate
    assert launch is not None and price is not None
    axis, parts, dynamic = chosen.axis, chosen.parts, [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    grid = [parts if a == axis else n for a, n in zip("xyz", launch.grid, strict=True)]
    each = -(-chosen.many // parts)
    return Fix(
        kind="lane_mapping",
        title=f"the rounds of a block's loop by {parts} blocks for each of now",
        language="cuda",
        code=f"{setting.name}<<<{', '.join([shape(grid), shape(launch.block), *dynamic])}>>>(...);",
        edits=edits,
        parameters={f"grid.{axis}": parts},
        conditions=[
            proved("every result is the same, and no round needs another's", "values", compared,
                   "both texts played in several sizes, every result compared: rounds that are threads of other blocks "
                   "use no place together but by atomics, and each statement that stores is gone through"),
            proved("one block takes all rounds now", "launch", launch.grid, f"1 along {axis}"),
            reads("a round hands nothing on", "what it changes by name it sets first, and nothing else asks for it"),
            Condition(holds="arrays that it reads and writes do not overlap", state="check",
                      why="in place, blocks would read what others have changed" if "__sync" in one.text.code else
                      "two parameters may point into one array"),
            *([Condition(holds="the order in which floats are added does not matter", state="check",
                         why="atomics have none")] if one.fractions_added else []),
        ],
        proof=[
            Proof(what="rounds that a thread does one behind the other", before=chosen.many, after=each, unit="rounds",
                  how=f"{launch.blocks * parts} blocks instead of {launch.blocks}, of which {setting.sms} SMs hold "
                      "all at once"),
        ],
        costs=["what a block does besides is done by each"],
        price=expected_at_most(price, 1 / chosen.left),
    )  # fmt: skip


def _chosen(setting: Setting, text: Text, code: str, found: Sequence[Turn]) -> Shared | None:
    """As many blocks as the chip holds at once or as there are rounds, and no more than leave each as few."""
    launch, held = setting.launch, setting.occupancy()
    if launch is None or held is None or not found:
        return None
    axes = [a for n, a in ((1, "y"), (2, "z"), (0, "x")) if launch.grid[n] == 1 and not re.search(
        rf"\b(?:blockIdx|gridDim)\s*\.\s*{a}\b", code)]  # fmt: skip
    loops = machine_loops(setting, text, [one.body for one in found], [one.whole[0] for one in found])
    many = int(max((trips(setting.code, n) * times for n, times in loops.items()), default=0))
    most = min(held.blocks * setting.sms // launch.blocks, many, MOST)
    share = _share(setting, text, found, loops)
    if not axes or most < 2:
        return None
    each = -(-many // most)
    parts = -(-many // each)
    left = 1 - share + share * each / many
    return Shared(axes[0], parts, many, left) if parts > 1 and 1 / left >= WORTH else None


def _share(setting: Setting, text: Text, found: Sequence[Turn], loops: Collection[int]) -> float:
    """Of the instructions that run those of the loops, by their lines and in the machine's."""
    code = setting.code
    lines = {text.first + text.code.count("\n", 0, at) for one in found for at in (one.whole[0], *range(*one.body))}
    inside = {i for n in loops for i in code.cfg.loops[n].instructions}
    mine = [i for i in code.ran(range(len(code))) if i in inside or any(
        file == text.file and line in lines for file, line in setting.sites(i))]  # fmt: skip
    return total(code.executed, mine) / max(1.0, code.all_executed)
