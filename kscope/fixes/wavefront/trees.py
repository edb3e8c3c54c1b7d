"""Trees of a kernel's text that can be both played and written: what is in them, what stands for it, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.whole_numbers import drawn
from kscope.fixes.recurrence.linear import bare, written

MET = ("barrier", "meeting")


class Word(int):
    """A literal: the whole number that it is played as, and how it is written."""

    text: str

    def __str__(self) -> str:
        return self.text


def parsed(body: str) -> Node:
    return Parser(body, _word).body()


def _word(text: str) -> Word:
    made = Word(drawn(text))
    made.text = text
    return made


def nodes(tree: Any) -> Iterator[Node]:
    """All nodes of a tree, from the outermost one inwards."""
    if isinstance(tree, tuple) and tree and isinstance(tree[0], str):
        yield tree
    if isinstance(tree, (tuple, list)):
        for part in tree:
            yield from nodes(part)


def used(tree: Any) -> set[str]:
    return {n[1] for n in nodes(tree) if n[0] == "name" and len(n) == 2}


def declared(tree: Any) -> list[str]:
    """Names that a tree declares, each as often as it does."""
    return [name for n in nodes(tree) if n[0] == "declare" and len(n) == 4 for name, *_ in n[2]]


def assigned(tree: Any) -> set[str]:
    """Names of variables that a tree gives other values."""
    return {n[2][1] for n in nodes(tree) if n[0] in ("assign", "after") and len(n) == 4 and n[2][0] == "name"}


def meets(tree: Any) -> bool:
    return any(n[0] in MET and len(n) == 1 for n in nodes(tree))


def replaced(tree: Any, new: Callable[[Node], Node | None]) -> Any:
    """A tree with other nodes in the place of those for which there are such."""
    if isinstance(tree, list):
        return [replaced(part, new) for part in tree]
    if not isinstance(tree, tuple):
        return tree
    put = new(tree) if tree and isinstance(tree[0], str) else None
    return put if put is not None else tuple(replaced(part, new) for part in tree)


def named(tree: Any, by: Mapping[str, Node]) -> Any:
    """A tree with expressions in the place of names."""
    return replaced(tree, lambda n: by.get(n[1]) if n[0] == "name" and len(n) == 2 else None)


def lines(node: Node) -> list[str]:
    """A statement's text."""
    kind = node[0]
    if kind == "block":
        return ["{", *(line for one in node[1] for line in lines(one)), "}"]
    if kind == "for":
        first = lines(node[1])[0] if node[1] != ("block", []) else ";"
        return [f"for ({first} {value(node[2])}; {value(node[3])}) {{", *_inside(node[4]), "}"]
    if kind == "if":
        other = _inside(node[3])
        return [f"if ({value(node[1])}) {{", *_inside(node[2]), *(["} else {", *other] if other else []), "}"]
    if kind == "declare":
        return [_declaration(node)]
    if kind == "do":
        return [f"{value(node[1])};"]
    if kind in MET:
        return ["__syncwarp();"]
    if kind == "return" and node[1] is None:
        return ["return;"]
    if kind == "leave":
        return [f"{node[1]};"]
    raise Unplayable(kind)


def _inside(node: Node) -> list[str]:
    return [line for one in (node[1] if node[0] == "block" else [node]) for line in lines(one)]


def _declaration(node: Node) -> str:
    _, kind, made, shared = node
    parts = []
    for name, star, dims, first in made:
        what = f"{star}{name}{''.join(f'[{value(d)}]' for d in dims)}"
        if first is not None and first[0] == "list":
            what += f" = {{{', '.join(value(x) for x in first[1])}}}"
        elif first is not None:
            what += f" = {value(first)}"
        parts.append(what)
    if all("*" in star and first is not None for _, star, _, first in made) and not shared:
        kind = "auto"  # the tree does not say what is constant
    return f"{'__shared__ ' if shared else ''}{kind} {', '.join(parts)};"


def value(node: Node) -> str:
    """An expression's text, with assignments."""
    if node[0] in ("assign", "after"):
        if node[3] == ("number", 1) and node[1] in ("+=", "-=") and not isinstance(node[3][1], Word):
            return f"{value(node[2])}{node[1][0] * 2}" if node[0] == "after" else f"{node[1][0] * 2}{value(node[2])}"
        return f"{value(node[2])} {node[1]} {bare(value(node[3]))}"
    if node[0] == "binary" and node[1] == ",":
        return f"{value(node[2])}, {value(node[3])}"
    if any(n[0] in ("assign", "after") for n in nodes(node)):
        return bare(written(_flat(node)))
    return bare(written(node))


def _flat(node: Node) -> Node:
    """With assignments within expressions as text of their own."""
    return replaced(node, lambda n: ("name", f"({value(n)})") if n[0] in ("assign", "after") and len(n) == 4 else None)  # type: ignore[no-any-return]


def split(statements: Sequence[Node]) -> list[Node]:
    """Statements with a declaration for each name."""
    out: list[Node] = []
    for one in statements:
        out += [("declare", one[1], [each], one[3]) for each in one[2]] if one[0] == "declare" else [one]
    return out
