"""Whether the rounds of a loop may change, through references and methods, what stands outside of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kscope.fixes.atomics.by_reference import given
from kscope.fixes.given.rewrite import declarations
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Loop

_NAMED = r"(?<![\w.])(?<!->)"
_STATEMENT = re.compile(
    r"(?:(?<=[;{})])|^)\s*(?:\w+\s*::\s*)*(?P<name>[A-Za-z_]\w*)\s*(?:<[\w\s,]*>\s*)?\([^;{}]*\)\s*;"
)
_HARMLESS = re.compile(r"__sync\w+|static_assert|assert|printf|if|for|while|switch|return")


def carried(code: str, loop: Loop, lines: Sequence[str], named: Collection[str] = ()) -> bool:
    """Whether a function could take by reference, or a method change, a value of the thread that is not a round's own.
    lines: of the file, which has the functions. named: what methods may be called of, as a condition has them."""
    text = re.sub(r"\batomic\w+\s*\(", "min(", code[loop.span[0] : loop.body[1]])
    head, before = code[code.find("(") : code.find("{")], code[code.find("{") : loop.span[0]]
    given_over = declarations(head)
    outside = {name for _, name in declarations(before)} | {name for kind, name in given_over if kind not in SIZES}
    outside -= {name for _, name in declarations(text)} | set(re.findall(r"\*[\s\w]*?(\w+)\s*[,)]", head))
    handed = {re.sub(r"^\s*&\s*|\s*\[[^\]]*\]\s*$", "", one) for one in given(text, lines)}
    methods = _methods(text) - set(named)
    steady = set(re.findall(r"\bconst\s+\w[\w\s]*?[\s*&]+(\w+)\s*[=({]", before))
    return bool((handed | methods) & outside - steady)


def asked(code: str, loops: Sequence[Loop]) -> list[str]:
    """Parameters of a kernel whose methods the rounds of its loops call: each thread has its own of them."""
    given_over = {name for _, name in declarations(code[code.find("(") : code.find("{")])}
    return sorted(given_over.intersection(*[set().union(*(_methods(code[slice(*one.body)]) for one in loops))]))


def _methods(text: str) -> set[str]:
    """Names whose methods are called."""
    return set(re.findall(rf"{_NAMED}(\w+)\s*(?:\[[^\]]*\]\s*)?\.\s*\w+\s*\(", text))


def acting(text: str) -> bool:
    """Whether a text has calls for the sake of what they do."""
    return any(_HARMLESS.fullmatch(m["name"]) is None for m in _STATEMENT.finditer(text))
