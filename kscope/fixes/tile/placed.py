"""Arrays in shared memory: which tiles are which declared array, and the layout that is proposed for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import gcd

import msgspec
from msgspec import Struct

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import Array, arrays, named_on
from kscope.fixes.tile import layouts
from kscope.fixes.tile.layouts import Layout, Padding, Pattern
from kscope.fixes.tile.tiles import Tile, pitches


class Placed(Struct, frozen=True):
    """Tiles that are one array, or parts of one, or arrays that stand side by side on all lines, with the layout that
    they get. `arrays`: their declarations."""

    tiles: tuple[Tile, ...]
    layout: Layout
    arrays: tuple[Array, ...] = ()
    file: str = ""
    label: str = ""
    """Tells tiles without a name apart, where they get layouts of their own."""

    @property
    def patterns(self) -> list[Pattern]:
        return [p for tile in self.tiles for p in tile.every]

    @property
    def names(self) -> str:
        return ", ".join(a.name for a in self.arrays)

    @property
    def used(self) -> int:
        return sum(tile.end - tile.start for tile in self.tiles)


Group = tuple[tuple[Tile, ...], tuple[Array, ...], str]


def grouped(setting: Setting, bad: Sequence[Tile]) -> list[Group]:
    """Tiles by the arrays that their source lines name; those of which none is named together."""
    named: dict[tuple[str, tuple[str, ...]], tuple[list[Tile], tuple[Array, ...]]] = {}
    rest: list[Tile] = []
    for tile in bad:
        found, file = _arrays(setting, tile)
        if found:
            named.setdefault((file, tuple(a.name for a in found)), ([], found))[0].append(tile)
        else:
            rest.append(tile)
    groups: list[Group] = []
    for (file, _), (members, found) in named.items():
        if len(found) == 1 or (len(found) == len(members) and len({(a.element, a.row) for a in found}) == 1):
            groups.append((tuple(members), found, file))
        else:
            rest += members
    return groups + ([(tuple(rest), (), "")] if rest else [])


def _arrays(setting: Setting, tile: Tile) -> tuple[tuple[Array, ...], str]:
    """The declared arrays that all lines of a tile's accesses name."""
    names: set[tuple[str, str]] | None = None
    known: dict[tuple[str, str], Array] = {}
    silent = False
    for i in tile.patterns:
        here: set[tuple[str, str]] = set()
        for file, line in setting.sites(i):
            lines = setting.lines(file)
            above = {a.name: a for a in declared(lines, line)}
            here |= {(file, n) for n in named_on(lines, line, list(above))}
            known |= {(file, n): a for n, a in above.items()}
        silent = silent or not here  # a load may be said to be of the line that uses its value
        names = names if not here else here if names is None else names & here
    size = tile.end - tile.start
    fitting = [key for key in sorted(names or ()) if _could_be(known[key], size, whole=silent)]
    return tuple(known[key] for key in fitting), fitting[0][0] if fitting else ""


def declared(lines: Sequence[str], line: int) -> list[Array]:
    """Arrays declared above a line, the nearest of each name."""
    return list({a.name: a for a in arrays(lines) if a.line <= line}.values())


def _could_be(array: Array, size: int, *, whole: bool) -> bool:
    """Whether a declared array is large enough for what was touched. whole: and no larger."""
    count = array.element
    for n in array.numbers:
        if n is None:
            return not whole
        count *= n
    return size == count if whole else size <= count


def placed(groups: Iterable[Group], kind: str) -> list[Placed]:
    """The smallest layout of a kind ("pad", "swizzle") for each group; groups without one are left out."""
    out: list[Placed] = []
    for members, found, file in groups:
        layout = _chosen(members, found, kind)
        together = layout is not None and (len(found) > 1 or _one_map(members, layout))
        every = [p for t in members for p in t.every]
        clear = layout is not None and together and layouts.total(every, layout).excess == 0
        if not clear and not found and len(members) > 1:  # no common layout: each tile its own
            alone = [(t, one) for t in members for one in placed([((t,), (), "")], kind)]
            out += [msgspec.structs.replace(one, label=f"{t.start:x}") for t, one in alone]
        elif together and layout is not None:
            out.append(Placed(members, layout, found, file))
    return out


def _chosen(members: Sequence[Tile], found: Sequence[Array], kind: str) -> Layout | None:
    """The smallest layout of a kind that clears these tiles together, or leaves the least."""
    every = [p for t in members for p in t.every]
    array = found[0] if found else None
    rows = _rows(members, array)
    row = rows[0] if array is not None and len(array.dims) > 1 and rows else None
    element = max(4, array.element if array is not None else min(t.element for t in members))
    if kind == "pad":
        return _padding(every, rows, row, element, max(t.end - t.start for t in members))
    return _swizzle(every, rows, row, max(element, *(t.widest for t in members)))


def _padding(
    every: Sequence[Pattern], rows: Sequence[int], row: int | None, element: int, used: int
) -> Layout | None:
    found = layouts.first_clear(every, layouts.paddings(rows, element, used))
    return found or layouts.best(every, layouts.paddings([row or layouts.SPAN], element, used))


def _swizzle(every: Sequence[Pattern], rows: Sequence[int], row: int | None, widest: int) -> Layout | None:
    found = layouts.first_clear(every, layouts.swizzles(rows, widest, row))
    if found is None and row is not None:
        shorter = [1 << n for n in range(4, 13) if 1 << n < row and row % (1 << n) == 0]
        found = layouts.first_clear(every, layouts.swizzles(shorter, widest, row))
    return found or layouts.best(every, layouts.swizzles([row or layouts.SPAN], widest, row))


def _rows(members: Sequence[Tile], array: Array | None) -> list[int]:
    """Lengths of a row to try: the declared one where a declaration gives it, those that the lanes show elsewhere."""
    if array is not None and len(array.dims) > 1:
        if array.row is not None:
            return [array.row]
        known = [n for n in array.numbers[:-1] if n is not None]
        if len(known) == len(array.dims) - 1 and len(members) == 1:
            count = reduce(lambda a, b: a * b, known, 1)
            size = members[0].end - members[0].start
            return [size // count] if size % count == 0 and size // count % array.element == 0 else []
        return []
    return sorted({r for t in members for r in pitches(t)})


def _one_map(members: Sequence[Tile], layout: Layout) -> bool:
    """Whether tiles that are parts of one array get the same map whether taken together or each alone."""
    if len(members) == 1:
        return True
    apart = reduce(gcd, (t.start - members[0].start for t in members[1:]))
    period = layout.pitch if isinstance(layout, Padding) else layout.pitch * (layout.mask + 1) << layout.shift
    return apart % period == 0
