"""Rounds of a loop that copy tiles into shared memory, wait, use them and wait: read from the text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.atomics.effects import changed, touched
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import SIZES as BYTES
from kscope.fixes.given.source import constants, evaluated, split_declarators
from kscope.fixes.given.text import Loop, Span, Text, closing, declared_at, outside, statement_end
from kscope.fixes.pipeline.copies import Copies, Tile
from kscope.fixes.pipeline.inlined import as_numbers, moved_in, written_out
from kscope.fixes.rows.function import constants as defined

_SYNC = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_FLOW = re.compile(r"\b(?:break|continue|return|goto)\b|cp\.async|\bbar\.|barrier|pipeline|copy_ahead")
_TESTS = re.compile(r"[<>=!&|?,]")
_STEP = re.compile(r"(?:^|(?<=[;{}]))\s*(\w+)\s*\+=\s*([\w\s*+()-]+);")
_IF = re.compile(r"\bif\s*(?:constexpr\s*)?\(")
_TEST = re.compile(r"\s*(!?)\s*(\w+)\s*(?:(==|!=|<=|>=|<|>)\s*(\w+)\s*)?")
_ALIGN = r"(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?"
SHARED = re.compile(rf"(?<!extern )__shared__\s+{_ALIGN}(?P<kind>\w+)\s+(?P<names>[^;(){{}}]+);")
_DYNAMIC = re.compile(
    rf"\bextern\s+__shared__\s+{_ALIGN}(?P<kind>(?:unsigned\s+)?\w+)\s+{_ALIGN}(?P<name>\w+)\s*\[\s*\]\s*;"
)
_POINTERS = re.compile(
    r"(?<![\w(,<*])(?P<kind>(?:const\s+)?[A-Za-z_]\w*)\s*\*\s*(?:const\s+)?(?P<names>\w+\s*=[^;{}]*);"
)


class Round(Struct, frozen=True):
    """A loop that copies, waits, uses and waits. `copy`: by cp.async; `tiles`: what it fills; `stores`: in how many
    places of the text; `gone`: what stands in front of the loop and is written out in its rounds."""

    loop: Loop
    copy: str
    use: str
    tiles: tuple[Tile, ...]
    stores: int
    gone: tuple[tuple[int, int], ...] = ()


class Given(Struct, frozen=True):
    """What an instance of a template has for the numbers and the types of its head; how many others it has."""

    values: Mapping[str, int]
    types: Mapping[str, str]
    others: int = 0


def given(setting: Setting, text: Text) -> Given:
    """Empty where the kernel is no instance, or not one of its head as it is written."""
    lines = setting.lines(text.file)
    head = "\n".join(lines[declared_at(lines, text.first) - 1 : text.first])
    template = re.match(r"\s*template\s*<([^<>]*)>", head)
    start = setting.instance.find(f"{setting.name}<") + len(setting.name) + 1
    close = next((n for n in range(start, len(setting.instance)) if _depth(setting.instance[start : n + 1]) < 0), None)
    if template is None or start <= len(setting.name) or close is None:
        return Given({}, {})
    names = [p.replace("const ", "").split() for p in split_declarators(template[1])]
    taken = [a.strip() for a in split_declarators(setting.instance[start:close])]
    if len(names) != len(taken) or any(len(n) != 2 for n in names):
        return Given({}, {})
    values = {n[1]: int(m[1]) for n, a in zip(names, taken, strict=True) if (m := re.fullmatch(r"\(\w+\)(\d+)", a))}
    kinds = {n[1]: a for n, a in zip(names, taken, strict=True) if n[0] in ("class", "typename")}
    return Given(values, kinds, len(names) - len(values) - len(kinds))


def of_instance(instance: Given) -> str:
    """A condition that holds for one instance of a template alone; "" for a kernel that is none, and where more than
    numbers tells instances apart."""
    told = [f"{name} == {n}" for name, n in instance.values.items()]
    return "" if instance.types or instance.others else " && ".join(told)


def beside(loop: Loop, only: str, new: str) -> list[Span]:
    """What stands instead of a loop under a condition, and the loop as it is under any other."""
    (start, _), (_, end) = loop.span, loop.body
    return [(start, start, f"if constexpr ({only}) {new}\n  else {{ "), (end, end, " }")]


def _depth(text: str) -> int:
    return text.count("<") - text.count(">")


def numbers(setting: Setting, text: Text, instance: Given) -> dict[str, int]:
    """Names of numbers that a kernel's text has: of its file, and of its template."""
    lines = setting.lines(text.file)
    return {**defined(lines, text.code), **constants(lines), **instance.values}


def live(code: str, values: Mapping[str, int]) -> str:
    """A text without the ways that an instance of its template does not go, blanks instead."""
    at = 0
    while (match := _IF.search(code, at)) is not None:
        at = match.end()
        close = closing(code, at)
        yes = _holds(code[at:close], values) if close is not None else None
        if close is None or yes is None:
            continue
        first = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        end = statement_end(code, first)
        other = re.match(r"\s*else\b\s*", code[end:]) if end is not None else None
        second = end + other.end() if end is not None and other is not None else end
        stop = statement_end(code, second) if other is not None and second is not None else end
        if end is None or second is None or stop is None:
            continue
        kept = (first, end) if yes else (second, stop)
        code = _blank(_blank(code, match.start(), kept[0]), kept[1], stop)
        at = match.start()
    return code


def _holds(test: str, values: Mapping[str, int]) -> bool | None:
    """Whether a condition on a template's numbers is true; None where it is about anything else."""
    match = _TEST.fullmatch(test)
    if match is None or (match[2] not in values and not match[2].isdigit()):
        return None
    left, right = (evaluated(t or "0", values) for t in (match[2], match[4]))
    if left is None or right is None or (match[1] and match[3]):
        return None
    ways = {"==": left == right, "!=": left != right, "<": left < right, ">": left > right, "<=": left <= right,
            ">=": left >= right}  # fmt: skip
    return ways[match[3]] if match[3] else bool(left) != bool(match[1])


def _blank(code: str, start: int, end: int) -> str:
    return code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]


def tiles(code: str, known: Mapping[str, int], dynamic: int, types: Mapping[str, str] | None = None) -> list[Tile]:
    """Shared arrays that a kernel declares, and pointers that are set to a place in what the launch gives."""
    out = []
    for match in SHARED.finditer(code):
        for part in split_declarators(match["names"]):
            one = re.fullmatch(r"\s*(\w+)((?:\s*\[[^][]+\])+)\s*", part)
            sizes = [_number(d, known) for d in re.findall(r"\[([^][]+)\]", one[2])] if one is not None else []
            kind = (types or {}).get(match["kind"], match["kind"])
            if one is None or kind not in BYTES or not all(sizes):
                continue
            size = BYTES[kind]
            for n in sizes:
                size *= n or 0
            out.append(Tile(one[1], match["kind"], re.sub(r"\s+", "", one[2]), size, match.span()))
    for match in _DYNAMIC.finditer(code):
        family = [Tile(match["name"], match["kind"], "", dynamic, match.span(), True)]
        for p in _POINTERS.finditer(code):
            for part in split_declarators(p["names"]):
                name, _, start = part.strip().lstrip("*").strip().partition("=")
                if any(re.search(rf"\b{t.name}\b", start) for t in family):
                    kind = p["kind"].removeprefix("const").strip()
                    family.append(Tile(name.strip(), kind, "", 0, p.span(), True))
        out += family
    return out


def _number(text: str, known: Mapping[str, int]) -> int | None:
    """A dimension, which a condition on a template's numbers may choose."""
    ways = re.fullmatch(r"([^?:]+)\?([^?:]+):([^?:]+)", text)
    if ways is not None and (yes := _holds(ways[1], known)) is not None:
        text = ways[2] if yes else ways[3]
    return evaluated(text, known)


def read(code: str, loop: Loop, tiles: Sequence[Tile], around: str, types: Mapping[str, str]) -> Round | None:
    """`{ copy; __syncthreads(); use; __syncthreads(); }`, or with the second barrier in front. around: the file, where
    functions stand that the use may call; types: what the template's names stand for."""
    parts = halves(code, loop)
    if parts is None:
        return None
    copy, use = parts
    copy, gone = written_out(copy, code, loop, around)
    copy, use, onward = _onward(copy, use, code[loop.body[1] :])
    taken = Copies(code, {loop.name, *(step.split()[0] for step in onward)}, tiles, types)
    becomes = taken.read(copy)
    if becomes is None or not taken.stores:
        return None
    filled = _family(taken.filled, tiles)
    addresses, moved = moved_in(code, loop, [t.name for t in filled], around)
    if set(re.findall(r"(\w+)\s*=(?!=)", addresses)) & set(re.findall(r"\w+", copy)):
        return None  # a copy that takes them, too
    gone += moved
    if not _alone(code, loop, filled, gone) or taken.outer & set(re.findall(r"\w+", use)):
        return None
    fixed = f"{copy} {' '.join(onward)} {loop.start} {loop.end} {loop.step}"
    named = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", fixed)) - taken.local | {loop.name}
    if touched(as_numbers(use, around), code, around) & (named | {t.name for t in filled}) or changed(loop.end):
        return None
    return Round(
        loop, " ".join([becomes.rstrip(), *onward]), f"{addresses} {use.strip()}".strip(), tuple(filled), taken.stores,
        tuple(gone),
    )  # fmt: skip


def halves(code: str, loop: Loop) -> tuple[str, str] | None:
    """Copy and use of a round that has a barrier behind each of them, or in front."""
    body = code[slice(*loop.body)]
    parts = _SYNC.split(body.strip()[1:-1]) if body.startswith("{") else []
    step = rf"{loop.name}\s*\+=\s*[\w ]+|{loop.name}\+\+|\+\+{loop.name}"
    if len(parts) != 3 or _FLOW.search(body) or not re.fullmatch(step, loop.step) or _TESTS.search(loop.end):
        return None
    if not parts[2].strip():
        copy, use = parts[0], parts[1]
    elif not parts[0].strip():
        copy, use = parts[1], parts[2]
    else:
        return None
    inside = any(p.count("{") != p.count("}") for p in (copy, use))
    if inside or "#" in code[: loop.span[0]].rstrip().rpartition("\n")[2]:
        return None  # a barrier inside of something, or a pragma that is for the loop
    return copy, use


def _onward(copy: str, use: str, behind: str) -> tuple[str, str, list[str]]:
    """A round's copy and use without the steps of what only the copy is made of, which go with it: `a += 8;` behind its
    last use in a round. Each round copies once, so it comes to as much behind the loop."""
    found = []
    for match in [*_STEP.finditer(copy), *_STEP.finditer(use)]:
        mine = match.string is use
        text, other = (use, behind) if mine else (copy[match.end() :], use + behind)
        depth = match.string[: match.start(1)].count("{") - match.string[: match.start(1)].count("}")
        fixed = not set(re.findall(r"[A-Za-z_]\w*", match[2])) & changed(copy + use)
        name = re.compile(rf"(?<![\w.]){match[1]}\b")
        alone = len(name.findall(text)) == mine and not name.search(other)
        if depth == 0 and alone and fixed and name.search(copy):
            found.append(match)
    bare = [outside(part, [(m.start(1), m.end()) for m in found if m.string is part]) for part in (copy, use)]
    return bare[0], bare[1], [f"{m[1]} += {m[2].strip()};" for m in found]


def _family(names: set[str], tiles: Sequence[Tile]) -> list[Tile]:
    """What is filled; of shared memory that the launch gives all that points into it."""
    sized = any(t.sized for t in tiles if t.name in names)
    return [t for t in tiles if t.name in names or (sized and t.sized)]


def _alone(code: str, loop: Loop, filled: Sequence[Tile], gone: Sequence[tuple[int, int]]) -> bool:
    """Whether the text around the loop declares these arrays in front of it, and does nothing with them but in what is
    written out in the rounds."""
    bare = code[: loop.span[0]] + " " * (loop.body[1] - loop.span[0]) + code[loop.body[1] :]
    for start, end in {t.declared for t in filled} | set(gone):
        bare = _blank(bare, start, end)
    names = [t.name for t in filled]
    late = any(t.declared[1] > loop.span[0] for t in filled)
    return not late and len(set(names)) == len(names) and not any(re.search(rf"\b{n}\b", bare) for n in names)
