"""The largest or the smallest value of a window around each element, found by looking at all of them: a block loads its
stretch once and doubles the windows, for the extreme of two windows that overlap is that of both together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.rewrite import declarations, places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, Span, Text, index_of, loops, spans_edited, written
from kscope.fixes.rows.compared import SIGNED, Same, Side, both
from kscope.fixes.rows.function import BYTES, Function, constants, function
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

FEWEST = 16  # loads of a thread: doubling costs a barrier for each power of two (judged)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
SPAN, WIDE, AT, RUN, N = "stretch", "wide", "turn", "extreme_of", "stretch_n"
LOOKED = "loops over windows in global memory that take extremes"
_WAYS = re.compile(r"\b(?:break|continue|return|goto|asm|while|switch|atomic\w*|__\w*sync\w*|__shared__)\b")
_GUARD = re.compile(r"\bif\s*\([^;{}]*\)\s*(?:return\s*;|\{\s*return\s*;\s*\})")
_NAME = r"(?<![\w.])(?<!->)[A-Za-z_]\w*"
_SET = re.compile(rf"({_NAME})\s*=(?!=)")
_WORDS = frozenset("for if else const int min max fmaxf fminf fmax fmin __ldg".split())
_OTHER = re.compile(r"(?:[-+*/%|&^]|<<|>>)=(?!=)|\+\+|--|\]\s*=(?!=)")
EXTREMES = {"float": ("fmaxf", "fminf"), "double": ("fmax", "fmin"), "int": ("max", "min"), "unsigned": ("max", "min")}


class Windowed(Struct, frozen=True):
    """`loop` takes the extreme of `array`, of type `kind`, from `reach` in front of `index` to as many behind it into
    `sum`; `bound` is where the array ends. `before`: where all threads of a block still are."""

    loop: Loop
    array: str
    kind: str
    index: str
    reach: str
    bound: str
    sum: str
    before: int
    within: bool


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, fn = asked.setting, asked.setting.launch, function(asked.setting)
    if fn is None or launch is None or fn.call is not None or fn.values or max(launch.block[1:]) > 1:
        return []
    threads, text = launch.block[0], Text(fn.file, fn.first, fn.code)
    one = windowed(fn, threads)
    loads = _loads(setting, text, one.loop) if one is not None else []
    if one is None or not loads:
        return []
    each = total(setting.code.executed, loads) / max(1, launch.blocks * -(-threads // 32))
    was, will = setting.occupancy(), setting.occupancy(more_shared=4 * threads * BYTES[one.kind])
    static = launch.shared_static + 4 * threads * BYTES[one.kind]
    if each < FEWEST or was is None or will is None or will.blocks < was.blocks or static > STATIC:
        return []
    known = constants(setting.lines(fn.file), fn.code)
    for name in EXTREMES[one.kind]:
        spans = _spans(fn.code, one, threads, name)
        alike = _alike(fn, one, spans, threads, known)
        edits = spans_edited(setting, text, spans) if alike is not None else []
        if alike is not None and edits:
            return [_fix(asked, one, name, threads, each, alike, edits, loads)]
    return []


def _fix(
    asked: Asked, one: Windowed, name: str, threads: int, each: float, alike: Same, edits: list[Edit], loads: list[int]
) -> Fix:  # fmt: skip
    before = total(asked.setting.code.executed, loads)
    reach = each / 2
    after = before / each * (1 + 2 * reach / threads)
    return Fix(
        kind="hoist",
        title=f"windows of {one.array} doubled in shared memory: each element is loaded once a block",
        language="cuda",
        edits=edits,
        parameters={"shared": 4 * threads * BYTES[one.kind]},
        conditions=[
            alike.shown,
            *([] if one.within else [
                Condition(holds=f"every {one.index} is below {one.bound}", state="check",
                          why="as it must be, for nothing keeps the others from reading and writing")]),
            Condition(holds=f"{one.array} holds no NaN", state="check", why=f"{name} leaves them out"),
            Condition(holds=f"every launch has blocks of {threads} threads", state="check", why="as this one has"),
        ],
        proof=[
            Proof(what=LOOKED, before=looked_through(asked.setting) or 1.0, after=0.0,
                  how="kept for wider windows alone"),
            Proof(what="warp loads of the windows", before=before, after=after, unit="inst",
                  how=f"{each:.0f} a thread in the loop; the block's stretch once, windows of 2, 4, 8 .. from it"),
        ],
        costs=[f"{4 * threads * BYTES[one.kind]} bytes of shared memory a block"],
        price=asked.finding.estimate,
    )  # fmt: skip


def windowed(fn: Function, threads: int) -> Windowed | None:
    """None where no loop reads one array alone, around an index that counts the threads of a block, into one value."""
    code = fn.code
    if {SPAN, WIDE, AT, RUN, N} & set(re.findall(r"\w+", code)):
        return None
    for loop in loops(code):
        body = code[slice(*loop.body)]
        whole = code[loop.span[0] : loop.body[1]]
        arrays = set(re.findall(rf"({_NAME})\s*\[", whole))
        index = _index(code, loop, threads)
        if len(arrays) != 1 or index is None or _WAYS.search(body) or _OTHER.search(body) or loop.span[0] < fn.opened:
            continue
        (array,) = arrays
        declared = re.search(rf"\b(?P<kind>\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?{array}\s*(?=[=,)])", code)
        sums = set(_SET.findall(body)) - _declared(body)
        words = set(re.findall(_NAME, whole))
        bounds = [n for n in fn.numbers if n in words and n not in re.findall(_NAME, index[1])]
        before = _before(code, fn.opened, loop)
        if declared is None or declared["kind"] not in EXTREMES or len(sums) != 1 or len(bounds) != 1 or before is None:
            continue
        names = (array, index[0], bounds[0], *re.findall(_NAME, index[1]))
        if not _known(fn, before, names) or any(written(n, code[before : loop.span[0]]) for n in names):
            continue
        if not _alone(code, loop, declared["kind"], {*names, *sums}, bounds[0]):
            continue
        within = re.match(rf"if\s*\(\s*{index[0]}\s*>=\s*{bounds[0]}\s*\)\s*return\s*;", code[before:]) is not None
        return Windowed(loop, array, declared["kind"], index[0], index[1], bounds[0], sums.pop(), before, within)
    return None


def _alone(code: str, loop: Loop, kind: str, names: set[str], bound: str) -> bool:
    """Whether a loop asks for nothing but places and values, and takes these as they are: numbers that values are
    compared with may be larger than what is played, and whole numbers do not show what a conversion takes off."""
    body = re.sub(rf"\b{bound}\s*-\s*1\b", bound, code[slice(*loop.body)])
    own = _declared(body)
    others = set(re.findall(rf"\w*{_NAME}", code[slice(*loop.span)] + body)) - own - names - {loop.name}
    kinds = {name: of for of, name in declarations(body)}
    whole = "|".join(name for name in own if kinds.get(name) != kind) or "0"
    (value,) = names & {n for n in _SET.findall(body) if n not in own}
    return (
        others <= _WORDS | {kind}
        and set(re.findall(r"(?<![\w.])[\d.]+\w*", body)) <= {"0"}
        and re.search(rf"\(\s*(?:{'|'.join(EXTREMES)})\s*\)|\b(?:{whole})\s*=(?!=)[^;]*\[", body) is None
        and [of for of, name in declarations(code) if name == value] == [kind]
    )


def _known(fn: Function, before: int, names: Sequence[str]) -> bool:
    """Whether names have their values at a place, and parameters have a sign: others have nothing below zero."""
    given = [n for n in names if n in fn.numbers]
    signed = [re.search(rf"(?<!unsigned )\bint\s+{n}\s*[,)]", fn.code[: fn.opened]) for n in given]
    return None not in signed and set(names) <= set(re.findall(r"\w+", fn.code[:before]))


def _declared(body: str) -> set[str]:
    found = re.findall(r"\b(?:int|unsigned|float|double|long|size_t)\s+(\w[^;]*);", body)
    return {name[0] for one in found for part in split_declarators(one) if (name := re.match(r"\w+", part.strip()))}


def _index(code: str, loop: Loop, threads: int) -> tuple[str, str] | None:
    """(the index around which a loop looks, how far) of `o = 1; o <= reach`, `o = -reach; o <= reach`, and
    `j = index - reach; j <= index + reach`, whatever keeps them within bounds."""
    end = loop.end[1:].strip() if loop.end.startswith("=") else re.sub(r"\s*\+\s*1$", "", loop.end)
    if loop.end == end or loop.step.replace(" ", "") not in (f"{loop.name}++", f"++{loop.name}", f"{loop.name}+=1"):
        return None
    far = re.fullmatch(r"\w+", end)
    if far is not None and re.sub(r"\s", "", loop.start) in ("1", f"-{end}"):
        near = re.findall(rf"({_NAME})\s*[-+]\s*{loop.name}\b", code[slice(*loop.body)])
        found, reach = set(near), end
    else:
        ends = [re.search(rf"({_NAME})\s*{sign}\s*(\w+)", part) for sign, part in (("-", loop.start), ("\\+", end))]
        if ends[0] is None or ends[1] is None or ends[0].groups() != ends[1].groups():
            return None
        found, reach = {ends[0][1]}, ends[0][2]
    if len(found) != 1:
        return None
    (index,) = found
    made = re.search(rf"\bint\s+(?:[^;]*,\s*)?{index}\s*=\s*([^;,]*)[;,]", code)
    per = index_of(made[1], "") if made is not None else None
    return (index, reach) if per in (str(threads), "blockDim.x") else None


def _before(code: str, opened: int, loop: Loop) -> int | None:
    """The last place in front of a loop that all threads of a block come to; None where the loop stands in a block."""
    start = loop.span[0]
    pragma = re.search(r"#\s*pragma\s+unroll[^\n]*\n\s*$", code[:start])
    start = pragma.start() if pragma is not None else start
    guards = list(_GUARD.finditer(code, opened, start))
    inside = code[opened + 1 : start]
    if guards and re.search(r"[;}{]\s*$", code[: guards[0].start()]) is None:
        return None
    plain = not re.search(r"\breturn\b", _GUARD.sub("", inside)) and inside.count("{") == inside.count("}")
    statement = re.search(r"[;}{]\s*$", code[:start]) is not None
    return (guards[0].start() if guards else start) if plain and statement else None


def _spans(code: str, one: Windowed, threads: int, name: str) -> list[Span]:
    fits = f"(unsigned){one.reach} <= {threads // 2}"  # else, and where there is no window at all, the loop
    place = f"min(max({one.index} - (int)threadIdx.x - {one.reach} + {N}, 0), {one.bound} - 1)"
    run = f"for (int {N} = threadIdx.x; {{}} {SPAN}; {N} += {threads})"
    made = (
        f"__shared__ {one.kind} {RUN}[2][{2 * threads}];\n"
        f"  int {SPAN} = {threads} + 2 * {one.reach}, {WIDE} = 1, {AT} = 0;\n"
        f"  if ({fits}) {{\n"
        f"    {run.format(f'{N} <')} {RUN}[0][{N}] = {one.array}[{place}];\n"
        f"    __syncthreads();\n"
        f"    for (; 2 * {WIDE} <= 2 * {one.reach} + 1; {WIDE} *= 2, {AT} ^= 1) {{\n"
        f"      {run.format(f'{N} + 2 * {WIDE} <=')}\n"
        f"        {RUN}[{AT} ^ 1][{N}] = {name}({RUN}[{AT}][{N}], {RUN}[{AT}][{N} + {WIDE}]);\n"
        f"      __syncthreads();\n    }}\n  }}\n  "
    )
    both = f"{name}({RUN}[{AT}][threadIdx.x], {RUN}[{AT}][threadIdx.x + 2 * {one.reach} + 1 - {WIDE}])"
    taken = f"if ({fits}) {one.sum} = {name}({one.sum}, {both});\n  else {{\n  "
    start = one.loop.span[0]
    pragma = re.search(r"#\s*pragma\s+unroll[^\n]*\n\s*$", code[:start])
    start = pragma.start() if pragma is not None else start
    end = (one.loop.body[1], one.loop.body[1], "\n  }")
    if one.before == start:
        return [(start, start, made + taken), end]
    return [(one.before, one.before, made), (start, start, taken), end]


def reaches(threads: int) -> tuple[int, ...]:
    """That are played: a window of few, of a power of two and one, as wide as a block and wider."""
    return 1, 5, threads // 2, threads // 2 + 1, 16, 2, 0


def _alike(
    fn: Function, one: Windowed, spans: Sequence[Span], threads: int, known: Mapping[str, int]
) -> Same | None:
    """Both texts played, for windows within a block's reach, as far as it and further, on numbers whose extremes stand
    at either end of a window, below zero too; None where a result differs."""
    new = fn.code
    for start, end, put in sorted(spans, reverse=True):
        new = new[:start] + put + new[end:]
    short = threads // 3 if one.within else 0
    compared, shared = 0, 0
    for n, far in enumerate(reaches(threads)):
        blocks = n % 3 + 1
        values = {**({one.reach: far} if one.reach in fn.numbers else {}), one.bound: blocks * threads - short}
        sides = [Side(text[fn.opened :], (blocks, 2), (threads, 1), values) for text in (fn.code, new)]
        for drawn in SIGNED:
            found = both(fn, (sides[0], sides[1]), far, drawn, known)
            if found is None or not found[0]:
                return None
            compared, shared = compared + found[1], found[2]
    return Same(compared, len(reaches(threads)), False, False, shared) if compared else None


def looked_through(setting: Setting) -> float | None:
    """Loops that load from global memory and take extremes; none count where a block's stretch lies in shared memory.
    """
    code = setting.code
    stretch = code.where(lambda ins, op: op.space == "shared" and op.access == "store")
    loads = code.where(lambda ins, op: op.space == "global" and op.access == "load")
    taken = code.where(lambda ins, op: ins.opcode in ("FMNMX", "VIMNMX", "IMNMX", "FMNMX3", "DMNMX"))
    loops_ = {code.cfg.loop_of[i] for i in loads} & {code.cfg.loop_of[i] for i in taken} - {None}
    return 0.0 if stretch else float(len(loops_))


def _loads(setting: Setting, text: Text, loop: Loop) -> list[int]:
    """Global loads of the loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    inside = [i for i in loads if code.cfg.loop_of[i] is not None]
    return [i for i in inside if any(first <= p.number <= last for p in places(setting, [i]))]
