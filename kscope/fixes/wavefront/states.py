"""What places of a wavefront leave for each other: who reads it, and what it is at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.recurrence.linear import bare
from kscope.fixes.wavefront.parts import State
from kscope.fixes.wavefront.shape import Wave
from kscope.fixes.wavefront.traced import Seen
from kscope.fixes.wavefront.trees import nodes, used, value


def states(found: Wave, told: Seen) -> list[State]:
    """What places leave for others. Raises Unplayable where it is not theirs alone, or not left by all in range."""
    by_site = {id(n): n for one in found.statements for n in nodes(one)}
    out = []
    for sites in _groups(told):
        readers = {at: _what(beside, before) for at, (by, beside, before) in told.reads.items() if by & sites}
        if readers:  # else what the loop leaves there is for others
            out.append(_state(found, told, sites, readers, by_site))
    if not out:
        raise Unplayable("no state")
    stored = {id(n[2]) for one in (*found.before, *found.inside, *found.after) for n in _stores(one)}
    if stored - {site for one in out for site in one.sites}:
        raise Unplayable("steps that store")
    return out


def _state(
    found: Wave, told: Seen, sites: set[int], readers: Mapping[int, str], by_site: Mapping[int, Node]
) -> State:  # fmt: skip
    inside = {id(n[2]) for one in found.inside for n in nodes(one) if n[0] == "assign" and n[1] == "="}
    arrays = frozenset(name for site in sites for name in told.writes[site])
    kinds = {one[1] for one in found.statements if one[0] == "declare" and one[3] and one[2][0][0] in arrays}
    if not sites <= inside or len(kinds) != 1 or not _always(found.inside, sites):
        raise Unplayable("a state that is written out of range, or not always")
    if len({value(by_site[site]) for site in sites}) > 1:
        raise Unplayable("a state that is written to several places")
    target = by_site[min(sites)]
    by = {what: by_site[at] for at, what in readers.items()}
    return State(kinds.pop(), arrays, frozenset(sites), target, readers, _first(found, set(arrays)), by.get("left"),
                 by.get("own", target))  # fmt: skip


def _groups(told: Seen) -> list[set[int]]:
    """Places that write to the same arrays."""
    out: list[tuple[set[int], set[str]]] = []
    for site, arrays in told.writes.items():
        one = {site}, set(arrays)
        for other in [x for x in out if x[1] & one[1]]:
            out.remove(other)
            one = one[0] | other[0], one[1] | other[1]
        out.append(one)
    return [sites for sites, _ in out]


def _always(statements: Sequence[Node], sites: set[int]) -> bool:
    """Whether statements write to a place whatever is true."""
    for one in statements:
        if one[0] == "if" and all(_always([x], sites) for x in one[2:]):
            return True
        if one[0] == "block" and _always(one[1], sites):
            return True
        if one[0] == "do" and _assigns(one[1], sites):
            return True
        if one[0] == "declare" and one[2][0][3] is not None and _assigns(one[2][0][3], sites):
            return True
    return False


def _assigns(node: Node, sites: set[int]) -> bool:
    return any(n[0] == "assign" and id(n[2]) in sites for n in nodes(node))


def _stores(node: Node) -> list[Node]:
    """What a tree stores to memory but where a place is one of few."""
    if node[0] == "if" and any(n[0] == "binary" and n[1] == "==" for n in nodes(node[1])):
        return []
    if node[0] in ("assign", "after") and len(node) == 4 and node[2][0] in ("index", "deref", "member"):
        return [node, *(x for part in node[2:] if isinstance(part, tuple) for x in _stores(part))]
    parts = [x for part in node for x in (part if isinstance(part, list) else [part])]
    return [x for part in parts if isinstance(part, tuple) and part for x in _stores(part)]


def _what(beside: int, before: int) -> str:
    found = {(0, 1): "own", (-1, 1): "left", (-1, 2): "above"}.get((beside, before))
    if found is None:
        raise Unplayable("what another neighbour or an earlier step has left")
    return found


def _first(found: Wave, arrays: set[str]) -> str | None:
    """What all of a state's places are in front of the loop, where that is one expression of constants."""
    pointers = {one[2][0][0]: used(one[2][0][3]) for one in found.statements
                if one[0] == "declare" and "*" in one[2][0][1] and one[2][0][3] is not None}  # fmt: skip
    roots = arrays | {name for name, of in pointers.items() if of & arrays}
    out = set()
    local = {one[2][0][0] for one in found.statements if one[0] == "declare"}
    for one in found.statements[: found.at]:
        for n in nodes(one):
            if n[0] in ("assign", "after") and len(n) == 4 and n[2][0] in ("index", "deref") and _root(n[2]) in roots:
                out.add(_constant(n[3], local) if n[1] == "=" else None)
    return (out.pop() if len(out) == 1 else None) if out else "0"


def _root(node: Node) -> str:
    while node[0] in ("index", "deref", "binary"):
        node = node[2] if node[0] == "binary" and node[2][0] != "number" else node[1]
        if isinstance(node, str):
            return ""
    return str(node[1]) if node[0] == "name" else ""


def _constant(node: Node, local: set[str]) -> str | None:
    if any(n[0] in ("index", "deref", "call", "assign", "after", "choose") for n in nodes(node)):
        return None
    names = used(node)
    if names & local or any("." in name for name in names):
        return None
    return bare(value(node))
