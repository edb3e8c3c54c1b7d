"""A loop of few rounds as two, by its text: one of the loads that all its rounds make, which wait for none of its
stores, and one of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, Kernel, changed, into_the_same, statements
from kscope.fixes.given.source import SIZES, constants, evaluated, split_declarators
from kscope.fixes.given.text import Loop, Span, closing, loops

MOST = 16  # rounds: their values lie in registers (judged)
_FLOW = re.compile(
    r"\b(?:break|continue|return|goto|asm|while|do|switch|else|atomic\w*|__\w*sync\w*|__shared__|volatile)\b|#"
    r"|\?[^:]*=[^=]|[(,]\s*&\s*\w|->|\)\s*[-+*/|&^]?=(?!=)|(?:[;{})]|^)\s*\*+\s*\w+\s*[-+*/|&^]?=(?!=)|\bauto\s*&"
    r"|\[\s*[&=]?\s*\]"
)  # fmt: skip
_CONDITIONAL = re.compile(r"\?|&&|\|\||\b(?:if|for)\b")
_UNROLL = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+unroll\b[ \t]*\(?(\w*)\)?[ \t]*\n\s*$")
_POINTER = re.compile(
    r"(?<=[;{}])\s*(?:const\s+)?([\w:]+(?:\s+[a-z]+)?)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(\w+)\s*="
)
_INDEXED = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[")
_DECLARED = re.compile(
    r"\s*(?:const\s+)?(?:int|unsigned|unsigned int|size_t|long|long long|float|double|auto)\s+(\w+)\s*=(?!=)"
)
_BROUGHT = re.compile(
    r"\s*(?:const\s+|constexpr\s+)?[A-Za-z_][\w:]*(?:\s+[a-z]+)*[\s*&]+(?=[A-Za-z_]\w*\s*[=;,\[({])"
)
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_FREE = {"min", "max", "abs"}  # functions whose result their arguments alone decide
_TYPES = {"int", "unsigned", "size_t", "long", "char", "short", "float", "const", "double", "static_cast"}


class Held(Struct, frozen=True):
    """A load that all rounds make first: of which array, its elements' type, its text and where that stands, and the
    array of registers that its values are held in."""

    array: str
    kind: str
    text: str
    span: tuple[int, int]
    name: str


class Split(Struct, frozen=True):
    """`first`: the body of the loop of loads. `at`: where it is put, before what asks to unroll; `unrolled`: whether
    something does."""

    loop: Loop
    count: int
    start: int
    held: tuple[Held, ...]
    first: str
    at: int
    unrolled: bool

    def place(self) -> str:
        return f"{self.loop.name} - {self.start}" if self.start else self.loop.name

    def spans(self, code: str) -> list[Span]:
        """What becomes of the kernel's text."""
        line = code[: self.loop.span[0]].rpartition("\n")[2]
        lead = line if not line.strip() else "  "
        arrays = " ".join(f"{kind} {name}[{self.count}];" for name, kind in {h.name: h.kind for h in self.held}.items())
        body = self.first if self.first.count(";") == 1 else f"{{ {self.first} }}"
        loads = f"{arrays}\n#pragma unroll\n{lead}{' '.join(code[slice(*self.loop.span)].split())} {body}\n"
        put = f"{lead}{loads}" if self.unrolled else f"{loads}#pragma unroll\n{lead}"
        return [(self.at, self.at, put), *((*h.span, f"{h.name}[{self.place()}]") for h in self.held)]


def splits(kernel: Kernel) -> Iterator[Split]:
    """The loops of a kernel whose loads can all stand before the rest."""
    known = _numbers(kernel)
    for loop in loops(kernel.text.code):
        start, end = evaluated(loop.start, known), evaluated(loop.end, known)
        if loop.span[0] < kernel.opening or start is None or end is None or not 2 <= end - start <= MOST:
            continue
        one = _split(kernel, loop, start, end - start)
        if one is not None:
            yield one


def _numbers(kernel: Kernel) -> dict[str, int]:
    """Whole numbers that names stand for in a kernel: those that it names itself, and those that the file names once,
    unless they are the kernel's parameters or its template's."""
    own, first = constants(kernel.text.code.split("\n")), kernel.text.first
    head = "\n".join(kernel.lines[max(0, first - 4) : first])
    names = re.findall(r"\bconstexpr\b[^;]*?\b(\w+)\s*=", "\n".join(kernel.lines))
    every = {
        name: n for name, n in constants(kernel.lines).items()
        if names.count(name) < 2 and name not in kernel.parameters and not re.search(rf"<[^<>]*\b{name}\b", head)
    }  # fmt: skip
    return {**every, **own}


def _split(kernel: Kernel, loop: Loop, start: int, count: int) -> Split | None:
    code = kernel.text.code
    pragma = _UNROLL.search(code[: loop.span[0]])
    at = pragma.start() if pragma is not None else loop.span[0]
    asked = evaluated(pragma[1], _numbers(kernel)) if pragma is not None and pragma[1] else count
    before, body = code[:at].rstrip(), code[slice(*loop.body)]
    plain = loop.step in (f"{loop.name}++", f"++{loop.name}") and before[-1:] in ("{", "}", ";")
    if not plain or asked is None or asked < count or _FLOW.search(body) or changed(body, loop.name):
        return None
    inside = (loop.body[0] + 1, loop.body[1] - 1) if body.startswith("{") else loop.body
    found = statements(code, *inside)
    if not found or not _by_value(kernel.lines, body):
        return None
    reader = _Reader(kernel, loop, body, f"{loop.name} - {start}" if start else loop.name)
    for span in found:
        reader.statement(span)
    names = set(_NAME.findall(reader.first()))
    referred = any(re.search(rf"(?:&\s*[A-Za-z_]\w*\s*=|=\s*&)\s*{n}\b(?!\s*\[)", code) for n in names)
    if not reader.held or referred or names & _given(kernel.lines, body):
        return None
    return Split(loop, count, start, tuple(reader.held), reader.first(), at, pragma is not None)


class _Reader:
    """The statements of a round, one after the other: which loads their place alone decides."""

    def __init__(self, kernel: Kernel, loop: Loop, body: str, place: str) -> None:
        self.kernel, self.code, self.place = kernel, kernel.text.code, place
        self.held: list[Held] = []
        self.made: list[tuple[str, str]] = []  # (name, statement) of what rounds compute of their number alone
        self.order: list[tuple[str, str]] = []
        self.readable = _readable(kernel, loop, body)
        targets = re.findall(rf"(?<![\w.\]])(?<!->)(\w+)(?:\s*\.\s*\w+)?{MODIFIED}|(?:\+\+|--)\s*(\w+)", body)
        self.assigned = {n for pair in targets for n in pair if n}

    def statement(self, span: tuple[int, int]) -> None:
        text = self.code[slice(*span)]
        self.assigned |= _declared(text)
        if _CONDITIONAL.search(text):
            return
        new, at, moved = "", 0, len(self.held)
        while (m := _INDEXED.search(text, at)) is not None:
            close = closing(text, m.end())
            whole = text[m.start() : close + 1] if close is not None else ""
            if close is None or not self._decided(whole) or m[1] not in self.readable:
                new, at = new + text[at : m.end()], m.end()
                continue
            name = next((h.name for h in self.held if h.text == whole), self._name(m[1]))
            begin = span[0] + m.start()
            one = Held(m[1], self.readable[m[1]], whole, (begin, begin + len(whole)), name)
            self.held.append(one)
            self.order.append(("", f"{name}[{self.place}] = {' '.join(whole.split())};"))
            new, at = f"{new}{text[at : m.start()]}{name}[{self.place}]", close + 1
        new += text[at:]
        declared = _DECLARED.match(text)
        alone = declared is not None and "," not in re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", text)
        if declared is not None and alone and changed(self.kernel.of(self._body), declared[1]) <= 1:
            known = [h.name for h in self.held[moved:]]
            if self._decided(new.partition("=")[2], known):
                self.made.append((declared[1], " ".join(new.split())))
                self.order.append(self.made[-1])

    @property
    def _body(self) -> tuple[int, int]:
        return self.kernel.opening, self.kernel.closing

    def _name(self, array: str) -> str:
        used = {h.name for h in self.held}
        names = (f"{array}_first{n or ''}" for n in range(MOST * MOST))
        return next(n for n in names if n not in used and not re.search(rf"\b{n}\b", self.code))

    def _decided(self, text: str, known: Sequence[str] = ()) -> bool:
        """Whether a text is made of the round's number, of what stays, of arrays that stay and of functions of such."""
        if _CONDITIONAL.search(text) or re.search(r"(?<![=!<>])=(?!=)|\+\+|--|[-+*/]=", text):
            return False
        made = {name for name, _ in self.made}
        for m in _NAME.finditer(text):
            after = text[m.end() :].lstrip()[:1]
            if m[0] in _TYPES or m[0] in known:
                continue
            if after == "(" and m[0] not in _FREE and not returns(self.kernel.lines, m[0]):
                return False
            if after == "[" and m[0] not in self.readable:
                return False
            if after not in ("(", "[") and (m[0] in self.readable or m[0] in self.assigned - made):
                return False
        return True

    def first(self) -> str:
        """The loads, and before them what they ask for."""
        needed: set[str] = set()
        out: list[str] = []
        for name, text in reversed(self.order):
            if not name or name in needed:
                out.append(text)
                needed |= set(_NAME.findall(text))
        return " ".join(dict.fromkeys(reversed(out)))


def _readable(kernel: Kernel, loop: Loop, body: str) -> Mapping[str, str]:
    """Pointers that a loop only reads through, and how it is written: type by name."""
    known = {n: k for n, k in kernel.parameters.items() if k.count("*") == 1}
    known |= {m[2]: m[1] for m in _POINTER.finditer(kernel.text.code[: loop.span[0]], kernel.opening)}
    out, written = {}, _stored(body)
    for name, kind in known.items():
        same = into_the_same(kernel.text.code, name) & written
        element = " ".join(w for w in kind.replace("*", " ").split() if w not in ("const", "__restrict__", "restrict"))
        bare = re.search(rf"(?<![\w.])(?<!->){name}\b(?!\s*\[)", body)
        if element not in SIZES or bare is not None or name in written or same:
            continue
        out[name] = element
    return out


def _stored(body: str) -> set[str]:
    """Arrays that a text writes to."""
    out = set()
    for m in _INDEXED.finditer(body):
        close = closing(body, m.end())
        if close is None or re.match(rf"(?:\s*\[[^\]]*\])*(?:\s*\.\s*\w+)*{MODIFIED}", body[close + 1 :]):
            out.add(m[1])
    return out | set(re.findall(r"(?:\+\+|--)\s*(\w+)\s*\[", body))


def _declared(statement: str) -> set[str]:
    """Names that a statement brings up."""
    head = _BROUGHT.match(statement)
    parts = split_declarators(statement[head.end() :]) if head is not None else ()
    return {m[1] for p in parts if (m := re.match(r"[\s*&]*([A-Za-z_]\w*)", p)) is not None}


def returns(lines: Sequence[str], name: str) -> bool:
    """Whether a function of the file is one expression of its arguments: without memory, and with no call in it but of
    such."""
    head = rf"__device__[^;{{}}()]*\b{name}\s*\(([^()&*]*)\)\s*\{{\s*return\b([^;{{}}\[]*);\s*\}}"
    found = re.findall(head, "\n".join(line.partition("//")[0] for line in lines))
    if len(found) != 1 or re.search(r"(?<![=!<>])=(?!=)|\+\+|--|[-+*/]=|&\s*\w+\s*[),]|(?:^|\()\s*\*", found[0][1]):
        return False
    return set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", found[0][1])) <= _FREE


def _by_value(lines: Sequence[str], body: str) -> bool:
    """Whether no function of the file that a text calls takes a reference, which it could change."""
    text = "\n".join(lines)
    for name in set(re.findall(r"(?<![\w.])([A-Za-z_]\w*)\s*\(", body)):
        heads = re.findall(rf"__device__[^;{{}}()]*\b{name}\s*\(([^()]*)\)\s*\{{", text)
        if any("&" in head for head in heads):
            return False
    return True


def _given(lines: Sequence[str], body: str) -> set[str]:
    """Names that a text gives as they are to functions that are not in the file, which may take them by reference."""
    text, out = "\n".join(lines), set[str]()
    for m in re.finditer(r"([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\(", body):
        known = m[1] in _FREE | {"if", "for"} or m[1].startswith(("__", "make_"))
        close = closing(body, m.end())
        if not known and close is not None and not re.search(rf"__device__[^;{{}}()]*\b{m[1]}\s*\(", text):
            out |= {a.strip() for a in split_declarators(body[m.end() : close])}
    return out
