"""The text of a kernel as one piece, for changes that are about more than a line: idioms of loops and indices, and the
edits that spans of that text come to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from kscope.features.sass.listing import Listing
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import body
from kscope.model.contract.fixes import Edit

Span = tuple[int, int, str]
"""Start and end in a text, and what stands there instead."""

LONGEST, WIDEST = 16 * 1024, 1000
"""Characters of a kernel's text and of a line of it: the text is whoever's, and patterns take their square at worst."""

_CAST = re.compile(
    r"\(\s*(?:size_t|unsigned|int|(?:unsigned )?long long|unsigned int|u?int(?:32|64)(?:_t)?|long)\s*\)"
    r"|\bstatic_cast\s*<\s*(?:size_t|unsigned|int|long long|u?int(?:32|64)(?:_t)?)\s*>(?=\s*\()"
)
_SUFFIX = re.compile(r"(?<=\d)[uU]?[lL]{0,2}\b")
_PLACE = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_MOVED = r"\b{x}\b\s*(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)|(?:\+\+|--)\s*{x}\b"
_INDEX = re.compile(r"^blockIdx\.x\*(?P<per>[\w.]+)\+threadIdx\.x$|^threadIdx\.x\+blockIdx\.x\*(?P<per2>[\w.]+)$")
_WARPS = re.compile(r"^blockIdx\.x\*(?P<per>\w+)\+threadIdx\.x/32$")
_LOOP = re.compile(
    r"\bfor\s*\(\s*(?P<type>[A-Za-z_][\w ]*?)\s+(?P<name>\w+)\s*=\s*(?P<start>[^;,]+);"
    r"\s*(?P=name)\s*<\s*(?P<end>[^;]+);"
    r"\s*(?=[^;{}]*(?:\+\+|\+=))",
    re.ASCII,
)
WRITES = r"(?<![\w.])(?<!->){x}\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{x}\b"
"""Where a text writes a name, {x}."""
HEAD = re.compile(r"[;{}]\s*(?:#\s*pragma\s+(?:no)?unroll[^\n]*\n\s*)?$")
"""What a statement of its own stands behind, not that of an `if`."""


class Text(Struct, frozen=True):
    """A kernel's lines from its head to its closing brace, comments blanked so that columns stay. `first`: number of
    the first line, from 1."""

    file: str
    first: int
    code: str


class Loop(Struct, frozen=True):
    """`for (type name = start; name < end; step)`. `span`: of the head; `body`: of the statement that follows."""

    kind: str
    name: str
    start: str
    end: str
    step: str
    span: tuple[int, int]
    body: tuple[int, int]


def kernel_text(setting: Setting) -> Text | None:
    """The kernel's text, where the source is at hand, names it, and is no longer than one looks through at once."""
    seen: set[tuple[str, int]] = set()
    first: dict[object, int] = {}  # of all instructions of a line, through the same calls, one
    for index in range(len(setting.code)):
        ins = setting.code[index]
        first.setdefault((ins.file, ins.line, ins.inlined), index)
    for index in first.values():
        for place in places(setting, [index]):
            if (place.file, place.number) in seen:
                continue
            seen.add((place.file, place.number))
            lines = setting.lines(place.file)
            head = next((n for n in range(place.number, 0, -1) if "__global__" in lines[n - 1]), None)
            if head is None or not _named(setting.name, lines[head - 1 : head + 2]):
                continue
            inside = range(head, body(lines, place.number).stop)
            if place.number in inside:
                code = "\n".join(blanked(lines[n - 1]) for n in inside)
                longest = max(len(lines[n - 1]) for n in inside)
                return Text(place.file, head, code) if len(code) <= LONGEST and longest <= WIDEST else None
    return None


def _named(name: str, lines: Sequence[str]) -> bool:
    return re.search(rf"\b{re.escape(name)}\s*\(", "\n".join(lines)) is not None


def blanked(line: str) -> str:
    """A line with what follows // as blanks."""
    at = line.find("//")
    return line if at < 0 else line[:at] + " " * (len(line) - at)


def declared_at(lines: Sequence[str], number: int) -> int:
    """The first line (from 1) of what stands at file scope around a line: of a function its template's line."""
    depth, start, ended, since = 0, 1, True, ""
    for n, line in enumerate(lines[:number], 1):
        code = blanked(line).strip()
        if depth == 0 and ended and code:
            start, since = n, ""
        if code.startswith("#") or not code:
            ended = ended or depth == 0
            continue
        since += f" {code}"
        depth = max(0, depth + sum(c in "({" for c in code) - sum(c in ")}" for c in code))
        ended = depth == 0 and code[-1] in ";}),"  # a macro's call has no semicolon
        ended = ended and not re.search(r"__(?:global|device|host)__[^{;]*\)$", since)
    return start


def spans_edited(setting: Setting, text: Text, spans: Iterable[Span]) -> list[Edit]:
    """The lines that spans change; none where two overlap or one goes over the end of its line."""
    lines = setting.lines(text.file)
    starts = [0]
    for line in text.code.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    found: dict[int, list[Span]] = {}
    for start, end, new in spans:
        row = next(n for n in range(len(starts) - 1) if starts[n] <= start < starts[n + 1])
        if end >= starts[row + 1]:
            return []
        found.setdefault(text.first + row, []).append((start - starts[row], end - starts[row], new))
    out = []
    for number, mine in sorted(found.items()):
        line = lines[number - 1]
        last = len(line) + 1
        for start, end, new in sorted(mine, reverse=True):
            if end > last:
                return []
            line, last = line[:start] + new + line[end:], start
        out.append(Edit(file=text.file, line=number, was=lines[number - 1], becomes=line))
    return [e for e in out if e.was != e.becomes]


def by_line(code: str, span: Span) -> list[Span]:
    """A span over several lines as one a line: what is new stands on the first."""
    out, (start, end, new) = [], span
    while (line := code.find("\n", start, end)) >= 0:
        out.append((start, line, new))
        start, new = line + 1, ""
    return [*out, (start, end, new)]


def by_lines(code: str, spans: Iterable[Span]) -> list[Span]:
    return [one for span in spans for one in by_line(code, span)]


def plain(expression: str, text: str = "") -> str:
    """An expression without blanks, casts and suffixes; a name that the text defines once is put in."""
    for name in set(re.findall(r"(?<!\.)\b[A-Za-z_]\w*\b(?!\s*[.(\[])", expression)):
        defined = re.findall(rf"\b{name}\s*=\s*([^;,=]+)[;,]", text)
        if len(defined) == 1 and not re.search(_MOVED.replace("{x}", name), text):
            put = defined[0].replace("\\", "")
            expression = re.sub(rf"(?<!\.)\b{name}\b(?!\s*[.(\[])", put, expression)
    bare = re.sub(r"\s+", "", _SUFFIX.sub("", _CAST.sub("", expression)))
    return bare


def loops(code: str) -> list[Loop]:
    """Counting loops of a text, outermost first in the order of the text."""
    out = []
    for match in _LOOP.finditer(code):
        close = closing(code, match.end())
        if close is None or not re.search(r"\+\+|\+=", step := code[match.end() : close].strip()):
            continue
        rest = code[close + 1 :]
        start = close + 1 + len(rest) - len(rest.lstrip())
        end = statement_end(code, start)
        if end is not None:
            head = (match.start(), close + 1)
            out.append(
                Loop(
                    match["type"], match["name"], match["start"].strip(), match["end"].strip(), step, head, (start, end)
                )
            )  # fmt: skip
    return out


def statement_end(code: str, at: int) -> int | None:
    """The end of the statement that begins there: of its block, or behind its semicolon."""
    depth = 0
    head = re.match(r"(?:for|if|while|switch)\s*\(", code[at:])
    if head is not None:
        close = closing(code, at + head.end())
        if close is None:
            return None
        inner = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        return statement_end(code, inner)
    if code[at : at + 1] == "#":
        line = code.find("\n", at)
        rest = code[line:]
        return statement_end(code, line + len(rest) - len(rest.lstrip())) if line >= 0 else None
    for n in range(at, len(code)):
        depth += (code[n] in "([{") - (code[n] in ")]}")
        if depth < 0:
            return None
        if depth == 0 and (code[n] == ";" or (code[n] == "}" and code[at] == "{")):
            return n + 1
    return None


def closing(code: str, at: int) -> int | None:
    """Where the bracket closes that was opened in front of `at`."""
    depth = 1
    for n in range(at, len(code)):
        depth += (code[n] in "([{") - (code[n] in ")]}")
        if not depth:
            return n
    return None


def index_of(expression: str, text: str) -> str | None:
    """Threads a block in `blockIdx.x * per + threadIdx.x`; None for anything else."""
    match = _INDEX.match(plain(expression, text).strip("()"))
    return (match["per"] or match["per2"]) if match is not None else None


def strided(loop: Loop, text: str) -> str | None:
    """What one block takes of a loop over the grid, `i = blockIdx.x * per + threadIdx.x; ..; i += gridDim.x * per`, or
    the same by warps; None where a loop is anything else."""
    start = plain(loop.start, text)
    match = _INDEX.match(start) or _WARPS.match(start)
    if match is None or "+=" not in loop.step:
        return None
    groups = match.groupdict()
    per = groups["per"] or groups.get("per2")
    step = plain(loop.step.partition("+=")[2], text)
    return per if step in (f"gridDim.x*{per}", f"{per}*gridDim.x") else None


def asked_here(code: Listing, text: Text, place: str) -> bool:
    """Whether the kernel's own lines alone ask for a place (CTAID: which block they are of): a function that it calls
    would go on to."""
    last = text.first + text.code.count("\n")
    asks = [ins for ins in code.program.instructions if any(place in o.text for o in ins.operands)]
    return all(ins.file == text.file and text.first <= (ins.line or 0) <= last for ins in asks)


def hidden(code: str, lines: Sequence[str]) -> bool:
    """Whether a macro of the file that a text names asks for a place: which thread, which block, how many of them."""
    return bool(macros_of(lines, _PLACE) & set(re.findall(r"[A-Za-z_]\w*", code)))


def macros_of(lines: Sequence[str], what: re.Pattern[str]) -> set[str]:
    """Macros of a file that have something in them, or other ones that do."""
    defined = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", "\n".join(lines), re.M)
    found, more = set[str](), {name for name, made in defined if what.search(made)}
    while more - found:
        found |= more
        more = {name for name, made in defined if found & set(re.findall(r"[A-Za-z_]\w*", made))}
    return found


def made_of(t: str, code: str, arrays: Iterable[str]) -> set[str]:
    """Names made of the thread's number, `t` or threadIdx: other threads have other values of them. Not what comes out
    of the elements of some arrays, and what lanes have put together."""
    bare = re.sub(rf"(?<![\w.])(?<!->)(?:{'|'.join(arrays)})\s*\[[^][]*\]", "", code)
    made = re.findall(r"(?<![\w.\]])(\w+)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)(?=([^;{}]*))", bare)
    names, together = {t, "threadIdx"}, {name for name, of in made if "__shfl" in of}
    while more := {n for n, of in made if n not in names | together
                   and any(re.search(rf"(?<![\w.]){re.escape(w)}\b", of) for w in names)}:  # fmt: skip
        names |= more
    return names


def outside(code: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text without some of its pieces."""
    out, at = [], 0
    for start, end in sorted(spans):
        out.append(code[at:start])
        at = max(at, end)
    return "".join([*out, code[at:]])


def shape(sides: Sequence[int]) -> str:
    """A grid or a block, as a launch has it."""
    used = max((n for n, side in enumerate(sides, 1) if side > 1), default=1)
    return f"dim3({', '.join(str(side) for side in sides[:used])})" if used > 1 else str(sides[0])


def written(name: str, text: str) -> bool:
    """Whether a text changes a name, or hands out where it lies."""
    return re.search(rf"{WRITES.replace('{x}', name)}|(?<!&)&\s*{name}\b(?!\s*\[)", text) is not None


def indented(code: str) -> str:
    """A body's lines, none of them empty, each within its brackets."""
    out, depth = [], 0
    for line in (one.strip() for one in code.split("\n") if one.strip()):
        inside = depth - (line[0] == "}")
        out.append(f"{'  ' * max(0, inside)}{line}")
        depth += line.count("{") - line.count("}")
    return "\n".join(out)
