"""What each round of a loop loads again, and computes of it, since the loop stores through another pointer, which may
point there for all that a compiler knows: once, in front of the loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from kscope.features.patterns.repeated_loads import Repeated, repeated_loads
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.algebra.rising import WRITES, declared, written
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, split_declarators
from kscope.fixes.given.text import Loop, Span, Text, by_lines, closing, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

AGAIN = "loads of loops whose address no round changes"
LEAST = 0.02  # of a kernel's instructions that such loads are: below it nobody would see the change (judged)
PURE = frozenset(
    x + end for x in (
        "exp exp2 exp10 expm1 log log2 log10 log1p pow sqrt rsqrt cbrt sin cos tan asin acos atan atan2 sinh cosh tanh "
        "erf erfc hypot floor ceil round rint trunc fabs fmax fmin fma fmod tgamma lgamma sinpi cospi"
    ).split() for end in ("", "f")
) | {"__expf", "__logf", "__powf", "__fdividef", "__frsqrt_rn", "__fsqrt_rn", "__frcp_rn", "__fmaf_rn", "__fmul_rn",
     "__fadd_rn", "min", "max", "abs", "float", "double", "int", "unsigned"}  # fmt: skip
"""Functions whose value follows from what they are given alone."""
_KINDS = r"float|double|int|unsigned\s+int|unsigned|long\s+long|u?int(?:32|64)_t"
_POINTER = re.compile(rf"\b(?:{_KINDS})(?:\s+const)?\s*\*\s*(?:const\s+|__restrict__\s*)*(?P<name>\w+)")
_STORES = re.compile(r"\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--|\.)")
_TYPES = {"int", "unsigned", "float", "double", "long", "size_t"}
_BEYOND = re.compile(
    r"\b(?:if|for|while|do|switch|return|break|continue|goto|asm|volatile|__sync\w+|__threadfence\w*|__nanosleep)\b"
)
_HEAD = re.compile(r"(?:[;{}]|#\s*pragma\s+(?:no)?unroll[^\n]*\n)\s*$")
_NAMES = re.compile(r"(?<![\w.>])[A-Za-z_]\w*")
_ASKS = re.compile(r"\?|&&|\|\|")
_OTHERS = ("atomicAdd", "atomicMax", "atomicMin", "__ldg")
_DIMENSIONS = {"threadIdx", "blockIdx", "blockDim", "gridDim"}


class Steady(Struct, frozen=True):
    """An expression of a loop that stays: the loop, where it stands, the arrays that it reads."""

    loop: Loop
    span: tuple[int, int]
    arrays: frozenset[str]


def fixes(asked: Asked) -> list[Fix]:
    return kept_in_front(asked.setting)


def kept_in_front(setting: Setting) -> list[Fix]:
    """The change for the first of a kernel's loops that has such loads."""
    text = kernel_text(setting)
    found = _loads(setting)
    if text is None or not found:
        return []
    for loop in loops(text.code):
        mine = steady(text.code, loop, setting.lines(text.file))
        kept = [one for one in mine if _seen(setting, text, one, found)]
        spans = _spans(text.code, loop, kept) if kept else []
        edits = spans_edited(setting, text, by_lines(text.code, spans))
        if edits:
            return [_fix(setting, text, kept, spans, found)] if _worth(setting, text, kept, found) else []
    return []


def _fix(setting: Setting, text: Text, kept: Sequence[Steady], spans: list[Span], found: Sequence[Repeated]) -> Fix:
    code = setting.code
    loads = _of(setting, text, kept, found)
    before, anew = total(code.executed, loads), len({text.code[slice(*one.span)] for one in kept})
    entered = max(code.executed[i] / r.rounds for r in found for i in r.loads if i in loads)
    told = "executions counted" if code.counted else "a loop's rounds taken for eight"
    arrays = ", ".join(sorted({a for one in kept for a in one.arrays}))
    whole = any("(" in text.code[slice(*one.span)] for one in kept)
    return Fix(
        kind="register",
        title=f"what each round reads of {arrays}{' and computes of it' * whole}, once in front of the loop",
        language="cuda",
        edits=spans_edited(setting, text, by_lines(text.code, spans)),
        conditions=[
            proved("its addresses are the same in each round, and the loop stores through other parameters", "code",
                   loads, "address slices of the loop's loads and stores"),
            reads("each round reads it", "nothing in front of it in the loop's body asks or leaves"),
            Condition(holds=f"what the loop stores to does not overlap {arrays}", state="check",
                      why="two parameters may point into one array: then rounds would read what others stored"),
        ],
        proof=[
            Proof(what="loads that warps execute", before=before, after=anew * entered, unit="inst",
                  how=f"{len(loads)} instructions, {told}; {anew} in front of the loop")
        ],
        costs=["registers for what is kept"],
        price=None,
    )  # fmt: skip


def _loads(setting: Setting) -> list[Repeated]:
    """Loads that their innermost loop repeats although it stores elsewhere."""
    code, out = setting.code, []
    for one in repeated_loads(code):
        inside = code.cfg.loops[one.loop].instructions
        stores = [i for i in inside if code.classes[i].access in ("store", "atomic", "reduction")]
        if any(code.classes[i].space in ("global", "generic") for i in stores):
            out.append(one)
    return out


def again(setting: Setting) -> int:
    """How many of them a kernel has."""
    return sum(len(one.loads) for one in _loads(setting))


def _of(setting: Setting, text: Text, kept: Iterable[Steady], found: Iterable[Repeated]) -> list[int]:
    """Loads of the lines of what is kept."""
    lines = {n for one in kept for n in _lines(text, one.span)}
    every = {i for one in found for i in one.loads}
    return sorted(i for i in every if any(f == text.file and n in lines for f, n in setting.sites(i)))


def _lines(text: Text, span: tuple[int, int]) -> range:
    first, last = (text.first + text.code.count("\n", 0, at) for at in span)
    return range(first, last + 1)


def _seen(setting: Setting, text: Text, one: Steady, found: Sequence[Repeated]) -> bool:
    """Whether the machine code repeats as many loads there as the text has arrays."""
    loads = _of(setting, text, [one], found)
    return len({pointer(setting.code, i) for i in loads}) >= len(one.arrays)


def _worth(setting: Setting, text: Text, kept: Sequence[Steady], found: Sequence[Repeated]) -> bool:
    """Whether functions go along, or the loads alone are enough."""
    called = any(re.search(r"\w\s*\(", text.code[slice(*one.span)]) for one in kept)
    executed = setting.code.executed
    return called or total(executed, _of(setting, text, kept, found)) > LEAST * total(executed)


def steady(code: str, loop: Loop, lines: Sequence[str] = ()) -> list[Steady]:
    """Expressions of a loop without loops inside that read arrays and stay the same, widest first; of its first
    statements alone, which each round goes through."""
    body = code[slice(*loop.body)]
    if _leaves(body) or not _HEAD.search(code[: loop.span[0]]):
        return []
    arrays = _arrays(code, loop)
    values = _Values(code, loop, arrays, set(constants(lines)))
    out = list[Steady]()
    for match in re.finditer(r"(?<![\w.>&])([A-Za-z_]\w*)\s*\[", body):
        at, close = loop.body[0] + match.start(), closing(code, loop.body[0] + match.end())
        if match[1] not in arrays or close is None or any(o.span[0] <= at < o.span[1] for o in out):
            continue
        before = code[loop.body[0] : at]
        if _BEYOND.search(before) or _ASKS.search(before.rpartition(";")[2]) or not values.stay(code[at : close + 1]):
            continue
        span = values.widest(at, close + 1)
        out.append(Steady(loop, span, frozenset(set(_NAMES.findall(code[slice(*span)])) & arrays)))
    return out


def _leaves(body: str) -> bool:
    """Whether a body is more than one goes through from its first to its last statement, or calls what may do more."""
    called = set(re.findall(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(", body)) - {"if"}
    around = re.search(r"\b(?:for|while|do|switch|goto|asm|volatile|__sync\w+|__threadfence\w*)\b", body)
    return around is not None or not called <= PURE | set(_OTHERS)


def _arrays(code: str, loop: Loop) -> set[str]:
    """Pointers that a loop only reads through, by their text."""
    head = code[: code.find("{")]
    found = {m["name"] for p in split_declarators(head[head.find("(") + 1 :]) for m in _POINTER.finditer(p)
             if "volatile" not in p}  # fmt: skip
    body = code[slice(*loop.body)]
    return {name for name in found if _read_only(name, body) and not declared(name, code[len(head) :])}


def _read_only(name: str, body: str) -> bool:
    for match in re.finditer(rf"(?<![\w.>]){name}\b", body):
        opened = re.match(r"\s*\[", body[match.end() :])
        close = closing(body, match.end() + opened.end()) if opened is not None else None
        stored = close is None or _STORES.match(body, close + 1)
        if stored or re.search(r"(?:&|\+\+|--)\s*$", body[: match.start()]):
            return False
    return True


class _Values(Struct, frozen=True):
    """What stays in the rounds of a loop."""

    code: str
    loop: Loop
    arrays: set[str]
    known: set[str]

    def stay(self, text: str) -> bool:
        if re.search(r"[;{}=?\"']|\+\+|--|->|&&|(?:^|[-+*/(\[,])\s*&|\]\s*\[", text):
            return False
        return all(self._stays(m[0], text[m.end() :].lstrip()[:1]) for m in _NAMES.finditer(text))

    def _stays(self, name: str, behind: str) -> bool:
        if behind == "(":
            return name in PURE
        if behind == "[":
            return name in self.arrays
        body = self.code[slice(*self.loop.body)]
        if name in _DIMENSIONS | _TYPES | self.known:
            return True
        if name == self.loop.name or declared(name, body) or written(name, body):
            return False
        taken = re.search(
            rf"(?<!&)(?<![\w)\]])\s*&\s*{name}\b|&\s*{name}\s*[=,)]|&\s*\w+\s*=\s*{name}\b", self.code
        )
        array = re.search(rf"(?<![\w.>]){name}\s*\[|\*\s*(?:const\s+|__restrict__\s*)*{name}\s*[,)=]", self.code)
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
            name = re.search(r"(?<![\w.>])[A-Za-z_]\w*\s*$", code[:opened])
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


def _spans(code: str, loop: Loop, kept: Sequence[Steady]) -> list[Span]:
    names = dict[str, str]()
    spans: list[Span] = []
    for one in kept:
        text = " ".join(code[slice(*one.span)].split())
        if text not in names:
            array = sorted(one.arrays)[0]
            free = (f"{array}_once{n or ''}" for n in range(len(kept) + 1))
            names[text] = next(x for x in free if x not in names.values())
        spans.append((*one.span, names[text]))
    if any(re.search(rf"\b{name}\b", code) for name in names.values()) or any(c in loop.kind for c in "*&"):
        return []
    first = loop.start if re.fullmatch(r"\d+", loop.start) or "auto" in loop.kind else f"({loop.kind})({loop.start})"
    goes = "" if first == "0" and re.fullmatch(r"[1-9]\d*", loop.end) else f"{first} < {loop.end}"
    if _acts(f"{loop.start} {loop.end}") or re.search(r"[,&|?]", loop.end):
        return []
    made = [f"const auto {name} = {f'{goes} ? {text} : 0' if goes else text};" for text, name in names.items()]
    at = loop.span[0]
    pragma = re.search(r"#\s*pragma\s+(?:no)?unroll[^\n]*\n\s*$", code[:at])
    at = code.rfind("\n", 0, pragma.start()) + 1 if pragma is not None else at
    return [(at, at, f"{' '.join(made)}{chr(10) if pragma is not None else ' '}"), *spans]


def _acts(text: str) -> bool:
    """Whether an expression does more than have a value."""
    return re.search(WRITES.replace("{x}", r"\w+") + r"|[\w)]\s*\(", text) is not None
