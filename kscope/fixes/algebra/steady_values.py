"""Expressions that read arrays and that the rounds of a loop do not change, as the text has them: how wide they are,
and the text with a name for each, in front of the loop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.algebra.rising import declared
from kscope.fixes.given.rewrite import PURE
from kscope.fixes.given.source import constants, split_declarators
from kscope.fixes.given.text import HEAD, WRITES, Loop, Span, closing, written

_KINDS = r"(?:float|double|int|unsigned\s+int|unsigned|long\s+long|u?int(?:32|64)_t)"
_POINTER = re.compile(
    r"(?:^|[(,])\s*(?:const\s+)?(?P<kind>(?:unsigned\s+|long\s+|\w+::)*\w+)(?:\s+const)?\s*"
    r"\*\s*(?:const\s+|__restrict__\s*)*(?P<name>\w+)\s*$"
)
_READ = re.compile(r"(?<![\w.>&])(?P<name>[A-Za-z_]\w*)\s*(?:\[|->\s*\w+\b(?!\s*[\[(.]|->))")
_MEMBER = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*->\s*\w+\b(?!\s*[\[(.]|->)")
_STORES = re.compile(r"\s*(?:\.\s*\w+\s*)*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--|\(|->|\[)")
_PLAIN = {"float", "double", "int", "unsigned", "unsigned int", "long", "long long", "unsigned long long", "int32_t",
          "uint32_t", "int64_t", "uint64_t", "size_t"}  # fmt: skip
_TYPES = {"int", "unsigned", "float", "double", "long", "size_t"}
_BEYOND = re.compile(
    r"\b(?:if|for|while|do|switch|return|break|continue|goto|asm|volatile|__sync\w+|__threadfence\w*|__nanosleep)\b"
)
_NAMES = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
_ASKS = re.compile(r"\?|&&|\|\|")
_OTHERS = ("atomicAdd", "atomicMax", "atomicMin", "__ldg")
_DIMENSIONS = {"threadIdx", "blockIdx", "blockDim", "gridDim"}


class Steady(Struct, frozen=True):
    """An expression of a loop that stays: the loop, where it stands, the arrays that it reads, and what stands
    for it where no round does."""

    loop: Loop
    span: tuple[int, int]
    arrays: frozenset[str]
    none: str = "0"


def steady(code: str, loop: Loop, lines: Sequence[str] = ()) -> list[Steady]:
    """Expressions of a loop without loops inside that read arrays and stay the same, widest first; of its first
    statements alone, which each round goes through."""
    body = code[slice(*loop.body)]
    if _leaves(body) or not HEAD.search(code[: loop.span[0]]):
        return []
    arrays = _arrays(code, loop)
    values = _Values(code, loop, arrays, set(constants(lines)))
    out = list[Steady]()
    for match in _READ.finditer(body):
        at, end = loop.body[0] + match.start(), loop.body[0] + match.end()
        close = closing(code, end) if code[end - 1] == "[" else end - 1
        if match["name"] not in arrays or close is None or any(o.span[0] <= at < o.span[1] for o in out):
            continue
        before = code[loop.body[0] : at]
        if _BEYOND.search(before) or _ASKS.search(before.rpartition(";")[2]) or not values.stay(code[at : close + 1]):
            continue
        span = values.widest(at, close + 1)
        read = {x: arrays[x] for x in _NAMES.findall(code[slice(*span)]) if x in arrays}
        none = _none(code[slice(*span)], set(read.values()), span == (at, close + 1) and close >= end)
        if none:
            out.append(Steady(loop, span, frozenset(read), none))
    return out


def _none(text: str, kinds: set[str], element: bool) -> str:
    """A value of an expression's type, for a loop without a round; "" where its type has no such word."""
    if kinds <= _PLAIN and "->" not in text:
        return "0"
    if element:
        (kind,) = kinds if len(kinds) == 1 else ("",)
        return f"{kind}()" if kind and " " not in kind else ""
    return f"decltype({text})()"  # of a call or a member: no reference


def _leaves(body: str) -> bool:
    """Whether a body is more than one goes through from its first to its last statement, or calls what may do more."""
    called = set(re.findall(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\(", body)) - {"if"}
    around = re.search(r"\b(?:for|while|do|switch|goto|asm|volatile|__sync\w+|__threadfence\w*)\b", body)
    return around is not None or not called <= PURE | set(_OTHERS)


def _arrays(code: str, loop: Loop) -> dict[str, str]:
    """Pointers that a loop only reads through, by their text, and to what they point."""
    head = code[: code.find("{")]
    bounds = head.find(")", head.find("__launch_bounds__")) if "__launch_bounds__" in head else 0
    parts = split_declarators(head[head.find("(", bounds) + 1 : head.rfind(")")])
    found = [m for p in parts if "volatile" not in p and (m := _POINTER.search(p)) is not None]
    body = code[slice(*loop.body)]
    found = [m for m in found if not _handed(m["name"], code[len(head) :])]
    return {
        m["name"]: " ".join(m["kind"].split()) for m in found
        if _read_only(m["name"], body) and not declared(m["name"], code[len(head) :]) and not written(m["name"], code)
    }  # fmt: skip


def _handed(name: str, code: str) -> bool:
    """Whether a pointer is copied or handed on, so that others may point there."""
    uses = re.finditer(rf"(?<![\w.])(?<!->){name}\b(?P<at>\s*(?:\[|->))?", code)
    return any(not m["at"] or re.search(r"(?<!&)&\s*$", code[: m.start()]) for m in uses)


def _read_only(name: str, body: str) -> bool:
    for match in re.finditer(rf"(?<![\w.])(?<!->){name}\b", body):
        read = _READ.match(body, match.start())
        if read is None or re.search(r"(?:&|\+\+|--)\s*$", body[: match.start()]):
            return False
        end = closing(body, read.end()) if read[0].endswith("[") else read.end() - 1
        if end is None or _STORES.match(body, end + 1):
            return False
    return True


class _Values(Struct, frozen=True):
    """What stays in the rounds of a loop."""

    code: str
    loop: Loop
    arrays: Mapping[str, str]
    known: set[str]

    def stay(self, text: str) -> bool:
        text = _MEMBER.sub(lambda m: "0" if m[1] in self.arrays else m[0], text)
        if re.search(r"[;{}=?\"']|\+\+|--|->|&&|(?:^|[-+*/(\[,])\s*&|\]\s*\[", text):
            return False
        return all(self._stays(m[0], text[m.end() :].lstrip()[:1]) for m in _NAMES.finditer(text))

    def _stays(self, name: str, behind: str) -> bool:
        if behind == "(":
            return name in PURE
        if behind == "[":
            return name in self.arrays
        body = f"{self.loop.step}; {self.code[slice(*self.loop.body)]}"
        if name in _DIMENSIONS | _TYPES | self.known:
            return True
        if name == self.loop.name or declared(name, body) or written(name, body):
            return False
        taken = re.search(
            rf"(?<!&)(?<![\w)\]])\s*&\s*{name}\b|&\s*{name}\s*[=,)]|&\s*\w+\s*=\s*{name}\b", self.code
        )
        array = re.search(rf"(?<![\w.])(?<!->){name}\s*\[|\*\s*(?:const\s+|__restrict__\s*)*{name}\s*[,)=]", self.code)
        return taken is None and array is None and self._own(name)

    def _own(self, name: str) -> bool:
        """Whether a name is a value of the thread's: a parameter, or declared in the kernel."""
        head = self.code[: self.code.find("{")]
        given = re.search(rf"(?:{_KINDS}|size_t|bool|long)\s+(?:const\s+)?{name}\s*[,)]", head)
        return given is not None or declared(name, self.code[len(head) : self.loop.span[0]])

    def widest(self, start: int, end: int) -> tuple[int, int]:
        """The call around an expression that stays whole, as long as there is one."""
        code = self.code
        while True:
            opened = _opened(code, self.loop.body[0], start)
            close = closing(code, opened + 1) if opened is not None else None
            if opened is None or close is None or close < end or not self.stay(code[opened + 1 : close]):
                return start, end
            name = re.search(r"(?<![\w.])(?<!->)[A-Za-z_]\w*\s*$", code[:opened])
            if name is None or name[0].strip() not in PURE:
                return start, end
            start, end = name.start(), close + 1


def _opened(code: str, first: int, at: int) -> int | None:
    """The round bracket that is open in front of a place."""
    depth = 0
    for n in range(at - 1, first - 1, -1):
        depth += (code[n] in ")]}") - (code[n] in "([{")
        if depth < 0:
            return n if code[n] == "(" else None
        if code[n] == ";" and not depth:
            return None
    return None


def spans(code: str, loop: Loop, kept: Sequence[Steady]) -> list[Span]:
    """The new text: values in front of the loop, their names in it."""
    names = _named(code, kept)
    goes = _goes(loop)
    if goes is None or any(re.search(rf"\b{name}\b", code) for name in names.values()):
        return []
    none = {_text(code, one): one.none for one in kept}
    value = {text: f"{goes} ? {text} : {none[text]}" if goes else text for text in names}
    made = " ".join(f"const auto {name} = {value[text]};" for text, name in names.items())
    out: list[Span] = [(*one.span, names[_text(code, one)]) for one in kept]
    pragma = re.search(r"#\s*pragma\s+(?:no)?unroll[^\n]*\n\s*$", code[: loop.span[0]])
    if pragma is None:
        return [(loop.span[0], loop.span[0], f"{made} "), *out]
    at = code.rfind("\n", 0, pragma.start()) + 1
    return [(at, at, f"{made}\n"), *out]


def _text(code: str, one: Steady) -> str:
    return " ".join(code[slice(*one.span)].split())


def _named(code: str, kept: Sequence[Steady]) -> dict[str, str]:
    """A name for each expression, the same for the same."""
    names = dict[str, str]()
    for one in kept:
        array = min(one.arrays)
        free = (f"{array}_once{n or ''}" for n in range(len(kept) + 1))
        names.setdefault(_text(code, one), next(x for x in free if x not in names.values()))
    return names


def _goes(loop: Loop) -> str | None:
    """What tells whether a loop has a round; "" where it has, None where to ask would do something."""
    if _acts(f"{loop.start} {loop.end}") or re.search(r"[,&|?]", loop.end) or any(c in loop.kind for c in "*&"):
        return None
    signed = loop.kind in ("int", "long", "long long", "auto")
    bare = (re.fullmatch(r"\d+", loop.start) and signed) or "auto" in loop.kind
    first = loop.start if bare else f"({loop.kind})({loop.start})"
    return "" if loop.start == "0" and re.fullmatch(r"[1-9]\d*", loop.end) else f"{first} < {loop.end}"


def _acts(text: str) -> bool:
    """Whether an expression does more than have a value."""
    return re.search(WRITES.replace("{x}", r"\w+") + r"|[\w)]\s*\(", text) is not None
