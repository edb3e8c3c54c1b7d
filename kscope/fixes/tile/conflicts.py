"""Bank conflicts: the smallest padding and the smallest XOR swizzle under which no access of the array conflicts, run
on the lanes' own addresses, as lines of the source where it is at hand."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import RESERVED, Asked, Setting
from kscope.fixes.given.source import named_on
from kscope.fixes.tile import code as source_code
from kscope.fixes.tile import layouts
from kscope.fixes.tile.code import Written
from kscope.fixes.tile.layouts import Layout, Padding, Pattern, Swizzle
from kscope.fixes.tile.placed import Group, Placed, declared, grouped, placed
from kscope.fixes.tile.tiles import SEEDS, Tile, Tiles, idle, tiles, width
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.contract.frozen import Estimate
from kscope.model.units import counted

LITTLE = 0.02  # of an array's wavefronts, up to which its excess is left alone (judged)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
MODES = (
    ("CU_TENSOR_MAP_SWIZZLE_32B", Swizzle(32, 16, 1, 2)),
    ("CU_TENSOR_MAP_SWIZZLE_64B", Swizzle(64, 16, 3, 1)),
    ("CU_TENSOR_MAP_SWIZZLE_128B", Swizzle(128, 16, 7, 0)),
)
"""16-byte pieces by address bits 7 and up (CUDA Driver API, CUtensorMapSwizzle; PTX ISA, matrix layouts)."""
DESCRIBED = ("HGMMA", "QGMMA", "IGMMA", "BGMMA", "UTCHMMA", "UTCQMMA", "UTCOMMA", "UTCIMMA")


def fixes(asked: Asked) -> list[Fix]:
    """Padding and swizzle of the arrays that conflict; what cannot be had is said with its reason."""
    setting, price = asked.setting, asked.finding.estimate
    seen = tiles(setting.code, setting.block, *([setting.shared + RESERVED] if setting.shared else []))
    bad = [t for t in seen.tiles if (c := layouts.total(t.every)).excess > LITTLE * c.needed]
    if not bad:
        unknown = _unknown(setting, seen, ())
        return [unknown] if unknown is not None else []
    fixed = _described(setting, bad)
    if fixed is not None:
        return [fixed]
    groups = grouped(setting, bad)
    unknown = _unknown(setting, seen, groups)
    if unknown is not None:
        return [unknown]
    made = []
    for kind in ("pad", "swizzle"):
        chosen = placed(groups, kind)
        every = sum(len(p.tiles) for p in chosen) == sum(len(members) for members, _, _ in groups)
        clear = every and not any(layouts.total(p.patterns, p.layout).excess for p in chosen)
        if chosen:
            made.append((not clear, _fix(setting, kind, chosen, price, clear, seen)))
    # What clears all comes first, and of those the cheaper one: padding, unless it takes blocks from the SM.
    ordered = sorted(made, key=lambda f: (bool(f[1].refused), f[0], f[1].price is None and price is not None))
    return [f for _, f in ordered]


def _described(setting: Setting, bad: Sequence[Tile]) -> Fix | None:
    """Where hardware reads the layout from a descriptor, no other can be had; the mode that would do is named."""
    code = setting.code
    users = code.where(lambda ins, op: op.pipe == "tma" or ins.opcode in DESCRIBED)
    if not users:
        return None
    every = [p for t in bad for p in t.every]
    was = layouts.total(every)
    mode = next((name for name, one in MODES if layouts.clears(every, one)), None)
    names = {code[i].opcode for i in users}
    described = sorted(n for n in names if n in DESCRIBED or n.startswith("UTMA"))
    if described:
        by = described[0]
        why = f"{by} fixes the layout of shared memory by its descriptor: neither padding nor other indices can be used"
    else:
        why = f"{min(names)} writes its bytes side by side: a copy a row could pad them, a tensor map exchange them"
    fits = f"; {mode} in the descriptor, and the same XOR in the lanes' addresses, clears it" if mode else (
        "; none of the descriptor's modes clears these accesses: change which lanes read which rows"
    )
    layout = dict(MODES).get(mode) if mode else None
    nothing = [Proof(what="wavefronts", before=was.needed, after=was.needed, unit="wavefronts")]
    proof = _proof("wavefronts with the descriptor's swizzle", every, layout) if layout is not None else nothing
    parameters: dict[str, int | float | str] = {"mode": mode} if mode else {}
    return Fix(
        kind="descriptor_swizzle", title="the descriptor's own swizzle", parameters=parameters, proof=proof,
        refused=why + fits,
    )  # fmt: skip


def _unknown(setting: Setting, seen: Tiles, groups: Sequence[Group]) -> Fix | None:
    """A refusal where an access might touch the arrays at addresses that do not follow from the code."""
    names = [array.name for _, found, _ in groups for array in found]
    every = bool(groups) and all(found for _, found, _ in groups)
    for i in seen.unknown:
        _, line, lines = setting.text(i)
        others = named_on(lines, line, [a.name for a in declared(lines, line)])
        if every and others and not others & set(names):
            continue  # the line names other arrays alone
        place = f" (line {line})" if line else ""
        return Fix(
            kind="swizzle", title="another layout of shared memory",
            refused=(
                f"{setting.code[i].name} at 0x{setting.code[i].pc:x}{place} has an address that does not follow from "
                "the code (loaded data, or rounds that depend on the launch): no layout can be proved free of conflicts"
            ),
        )  # fmt: skip
    return None


def _fix(
    setting: Setting, kind: str, chosen: Sequence[Placed], price: Estimate | None, clear: bool, seen: Tiles
) -> Fix:
    """clear: nothing conflicts any more, in any array."""
    more = sum(p.layout.size(p.used) - p.used for p in chosen)
    refused = _refused(setting, kind, chosen, more)
    every = [p for one in chosen for p in one.patterns]
    costs, slower = _costs(setting, more)
    written = Written() if refused else source_code.written(setting, chosen)
    parameters: dict[str, int | float | str] = {}
    for n, one in enumerate(chosen):
        prefix = f"{one.names or one.label or n}." if one.arrays or len(chosen) > 1 else ""
        parameters |= {prefix + key: getattr(one.layout, key) for key in one.layout.__struct_fields__}
    return Fix(
        kind="pad" if kind == "pad" else "swizzle",
        title=_title(chosen),
        language="" if refused else "cuda",
        code=written.helper,
        edits=written.edits,
        parameters=parameters,
        conditions=[*_conditions(setting, every, clear, seen), *written.conditions],
        proof=[row for one in chosen for row in _proof(_what(one), one.patterns, one.layout)],
        costs=costs,
        price=price if clear and not slower and not refused else None,
        refused=refused,
    )  # fmt: skip


def _title(chosen: Sequence[Placed]) -> str:
    layout = chosen[0].layout
    names = ", ".join(one.names for one in chosen if one.arrays) or "the tile"
    if isinstance(layout, Padding):
        return f"pad {names}: {layout.pad} bytes behind each {layout.pitch}"
    if layout.overlaps:
        bits = f"by the bits from {layout.pitch << layout.shift} on"
        return f"swizzle {names}: pieces of {layout.chunk} bytes exchanged {bits}"
    return f"swizzle {names}: pieces of {layout.chunk} bytes exchanged within rows of {layout.pitch}"


def _refused(setting: Setting, kind: str, chosen: Sequence[Placed], more: int) -> str:
    static = setting.launch.shared_static if setting.launch is not None else setting.shared or 0
    if kind == "pad" and any(p.arrays for p in chosen) and static + more > STATIC:
        return f"with {more} bytes more the declared arrays exceed {STATIC} bytes: swizzle, or dynamic shared memory"
    for one in chosen:
        wide = next((i for i in idle(setting.code) if not _carries(one.layout, width(setting.code, i)[0])), None)
        if wide is not None:
            return (
                f"{setting.code[wide].name} at 0x{setting.code[wide].pc:x} did not run here, and takes more at once "
                "than this layout keeps together"
            )
    if kind == "swizzle":
        for one in chosen:
            merged = source_code.merged(setting, one.tiles, one.arrays[0] if one.arrays else None)
            if merged is not None:
                return (
                    f"the compiler has merged neighbouring elements into {merged}: it could not see that an XOR in the "
                    "index leaves them neighbours; pad, or read them as vectors first"
                )
    return ""


def _carries(layout: Layout, wide: int) -> bool:
    """Whether accesses of so many bytes stay whole and aligned wherever they go."""
    return layout.pad % wide == 0 if isinstance(layout, Padding) else wide <= layout.chunk


def _proof(what: str, patterns: Sequence[Pattern], layout: Layout) -> list[Proof]:
    before, after = layouts.total(patterns), layouts.total(patterns, layout)
    offsets = {o for p in patterns for o, on in zip(p.offsets, p.active, strict=True) if on}
    back = sum(layout.inverse(layout(o)) == o for o in offsets)
    return [
        Proof(
            what=what, before=round(before.needed, 2), after=round(after.needed, 2), unit="wavefronts",
            how=(
                f"the 32 lanes of each warp, {len(SEEDS)} sets of launch values: {len(patterns)} patterns of addresses "
                f"under the new layout; {after.least:,.0f} is the least"
            ),
        ),
        Proof(
            what="offsets that the inverse maps back", before=len(offsets), after=back, unit="offsets",
            how="every offset that a lane touched",
        ),
    ]  # fmt: skip


def _what(one: Placed) -> str:
    count = sum(len(t.patterns) for t in one.tiles)
    return f"wavefronts of the {count} accesses of {one.names or 'the tile'}"


def _conditions(setting: Setting, every: Sequence[Pattern], clear: bool, seen: Tiles) -> list[Condition]:
    x, y, z = setting.block
    out = [
        proved("no access conflicts", "lanes", every, "run on all of them") if clear else
        Condition(holds="no access conflicts", state="assumed", why="some stay, none becomes worse; see the figures"),
        proved("one to one, aligned, within a row", "lanes", every, "each address of each access"),
    ]
    if seen.beyond:
        at = ", ".join(f"0x{setting.code[i].pc:x}" for i in seen.beyond[:4])
        why = "behind the block's shared memory under all values that were tried"
        out.append(Condition(holds=f"no launch gets to the accesses at {at}", state="assumed", why=why))
    if setting.launch is None:
        out.append(Condition(holds=f"blocks are {x} x {y} x {z}", state="check", why="the code alone does not say"))
    return out


def _costs(setting: Setting, more: int) -> tuple[list[str], bool]:
    """Words for bytes and occupancy, and whether an SM holds fewer blocks."""
    if not more:
        return ["no shared memory; an XOR in each address"], False
    words = [f"{more} bytes of shared memory more"]
    if setting.shared is not None:
        words[0] += f" ({setting.shared} to {setting.shared + more} a block)"
    was, will = setting.occupancy(), setting.occupancy(more_shared=more)
    if was is None or will is None:
        return words, was is not None
    same = "as before" if was.blocks == will.blocks else f"where it holds {was.blocks} now"
    return [*words, f"an SM holds {counted(will.blocks, 'block')}, {same}"], will.blocks < was.blocks
