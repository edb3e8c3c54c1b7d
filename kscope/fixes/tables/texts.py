"""Atomics on places that an index says, which nothing bounds: a table of the first places for each block, in shared
memory, and what a block's threads do in rounds over the blocks of the launch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from kscope.fixes.atomics.combined import unused
from kscope.fixes.atomics.helpers import FLAT, neutral
from kscope.fixes.atomics.reading import MODIFIED, Kernel, changed
from kscope.fixes.atomics.targets import NAMES
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, by_lines, closing, plain, statement_end
from kscope.fixes.memory.aggregate import masked
from kscope.fixes.tables.bounds import BLOCK, Counted, numbers_of

FUNCTIONS = ("atomicAdd", "atomicMax", "atomicMin")
KINDS = ("int", "unsigned")  # that an SM adds to in shared memory without a loop (ATOMS in sm_90's code)
COUNTED = ("unsigned long long", "float", "double")  # that ones are added to, which such a number counts
AT, PLACE = "at_n", "place_n"
BYTES = 256  # values of a byte
DEEPEST = 4  # names that stand for others that an index is made of
_ONE = re.compile(r"(?:\(\s*[\w ]+\s*\)\s*|\w+\()?\(?1(?:\.0*)?(?:[uUlL]*|[fF])\)*")
_MEETS = re.compile(
    r"__shared__|\b__sync\w*|\b__\w+_sync\b|\b__activemask\b|\b(?:static|clock\w*|do|throw|printf|assert)\b"
    r"|#(?!\s*pragma\s+unroll)|\[\s*[&=]\s*\]|\b(?:block|thread)Idx\b(?!\s*\.\s*[xyz]\b)"
)
_TARGET = re.compile(r"&\s*(?P<name>\w+)\s*\[(?P<at>.*)\]|(?P<moved>\w+)\s*\+(?P<by>.*)", re.S)
_POINTED = re.compile(r"([\w ]+?) \* ?(?:(?:__restrict__|__restrict) ?)*")
_BYTE = re.compile(r"(?:const )?(?:unsigned char|uint8_t|uchar) \*.*")


class Add(Struct, frozen=True):
    """`function(&name[at], value);`: its span with the semicolon. kind: the C type; said: as the text has it. counts:
    whether a table holds how many ones were added."""

    function: str
    name: str
    kind: str
    said: str
    at: str
    value: str
    span: tuple[int, int]
    counts: bool = False

    @property
    def held(self) -> str:
        """The type of a table's places."""
        return "unsigned" if self.counts else self.said


class Rounds(Struct, frozen=True):
    """How blocks go over those of the launch along an axis: the `workers` of them that do, where the launch stays as it
    is; 0 where it has as many blocks as there are to be. once: each block is one of the launch's."""

    axis: str
    workers: int
    once: bool = False


def of_template(kernel: Kernel, instance: str) -> tuple[dict[str, str], dict[str, int]]:
    """What the types and the numbers of a kernel's template stand for."""
    code, first = kernel.text.code, kernel.text.first
    above = "\n".join([*kernel.lines[max(0, first - 4) : first - 1], code[: max(0, code.find("__global__"))]])
    template, given = re.search(r"template\s*<([^<>]*)>\s*$", above), re.search(r"\w<([^<>]*)>\(", instance)
    named = [one.split() for one in split_declarators(template[1])] if template is not None else []
    values = [one.strip() for one in split_declarators(given[1])] if given is not None else []
    pairs = [(n, v) for n, v in zip(named, values, strict=False) if len(n) > 1] if len(named) == len(values) else []
    types = {n[1]: v for n, v in pairs if n[0] in ("typename", "class")}
    numbers = {n[-1]: int(m[1]) for n, v in pairs if (m := re.fullmatch(r"(?:\([\w ]+\))?(\d+)", v)) is not None}
    return types, numbers


def added(kernel: Kernel, types: Mapping[str, str]) -> list[Add]:
    """All atomics of a text; none where one is used for what it returns, or what it adds to serves for anything else,
    or threads meet in the kernel."""
    code, out = kernel.text.code, list[Add]()
    calls = [(f, c) for f in FUNCTIONS for c in calls_of(code, f) if c.start > kernel.opening]
    if _MEETS.search(kernel.body) or len(re.findall(r"\b\w*[aA]tomic\w*\b", kernel.body)) != len(calls):
        return []
    for function, call in sorted(calls, key=lambda one: one[1].start):
        one = _add(kernel, types, function, call)
        if one is None:
            return []
        out.append(one)
    named = {a.name: a.function for a in out}
    uses = {n: len(re.findall(rf"(?<![\w.])(?<!->){n}\b", kernel.body)) for n in named}
    alone = all(uses[n] == sum(a.name == n for a in out) for n in named)
    words = {BLOCK, AT, PLACE, *(f"{n}_block" for n in named)} & set(re.findall(r"\w+", code))
    return out if alone and not words and all(a.function == named[a.name] for a in out) else []


def _add(kernel: Kernel, types: Mapping[str, str], function: str, call: Call) -> Add | None:
    target = _TARGET.fullmatch(call.arguments[0]) if len(call.arguments) == 2 else None
    if target is None or not unused(kernel, (call.start, call.end)):
        return None
    name, at = target["name"] or target["moved"], (target["at"] or target["by"]).strip()
    pointed = _POINTED.fullmatch(kernel.parameters.get(name, ""))
    said = pointed[1] if pointed is not None else ""
    kind = types.get(said, said)
    kind = NAMES.get(kind, kind)
    counts = kind in COUNTED and function == "atomicAdd" and _ONE.fullmatch(call.arguments[1]) is not None
    if not (kind in KINDS or counts) or closing(f"{at})", 0) != len(at) or not _of_data(kernel, at):
        return None
    end = kernel.text.code.index(";", call.end) + 1
    return Add(function, name, kind, said, at, call.arguments[1], (call.start, end), counts)


def _of_data(kernel: Kernel, at: str) -> bool:
    """Whether a block's own place in the grid does not say where it adds, but for what it loads."""
    for _ in range(DEEPEST):
        at = plain(at, kernel.body)
        while (bare := re.sub(r"\[[^\[\]]*\]", "", at)) != at:
            at = bare
    return "blockIdx" not in at


def turns(kernel: Kernel) -> bool:
    """Whether the body can be gone through again: parameters stay as they are, and whoever returns does so from no
    loop, so that it can go on with the next round instead."""
    code = kernel.text.code
    around = [(m.start(), statement_end(code, m.start()) or len(code))
             for m in re.compile(r"\b(?:for|while)\s*\(").finditer(code, kernel.opening)]  # fmt: skip
    returns = [m.start() for m in re.finditer(r"\breturn\b", code) if m.start() > kernel.opening]
    plainly = len(re.findall(r"\breturn\s*;", kernel.body)) == len(returns)
    inside = any(a <= at < b for at in returns for a, b in around)
    written = any(
        re.search(rf"(?<![\w.])(?<!->){p}{MODIFIED}|(?:\+\+|--)\s*{p}\b", kernel.body) if "*" in kind
        else changed(kernel.body, p) for p, kind in kernel.parameters.items()
    )  # fmt: skip
    return plainly and not inside and not written


def reach(kernel: Kernel, one: Add) -> int | None:
    """How many places an index may say, where it is masked or an element of an array of unsigned bytes."""
    made = re.findall(rf"\b{one.at}\s*=(?!=)\s*([^;,]*)[;,]", kernel.body) if re.fullmatch(r"\w+", one.at) else [one.at]
    if len(made) != 1 or (made[0] != one.at and changed(kernel.body, one.at) != 1):
        return None
    loaded = re.fullmatch(r"(?:\(\s*(?:int|unsigned)\s*\)\s*)?(\w+)\s*\[(.*)\]", made[0].strip(), re.S)
    whole = loaded is not None and closing(f"{loaded[2]}]", 0) == len(loaded[2])
    if loaded is not None and whole and _BYTE.fullmatch(kernel.parameters.get(loaded[1], "")):
        return BYTES
    return masked(made[0].strip(), numbers_of(kernel))


def spans(
    kernel: Kernel, found: list[Add], places: int, rounds: Rounds, counts: Counted | None, without: str = ""
) -> list[Span]:  # fmt: skip
    """The tables, the rounds around the body, and the atomics on either. without: "end" or "else", a part that is left
    out."""
    code = kernel.text.code
    axis = rf"\bblockIdx\s*\.\s*{rounds.axis}\b"
    own = "(?!)" if rounds.once else axis
    out: list[Span] = []
    for one in found:
        index, value = (re.sub(own, BLOCK, x) for x in (one.at, one.value))
        far = "" if without == "else" else f" else {one.function}(&{one.name}[{AT}], {value});"
        near = f"{one.function}(&{one.name}_block[{AT}], {'1u' if one.counts else value});"
        out.append((*one.span, f"{{ const auto {AT} = {index}; if ((size_t){AT} < {places}) {near}{far} }}"))
    inside = [one.span for one in found]
    for pattern, new in ((own, BLOCK), (r"\breturn\s*;", "continue;")):
        out += [(m.start(), m.end(), new) for m in re.finditer(pattern, code[: kernel.closing])
                if m.start() > kernel.opening and not any(a <= m.start() < b for a, b in inside)]  # fmt: skip
    opened, closed = _around(kernel, rounds, counts)
    first = "\n" if code[kernel.opening + 1 : kernel.opening + 2] != "\n" else ""
    head, tail = _tables(kernel, found, places)
    tail = "" if without == "end" else tail
    rest = code[code.rfind("\n", 0, kernel.closing) + 1 : kernel.closing].strip()
    out.append((kernel.opening + 1, kernel.opening + 1, f"{_leaves(rounds)}{head}{opened}{first}"))
    out.append((kernel.closing, kernel.closing, f"{chr(10) if rest else ''}{closed}{tail}"))
    return by_lines(code, out)


def _leaves(rounds: Rounds) -> str:
    return f"\n  if (blockIdx.{rounds.axis} >= {rounds.workers}) return;" if rounds.workers else ""


def _around(kernel: Kernel, rounds: Rounds, counts: Counted | None) -> tuple[str, str]:
    axis, name = rounds.axis, BLOCK
    if rounds.once:
        returns = re.search(r"\breturn\b", kernel.body) is not None
        return (f"\n  for (int {name} = 0; {name} < 1; {name}++) {{", "  }\n") if returns else ("", "")
    test = counts.test if counts is not None and not rounds.workers else f"{name} < gridDim.{axis}"
    step = rounds.workers or f"gridDim.{axis}"
    return f"\n  for (unsigned {name} = blockIdx.{axis}; {test}; {name} += {step}) {{", "  }\n"


def _tables(kernel: Kernel, found: list[Add], places: int) -> tuple[str, str]:
    flat = not re.search(r"\b(?:threadIdx|blockDim)\s*\.\s*[yz]\b", kernel.body)
    thread, size = ("threadIdx.x", "blockDim.x") if flat else (FLAT, "blockDim.x * blockDim.y * blockDim.z")
    each = f"  for (unsigned {PLACE} = {thread}; {PLACE} < {places}; {PLACE} += {size})"
    tables = list({one.name: one for one in found}.values())
    head = "".join(f"\n  __shared__ {one.held} {one.name}_block[{places}];" for one in tables)
    none = {one.name: neutral(one.function, "unsigned" if one.counts else one.kind) for one in tables}
    clear = " ".join(f"{one.name}_block[{PLACE}] = {none[one.name]};" for one in tables)
    put = " ".join(
        f"if ({one.name}_block[{PLACE}] != {_bracketed(none[one.name])}) "
        f"{one.function}(&{one.name}[{PLACE}], {f'({one.said})' * one.counts}{one.name}_block[{PLACE}]);"
        for one in tables
    )
    wrap = ("{ ", " }") if len(tables) > 1 else ("", "")
    barrier = "  __syncthreads();\n"
    cleared = f"{head}\n{each} {wrap[0]}{clear}{wrap[1]}\n{barrier}".rstrip("\n")
    return cleared, f"{barrier}{each} {wrap[0]}{put}{wrap[1]}\n"


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"
