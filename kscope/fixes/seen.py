"""The source as makers of changes read it: comments and what `#if 0` leaves out are blanks, so that columns stay. What
they change is put back beside the comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import structs

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import Seen, in_functions
from kscope.model.contract.fixes import Condition, Edit, Fix

_TOKEN = re.compile(
    r'R"(?P<mark>[^\s()"\\]{0,16})\((?s:.*?)\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|' r"(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|(?P<comment>//(?:[^\n\\]|\\\n?)*|/\*(?s:.*?)(?:\*/|\Z))"
)
_STAYS = Condition(
    holds="what other macros leave in of it may stay as it is", state="check",
    why="lines of #if that were not compiled do not change",
)  # fmt: skip
_OTHER = (".py", ".pyi")  # where // divides
_BRANCH = re.compile(r"\s*#\s*(?P<word>if|ifdef|ifndef|elif|else|endif)\b\s*(?P<test>.*?)\s*$")
_LEAVES_OUT = {"0": True, "false": True, "1": False, "true": False}
"""Whether a test leaves out what stands behind it."""


def with_seen(setting: Setting, *, branches: bool = False) -> Setting:
    """With lines that makers may read. branches: those of `#if` that were not compiled too, for who keeps them."""
    known: dict[str, Seen] = {}

    def lines(file: str) -> Sequence[str]:
        if file not in known:
            raw = setting.lines(file)
            plain = Seen(raw, raw, {}, frozenset(), frozenset())
            run = frozenset[int]() if branches else _run(setting, file)
            known[file] = plain if file.endswith(_OTHER) else seen(raw, run)
        return known[file]

    return structs.replace(setting, lines=lines)


def _run(setting: Setting, file: str) -> frozenset[int]:
    """Lines of a file that instructions are from."""
    sites = [site for ins in setting.code.program.instructions
             for site in ((ins.file, ins.line), *((s.file, s.line) for s in ins.inlined))]  # fmt: skip
    return frozenset(line for name, line in sites if name == file and line is not None)


def seen(raw: Sequence[str], run: frozenset[int] = frozenset()) -> Seen:
    """run: lines that instructions are from; none where nobody knows."""
    text = "\n".join(raw)
    if not raw or ("/" not in text and "#" not in text):
        return Seen(raw, raw, {}, frozenset(), run)
    spans: dict[int, list[tuple[int, int, bool]]] = {}
    clear = _TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m["comment"] else m[0], text).split("\n")
    starts = [0]
    for line in raw:
        starts.append(starts[-1] + len(line) + 1)
    row = 0
    for m in _TOKEN.finditer(text):
        while m["comment"] and starts[row + 1] <= m.start():
            row += 1
        for n, one in enumerate(_by_rows(m.start() - starts[row], m["comment"] or "")):
            spans.setdefault(row + n, []).append(one)
    dead, unless = _left_out(clear, run)
    lines = ("" if n in dead else line for n, line in enumerate(clear))
    return Seen(lines, raw, spans, frozenset(dead), run, frozenset(unless))


def _by_rows(column: int, comment: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether that is all) of a comment in each of its rows."""
    parts = comment.split("\n") if comment else []
    for part in parts:
        yield column, column + len(part), len(parts) == 1
        column = 0


def _left_out(lines: Sequence[str], run: frozenset[int]) -> tuple[set[int], set[int]]:
    """Rows of what `#if` leaves out, and of these tests themselves, where the test is a number or instructions are from
    one branch alone, as just one is compiled; and of these what other macros would leave in."""
    stack: list[list[tuple[int, str]]] = []
    dead, unless = set[int](), set[int]()
    for n, line in enumerate(lines):
        m = _BRANCH.match(line) if "#" in line else None
        if m is None:
            continue
        if m["word"].startswith("if"):
            stack.append([])
        if not stack:
            break
        stack[-1].append((n, m["test"] if m["word"] == "if" else m["word"]))
        if m["word"] == "endif":
            group = stack.pop()
            branches = [range(a + 1, b) for (a, _), (b, _) in pairwise(group)]
            live, known = _live([said for _, said in group], branches, run)
            if live is not None:
                other = {row for k, rows in enumerate(branches) if k != live for row in rows}
                dead |= other | {row for at, _ in group for row in _continued(lines, at)}
                unless |= set() if known else other
    return dead, unless


def _live(said: Sequence[str], branches: Sequence[range], run: frozenset[int]) -> tuple[int | None, bool]:
    """(which branch is compiled, -1 where none of them; whether the text itself says so)."""
    if said[0] in _LEAVES_OUT and said[1:] in (["endif"], ["else", "endif"]):
        return (0 if not _LEAVES_OUT[said[0]] else 1 if len(branches) > 1 else -1), True
    from_it = [k for k, rows in enumerate(branches) if not run.isdisjoint(range(rows.start + 1, rows.stop + 1))]
    return (from_it[0] if len(from_it) == 1 else None), False


def _continued(lines: Sequence[str], row: int) -> Iterator[int]:
    yield row
    while lines[row].rstrip().endswith("\\") and row + 1 < len(lines):
        row += 1
        yield row


def restored(fix: Fix, lines: Iterable[tuple[str, Sequence[str]]]) -> Fix | None:
    """A change of lines as they are: with their comments. None where one of them stands in its way. lines: of files as
    they were read."""
    known, out = dict(lines), []
    for edit in fix.edits:
        text = known.get(edit.file)
        made = _put_back(edit, text) if isinstance(text, Seen) and edit.line <= len(text) else edit
        if made is None:
            return None
        out += [made] if made is edit or made.was != made.becomes else []
    stays = any(_unless(text, [e.line for e in out if e.file == file]) for file, text in known.items())
    return structs.replace(fix, edits=out, conditions=[*fix.conditions, *([_STAYS] if stays else [])])


def _unless(text: Sequence[str], changed: Sequence[int]) -> bool:
    """Whether a function that changes has lines that other macros would leave in."""
    if not isinstance(text, Seen) or not text.unless:
        return False
    around = in_functions(text, changed)
    return any(row + 1 in around for row in text.unless)


def _put_back(edit: Edit, text: Seen) -> Edit | None:
    row = edit.line - 1
    raw, clear = text.raw[row], text[row]
    if raw == clear or edit.was != clear:
        return edit
    becomes = None if row in text.dead else _beside(raw, clear, edit.becomes, text.spans.get(row, ()))
    return None if becomes is None else structs.replace(edit, was=raw, becomes=becomes)


def _beside(raw: str, clear: str, becomes: str, spans: Sequence[tuple[int, int, bool]]) -> str | None:
    """What a row becomes, with its comments; None where one that goes on in another row is in the way."""
    core, around = clear.rstrip(), not all(whole for *_, whole in spans)
    if not core:  # nothing but comments
        if around:
            return None if becomes.strip() else raw
        return becomes
    tail = raw[len(core) :]
    inner = [(a, b) for a, b, _ in spans if a < len(core)]
    if not becomes and not around:
        return ""
    new = becomes.rstrip() if tail.strip() else becomes
    start, end = _changed(core, new, inner)
    if around and any(start <= a < end or start < b <= end for a, b in inner):
        return None
    middle = new[start : len(new) - (len(core) - end)]
    return raw[:start] + middle + raw[end : len(core)] + (tail if tail.strip() else "")


def _changed(core: str, new: str, inner: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Where a row differs from a new one, no comment cut in two."""
    least = min(len(core), len(new))
    start = next((n for n in range(least) if core[n] != new[n]), least)
    same = next((n for n in range(least - start) if core[-1 - n] != new[-1 - n]), least - start)
    end = len(core) - same
    for a, b in inner:
        start = a if a < start < b else start
        end = b if a < end < b else end
    return start, end
