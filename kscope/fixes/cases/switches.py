"""A switch in a kernel's text: its cases, macros put in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.text import blanked, closing

_SWITCH = re.compile(r"\bswitch\s*\(")
_LABEL = re.compile(r"\bcase\b(?P<label>(?:[^:?]|::)*):(?!:)|\bdefault\s*:(?!:)")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?![ \t]*(?:if|el|endif))(?:[^\n]*\\\n)*[^\n]*$")


class Case(Struct, frozen=True):
    """labels: as they are written; None for the default. text: of its statements."""

    labels: tuple[str | None, ...]
    text: str

    @property
    def whole(self) -> str:
        heads = " ".join("default:" if one is None else f"case {one}:" for one in self.labels)
        return f"{heads} {' '.join(self.text.split())}"


class Switch(Struct, frozen=True):
    """span: of the statement in the kernel's text; value: what it looks at, as it is written."""

    span: tuple[int, int]
    value: str
    cases: tuple[Case, ...]


def without_comments(code: str) -> str:
    """With blanks for comments of the C kind, so that columns stay."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def file_text(lines: Sequence[str]) -> str:
    """A file without comments and without the preprocessor's lines, but those that say what is compiled."""
    code = without_comments("\n".join(map(blanked, lines)))
    return _DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def switches(code: str, plain: Callable[[str], str]) -> Iterator[Switch]:
    """The outermost ones. plain: what makes a text one without macros."""
    at = 0
    while (head := _SWITCH.search(code, at)) is not None:
        at = head.end()
        close = closing(code, head.end())
        opened = re.compile(r"\s*\{").match(code, close + 1) if close is not None else None
        end = closing(code, opened.end()) if opened is not None else None
        if close is None or opened is None or end is None:
            continue
        at = end + 1
        try:
            found = _cases(plain(code[opened.end() : end]))
        except Unplayable:
            continue
        yield Switch((head.start(), end + 1), code[head.end() : close].strip(), found)


def _cases(text: str) -> tuple[Case, ...]:
    heads = [m for m in _LABEL.finditer(text) if _level(text, m.start())]
    if not heads or text[: heads[0].start()].strip():
        raise Unplayable("a switch of another kind")
    out: list[Case] = []
    waiting: list[str | None] = []
    for n, head in enumerate(heads):
        label = head["label"]
        waiting.append(label.strip() if label is not None else None)
        inside = text[head.end() : heads[n + 1].start() if n + 1 < len(heads) else len(text)]
        if inside.strip() or n + 1 == len(heads):
            out.append(Case(tuple(waiting), inside.strip()))
            waiting = []
    return tuple(out)


def _level(text: str, at: int) -> bool:
    """Whether a place is in no brackets."""
    return text.count("{", 0, at) == text.count("}", 0, at) and text.count("(", 0, at) == text.count(")", 0, at)


def ended(tree: Node, *, last: bool) -> Node:
    """A case without the break at its end; Unplayable where it goes on in the next one."""
    body = list(tree[1])
    if body and body[-1] == ("leave", "break"):
        return ("block", body[:-1])
    if body and body[-1][0] == "block":
        return ("block", [*body[:-1], ended(body[-1], last=last)])
    if not last:
        raise Unplayable("a case that goes on in the next one")
    return tree
