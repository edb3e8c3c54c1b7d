"""Functions that a kernel calls, where its text is played: of values and pointers, with one value at their end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kscope.fixes.given.c_types import Kind, To, named, typed
from kscope.fixes.given.grammar import Node, Parser, Unplayable, whole
from kscope.fixes.given.text import LONGEST, blanked, closing

Function = tuple[tuple[str, ...], str]
"""Names of parameters, and the body."""

class Parameters(tuple[str, ...]):
    """Their names, and where they are known their types, and the type of what the function gives."""

    kinds: tuple[str, ...] = ()
    gives: str = ""

    def __repr__(self) -> str:
        return f"{self.gives}{tuple(self)}{self.kinds}"


_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_PARAMETER = re.compile(
    r"(?:const\s+)?(?P<kind>[A-Za-z_][\w ]*?)(?:(?P<star>\s*\*)\s*(?:const\s+)?(?:__restrict__\s+)?|\s+)(?P<name>\w+)"
)
_AROUND = re.compile(r"\b(?:static|inline|__forceinline__|__noinline__|__device__|__host__|constexpr|const)\b")


def functions(lines: Sequence[str], body: str) -> dict[str, Function]:
    """Those of a file that a text calls, and those that they call, each defined once."""
    code = "\n".join(map(blanked, lines))
    found: dict[str, Function] = {}
    asked = set(_CALLED.findall(body))
    while asked:
        name = asked.pop()
        heads = list(re.finditer(rf"__device__[^;{{}}()]*\b{name}\s*\(", code))
        if len(heads) != 1 or name in found:
            continue
        close = closing(code, heads[0].end())
        opened = code.find("{", close) if close is not None else -1
        end = closing(code, opened + 1) if opened >= 0 else None
        if close is None or end is None or code[close + 1 : opened].strip() or end - opened > LONGEST:
            continue
        given = [_PARAMETER.fullmatch(" ".join(p.split())) for p in code[heads[0].end() : close].split(",")]
        if all(given):
            parameters = Parameters(m["name"] for m in given if m is not None)
            parameters.kinds = tuple(m["kind"] + "*" * (m["star"] is not None) for m in given if m is not None)
            parameters.gives = _AROUND.sub(" ", heads[0][0].rpartition(name)[0]).strip()
            found[name] = parameters, code[opened : end + 1]
            asked |= set(_CALLED.findall(found[name][1])) - found.keys()
    return found


def trees(
    functions: Mapping[str, Function], number: Callable[[str], float] | None
) -> dict[str, tuple[tuple[str, ...], Node]]:
    """Functions as they are played. number: what a literal stands for."""
    read = number or whole
    return {
        name: (parameters, Parser(body, lambda word: typed(word, read(word))).body())
        for name, (parameters, body) in functions.items()
    }


def types(parameters: Sequence[str]) -> tuple[Sequence[Kind], Kind]:
    """Types of a function's parameters, and of what it gives."""
    if not isinstance(parameters, Parameters):
        return (None,) * len(parameters), None
    kinds = [To(named(kind[:-1])) if kind.endswith("*") else named(kind) for kind in parameters.kinds]
    return kinds, named(parameters.gives) if parameters.gives else None


def called(threads: Any, parameters: Sequence[str], body: Node, given: Sequence[Any]) -> Any:
    """The value of a call; Unplayable where a function returns elsewhere than at its end, or has arrays."""
    *before, last = body[1] or [("block", [])]
    if last[0] != "return" or last[1] is None or len(given) != len(parameters) or _more(before):
        raise Unplayable("a function of another kind")
    outside, threads.names = threads.names, {**threads.known, **dict(zip(parameters, given, strict=True))}
    taken, threads.taken = threads.taken, set()  # of its own variables it takes no address
    for one in before:
        threads.run(one)
    value = threads.value(last[1])
    threads.names, threads.taken = outside, taken
    return value


def _more(node: object) -> bool:
    """Whether a tree returns, or declares arrays."""
    if not isinstance(node, (tuple, list)):
        return False
    if len(node) == 4 and node[0] == "declare" and (node[3] or any(dims for _, _, dims, _ in node[2])):
        return True
    return (len(node) == 2 and node[0] == "return") or any(_more(part) for part in node)
