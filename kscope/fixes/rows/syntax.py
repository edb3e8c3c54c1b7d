"""Trees of the grammar as text again, and what is looked for and changed in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from kscope.fixes.given.grammar import Node, Parser, Unplayable

_LEVELS = {op: n for n, ops in enumerate((
    (",",), ("=",), ("?",), ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)) for op in ops}  # fmt: skip
UNARY, ATOM = 20, 30


def tree(text: str) -> Node | None:
    """A function's body, its literals as they are written; None where it is more than the grammar."""
    try:
        return Parser(text, number=lambda word: word).body()  # type: ignore[arg-type,return-value]
    except (Unplayable, RecursionError):
        return None


def parts(node: Node) -> Iterator[Node]:
    """The nodes right below one."""
    if node[0] == "declare":
        for _, _, dims, value in node[2]:
            yield from dims
            if value is not None:
                yield value
    elif node[0] in ("block", "list"):
        yield from node[1]
    elif node[0] == "call":
        yield from node[2]
    else:
        yield from (one for one in node[1:] if isinstance(one, tuple))


def inside(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for one in parts(node):
        yield from inside(one)


def names(*nodes: Node) -> Counter[str]:
    """How often each name is used."""
    return Counter(one[1] for node in nodes for one in inside(node) if one[0] == "name")


def declared(*nodes: Node) -> Counter[str]:
    return Counter(made[0] for node in nodes for one in inside(node) if one[0] == "declare" for made in one[2])


def root(node: Node) -> str:
    """The name of the array, or the variable, that an expression is a place of; "" for anything else."""
    while node[0] in ("index", "member", "deref", "cast", "binary"):
        node = node[2] if node[0] in ("cast", "binary") and (node[0] == "cast" or node[1] == ",") else (
            node[2] if node[0] == "binary" else node[1])  # fmt: skip
    return node[1] if node[0] == "name" else ""


def replaced(node: Node, how: Callable[[Node], Node | None]) -> Node:
    """With other nodes in places, from above down: what `how` gives is not looked into."""
    new = how(node)
    if new is not None:
        return new
    if node[0] == "declare":
        made = [(name, star, [replaced(d, how) for d in dims], value and replaced(value, how))
                for name, star, dims, value in node[2]]  # fmt: skip
        return (*node[:2], made, *node[3:])
    if node[0] in ("block", "list"):
        return (node[0], [replaced(one, how) for one in node[1]])
    if node[0] == "call":
        return (*node[:2], [replaced(one, how) for one in node[2]])
    return tuple(replaced(one, how) if isinstance(one, tuple) else one for one in node)


def spelled(node: Node, level: int = 0) -> str:
    """An expression's text, in brackets where what is around binds more."""
    text, own = _expression(node)
    return f"({text})" if own < level else text


def _expression(node: Node) -> tuple[str, int]:
    kind = node[0]
    if kind == "binary":
        own = _LEVELS[node[1]]
        return f"{spelled(node[2], own)}{'' if node[1] == ',' else ' '}{node[1]} {spelled(node[3], own + 1)}", own
    if kind == "assign":
        one = node[3] == ("number", 1) and node[1] in ("+=", "-=")
        to = spelled(node[2], UNARY)
        return (f"{node[1][0] * 2}{to}", UNARY) if one else (f"{to} {node[1]} {spelled(node[3], 1)}", 1)
    if kind == "choose":
        return f"{spelled(node[1], 3)} ? {spelled(node[2], 1)} : {spelled(node[3], 1)}", 2
    if kind == "unary":
        return f"{node[1]}{spelled(node[2], UNARY + 1)}", UNARY
    if kind == "cast":
        return f"({node[1]}{' ' + '*' * node[3] if node[3] else ''}){spelled(node[2], UNARY + 1)}", UNARY
    if kind in ("deref", "address"):
        return f"{'*' if kind == 'deref' else '&'}{spelled(node[1], UNARY)}", UNARY
    return _place(node), ATOM


def _place(node: Node) -> str:
    kind = node[0]
    if kind in ("number", "name"):
        return str(node[1])
    if kind == "index":
        return f"{spelled(node[1], ATOM)}[{spelled(node[2])}]"
    if kind == "member":
        return f"{spelled(node[1], ATOM)}.{node[2]}"
    if kind == "after":
        return f"{spelled(node[2], ATOM)}{node[1][0] * 2}"
    if kind == "call":
        return f"{node[1]}({', '.join(spelled(one, 1) for one in node[2])})"
    if kind == "list":
        return f"{{{', '.join(spelled(one, 1) for one in node[1])}}}"
    raise Unplayable(kind)


def declaration(node: Node, kept: frozenset[str] | set[str] = frozenset()) -> str:
    """kept: names that nobody writes to again."""
    _, kind, made, shared = node
    words, stars = [], {star for _, star, _, _ in made}
    if len(stars) > 1 or "&" in stars or ("*" in stars and any(value is None for *_, value in made)):
        raise Unplayable("a declaration")
    for name, _, dims, value in made:
        sides = "".join(f"[{spelled(d)}]" for d in dims)
        words.append(f"{name}{sides}{' = ' + spelled(value, 1) if value is not None else ''}")
    if stars == {"*"}:
        return f"auto {', '.join('*' + w for w in words)}"
    const = not shared and all(name in kept and not dims and value for name, _, dims, value in made)
    return f"{'__shared__ ' if shared else 'const ' if const else ''}{kind} {', '.join(words)}"


def lines(node: Node, pad: str, kept: frozenset[str] | set[str] = frozenset(), unrolled: bool = False) -> list[str]:
    """The text of a statement. unrolled: whether its loops are to be."""
    kind = node[0]
    if kind == "block":
        return [line for one in node[1] for line in _scoped(one, pad, kept, unrolled)]
    if kind == "declare":
        return [f"{pad}{declaration(node, kept)};"]
    if kind == "do":
        return [f"{pad}{spelled(node[1])};"]
    if kind == "pragma":
        return [f"{pad}#pragma {node[1]}"]
    if kind == "return" and len(node) == 1:
        return [f"{pad}return;"]
    if kind in ("barrier", "meeting"):
        return [f"{pad}{'__syncthreads' if kind == 'barrier' else '__syncwarp'}();"]
    if kind == "for":
        return [*([f"{pad}#pragma unroll"] if unrolled else []),
                *headed(head(node), lines(node[4], pad + "  ", kept, unrolled), pad)]  # fmt: skip
    if kind == "if":
        then = lines(node[2], pad + "  ", kept, unrolled)
        made = headed(f"if ({spelled(node[1])})", then, pad, shut=_some(node[3]))
        other = lines(node[3], pad + "  ", kept, unrolled) if _some(node[3]) else []
        return made + (headed("else", other, pad) if other else [])
    raise Unplayable(kind)


def _scoped(node: Node, pad: str, kept: frozenset[str] | set[str], unrolled: bool) -> list[str]:
    """A statement within a block: in braces where it is one that declares names."""
    if node[0] != "block" or not any(one[0] == "declare" for one in node[1]):
        return lines(node, pad, kept, unrolled)
    return [f"{pad}{{", *lines(node, pad + "  ", kept, unrolled), f"{pad}}}"]


def head(node: Node) -> str:
    """`for (...)`."""
    first = "" if node[1] == ("block", []) else lines(node[1], "")[0].rstrip(";")
    test = "" if node[2] == ("number", 1) else spelled(node[2])
    step = "" if node[3] == ("number", 0) else spelled(node[3])
    return f"for ({first}; {test}; {step})" if first or step else f"while ({test or 1})"


def headed(first: str, body: list[str], pad: str, *, shut: bool = False) -> list[str]:
    """A statement under its head, on its line where it is short."""
    if not body:
        return [f"{pad}{first} {{}}" if shut else f"{pad}{first};"]
    short = f"{pad}{first} {body[0].strip()}"
    if len(body) == 1 and not shut and len(short) <= 120 and not body[0].strip().startswith("if"):
        return [short]
    return [f"{pad}{first} {{", *body, f"{pad}}}"]


def _some(node: Node) -> bool:
    return node != ("block", [])


def statements(node: Node) -> list[Node]:
    return list(node[1]) if node[0] == "block" else [node]
