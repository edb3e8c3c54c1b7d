"""The one way of untrusted text into a report: what Markdown, HTML, SARIF, JSON and a terminal make of a name that
tries to be more than a name. tests/test_quoting.py follows every field of the view to its output and refuses what
comes another way.

Two kinds of text are told apart. A name (kernel, range, device, path, SASS, NVIDIA's words) is foreign as a whole:
`code`, `fence`. A sentence is ours and may hold foreign words between quotation marks (`kscope.model.quoted`):
`prose`, `said`.
"""

from __future__ import annotations

import html
import re

from kscope.model.errors import one_line, printable
from kscope.model.quoted import cut, split

_OPCODE = re.compile(r"(?<![\w.])([A-Z][A-Z0-9]*(?:[._][A-Z0-9x?]+)+)(?![\w.]*[a-z])")
"""An opcode with modifiers, `LDG.E.128`: it comes from the machine code."""


def prose(text: str) -> str:
    """One line of Markdown that shows a sentence and nothing else: no HTML, emphasis, link, list or table cell. Foreign
    words in it, and opcodes with their modifiers, become code spans."""
    return _sentence(one_line(text), table=True)


def said(text: str, limit: int) -> str:
    """The same for a language model, of at most `limit` characters before they are escaped."""
    return _sentence(cut(one_line(text), limit), table=False)


def _sentence(text: str, *, table: bool) -> str:
    out = ""
    for piece, foreign in split(text):
        if foreign:
            out += code(piece, table=table)
            continue
        for i, part in enumerate(_OPCODE.split(piece)):
            if i % 2:
                out += code(part)
            else:
                out += _plain(part) if table else part.replace("`", "'").replace("<", "&lt;").replace("](", "] (")
    return re.sub(r"^(\d+(?=[.)](?:\s|$))|(?=[#+\-=]))(.)", r"\1\\\2", out)


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]~!])", r"\\\1", html.escape(text, quote=False)).replace("|", "&#124;")


def code(text: str, *, table: bool = False) -> str:
    """A code span; its delimiter is longer than any run of backticks inside. A pipe would end a table's cell even
    there, so a name with one is shown by HTML."""
    text = one_line(text) or " "
    if table and "|" in text:
        return f"<code>{_plain(text)}</code>"
    marks = "`" * (_longest_run(text) + 1)
    space = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{marks}{space}{text}{space}{marks}"


def fence(lines: list[str], language: str = "") -> str:
    """A fenced block of one-line texts, indentation kept; the fence is longer than any run of backticks inside."""
    body = [" " * (len(line) - len(line.lstrip(" "))) + one_line(line) for line in lines]
    marks = "`" * max([3, *(_longest_run(line) + 1 for line in body)])
    return "\n".join([f"{marks}{language}", *body, marks])


def shortened(markdown: str, limit: int) -> str:
    """The beginning of a text that `code`, `fence` and `said` made, in at most `limit` characters and a newline: no
    code span or fence stays open."""
    at = 0
    for match in re.finditer(r"^(`{3,})[^`\n]*\n.*?^\1$|(?<!`)(`+)(?!`).*?(?<!`)\2(?!`)|[^`]", markdown, re.M | re.S):
        if match.end() > limit - 1:
            break
        at = match.end()
    return markdown[:at].rstrip() + "\n"


def html_text(text: str) -> str:
    """Text of an element or of a quoted attribute."""
    return html.escape(one_line(text))


def message(text: str) -> str:
    """A plain-text message of SARIF, in which `[text](target)` would be a link (SARIF 2.1.0, 3.11.6)."""
    return one_line(text).replace("](", "] (")


def json_line(encoded: bytes) -> bytes:
    """The same JSON with escapes for what a terminal would obey or nobody sees (bidirectional controls, C1)."""
    if encoded.isascii():
        return encoded.replace(b"\x7f", b"\\u007f")
    return re.sub(r"[^ -~]", _escaped, encoded.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    if printable(match[0]) == match[0]:
        return match[0]
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
