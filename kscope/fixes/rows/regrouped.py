"""The text of a function that gives a row to a block, changed so that some lanes of a warp have one: word by word, for
it is played before anybody sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, closing, statement_end
from kscope.fixes.rows.function import Function

WARP = 32
REGISTERS = 32  # elements of a row that a lane keeps in an array, at most (judged)
ROW = "row_n"
SHARED = re.compile(r"__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?(?P<type>[A-Za-z_][\w ]*?)\s+(?P<rest>\w+[^;]*);")
_NAMED = re.compile(r"(?P<name>\w+)\s*(?P<sides>(?:\[[^\]]*\]\s*)*)$")
_LOOP = re.compile(r"\bfor\s*\((?P<first>[^;]*);(?P<test>[^;]*);")
_LOCAL = re.compile(r"\b(?:float|int|unsigned|double)\s+(?P<rest>\w+[^;()]*);")
NEVER = re.compile(
    r"\bthreadIdx\.[yz]|\bblockDim\.[yz]|\b(?:asm|goto|while|do|switch|extern|static|volatile|cooperative_groups|gridDim)\b"
    r"|\b__(?!shared__|syncthreads\b|restrict__|expf\b|logf\b|fdividef\b|half\b|half2float\b|float2half(?:_rn)?\b"
    r"|nv_bfloat16\b|bfloat162float\b|float2bfloat16\b)\w+|#\s*(?!pragma\s+unroll)\w"
    r"|\batomic\w*|\bcg::|\bcub::"
)
_BEFORE, _BEHIND = re.compile(r"(?:\+=|\*)\s*$"), re.compile(r"\s*(?:\*|/\s*2\b|>>\s*1\b)")
"""What stands beside a block's width where it is one: a step, a factor, a half."""


class For(Struct, frozen=True):
    """A loop of a text: its head's parts, where they begin, where its body begins and ends."""

    first: str
    test: str
    step: str
    start: int
    at: tuple[int, int]
    body: tuple[int, int]


def fors(code: str, since: int) -> list[For]:
    out = []
    for m in _LOOP.finditer(code, since):
        close = closing(code, code.index("(", m.start()) + 1)
        if close is None or close < m.end():
            continue
        start = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        end = statement_end(code, start)
        if end is not None:
            step = code[m.end() : close].strip()
            out.append(For(m["first"], m["test"], step, m.start(), (m.start("first"), m.start("test")), (start, end)))
    return out


def rounds(fn: Function, block: int, known: Mapping[str, int]) -> list[For]:
    """The loops in which a block's threads go along a row, each from its own place on by the block's width."""
    wide = "|".join([str(block), r"blockDim\.x", *(n for n, v in known.items() if v == block)])
    return [one for one in fors(fn.code, fn.opened) if re.search(rf"\+=\s*(?:{wide})$", one.step)]


def repeated(fn: Function, inner: For) -> int:
    """How often the loops around another one go round, those that count to a number."""
    times = 1
    for one in fors(fn.code, fn.opened):
        last = re.fullmatch(r"\s*\w+\s*<\s*(\d+)\s*", one.test)
        if one.body[0] <= inner.start < one.body[1] and last is not None and re.search(r"=\s*0\s*$", one.first):
            times *= max(1, int(last[1]))
    return times


def kept(fn: Function) -> dict[str, int]:
    """Arrays of each thread with a number of elements."""
    body = SHARED.sub(lambda m: " " * len(m[0]), fn.body)
    found: dict[str, int] = {}
    for m in _LOCAL.finditer(body):
        for part in split_declarators(m["rest"]):
            sides = re.fullmatch(r"\s*(\w+)\s*\[\s*(\d+)\s*\]\s*", part)
            if sides is not None:
                found[sides[1]] = int(sides[2])
    return found


def regrouped(fn: Function, block: int, lanes: int, rows: int, known: Mapping[str, int]) -> list[Span] | None:
    """Spans of the function's text for `lanes` lanes a row and `rows` rows a block; None where there is something in it
    that is not understood. known: constants of the file."""
    code = fn.code
    if NEVER.search(fn.body) or re.search(rf"\b{ROW}\b", code) or "__syncthreads" not in fn.body:
        return None
    if not re.search(r"\bthreadIdx\.x\b", fn.body) or not re.search(r"\bblockIdx\.x\b", fn.body):
        return None
    shared, more = _shared(fn, block, lanes, rows, known), grown(fn, block, lanes)
    if shared is None or more is None or (lanes < WARP and not alike(fn, "__syncthreads")):
        return None
    taken = [*shared, *more]
    out: list[Span] = [(fn.opened + 1, fn.opened + 1, f"\n  const unsigned {ROW} = blockIdx.x * {rows} + threadIdx.y;")]
    for m in re.finditer(r"\bblockIdx\.x\b|__syncthreads\s*\(\s*\)", code):
        if m.start() > fn.opened:
            out.append((*m.span(), ROW if m[0][0] == "b" else "__syncwarp()"))
    widths = _widths(fn, block, lanes, known, taken)
    if widths is None:
        return None
    out += widths
    for one in fors(code, fn.opened):
        half = re.search(rf"=\s*({block // 2})\s*$", one.first)
        if half is not None and "__syncthreads" in code[slice(*one.body)]:
            at = one.at[0] + half.start(1)
            out.append((at, at + len(half[1]), str(lanes // 2)))
    return [*out, *taken]


def _widths(
    fn: Function, block: int, lanes: int, known: Mapping[str, int], taken: list[Span]
) -> list[Span] | None:  # fmt: skip
    """Where the block's width becomes the row's lanes; None where it could be the number of something else, which a
    play may not show."""
    code, out = fn.code, list[Span]()
    wide = [str(block), *(n for n, v in {**known, **fn.values}.items() if v == block)]
    for m in re.finditer(rf"(?<![\w.])(?:{'|'.join(wide)})(?![\w.])", code):
        if m.start() < fn.opened or any(a <= m.start() < b for a, b, _ in taken):
            continue
        if not (_BEFORE.search(code[: m.start()]) or _BEHIND.match(code[m.end() :])):
            return None
        if m[0] not in fn.values:
            out.append((*m.span(), str(lanes)))
    return out


def applied(text: str, spans: list[Span]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def renamed(text: str, name: str, new: str) -> str:
    """A function's text by another name of it."""
    return re.sub(rf"\b{re.escape(name)}(?=\s*\()", new, text, count=1)


def _shared(fn: Function, block: int, lanes: int, rows: int, known: Mapping[str, int]) -> list[Span] | None:
    """Shared arrays and variables get one for each row of the block; what names them names the row's."""
    wide = {str(block), *(n for n, v in known.items() if v == block and n not in fn.values)}
    out: list[Span] = []
    names: list[str] = []
    declared: list[tuple[int, int]] = []
    for m in SHARED.finditer(fn.code, fn.opened):
        declared.append(m.span() if m.start() != fn.sized[0] else fn.sized)
        at = m.start("rest")
        for part in split_declarators(m["rest"]):
            one = _NAMED.match(part.strip())
            if one is None:
                return None
            sides = re.sub(r"\[\s*(\w+)\s*\]", lambda s: f"[{lanes}]" if s[1] in wide else s[0], one["sides"].strip())
            start, stop = at + len(part) - len(part.lstrip()), at + len(part.rstrip())
            put = f"{one['name']}[{rows}]{sides}"
            if m.start() == fn.sized[0]:
                (start, stop), put = fn.sized, f"__shared__ {m['type']} {put};"
            out.append((start, stop, put))
            names.append(one["name"])
            at += len(part) + 1
    if not names or fn.code.count("__shared__") != len(declared):
        return None
    for m in re.finditer(rf"(?<![\w.])(?<!->)(?:{'|'.join(names)})\b", fn.code):
        if m.start() > fn.opened and not any(a <= m.start() < b for a, b in declared):
            out.append((*m.span(), f"{m[0]}[threadIdx.y]"))
    return out


def grown(fn: Function, block: int, lanes: int) -> list[Span] | None:
    """Arrays of each thread hold as many more elements as it has fewer neighbours, and their loops go as far. None
    where that is more than registers hold, or where how far a loop goes through them is not told."""
    arrays, times, out = kept(fn), block // lanes, list[Span]()
    if any(n * times > REGISTERS for n in arrays.values()):
        return None
    for name, count in arrays.items():
        for m in re.finditer(rf"(?<![\w.>\]]){name}\s*\[\s*({count})\s*\]", fn.code):
            if re.match(r"\s*(?:float|int|unsigned|double)\b", re.split(r"[;{}]", fn.code[: m.start()])[-1]):
                out.append((m.start(1), m.end(1), str(count * times)))
    every = fors(fn.code, fn.opened)
    for one in every:
        mine = [n for n in arrays if re.search(rf"\b{n}\s*\[", fn.code[slice(*one.body)])]
        if not mine or any(one.body[0] <= other.start < one.body[1] for other in every):
            continue  # no way through an array, or another loop's
        last = re.fullmatch(r"\s*\w+\s*<\s*(\d+)\s*", one.test)
        if last is None or any(int(last[1]) != arrays[n] for n in mine):
            return None
        at = one.at[1] + last.start(1)
        line = fn.code.rfind("\n", 0, one.start) + 1
        first = not fn.code[line : one.start].strip()
        unroll = (line, line, "#pragma unroll\n") if first else (one.start, one.start, "\n#pragma unroll\n    ")
        out += [(at, at + len(last[1]), str(arrays[mine[0]] * times)), unroll]
    return out


def alike(fn: Function, meeting: str) -> bool:
    """Whether all rows of a warp come to the same barriers or shuffles: the loops around them go by numbers that are
    not the row's, and no branch has one."""
    free = {*fn.numbers, *fn.values, "for", "int", "unsigned"}
    for m in re.finditer(meeting, fn.code):
        for one in fors(fn.code, fn.opened):
            if not one.body[0] <= m.start() < one.body[1]:
                continue
            own = re.match(r"\s*(?:int|unsigned)?\s*(\w+)\s*=", one.first)
            words = set(re.findall(r"[A-Za-z_]\w*", f"{one.first};{one.test};{one.step}".replace("blockDim.x", "")))
            flow = re.search(r"\b(?:break|continue|return)\b", fn.code[slice(*one.body)])
            if words - free - {own[1] if own is not None else ""} or flow:
                return False
        for test in re.finditer(r"\bif\s*\(", fn.body):
            end = statement_end(fn.code, fn.opened + test.start())
            if end is None or fn.opened + test.start() < m.start() < end:
                return False
    return True
