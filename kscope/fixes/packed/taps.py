"""A weighted sum of the neighbours along a row, one result a thread: several neighbouring results a thread, which load
a row's values once, by one wide access, and keep them in registers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, structs

from kscope.fixes.given.c_types import HALVES
from kscope.fixes.given.source import SIZES, evaluated
from kscope.fixes.given.text import Loop, loops, plain

WIDEST, MOST = 16, 8  # bytes of an access; results a thread: as many sums and values again in registers (judged)
VALUES, SUMS, LINE, T, N = "values_of", "sums_of", "line_of", "thread_of", "result_n"
_NAME = r"(?<![\w.])(?<!->)[A-Za-z_]\w*"
_UNROLL = re.compile(r"#\s*pragma\s+unroll[ \t]*\n")
_SUM = re.compile(r"(?:if\s*\((?P<test>.*)\)\s*)?(?P<sum>\w+)\s*\+=(?P<value>[^;=]*);\s*$", re.S)
_LOAD = (
    r"(?P<conv>(?:__half2float|__bfloat162float|float)\s*\(\s*|\(\s*float\s*\)\s*)?"
    r"(?<![\w.])(?<!->){name}\s*\[(?P<at>[^][]*)\]"
)
_CONVERSIONS = re.compile(r"\b(?:__half2float|__bfloat162float|__float2half(?:_rn)?|__float2bfloat16(?:_rn)?)\s*\(")
_WAYS = re.compile(
    r"\b(?:if|for|return|gridDim|break|continue|goto|asm|while|switch|atomic\w*|__\w*sync\w*|__shared__)\b"
)
_GUARD = re.compile(r"\bif\s*\(([^;{}]*)\)\s*(?:return\s*;|\{\s*return\s*;\s*\})")
_BOUND = re.compile(
    r"(?:\w+|0)\s*(?:>=|<=)\s*(?:0|\w+)|(?:\(\s*unsigned\s*\)\s*)?\w+\s*<\s*(?P<bound>\w+)", re.ASCII
)


class Taps(Struct, frozen=True):
    """`head` declares; rounds of `nest` (heads of loops, the innermost over `taps` columns) declare `inside` and add
    `value`, where `test` holds, in which `load` stands for an element of `array`; `result`, of `sum`, goes to `place`
    of `out`. `shift`: how many elements in front of a multiple of `count` the first column lies."""

    head: str
    nest: tuple[str, ...]
    counter: str
    taps: int
    inside: str
    test: str
    value: str
    load: str
    conv: str
    array: str
    at: str
    kind: str
    own: str
    sum: str
    out: str
    place: str
    result: str
    to: str
    shift: int
    count: int
    span: tuple[int, int]


def taps(code: str, pointers: Mapping[str, str], known: Mapping[str, int]) -> Taps | None:
    """None where a kernel is anything else than declarations, one nest of such rounds, and a store of the sum."""
    open_, close = code.find("{", code.find(")", code.find("__global__"))), code.rfind("}")
    nest = _nest(code, open_)
    if not nest or {VALUES, SUMS, LINE, T, N} & set(re.findall(_NAME, code)):
        return None
    inner = nest[-1]
    body = code[slice(*inner.body)].strip()
    body = body[1:-1].strip() if body.startswith("{") else body
    head = _UNROLL.sub("", code[open_ + 1 : nest[0].span[0]]).strip()
    tail = code[nest[0].body[1] : close].strip()
    count, owns = _columns(inner, known), _owns(head)
    if not count or len(owns) != 1:
        return None
    cut = max(body.rfind(";", 0, len(body.rstrip(";"))), -1) + 1
    found, stored = _SUM.match(body[cut:].strip()), re.fullmatch(r"(\w+)\s*\[(.*)\]\s*=(?!=)\s*([^;=]*);", tail, re.S)
    if found is None or stored is None or _WAYS.search(_GUARD.sub("", head) + body[:cut] + found["value"]):
        return None
    heads = tuple(" ".join(code[slice(*x.span)].split()) for x in nest)
    if re.search(r"\bthreadIdx\b|\bblockIdx\s*\.\s*x\b", "".join([*heads, body, tail])):
        return None
    sums = re.search(rf"\bfloat\s+{found['sum']}\s*=\s*0(?:\.0?f?)?\s*;", head)
    load = _load(found["value"], pointers, {owns[0], *_made(body[:cut], owns[0])})
    if sums is None or load is None or len(re.findall(rf"\b{found['sum']}\b", head + stored[3])) != 2:
        return None
    text, conv, array, at = load
    kind, to = pointers[array], pointers.get(stored[1], "")
    if kind not in SIZES or SIZES[kind] > 4 or to not in SIZES or array == stored[1]:
        return None
    width = min(MOST, WIDEST // max(SIZES[kind], SIZES[to]))
    made = Taps(
        (head[: sums.start()] + head[sums.end() :]).strip(), heads, inner.name, count, body[:cut],
        (found["test"] or "").strip(), found["value"].strip(), text, conv, array, at, kind, owns[0], found["sum"],
        stored[1], stored[2], stored[3], to, 0, width, (open_, close),
    )  # fmt: skip
    return _shifted(made, known) if _within(made, known) else None


def _columns(loop: Loop, known: Mapping[str, int]) -> int:
    """Rounds of a loop from zero, where they are known and few; 0 otherwise."""
    count = evaluated(loop.end, known)
    by_one = loop.start == "0" and loop.step in (f"{loop.name}++", f"++{loop.name}")
    return count if count is not None and 2 <= count <= MOST and by_one else 0


def _nest(code: str, open_: int) -> list[Loop]:
    """The kernel's loops, where each is all that the one around it does; none otherwise."""
    nest: list[Loop] = []
    for one in (x for x in loops(code) if x.span[0] > open_):
        outer = nest[-1].body if nest else None
        if outer is not None:
            around = _UNROLL.sub("", code[outer[0] : one.span[0]]) + code[one.body[1] : outer[1]]
            if not outer[0] <= one.span[0] < outer[1] or around.strip(" {}\n"):
                return []
        nest.append(one)
    return nest


def _load(value: str, pointers: Mapping[str, str], own: set[str]) -> tuple[str, str, str, str] | None:
    """(its text, the conversion in front, the array, the index) of the one load at a thread's own place."""
    found = [(m, n) for n in pointers for m in re.finditer(_LOAD.format(name=n), value)
             if own & set(re.findall(_NAME, m["at"]))]  # fmt: skip
    if len(found) != 1:
        return None
    load, array = found[0]
    conv = load["conv"] or ""
    text = load[0] + (")" if "(" in conv and not conv.strip().startswith("(") else "")
    return (text, conv, array, load["at"]) if text in value else None


def _within(one: Taps, known: Mapping[str, int]) -> bool:
    """Whether tests of columns, and guards, leave whole groups: their bounds are multiples of a group, or numbers of
    the launch."""
    columns = {one.own, one.counter, *_made(one.inside, one.counter), *_made(one.inside, one.own)}
    for term in (t for t in _terms(one.test) if columns & set(re.findall(_NAME, t))):
        bound = _BOUND.fullmatch(term)
        whole = evaluated(bound["bound"], known) if bound is not None and bound["bound"] else 0
        if bound is None or (bound["bound"] is None and not re.search(r"(?<!\w)0(?!\w)", term)):
            return False
        if whole is not None and whole % one.count:
            return False
    for term in (t for guard in _GUARD.findall(one.head) for t in guard.split("||") if one.own in re.findall(_NAME, t)):
        left = re.fullmatch(rf"{one.own}\s*>=\s*(\w+)", term.strip())
        if left is None or (evaluated(left[1], known) or 0) % one.count:
            return False
    own = {one.own, *_made(one.inside, one.own)} & set(re.findall(_NAME, " ".join(one.nest)))
    return "||" not in one.test and not own


def _owns(head: str) -> list[str]:
    """Names that are another value in threads along a row."""
    found = re.findall(rf"({_NAME})\s*=(?!=)\s*([^;,]*threadIdx\s*\.\s*x[^;,]*)[;,]", head)
    names = [name for name, _ in found]
    return names + [n for name in names for n in _made(head, name)]


def _made(text: str, name: str) -> list[str]:
    """What is declared of a name."""
    out: list[str] = []
    for made, value in re.findall(rf"({_NAME})\s*=(?!=)\s*([^;,]*)[;,]", text):
        if made != name and {name, *out} & set(re.findall(_NAME, value)):
            out.append(made)
    return out


def _shifted(one: Taps, known: Mapping[str, int]) -> Taps | None:
    """With how far in front of its group of elements the first column lies; None where a round, or a thread, is not one
    element further, or where any other part asks for the thread's own place."""

    def index(text: str, own: int, counter: int) -> int | None:
        values = dict(re.findall(rf"({_NAME})\s*=(?!=)\s*([^;,]*)[;,]", one.inside))
        for _ in range(2):
            for name, value in values.items():
                text = re.sub(rf"(?<![\w.])(?<!->){name}\b", f"({value})", text)
        text = re.sub(r"\b(\w+Idx|\w+Dim)\s*\.\s*(\w)", r"\1_\2", plain(text))
        names = set(re.findall(_NAME, text))
        return evaluated(text, {**dict.fromkeys(names, 0), **known, one.own: own, one.counter: counter})

    first = index(one.at, 0, 0)
    steps = [index(one.at, 1, 0), index(one.at, 0, 1), index(one.at, 8, 3)]
    place = [index(one.place, 0, 0), index(one.place, 1, 0), index(one.place, 8, 0)]
    if first is None or place[0] is None or place != [place[0], place[0] + 1, place[0] + 8]:
        return None
    if steps != [first + 1, first + 1, first + 11] or -first % one.count >= one.taps:
        return None
    rest = one.value.replace(one.load, " ") + one.result
    asks = {one.own, *re.findall(rf"({_NAME})\s*=(?!=)", one.inside)} & set(re.findall(_NAME, rest))
    return None if asks else structs.replace(one, shift=-first % one.count)


def _at(text: str, name: str, value: str) -> str:
    return re.sub(rf"(?<![\w.])(?<!->){name}\b", value, text)


def _terms(test: str) -> list[str]:
    """What a test asks for, all of it."""
    out, depth, start = [], 0, 0
    for n, c in enumerate(test):
        depth += (c in "([") - (c in ")]")
        if not depth and test.startswith("&&", n):
            out.append(test[start:n].strip())
            start = n + 2
    return [*out, test[start:].strip()] if test else []


def written(one: Taps, block: tuple[int, int], *, played: bool) -> str:
    """The body as it will be. played: as the interpreter takes it, element by element, with the alignment of what is
    one access otherwise looked at."""
    k, b, n = one.count, one.counter, N
    lanes, rows = block[0] // k, block[0] * block[1] // k
    head = re.sub(r"\bblockIdx\s*\.\s*x\b", f"(blockIdx.x * {k} + {T} / {rows})", one.head)
    head = re.sub(r"\bthreadIdx\s*\.\s*y\b", f"({T} % {rows} / {lanes})", head)
    head = re.sub(r"\bthreadIdx\s*\.\s*x\b", f"({T} % {lanes} * {k})", head)
    first = f"threadIdx.y * {block[0]} + threadIdx.x" if block[1] > 1 else "threadIdx.x"
    columns = {one.own, b, *_made(one.inside, b), *_made(one.inside, one.own)}
    rest = [t for t in _terms(one.test) if not columns & set(re.findall(_NAME, t))]
    each = f"#pragma unroll\n  for (int {n} = 0; {n} < {k}; {n}++)"
    edges = [m for m in range(k + one.taps - 1) if not one.shift <= m < one.shift + k]
    # Kept as they are loaded, for a product of whole numbers, or a quotient, is another one of fractions.
    kept = "float" if one.conv or one.kind == "float" or (played and one.kind in HALVES) else one.kind
    zero = "0" if kept == "float" else f"({kept})0"
    close = ")" if one.load.endswith(")") else ""
    loads = []
    for m in edges:
        got = f"{one.conv}{one.array}[{_at(one.at, b, str(m))}]{close}"
        test = _at(one.test, b, str(m))
        got = f"({test}) ? {got} : {zero}" if test else got
        loads.append(f"{{ {_at(one.inside, b, str(m))} {VALUES}[{m}] = {got}; }}")
    at = _at(one.at, b, str(one.shift))
    if played:
        whole = _whole(one.kind, k)
        wide = f"{whole} {LINE} = *reinterpret_cast<const {whole}*>(&{one.array}[{at}]);"
        part = f"{one.array}[{at} + {n}]"
    else:
        several = f"Several<{one.kind}, {k}>"
        wide = f"{several} {LINE} = *reinterpret_cast<const {several}*>(&{one.array}[{at}]);"
        part = f"{LINE}.at[{n}]"
    row = f"{wide}\n  {each} {VALUES}[{one.shift} + {n}] = {one.conv}{part}{close};"
    if rest:
        none = f"{each} {VALUES}[{one.shift} + {n}] = {zero};"
        row = f"if ({' && '.join(rest)}) {{\n  {row}\n  }} else {{\n  {none}\n  }}"
    value = one.value.replace(one.load, f"{VALUES}[{b} + {n}]")
    outer = "\n  ".join(f"#pragma unroll\n  {x} {{" for x in one.nest[:-1])
    store = _stored(one, each, n, played)
    return (
        f"{{\n  int {T} = {first};\n  {head}\n  float {SUMS}[{k}] = {{}};\n  {outer}\n"
        f"  {kept} {VALUES}[{k + one.taps - 1}];\n  " + "\n  ".join(loads) +
        f"\n  {{ {_at(one.inside, b, str(one.shift))}\n  {row}\n  }}\n"
        f"  #pragma unroll\n  {one.nest[-1]} {{\n  {each} {SUMS}[{n}] += {value};\n  }}\n"
        f"  {'} ' * (len(one.nest) - 1)}\n  {store}\n}}"
    )  # fmt: skip


def _whole(kind: str, count: int) -> str:
    """A type of the interpreter's that holds so many elements."""
    return f"float{count}" if kind == "float" else f"uint{count // 2}"


def _stored(one: Taps, each: str, n: str, played: bool) -> str:
    result = _at(one.result, one.sum, f"{SUMS}[{n}]")
    if played:
        whole = _whole(one.to, one.count)
        wide = f"{whole} {LINE} = *reinterpret_cast<const {whole}*>(&{one.out}[{one.place}]);"
        return f"{wide}\n  {each} {one.out}[{one.place} + {n}] = {result};"
    several = f"Several<{one.to}, {one.count}>"
    return (
        f"{several} {LINE};\n  {each} {LINE}.at[{n}] = {result};\n"
        f"  *reinterpret_cast<{several}*>(&{one.out}[{one.place}]) = {LINE};"
    )


def plainly(body: str) -> str:
    """A text without conversions between kinds of fractions, for numbers that are played are of one kind."""
    return _CONVERSIONS.sub("(", body)
