"""Building blocks of the terminal report: styled segments, width in columns, wrapping, bars. No dependency: rich
would cost a third of the run time of a small report. `Page.line` is the one way to a terminal's line."""

from __future__ import annotations

import re
import unicodedata

from kscope.model.errors import printable

STYLES = {
    "bold": "1", "dim": "2", "compute": "1;35", "memory": "1;34", "overhead": "1;33", "code": "36", "good": "32",
    "unknown": "1",
    "critical": "1;31", "major": "33", "minor": "36", "info": "2", "bar": "34",
    "note": "36", "source": "32",
}  # fmt: skip

ASCII = str.maketrans({"█": "#", "▌": "=", "·": "|", "●": "@", "╱": "/", "─": "-", "…": "~",
                       "▁": "_", "▂": ".", "▃": ",", "▄": "-", "▅": "=", "▆": "+", "▇": "*"})
"""Every character of our own beyond ASCII and its stand-in, one column each."""

Segment = tuple[str, str]  # text, style (a key of STYLES or "")


def cells(text: str) -> int:
    """Columns that a terminal gives to the text: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def clip(text: str, limit: int) -> str:
    """At most `limit` columns, the cut marked."""
    if cells(text) <= limit:
        return text
    while text and cells(text) > limit - 1:
        text = text[: min(len(text) - 1, limit - 1)]
    return text.rstrip() + "…" if limit > 0 else ""


def pad(text: str, width: int) -> str:
    """Clipped or filled to exactly `width` columns."""
    text = clip(text, width)
    return text + " " * (width - cells(text))


def wrap(text: str, first: int, rest: int) -> list[str]:
    """Lines of at most `first` columns, then `rest`. A number stays with its unit; a long word is broken."""
    glued = re.sub(r"(?<=\d) (?=%|[kMGTP]?(?:B|FLOP)\b|(?:ns|us|ms)\b)", "\N{NO-BREAK SPACE}", text)
    lines, line, room = [], "", first
    for word in glued.split(" "):
        if not word:
            continue
        if line and cells(line) + 1 + cells(word) <= room:
            line += " " + word
            continue
        if line:
            lines.append(line)
            room = rest
        while cells(word) > room:
            cut = next(n for n in range(min(room, len(word)), 0, -1) if cells(word[:n]) <= max(room, 2))
            lines.append(word[:cut])
            word, room = word[cut:], rest
        line = word
    lines.append(line)
    return [one.replace("\N{NO-BREAK SPACE}", " ") for one in lines]


def bar(share: float, width: int) -> str:
    """A bar for a share 0..1, in half columns; anything above zero shows."""
    halves = max(round(min(max(share, 0.0), 1.0) * width * 2), 1 if share > 0 else 0)
    return "█" * (halves // 2) + "▌" * (halves % 2)


class Page:
    """Lines of a report. `width` columns at most; colour changes no word."""

    def __init__(self, width: int, *, color: bool, unicode: bool) -> None:
        self.width, self.color, self.unicode = width, color, unicode
        self.lines: list[str] = []

    def line(self, *segments: str | Segment) -> None:
        """One line, cut at the width."""
        room, out = self.width, []
        for segment in segments:
            text, style = (segment, "") if isinstance(segment, str) else segment
            text = printable(text)  # whatever the caller did: nothing else reaches the terminal
            text = clip(text, room) if cells(text) > room else text
            room -= cells(text)
            out.append(self.style(text, style))
        self.lines.append("".join(out).rstrip())

    def ends(self, left: list[Segment], right: Segment) -> bool:
        """Left-aligned and right-aligned text on one line; False, and nothing written, where they do not fit."""
        used = sum(cells(text) for text, _ in left)
        gap = self.width - used - cells(right[0])
        if gap < 2:
            return False
        self.line(*left, " " * gap, right)
        return True

    def paragraph(self, text: str, *, lead: Segment = ("", ""), indent: int = 0, style: str = "") -> None:
        """Wrapped text. `lead` opens the first line; the others hang at `indent`."""
        opening = cells(lead[0])
        lines = wrap(text, max(self.width - opening, 8), max(self.width - indent, 8))
        self.line(lead, (lines[0], style))
        for one in lines[1:]:
            self.line(" " * indent, (one, style))

    def blank(self) -> None:
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def style(self, text: str, style: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.color and style and text.strip() else text

    def text(self) -> str:
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        joined = "\n".join(self.lines) + "\n"
        return joined if self.unicode else joined.translate(ASCII)
