"""What the rounds of a loop load whatever the rounds before them made of it: by text, with what the places of these
loads ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, changed, statements
from kscope.fixes.flight.heads import Goes, Head, going, heads
from kscope.fixes.flight.names import CALLED, NAME, given, pointers
from kscope.fixes.given.source import SIZES, split_declarators
from kscope.fixes.given.text import closing
from kscope.fixes.thread.split import returns

N, AHEAD = "round_n", "_ahead"
_NEVER = re.compile(
    r"\b(?:break|return|goto|asm|volatile|\w*sync\w*|__shared__|__shfl\w*|__ballot\w*|__any\w*|__all\w*|__threadfence\w*|"
    r"co_\w+|atomicCAS|atomicExch|operator)\b|/\*|\[\s*[&=]?\s*\]|#(?!\s*pragma\s+unroll)"
)
_CONDITIONAL = re.compile(r"\?|&&|\|\|")
_DECLARED = re.compile(
    r"(?P<const>(?:const|constexpr)\s+)?(?P<type>[A-Za-z_][\w:]*(?:<[\w\s,:]*>)?(?:\s+(?:int|long|char|short|unsigned))*)"
    r"(?P<after>\s+const\b)?(?P<star>[\s*&]+)(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>.*);", re.S,
)
_SET = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>[^=;]+);", re.S)
_WORDS = {"const", "auto", "sizeof", "static_cast", "true", "false", "nullptr", "NULL", "unsigned", "signed", "return"}
_ARRAY = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\[")
_STAR = re.compile(
    r"(?:(?<=[(,=?:!<>+\-{;])|^|\breturn)\s*(?P<star>\*)\s*(?:(?P<name>[A-Za-z_]\w*)\b(?!\s*[\[(.\-+])|\()"
)
_LDG = re.compile(r"\b__ldg\s*\(")


class Held(Struct, frozen=True):
    """A value that rounds load first: the array of registers that it lies in and the type of its elements, its text
    where it stands, how many loads its place waits for, under which test."""

    name: str
    kind: str
    text: str
    span: tuple[int, int]
    level: int
    test: str


class Step(Struct, frozen=True):
    """A statement of the rounds ahead: what it gives a value to, and from which level on it can be made."""

    name: str
    text: str
    level: int
    test: str


class Rounds(Struct, frozen=True):
    """`on`: what the loop goes on by, each with its statement's span; `steps`: what rounds ahead do, in order."""

    head: Head
    on: tuple[tuple[Goes, tuple[int, int]], ...]
    held: tuple[Held, ...]
    steps: tuple[Step, ...]


def rounds(code: str, name: str, lines: Sequence[str]) -> Iterator[Rounds]:
    """Loops of a kernel whose rounds can load ahead. lines: of the whole file, for the functions that it calls."""
    start = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, start.end()) if start is not None else None
    if start is None or close is None or (opening := code.find("{", close)) < 0:
        return
    for head in heads(code, opening):
        body = code[slice(*head.body)]
        on = going(code, head)
        if not on or _NEVER.search(body) or N in code or AHEAD in code or "_now" in code:
            continue
        known = pointers(code[start.end() : close], code[opening : head.span[0]])
        reader = _Reader(code, head, on, known, lines)
        if reader.tested() and reader.read(head.inside, ""):
            yield Rounds(head, tuple(on), tuple(reader.held), tuple(reader.steps))


class _Reader:
    """The statements of a round, one after the other."""

    def __init__(
        self, code: str, head: Head, on: Sequence[tuple[Goes, tuple[int, int]]], known: dict[str, str],
        lines: Sequence[str],
    ) -> None:  # fmt: skip
        self.code, self.head, self.lines = code, head, lines
        self.body = code[slice(*head.body)]
        self.on = {g.name for g, _ in on}
        self.ends = {span for _, span in on}
        self.kinds = {n: k for n, k in known.items() if not self._written(n)}
        self.held: list[Held] = []
        self.steps: list[Step] = []
        self.made: dict[str, int] = {}
        handed = given(self.body, lines)
        self.changed = {n for n in set(NAME.findall(self.body)) - self.on if n in handed or changed(self.body, n)}
        self.strange = bool(self.on & handed)

    def _written(self, name: str) -> bool:
        """Whether a loop may write to where a pointer leads, or gives it away."""
        for m in re.finditer(rf"(?<![\w.>]){name}\s*\[", self.body):
            close = closing(self.body, m.end())
            if close is None or re.match(rf"(?:\s*\[[^\]]*\])*(?:\s*\.\s*\w+)*{MODIFIED}", self.body[close + 1 :]):
                return True
            if re.search(r"(?:&|\+\+|--)\s*$", self.body[: m.start()]) and not re.search(
                r"\b__ldg\s*\(\s*&\s*$", self.body[: m.start()]):  # fmt: skip
                return True
        if re.search(rf"(?:^|[;{{}})])\s*\*\s*\(?\s*{name}\b[^;=]*{MODIFIED}", self.body):
            return True
        rest = self.body
        for start, end in sorted(self.ends - {(0, 0)}, reverse=True):
            a, b = start - self.head.body[0], end - self.head.body[0]
            rest = rest[:a] + " " * (b - a) + rest[b:]
        for pattern in (_LDG, _STAR):
            for m in reversed(list(pattern.finditer(rest))):
                end = m.end() if m.groupdict().get("name") else (closing(rest, m.end()) or m.end())
                rest = rest[: m.start()] + " " + rest[end:]
        rest = re.sub(rf"(?<![\w.>]){name}\s*[!=]=\s*(?:NULL|nullptr|0)\b", " ", rest)
        return re.search(rf"(?<![\w.>]){name}\b(?!\s*\[)", rest) is not None

    def tested(self) -> bool:
        """Whether how long the loop goes on follows from what it goes on by alone."""
        words = set(NAME.findall(self.head.test))
        steps = all(self._level(g) is not None for g in (m.group() for m in NAME.finditer(self.head.step)))
        plain = re.search(r"\[|->|(?<![=!<>])=(?!=)|\+\+|--", self.head.test) is None
        plain = plain and set(re.findall(r"(\w+)\s*\(", self.head.test)) <= CALLED | set(SIZES)
        return plain and steps and bool(words & self.on) and not words & self.changed and not self.strange

    def read(self, spans: Sequence[tuple[int, int]], test: str) -> bool:
        """Statements up to the first that the loop goes on by, or that ends a round; whether any load is held."""
        for span in spans:
            text = self.code[slice(*span)]
            if span in self.ends or re.search(r"\bcontinue\b", text):
                break
            if text.startswith("if") and not re.search(r"\belse\b", text):
                self._tested(span, test)
            elif not re.match(r"(?:for|while|do|switch|if|else)\b|[#{]", text):
                self._statement(span, test)
        return bool(self.held)

    def _tested(self, span: tuple[int, int], test: str) -> None:
        """What stands under a test that can be made ahead; else what the test itself loads."""
        open_ = self.code.index("(", span[0]) + 1
        close = closing(self.code, open_)
        if close is None:
            return
        asked = self.code[open_:close]
        at = close + 1 + len(self.code[close + 1 :]) - len(self.code[close + 1 :].lstrip())
        if not test and self._level(asked, memory=True) == 0 and self.code[at] == "{":
            before = set(self.made)
            self.read(statements(self.code, at + 1, span[1] - 1) or (), asked)
            self.made = {n: level for n, level in self.made.items() if n in before or AHEAD in n}
        elif not _CONDITIONAL.search(asked):
            self._loads((open_, close), test)

    def _statement(self, span: tuple[int, int], test: str) -> None:
        text = self.code[slice(*span)]
        one = _DECLARED.fullmatch(text)
        alone = one is not None and len(list(split_declarators(one["value"]))) == 1 and "&" not in one["star"]
        if one is not None and alone and _CONDITIONAL.search(text):
            self._whole(span, one, test)
            return
        if _CONDITIONAL.search(text):
            return
        new = self._loads(span, test)
        if one is None or not alone:
            one = _SET.fullmatch(new)
            once = one is not None and self._first(one["name"], span)
            if one is None or not once or one["name"] in NAME.findall(one["value"]):
                return
            new = f"decltype({one['name']}) {new}"
        level = self._level(new.partition("=")[2])
        if level is not None and changed(self.body, one["name"]) == 1:
            self.made[one["name"]] = level
            self.steps.append(Step(one["name"], " ".join(new.split()), level, test))

    def _first(self, name: str, span: tuple[int, int]) -> bool:
        """Whether a name is not used in a round before it has its one value there."""
        before = self.code[self.head.span[0] : span[0]]
        return changed(self.body, name) == 1 and re.search(rf"(?<![\w.>]){name}\b", before) is None

    def _whole(self, span: tuple[int, int], one: re.Match[str], test: str) -> None:
        """A value that is chosen, with its loads: all of it ahead."""
        value, level = one["value"], self._level(one["value"], memory=True)
        loads = self._found(value)
        outer = not set(NAME.findall(value)) & set(self.made)
        kind = one["type"] if one["type"] != "auto" else f"decltype({value.strip()})" if outer else ""
        if level is None or not loads or not kind or "*" in one["star"] or changed(self.body, one["name"]) != 1:
            return
        at = span[0] + one.start("value")
        name = self._name(one["name"])
        self.held.append(Held(name, kind, value.strip(), (at, at + len(value)), level, test))
        self.steps.append(Step("", f"{name}[{N}] = {' '.join(value.split())};", level, test))
        self.made[one["name"]] = level + 1
        self.steps.append(Step(one["name"], f"const auto {one['name']} = {name}[{N}];", level + 1, test))

    def _loads(self, span: tuple[int, int], test: str) -> str:
        """The text with its loads held, the innermost first."""
        text = self.code[slice(*span)]
        done: list[tuple[int, int, str]] = []
        for start, end, base in sorted(self._found(text), reverse=True):
            inner = _put(text, start, end, [d for d in done if start < d[0] and d[1] <= end])
            level = self._level(re.sub(rf"^\s*(?:__ldg\s*\(|\*)|(?<![\w.>]){base}\b", " ", inner).replace("&", " "))
            if level is not None and not re.match(r"\s*\(", text[end:]):
                name = self._hold(inner, base, level, test, (span[0] + start, span[0] + end))
                done = [d for d in done if not (start < d[0] and d[1] <= end)] + [(start, end, f"{name}[{N}]")]
        spans = {(span[0] + a, span[0] + b) for a, b, _ in done}
        self.held = [h if h.span in spans or not span[0] <= h.span[0] < span[1] else
                     Held(h.name, h.kind, h.text, (0, 0), h.level, h.test) for h in self.held]  # fmt: skip
        return _put(text, 0, len(text), done)

    def _hold(self, text: str, base: str, level: int, test: str, span: tuple[int, int]) -> str:
        """A load that is held, which one of the same text may be already: in which array."""
        members = re.search(r"\](?P<m>(?:\s*\.\s*\w+)+)$", text)
        kind = self.kinds[base] if self.kinds[base] and members is None else ""
        kind = kind or f"decltype({base}[0]{members['m'] if members is not None else ''})"
        again = next((h for h in self.held if (h.text, h.test) == (text, test)), None)
        name = again.name if again is not None else self._name(base)
        self.held.append(Held(name, kind, text, span, level, test))
        if again is None:
            self.steps.append(Step("", f"{name}[{N}] = {' '.join(text.split())};", level, test))
            self.made[name] = level + 1
        return name

    def _found(self, text: str) -> list[tuple[int, int, str]]:
        """Loads through pointers that lead to what nobody writes here: start, end, pointer."""
        out = []
        for m in _ARRAY.finditer(text):
            close = closing(text, m.end())
            if m[1] in self.kinds and close is not None and not re.match(r"\s*(?:\[|->)", text[close + 1 :]):
                more = re.match(r"(?:\s*\.\s*\w+)*(?!\s*\()", text[close + 1 :])
                end = close + 1 + (more.end() if more is not None else 0)
                if not re.search(r"&\s*$", text[: m.start()]):
                    out.append((m.start(), end, m[1]))
        for m in _LDG.finditer(text):
            close = closing(text, m.end())
            names = [n for n in NAME.findall(text[m.end() : close]) if n in self.kinds]
            if close is not None and names:
                out.append((m.start(), close + 1, names[0]))
        for m in _STAR.finditer(text):
            close = m.end() - 1 if m["name"] else closing(text, m.end())
            first = m["name"] or next(iter(NAME.findall(text[m.end() : close])), "")
            if close is not None and first in self.kinds:
                out.append((m.start("star"), close + 1, first))
        return out

    def _name(self, base: str) -> str:
        used = {h.name for h in self.held}
        return next(n for k in range(99) if (n := f"{base}{AHEAD}{k or ''}") not in used)

    def _level(self, text: str, *, memory: bool = False) -> int | None:
        """How many loads a text waits for, where it is made of what the loop goes on by, of what stays and of what
        rounds ahead have made; None where it is not. memory: whether loads may stand in it."""
        loads = {name for _, _, name in self._found(text)}
        if re.search(r"->|(?<![=!<>])=(?!=)|\+\+|--|[-+*/%&|^]=|\breinterpret_cast\b", text):
            return None
        if len(list(_STAR.finditer(text))) > (memory and sum(text[a] == "*" for a, _, _ in self._found(text))):
            return None
        if loads and not memory:
            return None
        levels = [0]
        for m in NAME.finditer(text):
            if m[0] not in self.made and not self._stays(m[0], text[m.end() :].lstrip()[:1], memory=memory):
                return None
            levels.append(self.made.get(m[0], 0))
        return max(levels)

    def _stays(self, name: str, after: str, *, memory: bool) -> bool:
        """Whether a name that stands in front of so much is the same in all rounds, or what they go on by."""
        if after == "(":
            known = name in _WORDS | CALLED | set(SIZES) or (memory and name == "__ldg")
            return known or returns(self.lines, name)
        if after == "[":
            return memory and name in self.kinds
        return name not in self.changed or name in self.on


def _put(text: str, start: int, end: int, done: Sequence[tuple[int, int, str]]) -> str:
    """A piece of a text with spans of the text changed."""
    for a, b, new in sorted(done, reverse=True):
        text = text[:a] + new + text[b:]
        end += len(new) - (b - a)
    return text[start:end]
