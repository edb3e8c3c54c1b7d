"""Names of a kernel: which are pointers into global memory, which a text may change where it hands them on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kscope.fixes.atomics.by_reference import CALLED
from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.given.source import SIZES, split_declarators
from kscope.fixes.given.text import closing

NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
_POINTER = re.compile(
    r"(?<=[;{}])\s*(?:const\s+)?(?:auto\b\s*(?:const\s+)?(?P<way>\*?)|[\w:]+(?:<[\w\s,:]*>)?(?:\s+(?:const|int|long|char|short))*\s*"
    r"(?P<star>\*))[\s*]*(?:const\s+)?(?:__restrict(?:__)?\s+)?(?P<name>[A-Za-z_]\w*)\s*=(?P<value>[^;]*);"
)
_BY_VALUE = re.compile(r"\s*([\w:]+)(?:<.*>)?\s+(\w+)\s*", re.S)
_PLACE = re.compile(r"\s*[&(]*\s*\w+\s*[+[][^?]*|.*NULL.*", re.S)


def pointers(head: str, body: str, uses: str) -> dict[str, str]:
    """Pointers into global memory by their names, with their elements' type where it is a plain one: a kernel's
    parameters (head: what its brackets hold), what is made of them in the body so far, and members of structures that
    it uses."""
    out: dict[str, str] = {}
    for one in split_declarators(head):
        bare = re.sub(r"\b(?:const|__restrict__|__restrict|restrict|volatile)\b", " ", one)
        named = re.fullmatch(r"\s*([\w:]+(?:<.*>)?(?:\s+\w+)*?)\s*(?:\*\s*(\w+)|\b(\w+)\s*\[\s*\])\s*", bare, re.S)
        if named is not None and "volatile" not in one:
            out[named[2] or named[3]] = " ".join(named[1].split())
    out |= dict.fromkeys(_members(head, uses), "")
    for match in _POINTER.finditer(body):
        first = [n for n in out if re.search(rf"(?<![\w.])(?<!->){re.escape(n)}\b", match["value"])]
        plain = match["star"] or match["way"] or _PLACE.fullmatch(match["value"])
        if first and plain and "->" not in match["value"]:
            out[match["name"]] = ""
    return {n: k if k in SIZES else "" for n, k in out.items()}


def alike(code: str, name: str, known: Iterable[str]) -> set[str]:
    """A pointer and the others that a text makes of it, or it of them."""
    made = [
        ({one, *NAME.findall(re.sub(r"\[[^][]*\]", "", value))} & {*known, name})
        for one, value in re.findall(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*=(?!=)([^;=]*)", code)
    ]  # fmt: skip
    out, before = {name}, 0
    while len(out) > before:
        before = len(out)
        out |= {n for group in made if group & out for n in group}
    return out


def _members(head: str, body: str) -> list[str]:
    """Pointers and arrays that structures have which are handed over by value: with an index, or added to."""
    out = list[str]()
    for one in split_declarators(head):
        named = _BY_VALUE.fullmatch(re.sub(r"\b(?:const|__grid_constant__)\b", " ", one))
        bare = rf"(?<![\w.])(?<!->){named[2]}\b(?!\s*\.)" if named is not None else ""
        if named is not None and named[1] not in SIZES and not re.search(bare, body):
            out += re.findall(rf"(?<![\w.])(?<!->)({named[2]}(?:\.\w+)+)\s*[\[+]", body)
    return list(dict.fromkeys(out))


def constant(code: str, name: str) -> bool:
    """Whether a pointer leads to what cannot be changed through it."""
    at = rf"\bconst\b[^;,(){{}}=]*\*\s*(?:const\s+)?(?:__restrict(?:__)?\s+)?{re.escape(name)}\b"
    return re.search(at, code) is not None


def lends(body: str, name: str, handed: set[str]) -> bool:
    """Whether a text gives away elements of an array, by reference or to a method of theirs; handed: what it gives to
    functions that could take it so."""
    place = rf"\*?\s*\(?\s*{re.escape(name)}\b"
    if any(re.match(place, one) for one in handed) or re.search(rf"&\s*\w+\s*[=({{]\s*{place}", body):
        return True
    for m in re.finditer(rf"(?<![\w.])(?<!->){re.escape(name)}\s*\[", body):
        close = closing(body, m.end())
        if close is None or re.match(r"(?:\s*\.\s*\w+)+\s*\(", body[close + 1 :]):
            return True
    return False


def stored(text: str, name: str) -> bool:
    """Whether a text writes to where a pointer leads."""
    for m in re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[", text):
        close = closing(text, m.end())
        if close is None or re.match(rf"(?:\s*\[[^\]]*\])*(?:\s*\.\s*\w+)*{MODIFIED}", text[close + 1 :]):
            return True
    return re.search(rf"(?:^|[;{{}})])\s*\*\s*\(?\s*{name}\b[^;=]*{MODIFIED}", text) is not None


def may_store(text: str) -> bool:
    """Whether a statement stores, or calls what could."""
    element = rf"(?:\]|->\s*\w+)\s*(?:\.\s*\w+\s*)*{MODIFIED}|(?:^|[;{{}})])\s*\*[^;=]*=(?!=)|\]\s*\("
    called = set(re.findall(r"([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\(", text))
    return re.search(element, text) is not None or bool(called - CALLED - set(SIZES) - {"if", "__ldg", "sizeof"})


def put(text: str, start: int, end: int, done: Sequence[tuple[int, int, str]]) -> str:
    """A piece of a text with spans of the text changed."""
    for a, b, new in sorted(done, reverse=True):
        text = text[:a] + new + text[b:]
        end += len(new) - (b - a)
    return text[start:end]


def word(code: str, at: int) -> int:
    """Where a text goes on behind blanks."""
    return at + len(code[at:]) - len(code[at:].lstrip())
