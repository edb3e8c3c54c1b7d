"""Rows that every thread of a block reads alike, one after the other: a tile of them in shared memory, which the block
loads once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.values import Lanes
from kscope.fixes.given.conditions import not_written, proved, reads, written_there
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, evaluated
from kscope.fixes.given.text import Loop, Text, kernel_text, loops, plain, rows_replaced, shape, spans_edited
from kscope.fixes.pipeline.effects import changed, touched
from kscope.fixes.pipeline.rounds import given, live, numbers
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.kernel import Launch

MOST = 16 * 1024  # bytes of a tile: what five blocks of an SM have beside each other (judged)
ROWS = (64, 32, 16, 8)  # of a tile, the most first
SHORTEST = 8  # elements of a row: of shorter ones a load from L1 costs no more than one from shared memory (judged)
SEEDS = (1, 2)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
_WAYS = re.compile(r"\b(?:break|return|goto|asm|volatile)\b|__sync|\bbar")
FEW = 8  # rows of a tile that is played
WORDS = 1 << 17  # of an array that is played
_ANY = re.compile(r"\b(?P<kind>\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*(?=[,)])")
_POINTER = re.compile(r"\bconst\s+(?P<kind>\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*(?=[,)])")


class Read(Struct, frozen=True):
    """An array that is read row by row: its type, elements of a row (as written, and how many), and its uses in the
    loop's body as (start, end, the place in the row)."""

    name: str
    kind: str
    wide: str
    words: int
    uses: tuple[tuple[int, int, str], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    if text is None or launch is None:
        return []
    lines, instance = setting.lines(text.file), given(setting, text)
    known, way, around = numbers(setting, text, instance), live(text.code, instance.values), "\n".join(lines)
    every = [(one, found) for one in loops(way) if (found := alike(way, one, known, around))]
    if len(every) != 1:
        return []
    ((loop, found),) = every
    loads = _loads(setting, text, loop)
    ran = _same(setting, loads)
    rows = _rows(setting, found)
    inside = {n for i in loads if (n := code.cfg.loop_of[i]) is not None}
    if not ran or not rows or launch.block[2] > 1 or any(written_there(code, n, loads) for n in inside):
        return []
    compared = played(way, loop, found, known, launch)
    if not compared:
        return []
    new = written(way, loop, found, rows, known, launch.block)
    edits = spans_edited(setting, text, rows_replaced(way, loop.span[0], loop.body[1], new))
    words = sum(code.executed[i] * code.classes[i].bytes / 4 for i in loads)
    more = sum(r.words * SIZES[r.kind] * rows for r in found)
    names = ", ".join(r.name for r in found)
    return [
        Fix(
            kind="jam",
            title=f"{rows} rows of {names} at a time in shared memory, loaded once for {launch.threads} threads",
            language="cuda",
            edits=edits,
            parameters={"rows": rows, "shared": more},
            conditions=[
                proved("all threads of a block read the same places", "lanes", ran,
                       "addresses of all lanes of its first warps and of its last one"),
                proved("the same results, to the last bit", "values", compared,
                       f"both texts played on numbers, by tiles of {FEW} rows; no race"),
                reads("all threads come to the loop, and to as many rounds of it", "no return before, the same bounds"),
                *not_written(code, loads),
                Condition(holds=f"every launch has blocks of {shape(launch.block)}", state="check", why="as this one"),
            ],
            proof=[
                Proof(what="words that warps load from global memory", before=words, after=words / launch.threads,
                      how=f"once for {launch.threads} threads instead of by each of them"),
            ],
            costs=[f"{more} bytes of shared memory a block", "two barriers a tile"],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def alike(code: str, loop: Loop, known: Mapping[str, int], around: str) -> list[Read]:
    """Arrays that a loop of the kernel's outermost text reads by rows; none where a thread may leave it, or its bounds
    may differ from thread to thread."""
    body, before = code[slice(*loop.body)], code[: loop.span[0]]
    opening = code.find("{")
    step = re.fullmatch(rf"{loop.name}\s*\+=\s*1|{loop.name}\s*\+\+|\+\+\s*{loop.name}", loop.step)
    outermost = before.count("{") - before.count("}") == 1 and before.rstrip()[-1:] in (";", "}", "{")
    if step is None or not outermost or _WAYS.search(body) or re.search(r"\b(?:return|goto)\b", before[opening:]):
        return []
    bounds = set(re.findall(r"[A-Za-z_]\w*", f"{loop.start} {loop.end}"))
    fixed = all(n in known or _given(code, n) for n in bounds)
    taken = re.search(rf"\b(?:{loop.name}_first|e|\w+_rows)\b", code)
    if not fixed or taken or re.search(r"[<>=!&|?,\[]", f"{loop.start} {loop.end}"):
        return []
    altered = touched(body, code, around)
    out = []
    for pointer in _POINTER.finditer(code[:opening]):
        one = _read(code, loop, pointer["name"], pointer["kind"], known)
        if one is not None and not altered & {pointer["name"], loop.name, *re.findall(r"[A-Za-z_]\w*", one.wide)}:
            out.append(one)
    return out


def _given(code: str, name: str) -> bool:
    """Whether a name is a number that the kernel is given, and leaves as it is."""
    opening = code.find("{")
    number = re.search(rf"\b(?:int|unsigned|size_t|long long|u?int(?:32|64)_t)\s+{name}\s*[,)]", code[:opening])
    return number is not None and name not in changed(code[opening:]) and not re.search(rf"&\s*{name}\b", code)


def _read(code: str, loop: Loop, name: str, kind: str, known: Mapping[str, int]) -> Read | None:
    """An array whose every use in the loop is `name[j * W + c]`, c below W, the last place of a row among them."""
    at, body = loop.body[0], code[slice(*loop.body)]
    uses, wide, last = [], set(), []
    for use in re.finditer(rf"(?<![\w.>]){name}\b", body):
        inside = re.match(r"\s*\[([^][]*)\]", body[use.end() :])
        terms = plain(inside[1]).split("+") if inside is not None else []
        row = [t for t in terms if (m := re.fullmatch(rf"{loop.name}\*(.+)|(.+)\*{loop.name}", t)) is not None and m]
        column = [t for t in terms if t not in row]
        if inside is None or len(row) != 1 or len(column) != 1:
            return None
        words = re.sub(rf"^{loop.name}\*|\*{loop.name}$", "", row[0])
        last.append(_last(code, at + use.start(), loop, column[0], words, known))
        wide.add(words)
        uses.append((use.start(), use.end() + inside.end(), column[0]))
    number = evaluated(next(iter(wide)), known) if len(wide) == 1 else None
    if number is None or number < SHORTEST or min(last) < 0 or max(last) != number - 1 or kind not in SIZES:
        return None
    if any(re.search(r"&\s*$", body[:start]) for start, _, _ in uses) or not _always(body[: uses[-1][0]], known):
        return None
    return Read(name, kind, wide.pop(), number, tuple(uses))


def _always(text: str, known: Mapping[str, int]) -> bool:
    """Whether what follows a text of a round runs in every round: rows that a test keeps from being read may not be
    there."""
    bounds = re.findall(r"\bfor\s*\([^;]*=([^;]*);\s*\w+\s*<([^;]*);", text)
    ends = [(evaluated(a, known), evaluated(b, known)) for a, b in bounds]
    once = all(a is not None and b is not None and a < b for a, b in ends)
    ways = re.search(r"\b(?:if|while|switch|continue|do)\b|\?|&&|\|\|", text)
    return once and ways is None and len(ends) == len(re.findall(r"\bfor\b", text))


def _last(code: str, at: int, loop: Loop, column: str, words: str, known: Mapping[str, int]) -> int:
    """The last place in a row that a use reads: a number, or where its name counts up to around it; -1 where that is
    not within the row."""
    number, length = evaluated(column, known), evaluated(words, known)
    if length is None or number is not None:
        return number if number is not None and length is not None and 0 <= number < length else -1
    around = [x for x in loops(code) if x.span[0] > loop.span[1] and x.body[0] <= at < x.body[1] and x.name == column]
    for one in around[-1:]:
        start, end = evaluated(one.start, known), evaluated(one.end, known)
        step = re.fullmatch(rf"{column}\s*\+\+|\+\+\s*{column}", one.step)
        counts = start == 0 and step is not None and column not in changed(code[slice(*one.body)])
        return end - 1 if counts and end is not None and 0 < end <= length else -1
    return -1


def played(code: str, loop: Loop, found: Sequence[Read], known: Mapping[str, int], launch: Launch) -> int:
    """How many results were compared, if the kernel leaves the same by tiles, to the last bit; 0 else. Played with
    tiles of few rows, in a block that is the last of two along each axis."""
    import numpy as np

    from kscope.fixes.given.played import Rules, play

    opening = code.find("{")
    parameters = code[code.rfind("(", 0, opening) + 1 : opening]
    kinds = {m["name"]: m["kind"] for m in _ANY.finditer(parameters)}
    numbers = [n for n in re.findall(r"(\w+)\s*[,)]", parameters) if n not in kinds]
    grid = (min(2, launch.grid[0]), min(2, launch.grid[1]))
    names = set(re.findall(r"[A-Za-z_]\w*", code[opening:]))
    mine = {n: v for n, v in known.items() if n in names}
    mine |= {n: 2 * FEW + v % FEW for n, v in mine.items() if v >= 4 * FEW and re.search(rf"\b{n}\b", loop.end)}
    rules = Rules("real", races=True, kinds=kinds, only=(grid[0] * grid[1] - 1,))
    compared = 0
    for size in (2 * FEW, 2 * FEW + 5) if set(numbers) & names else (0,):
        sizes, left = mine | dict.fromkeys(numbers, size), []
        new = code[: loop.span[0]] + written(code, loop, found, FEW, sizes, launch.block) + code[loop.body[1] :]
        for text in (code, new):
            drawn = np.random.default_rng(FEW)
            memory = {n: drawn.random(WORDS) if k in ("float", "double") else drawn.integers(1, 9, WORDS)
                      for n, k in kinds.items()}  # fmt: skip
            first = {n: a.copy() for n, a in memory.items()}
            try:
                play(text[text.find("{") :], grid, (launch.block[0], launch.block[1]), memory, sizes, rules)
            except Unplayable:
                return 0
            left.append(memory)
        if any(not np.array_equal(left[0][n], left[1][n]) for n in kinds):
            return 0
        compared += sum(int((left[0][n] != first[n]).sum()) for n in kinds)
    return compared


def _loads(setting: Setting, text: Text, loop: Loop) -> list[int]:
    """Loads from global memory that are from the loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    inside = [i for i in loads if code.cfg.loop_of[i] is not None]
    return [i for i in inside if all(first <= p.number <= last for p in places(setting, [i]))]


def _same(setting: Setting, loads: Sequence[int]) -> int:
    """How many lanes' addresses were compared, if all lanes of all warps have the same; 0 else."""
    ran = 0
    for seed in SEEDS:
        warps = [Lanes(setting.code, Assumption(seed, setting.block, last=last)) for last in (False, True)]
        for i in loads:
            found = [one.anew().address(i) for one in warps]
            if not isinstance(found[0], int) or found[0] != found[1]:  # one number: the same in all lanes
                return 0
            ran += 2 * LANES
    return ran


def _rows(setting: Setting, found: Sequence[Read]) -> int:
    """Rows of a tile that leave an SM as many blocks as it gets; 0 where none do."""
    launch, was = setting.launch, setting.occupancy()
    if launch is None or was is None:
        return 0
    row = sum(r.words * SIZES[r.kind] for r in found)
    needed = -(-launch.blocks // max(1, setting.sms))
    for rows in ROWS:
        will = setting.occupancy(more_shared=rows * row)
        fits = rows * row <= MOST and launch.shared_static + rows * row <= STATIC
        if fits and will is not None and will.blocks >= max(1, min(was.blocks, needed)):
            return rows
    return 0


def written(
    code: str, loop: Loop, found: Sequence[Read], rows: int, known: Mapping[str, int], block: Sequence[int]
) -> str:  # fmt: skip
    """The loop by tiles."""
    j, body = loop.name, code[slice(*loop.body)]
    uses = [
        (start, end, f"{r.name}_rows[({j} - {j}_first) * {_factor(r.wide)} + {c}]")
        for r in found for start, end, c in r.uses
    ]  # fmt: skip
    for start, end, new in sorted(uses, reverse=True):
        body = body[:start] + new + body[end:]
    first, last = (evaluated(t, known) for t in (loop.start, loop.end))
    even = first is not None and last is not None and (last - first) % rows == 0
    until = "" if even else f"{j} < {loop.end} && "
    tiles = " ".join(f"__shared__ __align__(16) {r.kind} {r.name}_rows[{rows} * {_factor(r.wide)}];" for r in found)
    thread = "threadIdx.x" if block[1] == 1 else f"threadIdx.x + {block[0]} * threadIdx.y"
    threads, fills = block[0] * block[1], ""
    for wide in dict.fromkeys(r.wide for r in found):
        width = _factor(wide)
        limit = "" if even else f" && e < ({loop.end} - {j}_first) * {width}"
        each = " ".join(f"{r.name}_rows[e] = {r.name}[{j}_first * {width} + e];" for r in found if r.wide == wide)
        fills += (
            f"    #pragma unroll 8\n"
            f"    for (int e = {thread}; e < {rows} * {width}{limit}; e += {threads}) {{ {each} }}\n"
        )
    return (
        f"{{ {tiles}\n  for ({loop.kind} {j}_first = {loop.start}; {j}_first < {loop.end}; {j}_first += {rows}) {{\n"
        f"    __syncthreads();\n{fills}    __syncthreads();\n"
        f"    for ({loop.kind} {j} = {j}_first; {until}{j} < {j}_first + {rows}; {loop.step}) {body}\n  }} }}"
    )


def _factor(wide: str) -> str:
    return wide if re.fullmatch(r"\w+|\(.*\)", wide) else f"({wide})"
