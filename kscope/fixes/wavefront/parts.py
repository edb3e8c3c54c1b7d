"""What a wavefront's text for one warp is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.wavefront.shape import Wave
from kscope.fixes.wavefront.sums import THREAD, Linear
from kscope.fixes.wavefront.trees import assigned, named, used

LANE, TID, COLUMN, TIME, TURN = "lane_n", "tid_n", "column_n", "time_n", "turn_n"


class State(Struct, frozen=True):
    """What a place of the loop writes for the right neighbour and for the next step. sites: what its readers read, by
    their place: own, left, above. first: the number that it is at first, or else the text of the place that tells."""

    kind: str
    arrays: frozenset[str]
    sites: frozenset[int]
    target: Node
    readers: Mapping[int, str]
    first: str | None
    beside: Node | None
    """Where the left neighbour's is read."""
    own: Node | None


class Emitted(Struct):
    """What a text is made of. carried: types of variables that stretches hand to each other."""

    wave: Wave
    states: Sequence[State]
    block: int
    carried: dict[str, str] = {}

    @property
    def columns(self) -> int:
        return self.block // WARP


def sized(tree: Node, block: int) -> Node:
    return named(tree, {"blockDim.x": ("number", block)})  # type: ignore[no-any-return]


def pointers(wave: Wave) -> set[str]:
    """Pointers that the loop turns."""
    inside = wave.statements[wave.at]
    turned = {one[2][0][0] for one in wave.statements if one[0] == "declare" and "*" in one[2][0][1]} & assigned(inside)
    return turned


def derived(made: Emitted, kept: Sequence[Node]) -> list[Node]:
    """Declarations of what follows from the thread's number, as far as statements ask for it."""
    wanted = used(list(kept))
    while True:
        more = {x for name in wanted & made.wave.derived.keys() for x in used(made.wave.derived[name])} - wanted
        if not more:
            break
        wanted |= more
    wanted &= made.wave.derived.keys()
    return [one for one in made.wave.statements if one[0] == "declare" and one[2][0][0] in wanted]


def columns(made: Emitted) -> str:
    return f"for (int {COLUMN} = 0; {COLUMN} < {made.columns}; {COLUMN}++) {{"


def bound(wave: Wave, more: int) -> str:
    """Steps from a thread's number to the first one that is out of range for it, and so many more, as text."""
    of = {n: m for n, m in wave.ends.of.items() if n not in (wave.step, THREAD)}
    out = Linear({}, more).plus(Linear(of, wave.ends.number), -1)
    words = sorted(f"{'+' if many > 0 else '-'} {f'{abs(many)} * ' if abs(many) > 1 else ''}{name}"
                   for name, many in out.of.items())  # fmt: skip
    number = [f"{'+' if out.number > 0 else '-'} {abs(out.number)}"] if out.number or not words else []
    text = " ".join([*words, *number])
    return text.removeprefix("+ ")
