"""Narrow elements that a thread takes at a stride, in unrolled loops: neighbours instead, several by one access."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.strides import lane_stride
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import not_written, proved, reads, shown
from kscope.fixes.given.rewrite import made_of, places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, constants, evaluated, split_declarators
from kscope.fixes.given.text import Loop, Span, Text, closing, kernel_text, loops, plain, spans_edited
from kscope.fixes.memory.neighbours import NARROW, SEVERAL
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

WIDEST = 16
SEEDS = (1, 2)
_POINTER = re.compile(
    r"\b(?:const\s+)?(\w+(?:\s+(?:char|short|int|long))?)\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])"
)
_UNROLL = re.compile(r"[ \t]*#\s*pragma\s+unroll\s*\n\s*$")
_LOCAL = re.compile(r"(?<!__shared__ )\bfloat\s+([^;()]*\[[^;()]*);")


PAIR = "__nv_fp8x2_storage_t"
_EIGHT = re.compile(r"\s*\{?\s*\w+\s*\[[^][]*\]\s*=\s*(?P<call>__nv_cvt_float_to_fp8\s*(?P<open>\())[^;]*;\s*\}?\s*")

Places = tuple[tuple[str, str, str, bool, tuple[int, int]], ...]
"""(array, kind, what stands before, whether it is written, span of the use)."""
Used = tuple[Places, int, str, tuple[int, int] | None]
_Loop = tuple[Loop, Places, tuple[int, int, str], tuple[int, int] | None]


class Strided(Struct, frozen=True):
    """Loops over k < count that index by k * stride + t alone, with their uses; `t`: its text."""

    count: int
    stride: int
    t: str
    uses: tuple[tuple[Loop, Places, tuple[int, int] | None], ...]

    @property
    def arrays(self) -> dict[str, str]:
        return {name: kind for _, uses, _ in self.uses for name, kind, *_ in uses}


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    one = strided(text.code, launch.threads, constants(setting.lines(text.file)))
    if one is None or "Several" in text.code or not one.arrays:
        return []
    group = min(one.count, WIDEST // max(SIZES[k] for k in one.arrays.values()))
    found = [i for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
             if any(on(setting, text, loop, i) for loop, _, _ in one.uses)]  # fmt: skip
    ran = aligned(setting, found, group, one.stride)
    if group < 2 or one.count % group or one.stride % group or not found or not ran:
        return []
    edits = spans_edited(setting, text, in_groups(text.code, one, group))
    before, loads = total(code.executed, found), [i for i in found if code.classes[i].access == "load"]
    return [
        Fix(
            kind="neighbours",
            title=f"{group} neighbours a thread of {', '.join(one.arrays)}, by one access",
            language="cuda",
            code=SEVERAL,
            edits=edits,
            parameters={"elements": group},
            conditions=[
                proved("groups start at multiples of their size", "lanes", ran,
                       "addresses of all lanes less the lane's own part; cudaMalloc aligns to 256 bytes"),
                shown(places_kept(one.count, one.stride, group) > 0, "the same elements are done once each", "values",
                      places_kept(one.count, one.stride, group), "places of all threads in both orders"),
                *converted(edits),
                reads("loops use their counter for these places and for the thread's own values alone", "all its uses"),
                *not_written(code, loads),
                Condition(holds="nothing asks which thread has which element: sums in another order, no scan",
                          state="check", why="other elements are a thread's own"),
            ],
            proof=[
                Proof(what="warp loads and stores", before=before, after=before / group, unit="inst",
                      how=f"{len(found)} accesses of {NARROW} bytes a lane or less, {group} of them by one"),
            ],
            price=None,  # measured: 1.01x and 1.04x; a thread's bytes on their way stay, taking elements apart costs
        )
    ] if edits else []  # fmt: skip


def on(setting: Setting, text: Text, loop: Loop, index: int) -> bool:
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    return any(first <= p.number <= last for p in places(setting, [index]))


def strided(code: str, threads: int, known: Mapping[str, int], lanes: int = LANES) -> Strided | None:
    """lanes: that have a row where not the block has it."""
    kinds = {n: k for k, n in _POINTER.findall(code[: code.find("{")]) if SIZES.get(k, 99) <= NARROW}
    found = _loops(code, kinds, known)
    if not found or len({one[2] for one in found}) != 1:
        return None
    count, stride, t = found[0][2]
    whose = {"threadIdx.x": threads, f"threadIdx.x%{lanes}": lanes}.get(plain(t, code))
    spans = [loop.body for loop, *_ in found]
    written = {u[0] for _, uses, *_ in found for u in uses if u[3]}
    outside = [m for n in written for m in re.finditer(rf"(?<![\w.])(?<!->){n}\s*\[", code)
               if not any(a <= m.start() < b for a, b in spans)]  # fmt: skip
    if stride != whose or outside or not _others(code, [loop for loop, *_ in found], t, count, known):
        return None
    return Strided(count, stride, t, tuple((loop, uses, alias) for loop, uses, _, alias in found))


def _loops(code: str, kinds: dict[str, str], known: Mapping[str, int]) -> list[_Loop]:
    """Every loop that uses narrow arrays, with its places (count, stride, t); none where one of them does otherwise:
    the thread's own values would belong to others there."""
    found: list[_Loop] = []
    for loop in loops(code):
        if not any(re.search(rf"(?<![\w.])(?<!->){n}\b", code[slice(*loop.body)]) for n in kinds):
            continue
        uses = _uses(code, loop, kinds)
        count = evaluated(loop.end, known)
        first = loop.start == "0" and loop.step in (f"{loop.name}++", f"++{loop.name}")
        if uses is None or count is None or not first or _UNROLL.search(code[: loop.span[0]]) is None:
            return []
        if not _own(code, loop, uses, kinds):
            return []
        found.append((loop, uses[0], (count, uses[1], uses[2]), uses[3]))
    return found


def _others(code: str, found: list[Loop], t: str, count: int, known: Mapping[str, int]) -> bool:
    """Whether the thread's own values are used in these loops, and elsewhere by loops over all of them alone, to which
    it is all the same which one is which."""
    arrays = _arrays(code)
    kept = {n for n in arrays for x in found if re.search(rf"\b{n}\s*\[\s*{x.name}\s*\]", code[slice(*x.body)])}
    declared = [m.span() for m in _LOCAL.finditer(code)]
    every = loops(code)
    for name in kept:
        for use in re.finditer(rf"(?<![\w.])(?<!->){name}\b", code):
            around = [x for x in every if x.body[0] <= use.start() < x.body[1]]
            if any(a <= use.start() < b for a, b in declared) or any(x in found for x in around):
                continue
            if len(around) != 1 or around[0].start != "0" or evaluated(around[0].end, known) != count:
                return False
            (one,) = around
            rest = code[slice(*one.body)]
            for other in kept:
                rest = re.sub(rf"(?<![\w.])(?<!->){other}\s*\[\s*{one.name}\s*\]", "", rest)
            if re.search(rf"\b{one.name}\b|(?<![\w.]){re.escape(t)}\b|\[|\b(?:asm|__shfl\w*)\b", rest):
                return False
    return True


def _uses(code: str, loop: Loop, kinds: dict[str, str]) -> Used | None:
    """(uses, stride, t, span of `int c = ..;`) of a loop in which narrow arrays are used; None where none is, and
    where one is used at another place."""
    start, end = loop.body
    body, k = code[start:end], loop.name
    term = rf"{k}\s*\*\s*(\d+)\s*\+\s*(threadIdx\.x|\w+)"
    alias = re.search(rf"\bint\s+(\w+)\s*=\s*{term}\s*;", body)
    places_, out = set(), []
    for use in re.finditer(r"(?<![\w.])(?<!->)(\w+)\s*\[([^][]*)\]", body):
        if use[1] not in kinds:
            continue
        ends = rf"(?:(?P<pre>.+?)\s*\+\s*)?(?:{term}" + (rf"|(?P<c>{alias[1]}))" if alias is not None else ")")
        one = re.fullmatch(ends, use[2].strip())
        if one is None:
            return None
        pre = one["pre"] or ""
        if re.search(rf"\b{k}\b", pre) or (alias is not None and re.search(rf"\b{alias[1]}\b", pre)):
            return None
        by_alias = alias is not None and one.groupdict().get("c") is not None
        places_.add((alias[2], alias[3]) if by_alias and alias is not None else (one[2], one[3]))
        written = re.match(r"\s*=(?!=)", body[use.end() :]) is not None
        if not written and re.match(r"\s*(?:[-+*/&|^]=|\+\+|--)", body[use.end() :]):
            return None
        out.append((use[1], kinds[use[1]], pre, written, (start + use.start(), start + use.end())))
    if len(places_) != 1:
        return None
    ((stride, t),) = places_
    span = (start + alias.start(), start + alias.end()) if alias is not None else None
    return tuple(out), int(stride), t, span


def _arrays(code: str) -> set[str]:
    """Local arrays of a thread; elements that others are made of are none."""
    parts = (one.partition("=")[0] for part in _LOCAL.findall(code) for one in split_declarators(part))
    return {m[1] for one in parts if (m := re.match(r"\s*(\w+)\s*\[", one)) is not None}


def _own(code: str, loop: Loop, uses: Used, kinds: Iterable[str]) -> bool:
    """Whether the counter and the thread's number serve these places and the thread's own values alone, and nothing is
    both read and written."""
    found, _, t, alias = uses
    body = list(code[slice(*loop.body)])
    for a, b in [*(u[4] for u in found), *([alias] if alias is not None else [])]:
        body[a - loop.body[0] : b - loop.body[0]] = " " * (b - a)
    rest = "".join(body)
    arrays = _arrays(code)
    for name in arrays:
        rest = re.sub(rf"(?<![\w.])(?<!->){name}\s*\[\s*{loop.name}\s*\]", "", rest)
    names = {loop.name, *made_of(t, code, kinds)}
    names |= set(re.findall(r"int\s+(\w+)", code[slice(*alias)]) if alias is not None else [])
    named = any(re.search(rf"(?<![\w.]){re.escape(n)}\b", rest) for n in names)
    if named or re.search(r"\b(?:if|break|continue|asm|__shfl\w*)\b", rest):
        return False
    reading, writing = ({u[0] for u in found if u[3] is w} for w in (False, True))
    indexed = [i for n in arrays for i in re.findall(rf"(?<![\w.])(?<!->){n}\s*\[([^][]*)\]", code)]
    return not reading & writing and all(re.fullmatch(r"[A-Za-z_]\w*|\d+", i.strip()) for i in indexed)


def aligned(setting: Setting, found: list[int], group: int, stride: int) -> int:
    """How many addresses were run, if all groups of elements start at multiples of their size; 0 otherwise."""
    code, ran = setting.code, 0
    for i in found:
        width = code.classes[i].bytes
        if width > NARROW or lane_stride(code, i, setting.block) != width:
            return 0
        for seed in SEEDS:
            lanes = Lanes(code, Assumption(seed, setting.block))
            address = lanes.address(i)
            if not isinstance(address, tuple):
                return 0
            first = 0 if stride == LANES else lanes.warp * LANES
            if any((a - (first + n) * width) % (group * width) for n, a in enumerate(address)):
                return 0
            ran += LANES
    return ran


def in_groups(code: str, one: Strided, group: int) -> list[Span]:
    """A loop's places as elements of what is loaded and stored at once."""
    out: list[Span] = []
    far = one.stride * group
    for n, (loop, uses, alias) in enumerate(one.uses):
        head = tail = ""
        seen: dict[tuple[str, str, bool], str] = {}
        pair = paired(code, loop) if len(uses) == 1 and uses[0][3] and alias is None and group % 2 == 0 else None
        for name, kind, pre, written, span in uses:
            key = (name, pre, written)
            several = f"Several<{kind}, {group}>" if pair is None else f"Several<{PAIR}, {group // 2}>"
            place = f"&{name}[{pre + ' + ' if pre else ''}h * {far} + {one.t} * {group}]"
            if key not in seen:
                made = seen[key] = f"{name}_{'to' if written else 'of'}{10 * n + len(seen) or ''}"
                walk = f"  #pragma unroll\n  for (int h = 0; h < {one.count // group}; h++)"
                head += f"  {several} {made}[{one.count // group}];\n"
                if written:
                    tail += f"\n{walk} *reinterpret_cast<{several}*>({place}) = {made}[h];"
                else:
                    head += f"{walk} {made}[h] = *reinterpret_cast<const {several}*>({place});\n"
            within = f"{loop.name} % {group}" if pair is None else f"{loop.name} % {group} / 2"
            out.append((*span, f"{seen[key]}[{loop.name} / {group}].at[{within}]"))
        out += pair or []
        pragma = _UNROLL.search(code[: loop.span[0]])
        at = pragma.start() if pragma is not None else loop.span[0]
        out += [(at, at, head), (loop.body[1], loop.body[1], tail)]
        out += [(*alias, "")] if alias is not None else []
    return out


def converted(edits: Sequence[Edit]) -> list[Condition]:
    if not any(PAIR in e.becomes for e in edits):
        return []
    return [reads("two conversions at once round and saturate as one each", "cuda_fp8.h: both are one instruction's")]


def paired(code: str, loop: Loop) -> list[Span] | None:
    """A loop that does nothing but convert elements to eight bits: two of them by one instruction. The first one is the
    lower half of what comes of both."""
    one = _EIGHT.fullmatch(code, *loop.body)
    close = closing(code, one.end("open")) if one is not None else None
    if one is None or close is None or not re.fullmatch(r"\s*;\s*\}?\s*", code[close + 1 : loop.body[1]]):
        return None
    given = list(split_declarators(code[one.end("open") : close]))
    if len(given) != 3 or re.search(r"\+\+|--|[^=!<>]=(?!=)", given[0]):
        return None
    first, k = given[0].strip(), loop.name
    second = re.sub(rf"\b{k}\b", f"{k} + 1", first)
    if re.search(rf"[*/%<>-]\s*{k} \+ 1|{k} \+ 1\s*[*/%]", second):
        second = re.sub(rf"\b{k}\b", f"({k} + 1)", first)
    both = f"__nv_cvt_float2_to_fp8x2(make_float2({first}, {second}),{','.join(given[1:])})"
    step = re.search(rf"(?:{k}\s*\+\+|\+\+\s*{k})\s*\)\s*$", code[slice(*loop.span)])
    if step is None:
        return None
    return [(one.start("call"), close + 1, both), (loop.span[0] + step.start(), loop.span[1], f"{k} += 2)")]


def places_kept(count: int, stride: int, group: int) -> int:
    """How many places were written out, if both orders are the same ones; 0 otherwise."""
    new = sorted(k // group * stride * group + t * group + k % group for k in range(count) for t in range(stride))
    return len(new) if new == list(range(count * stride)) else 0
