"""What a piece of a kernel's text may change."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing

CHANGED = re.compile(r"(?<![\w.\]])(\w+)\s*(?:(?:[-+*/|&^%]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*(\w+)")
_ELEMENT = re.compile(r"(?<![\w.])(\w+)\s*(?:\[[^][]*\]\s*)+(?:\.\w+\s*)?(?:(?:[-+*/|&^%]|<<|>>)?=(?!=)|\+\+|--)")
_ADDRESS = re.compile(r"(?:[(,=]|\breturn\b)\s*&\s*(\w+)")
_METHOD = re.compile(r"(?<![\w.])(?<!->)(\w+)(?:\s*\[[^][]*\])*\s*(?:\.|->)\s*\w+\s*\(")
_WRITTEN = re.compile(r'"[=+]&?\w+"\s*\(\s*(\w+)')
_OWN = re.compile(r"\b(?!else\b|do\b|return\b)[A-Za-z_]\w*(?:\s+|\s*[*&]\s*)(\w+)\s*=(?!=)")
_CALL = re.compile(r"(?<![\w.:>])((?:\w+::)*[A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\s*\(")
_MEMBER = re.compile(r"(?<![\w.\]>])(\w+)\.\w+\s*(?:(?:[-+*/|&^%]|<<|>>)?=(?!=)|\+\+|--)")
_INSIDE = re.compile(r"\w+\s*\[[^][]*\]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_STATEMENTS = {"for", "if", "while", "switch", "sizeof"}
_PLAIN = re.compile(
    r"__\w+|make_\w+|min|max|\w+f|(?:nvcuda::)?wmma::\w+|static_cast|reinterpret_cast|size_t|int|unsigned|float|double"
)
"""Functions of CUDA that change none of what they are given by name."""


def changed(text: str) -> set[str]:
    """Names that are assigned to, those apart that the text declares."""
    return {a or b for a, b in CHANGED.findall(text)} - set(_OWN.findall(text))


def touched(text: str, code: str, around: str) -> set[str]:
    """Names of a kernel that a piece of its text may change: by assignment, by their address, or in a function that it
    calls. code: the kernel; around: the file. What a function is given that nobody sees counts as changed."""
    found = changed(text).union(*(p.findall(text) for p in (_ADDRESS, _ELEMENT, _METHOD, _WRITTEN)))
    for name in set(_CALL.findall(text)) - _STATEMENTS:
        given = [c.arguments for c in calls_of(re.sub(rf"\b{name}\s*<[\w, ]*>", name, text), name)]
        inner = re.search(rf"\bauto\s+{name}\s*=\s*\[[^]]*\]\s*\(", code)
        head = inner or re.search(rf"__device__[^;{{}}]*\b{name}\s*\(", around)
        if re.search(rf"#\s*define\s+{name}\s*\(", around):
            found |= set(_WORD.findall(code))  # a macro may change whatever it sees
        elif head is not None:
            found |= _altered(given, code if inner is not None else around, head.end())
            found |= _within(code, head.end(), around) if inner is not None else set()
        elif not _PLAIN.fullmatch(name):
            found |= {w for a in given for one in a for w in _WORD.findall(one)}
    return found


def names_changed(text: str, code: str, around: str) -> set[str]:
    """The same without what is changed in arrays and by atomics: variables."""
    bare = re.sub(r"\batomic\w+\s*\(", "min(", text)
    while (less := _INSIDE.sub("0", bare)) != bare:
        bare = less
    return {n for n in {*_MEMBER.findall(text), *touched(bare, code, around)} if n.isidentifier()}


def _altered(given: Sequence[Sequence[str]], where: str, at: int) -> set[str]:
    """Names that calls give a function by reference. at: where its parameters begin."""
    close = closing(where, at)
    if close is None:
        return {w for a in given for one in a for w in _WORD.findall(one)}
    takes = list(split_declarators(where[at:close]))
    alters = [n for n, p in enumerate(takes) if "&" in p and not p.strip().startswith("const ")]
    return {w for a in given for n in alters if n < len(a) for w in _WORD.findall(a[n])}


def _within(code: str, at: int, around: str) -> set[str]:
    """Names of the kernel that a function in it changes, which sees them all. at: where its parameters begin."""
    opened = code.find("{", closing(code, at) or at)
    end = closing(code, opened + 1)
    return touched(code[opened:end], code[: max(0, at - 1)], around) if end is not None else set(_WORD.findall(code))
