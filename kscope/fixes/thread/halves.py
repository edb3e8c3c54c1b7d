"""A kernel in two halves, by its text: a block loads a tile to shared memory, and behind its one barrier each thread
makes one result of a window of the tile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, changed, statements
from kscope.fixes.given.source import evaluated, split_declarators
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.thread.linear import Linear, linear

WIDE = {"float": "float4", "int": "int4", "unsigned": "uint4"}
THREAD = "threadIdx.x"
_STRANGE = re.compile(
    r"\b(?:return|goto|asm|continue|break|while|do|atomic\w*|__shfl\w*|__ballot\w*|__syncwarp|__any\w*|__all\w*|extern|"
    r"volatile|static|gridDim)\b|threadIdx\.[yz]|blockDim\.[yz]|->|[(,]\s*&\s*\w"
)
_SHARED = re.compile(r"__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?(float|int|unsigned)\s+(\w+)\s*\[([^\]]+)\]\s*;")
_DECLARED = re.compile(r"\s*(?:const\s+|constexpr\s+)?[A-Za-z_][\w:]*(?:\s+[a-z]+)?[\s*&]+(?=[A-Za-z_]\w*\s*[=;,\[{])")
_MOVED = re.compile(r"(\w+)\s*[-+]=\s*[^;\[\]]*;")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WINDOW = re.compile(
    r"\bfor\s*\(\s*(?:int|unsigned)\s+(?P<name>\w+)\s*=\s*(?P<first>[^;]+);\s*(?P=name)\s*(?P<sign><=?)\s*(?P<end>[^;]+);"
    r"\s*(?:(?P=name)\s*\+\+|\+\+\s*(?P=name))\s*\)"
)
_UNROLL = re.compile(r"#\s*pragma\s+unroll\s*\n\s*$")


class Halves(Struct, frozen=True):
    """`common`: what all threads do alike; `loading`: what fills the tile, with the places it is made of; `own`: those
    places by name, in order; `making`: what makes a result of the window; `guard`: what is asked before it is stored,
    "" for nothing; `to`: its type. `places`: what names stand for, as sums."""

    tile: str
    kind: str
    size: int
    declared: str
    common: tuple[str, ...]
    loading: tuple[str, ...]
    own: tuple[tuple[str, str], ...]
    making: tuple[str, ...]
    guard: str
    out: str
    to: str
    index: str
    value: str
    places: dict[str, int | Linear]

    def needed(self, *texts: str) -> list[str]:
        """Declarations of the thread's places that some texts ask for."""
        names, out = set(_NAME.findall(" ".join(texts))), list[str]()
        for name, text in reversed(self.own):
            if name in names and text not in out:
                out.append(text)
                names |= set(_NAME.findall(text))
        return list(reversed(out))


class Window(Struct, frozen=True):
    """`first`, `last`: places of the tile from the thread's own on. `making`: with each use of the tile as a place
    among the thread's own values, of which those of the result PART begin at PART."""

    first: int
    last: int
    making: tuple[str, ...]


def halves(body: str, parameters: Mapping[str, str], known: Mapping[str, int]) -> Halves | None:
    """body: between the kernel's braces, comments blanked. None for a kernel that is anything else."""
    spans, shared = statements(body, 0, len(body)), _SHARED.findall(body)
    if spans is None or _STRANGE.search(body) or len(shared) != 1 or body.count("__shared__") != 1:
        return None
    parts = [body[a:b] for a, b in spans]
    met = [n for n, p in enumerate(parts) if re.fullmatch(r"__syncthreads\s*\(\s*\)\s*;", p)]
    if len(met) != 1 or body.count("__sync") != 1 or len(parts) < met[0] + 2:
        return None
    (kind, tile, declared), sorts = shared[0], _Sorts(body, parameters, known)
    size, stored = evaluated(declared, known), _stored(parts[-1])
    right = all(sorts.take(p) for p in parts[: met[0]] if not _SHARED.fullmatch(p))
    if not right or stored is None or size is None or any(re.search(rf"\b{tile}\b", p) for p in sorts.common):
        return None
    return _made(sorts, (tile, kind, size, declared), tuple(parts[met[0] + 1 : -1]), stored)


def _made(
    sorts: _Sorts, tile: tuple[str, str, int, str], making: tuple[str, ...], stored: tuple[str, str, str, str]
) -> Halves | None:  # fmt: skip
    """None where what is made is more than a result, or stored where a thread's number does not say."""
    guard, out, index, value = stored
    to = " ".join(w for w in sorts.parameters.get(out, "").split() if w != "__restrict__").removesuffix(" *")
    made = {n for p in making for n in brought(p)}
    later = set(_NAME.findall(" ".join([*making, *stored])))
    if to not in WIDE or set(_NAME.findall(f"{guard} {index}")) & made or sorts.hidden & later:
        return None
    if writes_elsewhere(making, made, sorts.parameters) or linear(index, sorts.places) is None:
        return None
    return Halves(
        *tile, tuple(sorts.common), tuple(sorts.loading), tuple(sorts.own), making, guard, out, to, index, value,
        sorts.places,
    )  # fmt: skip


class _Sorts:
    """Statements before the barrier, one after the other."""

    def __init__(self, body: str, parameters: Mapping[str, str], known: Mapping[str, int]) -> None:
        self.body, self.parameters = body, parameters
        self.common: list[str] = []
        self.loading: list[str] = []
        self.own: list[tuple[str, str]] = []
        self.hidden = set[str]()  # names that only the first half may have
        self.places: dict[str, int | Linear] = dict(known)

    def take(self, part: str) -> bool:
        """False where what is meant is not clear."""
        of_thread = self._of_thread(part)
        declared = _DECLARED.match(part) is not None
        moved = _MOVED.fullmatch(part)
        if moved is not None and not of_thread and moved[1] in self.parameters:
            self.common.append(part)
            return True
        if not declared:
            self.loading.append(part)
            return not any(re.search(rf"(?<![\w.])(?<!->){p}{MODIFIED}", part) for p in self.parameters)
        names = brought(part)
        fixed = all(changed(self.body, n) <= 1 for n in names)
        if not of_thread:
            self.common.append(part)
            self._place(part)
            return fixed
        self.loading.append(part)
        if fixed and not re.search(r"\[|[*&]\s*\w+\s*=|=\s*\*", part) and set(_called(part)) <= {"min", "max"}:
            self.own += [(n, part) for n in names]
            self._place(part)
        else:
            self.hidden |= set(names)
        return True

    def _of_thread(self, part: str) -> bool:
        names = {n for n, _ in self.own} | self.hidden
        return "threadIdx" in part or bool(names & set(_NAME.findall(part)))

    def _place(self, part: str) -> None:
        head = _DECLARED.match(part)
        assert head is not None
        for one in split_declarators(part[head.end() :].rstrip(";")):
            name, equals, value = one.partition("=")
            found = linear(value, self.places) if equals else None
            if found is not None:
                self.places[name.strip()] = found


def _called(text: str) -> list[str]:
    return [n for n in re.findall(r"([A-Za-z_]\w*)\s*\(", text) if n not in ("int", "unsigned", "size_t")]


def brought(part: str) -> list[str]:
    """That a declaration brings up."""
    head = _DECLARED.match(part)
    parts = split_declarators(part[head.end() :].rstrip(";")) if head is not None else ()
    return [m[1] for p in parts if (m := re.match(r"[\s*&]*([A-Za-z_]\w*)", p)) is not None]


def _stored(part: str) -> tuple[str, str, str, str] | None:
    """(what is asked, array, index, value) of the last statement."""
    guard = ""
    if (head := re.match(r"if\s*\(", part)) is not None:
        close = closing(part, head.end())
        if close is None:
            return None
        guard, part = part[head.end() : close].strip(), part[close + 1 :].strip()
        part = part[1:-1].strip() if part.startswith("{") and part.endswith("}") else part
    m = re.match(r"([A-Za-z_]\w*)\s*\[", part)
    close = closing(part, m.end()) if m is not None else None
    value = re.fullmatch(r"\s*=(?!=)\s*([^;{}]+);", part[close + 1 :]) if close is not None else None
    if m is None or value is None or re.search(r"(?<![=!<>])=(?!=)|\+\+|--", guard + value[1]):
        return None
    return guard, m[1], part[m.end() : close].strip(), value[1].strip()


def writes_elsewhere(making: Sequence[str], made: set[str], parameters: Mapping[str, str]) -> bool:
    """Whether what makes a result changes anything but what it has brought up itself."""
    text = " ".join(making)
    local = set(re.findall(r"\b(?:int|unsigned|float)\s+(\w+)\s*[=;,\[]", text)) | made
    targets = re.findall(rf"(?<![\w.])(?<!->)(\w+)(?:\s*\[[^\]]*\])*(?:\s*\.\s*\w+)?{MODIFIED}", text)
    targets += re.findall(r"(?:\+\+|--)\s*(\w+)", text)
    deref = re.search(rf"(?:[;{{}})]|^)\s*\*\s*\(?\w+[^;=]*\)?{MODIFIED}|\){MODIFIED}", text)
    return bool(set(targets) - local) or deref is not None or any(t in parameters for t in targets)


class _Spot(Struct, frozen=True):
    """A use of the tile: in which statement, where it stands, its place as a sum, and the least and the greatest."""

    statement: int
    span: tuple[int, int]
    place: Linear
    low: int
    high: int


def window(one: Halves) -> Window | None:
    """None where a place of the window follows from more than numbers that the text says."""
    spots: list[_Spot] = []
    texts: list[str] = []
    for n, part in enumerate(one.making):
        unrolled = _all_unrolled(part, one.places)
        found = _spots(one, n, unrolled) if unrolled is not None else None
        if unrolled is None or found is None:
            return None
        texts.append(unrolled)
        spots += found
    if not spots or re.search(rf"\b{one.tile}\b", one.guard + one.index + one.value):
        return None
    first, last = min(s.low for s in spots), max(s.high for s in spots)
    for s in reversed(spots):
        terms = "".join(f" + {name}" if c == 1 else f" + {c} * {name}" for name, c in s.place.items() if name)
        add = s.place.get("", 0) - first // 4 * 4
        at = f"PART{terms}" + (f" {'+' if add > 0 else '-'} {abs(add)}" if add else "")
        was = texts[s.statement]
        texts[s.statement] = f"{was[: s.span[0]]}{one.tile}_of[{at}]{was[s.span[1] :]}"
    return Window(first, last, tuple(texts)) if first >= 0 else None


def _spots(one: Halves, number: int, part: str) -> list[_Spot] | None:
    out, loops = [], _around(part, one.places)
    for use in re.finditer(rf"(?<![\w.])(?<!->){one.tile}\b\s*(\[?)", part):
        close = closing(part, use.end()) if use[1] else None
        found = linear(part[use.end() : close], one.places) if close is not None else None
        ranges = {name: r for (a, b), name, r in loops if a <= use.start() < b}
        if found is None or close is None or found.pop(THREAD, 0) != 1 or not set(found) - {""} <= set(ranges):
            return None
        low = high = found.get("", 0)
        for name in set(found) - {""}:
            ends = [found[name] * v for v in ranges[name]]
            low, high = low + min(ends), high + max(ends)
        out.append(_Spot(number, (use.start(), close + 1), found, low, high))
    return out


def _all_unrolled(part: str, known: Mapping[str, int | Linear]) -> str | None:
    """With each loop unrolled; None where one has no end that the text says, or is to be unrolled another way."""
    out, at = "", 0
    for m in _WINDOW.finditer(part):
        before = part[at : m.start()]
        out += before if _UNROLL.search(part[: m.start()]) else f"{before}\n#pragma unroll\n    "
        out, at = out + m[0], m.end()
    out += part[at:]
    heads = len(re.findall(r"\bfor\b", part))
    return out if heads == len(_around(out, known)) and len(re.findall(r"#", out)) == heads else None


def _around(part: str, known: Mapping[str, int | Linear]) -> list[tuple[tuple[int, int], str, tuple[int, int]]]:
    """(span of the body, name, first and last value) of loops whose ends are numbers."""
    out = []
    for m in _WINDOW.finditer(part):
        first, end = linear(m["first"], known), linear(m["end"], known)
        start = m.end() + len(part[m.end() :]) - len(part[m.end() :].lstrip())
        stop = statement_end(part, start)
        if first is None or end is None or set(first) | set(end) > {""} or stop is None:
            continue
        values = first.get("", 0), end.get("", 0) - (m["sign"] == "<")
        if values[0] <= values[1] and not re.search(rf"(?<![\w.]){m['name']}{MODIFIED}", part[start:stop]):
            out.append(((start, stop), m["name"], values))
    return out
