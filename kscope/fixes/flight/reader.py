"""Statements of a round, one after the other: which loads follow from what rounds go on by, and what their places ask
for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.atomics.by_reference import CALLED, given
from kscope.fixes.atomics.names import NAME, alike, constant, lends, may_store, put, stored, word
from kscope.fixes.atomics.reading import MODIFIED, changed, statements
from kscope.fixes.flight.heads import Goes, Head
from kscope.fixes.flight.held import Held, Step, Test, Tests
from kscope.fixes.given.source import SIZES, split_declarators
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.thread.split import returns

N, AHEAD = "round_n", "_ahead"
_LEAVES = re.compile(r"if\s*\((?P<test>[^{};]*)\)\s*(?:\{\s*return\s*;\s*\}|return\s*;)")
_PASSES = re.compile(_LEAVES.pattern.replace("return", "continue"))
_GOES = re.compile(r"\b(?:continue|return|break)\b")
_CONDITIONAL = re.compile(r"\?|&&|\|\|")
_DECLARED = re.compile(
    r"(?P<const>(?:const|constexpr)\s+)?(?P<type>[A-Za-z_][\w:]*(?:<[\w\s,:]*>)?(?:\s+(?:int|long|char|short|unsigned))*)"
    r"(?P<after>\s+const\b)?(?P<star>[\s*&]+)(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>.*);", re.S,
)
_BROUGHT = re.compile(r"(?:^|[;{}])\s*(?:const\s+)?[A-Za-z_][\w:]*(?:<[\w\s,:]*>)?[\s*&]+(?P<name>[A-Za-z_]\w*)\s*[({]")
_SET = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>[^=;]+);", re.S)
_WORDS = {"const", "auto", "sizeof", "static_cast", "true", "false", "nullptr", "NULL", "unsigned", "signed", "return"}
_ARRAY = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*(?:\.\w+)*)\s*\[")
_STAR = re.compile(
    r"(?:(?<=[(,=?:!<>+\-{;])|^|\breturn)\s*(?P<star>\*)\s*(?:(?P<name>[A-Za-z_]\w*)\b(?!\s*[\[(.\-+])|\()"
)
_LDG = re.compile(r"\b__ldg\s*\(")


class Reader:
    """The statements of a round, one after the other."""

    def __init__(
        self, code: str, head: Head, on: Sequence[tuple[Goes, tuple[int, int]]], known: dict[str, str],
        lines: Sequence[str], *, blocks: bool = False,
    ) -> None:  # fmt: skip
        self.code, self.head, self.lines, self.blocks = code, head, lines, blocks
        self.body = code[slice(*head.body)]
        self.on = {g.name for g, _ in on}
        self.ends = {span for _, span in on}
        self.known = set(known)
        handed = given(self.body, lines)
        self.kinds = {
            n: k for n, k in known.items() if not self._lent(n) and (blocks or not self._written(n))
            and (constant(code, n) or not lends(self.body, n, handed))
        }  # fmt: skip
        self.held: list[Held] = []
        self.steps: list[Step] = []
        self.made: dict[str, int] = {}
        self.late = self.behind = False  # whether a statement may have stored, and a load stands behind it
        brought = {m["name"] for m in _BROUGHT.finditer(self.body)}
        known_here = set(NAME.findall(self.body)) - self.on
        self.changed = {n for n in known_here if n in handed | brought or changed(self.body, n)}
        self.strange = bool(self.on & handed)

    def _written(self, name: str) -> bool:
        """Whether a loop stores to where a pointer leads, by its name or another one."""
        return any(stored(self.body, one) for one in alike(self.code, name, self.known))

    def _lent(self, name: str) -> bool:
        """Whether a loop gives away where a pointer leads."""
        for m in re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[", self.body):
            before = self.body[: m.start()]
            if re.search(r"(?:&|\+\+|--)\s*$", before) and not re.search(r"\b__ldg\s*\(\s*&\s*$", before):
                return True
        rest = self.body
        for start, end in sorted(self.ends - {(0, 0)}, reverse=True):
            a, b = start - self.head.body[0], end - self.head.body[0]
            rest = rest[:a] + " " * (b - a) + rest[b:]
        for pattern in (_LDG, _STAR):
            for m in reversed(list(pattern.finditer(rest))):
                end = m.end() if m.groupdict().get("name") else (closing(rest, m.end()) or m.end())
                rest = rest[: m.start()] + " " + rest[end:]
        rest = re.sub(rf"(?<![\w.])(?<!->){name}\s*[!=]=\s*(?:NULL|nullptr|0)\b", " ", rest)
        return re.search(rf"(?<![\w.])(?<!->){name}\b(?!\s*\[)", rest) is not None

    def tested(self) -> bool:
        """Whether how long the loop goes on follows from what it goes on by alone."""
        words = set(NAME.findall(self.head.test))
        steps = all(self._level(g) is not None for g in (m.group() for m in NAME.finditer(self.head.step)))
        plain = re.search(r"\[|->|(?<![=!<>])=(?!=)|\+\+|--", self.head.test) is None
        plain = plain and set(re.findall(r"(\w+)\s*\(", self.head.test)) <= CALLED | set(SIZES)
        return plain and steps and bool(words & self.on) and not words & self.changed and not self.strange

    def read(self, spans: Sequence[tuple[int, int]], test: Tests = ()) -> bool:
        """Statements up to the first that the loop goes on by, or that ends a round; whether any load is held."""
        for span in spans:
            text = self.code[slice(*span)]
            left = (_LEAVES if self.blocks else _PASSES).fullmatch(text)
            if left is not None:
                test = self._asked(left["test"], test) or ()
                if not test:
                    break
            elif span in self.ends or _GOES.search(text):
                break
            elif text.startswith("if"):
                self._tested(span, test)
            elif re.match(r"(?:for|while|do|switch)\b|[#{]", text):
                self._forget(text)
            else:
                self._statement(span, test)
            self.kinds = {n: k for n, k in self.kinds.items() if not stored(text, n)}
            self.late = self.late or may_store(text)
        return bool(self.held)

    def _asked(self, text: str, test: Tests) -> Tests | None:
        """What stands under a test that leaves a thread's work; None where rounds ahead cannot make it."""
        level = self._level(text)
        return (*test, Test(f"!({text})", level)) if level is not None else None

    def _tested(self, span: tuple[int, int], test: Tests) -> None:
        """What stands under a test and behind its else, if rounds ahead can make it; what the test itself loads."""
        code, open_ = self.code, self.code.index("(", span[0]) + 1
        close = closing(code, open_)
        if close is None:
            return
        asked = code[open_:close] if _CONDITIONAL.search(code[open_:close]) else self._loads((open_, close), test)
        level = self._level(asked, memory=True)
        start = word(code, close + 1)
        end = statement_end(code, start)
        if level is not None and end is not None:
            other = re.match(r"\s*else\b\s*", code[end : span[1]])
            parts = [(asked, (start, end))]
            parts += [(f"!({asked})", (end + other.end(), span[1]))] if other is not None else []
            before = dict(self.made)
            for one, part in parts:
                braces = code[part[0]] == "{"
                inside = statements(code, part[0] + 1, part[1] - 1) if braces else [part]
                self.read(inside or (), (*test, Test(one, level)))
                held = {n: at for n, at in self.made.items() if AHEAD in n}
                self.made = {**before, **held}
        self._forget(code[slice(*span)])

    def _forget(self, text: str) -> None:
        """What a statement may change is made no more."""
        handed = given(text, self.lines)
        self.made = {n: k for n, k in self.made.items() if AHEAD in n or (n not in handed and not changed(text, n))}

    def _statement(self, span: tuple[int, int], test: Tests) -> None:
        text = self.code[slice(*span)]
        one = _DECLARED.fullmatch(text)
        alone = one is not None and len(list(split_declarators(one["value"]))) == 1 and "&" not in one["star"]
        if _CONDITIONAL.search(text):
            self._forget(text)
            if one is not None and alone:
                self._whole(span, one, test)
            return
        new = self._loads(span, test)
        self._forget(text)
        if one is not None and not alone and "&" not in one["star"] and "*" not in one["star"]:
            for part in split_declarators(new[one.start("name") : -1]):
                name, _, value = part.partition("=")
                if value and re.fullmatch(r"\w+", name := name.strip()):
                    self._make(name, f"{one['type']} {name} = {value.strip()};", self._level(value), test)
            return
        if one is None or not alone:
            one = _SET.fullmatch(new)
            if one is None or one["name"] in NAME.findall(one["value"]) or one["name"] in self.on:
                return
            kind = self._kind(one["name"])
            if not kind:
                return
            new = f"{kind} {new}"
        self._make(one["name"], " ".join(new.split()), self._level(new.partition("=")[2]), test)

    def _kind(self, name: str) -> str:
        """The type of what is declared first and given its value later."""
        at = rf"(?:^|[;{{}}])\s*(?P<kind>[A-Za-z_][\w:]*(?:\s+(?:int|long|char|short))*)\s+(?:\w+\s*,\s*)*{name}\s*[;,]"
        here = re.search(at, self.body)
        if here is not None:
            return here["kind"] if here["kind"] not in _WORDS else ""
        return "" if self.blocks else f"decltype({name})"

    def _make(self, name: str, text: str, level: int | None, test: Tests) -> None:
        """A value of a round, of which each piece of text that is under one test has one."""
        if level is not None and not any((s.name, s.test) == (name, test) for s in self.steps):
            self.made[name] = max([level, *(t.level for t in test)])
            self.steps.append(Step(name, text, self.made[name], test))

    def _whole(self, span: tuple[int, int], one: re.Match[str], test: Tests) -> None:
        """A value that is chosen, with its loads: all of it ahead."""
        value, level = one["value"], self._level(one["value"], memory=True)
        loads = self._found(value)
        outer = not set(NAME.findall(value)) & set(self.made)
        kind = one["type"] if one["type"] != "auto" else f"decltype({value.strip()})" if outer else ""
        if level is not None and not loads:
            self._make(one["name"], " ".join(self.code[slice(*span)].split()), self._level(value), test)
        if level is None or not loads or not kind or "*" in one["star"] or (self.blocks and "decl" in kind):
            return
        at, name = span[0] + one.start("value"), self._name(one["name"])
        level = max([level, *(t.level for t in test)])
        self.held.append(Held(name, kind, value.strip(), (at, at + len(value)), level, test))
        self.behind = self.behind or self.late
        self.steps.append(Step("", f"{name}[{N}] = {' '.join(value.split())};", level, test))
        self._make(one["name"], f"const auto {one['name']} = {name}[{N}];", level + 1, test)

    def _loads(self, span: tuple[int, int], test: Tests) -> str:
        """The text with its loads held, the innermost first."""
        text = self.code[slice(*span)]
        done: list[tuple[int, int, str]] = []
        for start, end, base in sorted(self._found(text), reverse=True):
            inner = put(text, start, end, [d for d in done if start < d[0] and d[1] <= end])
            without = re.sub(rf"^\s*(?:__ldg\s*\(|\*)|(?<![\w.])(?<!->){base}\b", " ", inner)
            level = self._level(without.replace("&", " "))
            if level is not None and not re.match(r"\s*\(", text[end:]):
                level = max([level, *(t.level for t in test)])
                name = self._hold(inner, base, level, test, (span[0] + start, span[0] + end))
                done = [d for d in done if not (start < d[0] and d[1] <= end)] + [(start, end, f"{name}[{N}]")]
        spans = {(span[0] + a, span[0] + b) for a, b, _ in done}
        self.held = [h if h.span in spans or not span[0] <= h.span[0] < span[1] else
                     Held(h.name, h.kind, h.text, (0, 0), h.level, h.test) for h in self.held]  # fmt: skip
        return put(text, 0, len(text), done)

    def _hold(self, text: str, base: str, level: int, test: Tests, span: tuple[int, int]) -> str:
        """A load that is held, which one of the same text may be already: in which array."""
        members = re.search(r"\](?P<m>(?:\s*\.\s*\w+)+)$", text)
        kind = self.kinds[base] if self.kinds[base] and members is None else ""
        kind = kind or f"decltype({base}[0]{members['m'] if members is not None else ''})"
        again = next((h for h in self.held if (h.text, h.test) == (text, test)), None)
        name = again.name if again is not None else self._name(base)
        self.held.append(Held(name, kind, text, span, level, test))
        self.behind = self.behind or self.late
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
                more = re.match(r"(?:\s*\.\s*\w+\b(?!\s*\())*", text[close + 1 :])
                end = close + 1 + (more.end() if more is not None else 0)
                if not re.search(r"&\s*$", text[: m.start()]) and not re.match(MODIFIED, text[end:]):
                    out.append((m.start(), end, m[1]))
        for m in _LDG.finditer(text):
            close = closing(text, m.end())
            names = [n for n in NAME.findall(text[m.end() : close]) if n in self.kinds]
            if close is not None and names:
                out.append((m.start(), close + 1, names[0]))
        for m in _STAR.finditer(text):
            close = m.end() - 1 if m["name"] else closing(text, m.end())
            first = m["name"] or next(iter(NAME.findall(text[m.end() : close])), "")
            if close is not None and first in self.kinds and not re.match(MODIFIED, text[close + 1 :]):
                out.append((m.start("star"), close + 1, first))
        return out

    def _name(self, base: str) -> str:
        used = {h.name for h in self.held}
        return next(n for k in range(99) if (n := f"{base.replace('.', '_')}{AHEAD}{k or ''}") not in used)

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
