"""Answers of models: the one file that is meant, out of whatever was written around it. Nothing is run here.

An answer is code that runs on the machine that scores it. What is refused are answers that cannot be meant and what
reads other files while it compiles; it is no sandbox (docs/bench.md).
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

LARGEST = 256 * 1024  # bytes of an answer: thirty times the longest kernel here
PARAMETERS = 4000  # characters of a function's parameters at most
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^`]*)$")
_INCLUDE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(include|include_next|import|embed)\b(.*)$", re.MULTILINE)
_HEADER = re.compile(r"<[A-Za-z0-9_][\w+-]*(?:/[\w+-]+)*(?:\.(?:h|hpp|cuh))?>")
_READS = re.compile(r"\.incbin|\b__has_(?:include|embed)|\b_Pragma\b|#[ \t]*pragma[ \t]+(?:include_alias|dependency)")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)


class Answer(Struct, frozen=True):
    """code, or why there is none."""

    code: str = ""
    refused: str = ""


def read(path: Path, entry: str, suffix: str) -> Answer:
    """The file of an answer; entry: the function that it must define; suffix: of the task's file."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        return Answer(refused=f"cannot be read: {error.strerror or error}")
    if len(data) > LARGEST:
        return Answer(refused=f"over {LARGEST:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Answer(refused="is no UTF-8 text")
    if "\0" in text:
        return Answer(refused="has NUL bytes")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return accepted(text, entry, suffix) if path.suffix == suffix else chosen(text, entry, suffix)


def chosen(text: str, entry: str, suffix: str) -> Answer:
    """The last fenced block that defines the entry: models show pieces first, and the whole file at the end."""
    blocks, whole = _blocks(text)
    if not blocks:
        return Answer(refused="no fenced code block" if whole else "its code block never ends: cut off?")
    fitting = [block for block in blocks if defines(block, entry, suffix)]
    if not fitting:
        return Answer(refused=f"no code block defines {entry}")
    if not whole:
        return Answer(refused="its last code block never ends: cut off?")
    return accepted(fitting[-1], entry, suffix)


def accepted(code: str, entry: str, suffix: str) -> Answer:
    """The code, unless it lacks the entry or reads files while it compiles."""
    if not defines(code, entry, suffix):
        return Answer(refused=f"does not define {entry}")
    if suffix == ".py":
        return Answer(code=code)
    plain = _bare(code)
    for kind, what in _INCLUDE.findall(plain):
        if kind != "include" or not _HEADER.fullmatch(what.strip()):
            return Answer(refused=f"#{kind} {what.strip()[:60]}: only <headers> may be included")
    if found := _READS.search(code.replace("\\\n", "")):
        return Answer(refused=f"{found[0][:40]} reads or asks for files while it compiles")
    return Answer(code=code)


def defines(code: str, entry: str, suffix: str) -> bool:
    """Whether there is a function of this name with a body; a call or a declaration is none."""
    if suffix == ".py":
        return re.search(rf"^(?:def|class) +{re.escape(entry)}\b", code, re.MULTILINE) is not None
    plain = _bare(code)
    opened = {found.end() - 1 for found in re.finditer(rf"\b{re.escape(entry)}\s*\(", plain)}
    inside: list[int] = []  # brackets that are open here: one pass, however many calls there are in one another
    for found in re.finditer(r"[()]", plain) if opened else ():
        if found[0] == "(":
            inside.append(found.start())
        elif inside:
            begun, body = inside.pop(), plain[found.end() : found.end() + 40].lstrip()
            if begun in opened and found.start() - begun <= PARAMETERS and body.startswith("{"):
                return True
    return False


def _bare(code: str) -> str:
    """Without comments, lines that go on joined; strings stay."""
    return _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " ", code.replace("\\\n", ""))


def _blocks(text: str) -> tuple[list[str], bool]:
    """Fenced blocks of Markdown, and whether the last one ends."""
    found: list[str] = []
    inside: list[str] | None = None
    mark = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if inside is None:
            if fence:
                inside, mark = [], fence[1]
        elif fence and fence[1][0] == mark[0] and len(fence[1]) >= len(mark) and not fence[2].strip():
            found.append("\n".join(inside) + "\n")
            inside = None
        else:
            inside.append(line)
    if inside is not None:
        found.append("\n".join(inside) + "\n")
    return found, inside is None
