"""Tensor-core fragments that serve one product each: the instance of the template whose warps make several by several,
where the template's numbers say how many. Proved by playing both, a number for each fragment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import Text, kernel_text
from kscope.model.contract.fixes import Condition, Fix, Proof

if TYPE_CHECKING:
    from kscope.model.kernel import Launch

SHAPES = ((4, 2), (2, 4), (2, 2))
"""Fragments of a warp's result, most products a load first; 4 x 2 of 16 x 16 are 64 registers of sums (judged)."""
SCALES = (32, 16, 8, 4, 2)  # by which sizes and grid are made smaller, so that they can be played
SMALLEST, LARGEST, MOST_BLOCKS = 64, 512, 64  # of the smaller sizes (what is below counts steps), and of blocks
_TEMPLATE = re.compile(r"template\s*<\s*int\s+(\w+)\s*,\s*int\s+(\w+)\s*>")
_VALUES = re.compile(r"<\(int\)1,\s*\(int\)1>")
_SUMS = re.compile(r"wmma::fragment<\s*wmma::accumulator\b[^<>]*>\s*(\w+)\s*\[\s*(\w+)\s*\]\s*\[\s*(\w+)\s*\]\s*;")
_ELEMENTS = (
    (re.compile(r"(?:nvcuda::)?wmma::fragment<[^<>]*>"), "float"),
    (re.compile(r"wmma::fill_fragment\(([^,;]+),([^;]+)\)\s*;"), r"\1 = \2;"),
    (re.compile(r"wmma::load_matrix_sync\(([^,;]+),([^;]+),[^,;]+\)\s*;"), r"\1 = (\2)[0];"),
    (re.compile(r"wmma::mma_sync\(([^,;]+),([^,;]+),([^,;]+),([^,;]+)\)\s*;"), r"\1 = \4 + \2 * \3;"),
    (re.compile(r"wmma::store_matrix_sync\(([^;]+),([^,;]+),[^,;]+,\s*wmma::\w+\)\s*;"), r"(\1)[0] = \2;"),
)
"""Fragments as numbers: a load takes the first element of its tile, a product multiplies them, a store puts them back.
What is done tile by tile with the real ones is done element by element with these."""


class _Instance(Struct, frozen=True):
    """The template's numbers by name, and the grid."""

    numbers: Mapping[str, int]
    grid: tuple[int, int]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text = kernel_text(setting)
    names = _names(setting, text) if text is not None else None
    if text is None or launch is None or names is None or launch.grid[2] * launch.block[2] > 1 or not setting.sms:
        return []
    for down, across in SHAPES:
        for grid in ((launch.grid[0] // across, launch.grid[1] // down),
                     (launch.grid[0] // down, launch.grid[1] // across)):  # fmt: skip
            more = _Instance({names[0]: down, names[1]: across}, grid)
            whole = launch.blocks == grid[0] * grid[1] * down * across
            compared = _same(setting, text, names, more) if whole and grid[0] * grid[1] >= setting.sms else 0
            if compared:
                return [_larger(asked, launch, more, compared)]
    return []


def _larger(asked: Asked, launch: Launch, more: _Instance, compared: int) -> Fix:
    code, (x, y) = asked.setting.code, more.grid
    down, across = more.numbers.values()
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    before, share = total(code.executed, loads), (down + across) / (2 * down * across)
    return Fix(
        kind="jam",
        title=f"{down} x {across} fragments a warp instead of 1 x 1, which share their loads",
        language="cuda",
        code=f"{asked.setting.name}<{down}, {across}><<<dim3({x}, {y}), {launch.block[0]}>>>(...);",
        parameters={"instance": f"{down}, {across}", "grid.x": x, "grid.y": y},
        conditions=[
            proved("every tile of the result is the same sum", "values", compared,
                   "both instances played in small, a number for each fragment"),
            Condition(holds="matrices come out even", state="check", why="as this launch's do: there is no test"),
            Condition(holds="registers hold the sums without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(what="warp loads of fragments", before=before, after=before * share, unit="inst",
                  how=f"{down} + {across} fragments serve {down} x {across} products, where 2 serve one"),
        ],
        costs=[f"{8 * (down * across - 1)} registers a thread for sums"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _names(setting: Setting, text: Text) -> tuple[str, str] | None:
    """The template's two numbers, both 1 now, that say how many sums a warp has."""
    above = "\n".join([*setting.lines(text.file)[max(0, text.first - 2) : text.first - 1], text.code])
    template, sums = _TEMPLATE.search(above), _SUMS.findall(text.code)
    if template is None or len(sums) != 1 or not _VALUES.search(setting.instance) or "__shared__" in text.code:
        return None
    return (template[1], template[2]) if sums[0][1:] == template.groups() else None


def _same(setting: Setting, text: Text, names: tuple[str, str], more: _Instance) -> int:
    """How many elements both instances write alike, in small; 0 where they do not, or cannot be played."""
    launch = setting.launch
    assert launch is not None
    known = {n: v for n, v in constants(setting.lines(text.file)).items() if re.search(rf"\b{n}\b", text.code)}
    for scale in SCALES:
        small = {n: v // scale if v >= SMALLEST * scale and v % scale == 0 else v for n, v in known.items()}
        grids = [(g[0] // scale, g[1] // scale) for g in (launch.grid, more.grid)]
        even = all(not n % scale for g in (launch.grid[:2], more.grid) for n in g)
        if not even or max(small.values(), default=0) > LARGEST or grids[0][0] * grids[0][1] > MOST_BLOCKS:
            continue
        one = _played(text.code, launch.block[:2], _Instance(small | dict.fromkeys(names, 1), grids[0]))
        other = _played(text.code, launch.block[:2], _Instance(small | dict(more.numbers), grids[1]))
        if one is not None and other is not None:
            return int((one != 0).sum()) if (one == other).all() else 0
    return 0


def _played(code: str, block: tuple[int, int], one: _Instance) -> Any:
    """What an instance writes; None where it cannot be played."""
    import numpy as np

    from kscope.fixes.given.played import play

    for pattern, element in _ELEMENTS:
        code = pattern.sub(element, code)
    opening = code.index("{")
    pointers = re.findall(r"(const\s+)?\w+\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])", code[:opening])
    written = [name for const, name in pointers if not const]
    largest = max(one.numbers.values()) ** 2
    drawn = np.random.default_rng(largest)
    memory = {name: drawn.integers(1, 99, largest) if const else np.zeros(largest, dtype=np.int64)
              for const, name in pointers}  # fmt: skip
    if len(written) != 1 or "wmma" in code[opening:]:
        return None
    try:
        play(code[opening:], one.grid, block, memory, one.numbers)
    except Unplayable:
        return None
    return memory[written[0]]
