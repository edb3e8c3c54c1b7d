"""Untrusted text inside Markdown: prose, code spans and fences that it cannot break out of."""

from __future__ import annotations

import html
import re

from kscope.model.errors import one_line


def prose(text: str) -> str:
    """One line of Markdown that shows the text and nothing else: no HTML, emphasis, link, list or table cell."""
    text = re.sub(r"([\\`*_{}\[\]~!])", r"\\\1", html.escape(one_line(text), quote=False)).replace("|", "&#124;")
    return re.sub(r"^(\d+(?=[.)](?:\s|$))|(?=[#+\-=]))(.)", r"\1\\\2", text)


def code(text: str, *, table: bool = False) -> str:
    """A code span; its delimiter is longer than any run of backticks inside. A pipe would end a table's cell even
    there, so a name with one is shown by HTML."""
    text = one_line(text) or " "
    if table and "|" in text:
        return f"<code>{prose(text)}</code>"
    marks = "`" * (_longest_run(text) + 1)
    space = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{marks}{space}{text}{space}{marks}"


def fence(lines: list[str], language: str = "") -> str:
    """A fenced block of one-line texts, indentation kept; the fence is longer than any run of backticks inside."""
    body = [" " * (len(line) - len(line.lstrip(" "))) + one_line(line) for line in lines]
    marks = "`" * max([3, *(_longest_run(line) + 1 for line in body)])
    return "\n".join([f"{marks}{language}", *body, marks])


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
