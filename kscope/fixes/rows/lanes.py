"""A row a warp becomes a row a part of one, where rows are shorter than a warp: its other lanes have rows of their own
instead of nothing to do. Both texts are played."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.given.conditions import proved
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, outside, shape, spans_edited
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, constants, function
from kscope.fixes.rows.loaded import loaded
from kscope.fixes.rows.regrouped import WARP, alike, applied, fors, renamed
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

SECTOR = 32
SHUFFLES = ("__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync")
PLAYED = 64  # threads of a block that is played: two warps, so that rows of several are told apart
_NEVER = re.compile(
    r"\bthreadIdx\.[yz]|\bblockDim\.[yz]|\b(?:asm|goto|while|do|switch|volatile|cooperative_groups)\b|\bcg::|\bcub::"
    r"|\b__(?!shfl_(?:xor_|down_|up_)?sync\b|restrict__|expf\b|logf\b|fdividef\b)\w+|#\s*(?!pragma\s+unroll)\w|\batomic\w*"
)


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    fn, held = _shuffling(setting), setting.occupancy()
    if launch is None or fn is None or held is None:
        return []
    known = constants(setting.lines(fn.file), fn.code)
    length, bytes_ = _row(setting, fn, known)
    lanes = next((n for n in (1, 2, 4, 8, 16) if n >= length and n * bytes_ >= SECTOR), WARP)
    parts = WARP // lanes
    full = launch.blocks // parts * launch.warps >= held.warps * setting.sms
    if not length or parts < 2 or launch.grid[0] % parts or not full or not alike(fn, r"__shfl_"):
        return []
    spans, values = fewer(fn, lanes, known), {n: lanes if v == WARP else v for n, v in fn.values.items()}
    played = _same(fn, applied(fn.code, spans), lanes, values, known) if spans or values != fn.values else None
    if played is None:
        return []
    return [_fix(asked, fn, spans, values, lanes, played, length)]


def _shuffling(setting: Setting) -> Function | None:
    """The kernel's function, where whole warps in a row exchange values and nothing stands in the way."""
    launch = setting.launch
    if launch is None or launch.block[1] * launch.block[2] > 1 or launch.block[0] % WARP or not setting.sms:
        return None
    fn = function(setting)
    return fn if fn is not None and "__shfl_" in fn.body and not _NEVER.search(fn.body) else None


def fewer(fn: Function, lanes: int, known: Mapping[str, int]) -> list[Span]:
    """Numbers of a warp become those of so many lanes, and shuffles stay among them."""
    code = fn.code
    wide = "|".join([str(WARP), "warpSize", *(n for n, v in known.items() if v == WARP and n not in fn.values)])
    found = re.compile(rf"(?<![\w.])(?:{wide})(?![\w.])").finditer(code, fn.opened)
    out: list[Span] = [(*m.span(), str(lanes)) for m in found]
    for m in re.finditer(r"(?:>>\s*(5)|&\s*(31|0x1[fF]))(?!\w)", fn.body):
        group = 1 if m[1] else 2
        put = str(lanes.bit_length() - 1) if m[1] else str(lanes - 1)
        out.append((m.start(group) + fn.opened, m.end(group) + fn.opened, put))
    for one in fors(code, fn.opened):
        half = re.search(rf"=\s*({WARP // 2})\s*$", one.first)
        if half is not None and "__shfl_" in code[slice(*one.body)]:
            at = one.at[0] + half.start(1)
            out.append((at, at + len(half[1]), str(lanes // 2)))
    own = next((n for n, v in fn.values.items() if v == WARP), str(lanes))
    for name in SHUFFLES:
        for call in calls_of(code, name):
            if len(call.arguments) == 3:
                out.append((call.end - 1, call.end - 1, f", {own}"))
    return out


def _row(setting: Setting, fn: Function, known: Mapping[str, int]) -> tuple[float, int]:
    """Elements of a row, the mean, and bytes of one: what lanes loaded in the loop along it. 0 where there is none, or
    several, or another loop around it."""
    code, launch = setting.code, setting.launch
    assert launch is not None
    wide = "|".join([str(WARP), "warpSize", *(n for n, v in {**known, **fn.values}.items() if v == WARP)])
    every = fors(fn.code, fn.opened)
    along = [one for one in every if re.search(rf"\+=\s*(?:{wide})$", one.step)]
    lanes = getattr(code, "threads", None)
    if len(along) != 1 or lanes is None or any(one.body[0] <= along[0].start < one.body[1] for one in every):
        return 0.0, 0
    first, last = (fn.first + fn.code.count("\n", 0, at) for at in (along[0].start, along[0].body[1]))
    most, narrow = loaded(code, fn.file, range(first, last + 1), lanes)
    return most / (launch.warps * launch.blocks), narrow


def _same(fn: Function, text: str, lanes: int, values: Mapping[str, int], known: Mapping[str, int]) -> Same | None:
    """Rows that end within a block, and that fill them."""
    parts, body = WARP // lanes, text[fn.opened :]
    old = [Side(fn.body, (parts * n, 1), (PLAYED, 1), fn.values) for n in (1, 3)]
    new = [Side(body, (n, 1), (PLAYED, 1), values) for n in (1, 3)]
    return same(fn, old, new, known)


def _fix(
    asked: Asked, fn: Function, spans: list[Span], values: Mapping[str, int], lanes: int, played: Same, length: float
) -> Fix:  # fmt: skip
    setting, launch = asked.setting, asked.setting.launch
    assert launch is not None
    parts, given = WARP // lanes, f"<{', '.join(str(v) for v in values.values())}>" if values else ""
    grid = (launch.grid[0] // parts, *launch.grid[1:])
    own = given if fn.call is None else ""
    new = f"{setting.name}{own}<<<{shape(grid)}, {shape(launch.block)}>>>(...);"
    edits = spans_edited(setting, Text(fn.file, fn.first, fn.code), spans) if fn.call is None else []
    if fn.call is not None:
        line, (start, end, _) = fn.call
        was, name = setting.lines(fn.file)[line - 1], f"{fn.name}_lanes" if spans else fn.name
        edits = [Edit(file=fn.file, line=line, was=was, becomes=f"{was[:start]}{name}{given}{was[end:]}")]
        new = f"{renamed(applied(fn.code, spans), fn.name, name)}\n// launch: {new}" if spans else new
    parameters: dict[str, int | float | str] = {"grid.x": grid[0], "lanes": lanes}
    parameters |= {"instance": given.strip("<>")} if own else {}
    ordered = re.search(r"\+=|\+\s*__shfl", outside(fn.code, [(x.start, x.body[0]) for x in fors(fn.code, fn.opened)]))
    order = Condition(holds="the order of the sums does not matter", state="check", why="it is another one")
    return Fix(
        kind="lane_mapping",
        title=f"{lanes} lanes a row instead of a warp: {parts} rows a warp",
        language="cuda",
        code=new,
        edits=edits,
        parameters=parameters,
        conditions=[
            played.shown,
            proved("the rows come out even", "launch", launch.grid, f"{launch.grid[0]} blocks by {parts}"),
            Condition(holds=f"every launch has a block for {launch.block[0] // lanes} rows, which may be the last ones",
                      state="check", why="the grid is the host's"),
            *([order] if ordered else []),
        ],
        proof=[
            Proof(what="blocks that the launch starts", before=launch.blocks, after=launch.blocks // parts,
                  unit="blocks", how=f"{launch.block[0] // lanes} rows in each of {launch.block[0]} threads"),
            Proof(what="lanes of a row", before=WARP, after=lanes, unit="lanes",
                  how=f"a row has {length:.3g} elements, the mean: what lanes loaded in the loop along it"),
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
