"""Sums that threads add to memory at their end, by atomics: their rounds shared out to several blocks, each of which
adds its part the same way. More blocks than the chip holds even out rounds of different lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.patterns.loop_parallelism import trips
from kscope.fixes.atomics.reading import Kernel, kernel_of, returning
from kscope.fixes.given.called import functions
from kscope.fixes.given.conditions import WRITES, not_written, proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, blanked, loops, shape, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 32  # parts of a sum: blocks that find nothing to do cost, too (judged)
WAVES = 4  # of blocks, from which on the last ones even out (judged)
LEAST = 8  # rounds of the code's loop that a part has, in the mean (judged)
TRIED = (1, 2, 3, 7)  # steps of loops that are written out
COUNTERS = ("int", "unsigned", "size_t", "long long")
EXACT = ("int", "unsigned", "unsigned int", "unsigned long long")
PURE = frozenset({
    "fabsf", "fabs", "abs", "sqrtf", "sqrt", "rsqrtf", "expf", "exp", "__expf", "logf", "__logf", "fmaxf", "fminf",
    "max", "min", "__ldg", "float", "double", "int", "unsigned", "size_t", "fmaf", "powf", "sinf", "cosf", "floorf",
    "__fdividef", "__popc", "__half2float", "__bfloat162float", "if", "for", "while", "make_float2", "make_float3",
    "make_float4", "sizeof",
})  # fmt: skip
_TOGETHER = re.compile(
    r"\b(?:__shared__|__\w*sync\w*|__\w*fence\w*|asm|goto|volatile|gridDim|atomic\w*)\b|::|#(?!\s*pragma)"
)
_ADDED = re.compile(
    r"(?<![\w.>)\]])(?:(?P<sum>\w+)\s*[-+]=(?P<value>[^;]*)|(?P<up>\w+)\s*\+\+|\+\+\s*(?P<one>\w+))\s*;"
)
_CHANGED = re.compile(
    r"(?<![\w.>\])])(\w+)(?:\s*\.\s*\w+|\s*\[[^][]*\])*\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*(\w+)"
)
_BRANCHES = re.compile(r"\s*(?:(?:if|for|while|do|switch|else)\b|\{)")
_DECLARED = re.compile(
    r"\s*(?!(?:else|return|case|goto|new|delete|throw|static|extern|do)\b)(?:const\s+)?"
    r"(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|[A-Za-z_]\w*)\s+(?=[A-Za-z_])(?P<rest>.*)$", re.S
)
_MEETS = re.compile(
    r"(?:if\s*\(\s*(?P<test>\w+)\s*(?:!=\s*0(?:\.0*f?|\.f)?\s*)?\)\s*)?atomicAdd\s*\((?P<to>[^;]*),\s*(?P<sum>\w+)\s*\)\s*;"
)


class Sums(Struct, frozen=True):
    """The one loop of a kernel's own, and behind it atomics of the sums that its rounds add to."""

    loop: Loop
    step: str
    sums: tuple[str, ...]
    exact: bool


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    kernel = kernel_of(setting)
    one = summed(kernel) if kernel is not None else None
    if kernel is None or one is None or launch is None or held is None or min(launch.grid[1:]) > 1:
        return []
    code, free = setting.code, launch.grid.index(1, 1)
    axis = "xyz"[free]
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    rounds = max((trips(code, n) for i in loads if (n := code.cfg.loop_of[i]) is not None), default=0)
    parts = _parts(launch.blocks, held.blocks * setting.sms, rounds)
    edits = spans_edited(setting, kernel.text, [_span(one, axis)])
    if parts < 2 or not edits or not setting.sms or not _alone(setting, len(one.sums)):
        return []
    grid = [parts if n == free else size for n, size in enumerate(launch.grid)]
    shared = [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    before, after = (min(launch.blocks * n, held.blocks * setting.sms) * launch.warps for n in (1, parts))
    names, played = ", ".join(one.sums), _played(parts)
    order = Condition(holds="the order in which a sum is added up does not matter", state="check",
                      why="parts of floats round differently")  # fmt: skip
    return [
        Fix(
            kind="lane_mapping",
            title=f"rounds of {names} in {parts} parts, by as many blocks, which add them by the atomic that is there",
            language="cuda",
            code=f"{setting.name}<<<{', '.join([shape(grid), shape(launch.block), *shared])}>>>(...);",
            edits=edits,
            parameters={f"grid.{axis}": parts},
            conditions=[
                shown(played > 0, "each round of a sum is done once", "values", played,
                      "rounds of several lengths and steps written out, empty ones too"),
                proved("each thread works alone, and writes by atomics behind the loop alone", "code", code,
                       "no barrier, no shared or local memory, no store; no atomic in a loop"),
                proved("one block takes all rounds now", "launch", launch.grid, f"1 along {axis}"),
                reads(f"nothing but {names} is carried from round to round", "what else a round changes it declares"),
                *not_written(code, loads),
                *([] if one.exact else [order]),
            ],
            proof=[
                Proof(what="rounds that one block does of the longest sum, a share", before=1, after=1 / parts,
                      how=f"every {parts}th round, from the block's own number on"),
                Proof(what="warps that the chip holds", before=before, after=after, unit="warps",
                      how=f"{held.blocks} blocks fit on each of {setting.sms} SMs"),
            ],
            costs=[f"{parts} atomics for each one"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _parts(blocks: int, slots: int, rounds: float) -> int:
    """So many that some waves of blocks are left to even out, and that each has rounds enough."""
    wanted = -(-WAVES * slots // max(1, blocks))
    most = min(MOST, int(rounds / LEAST))
    return min(1 << max(0, (wanted - 1).bit_length()), 1 << max(0, most.bit_length() - 1)) if blocks else 0


def _alone(setting: Setting, sums: int) -> bool:
    """Whether no thread needs another, and each writes by as many atomics as there are sums, behind its loops."""
    code = setting.code
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space in ("shared", "local"))
    writes = code.ran(code.where(lambda ins, op: op.access in WRITES))
    atomics = all(code.classes[i].access in ("atomic", "reduction") for i in writes)
    return not together and atomics and len(writes) == sums and all(code.cfg.loop_of[i] is None for i in writes)


def summed(kernel: Kernel) -> Sums | None:
    """None where a round leaves anything but sums, or what is around the loop is more than declarations and atomics."""
    loop, before, meets = _around(kernel)
    if loop is None or not meets or re.search(r"\bblockIdx\s*\.\s*[yz]\b", kernel.body) or not _known(kernel):
        return None
    step, sums, places = loop.step.partition("+=")[2].strip() or "1", list(meets), list(meets.values())
    kinds = [_kind(before, name) for name in sums]
    if None in kinds or loop.kind not in COUNTERS or not re.fullmatch(r"[\w.]+", step):
        return None
    around = [*(_undeclared(one, sums) for one in before), *places, f"{loop.start} {loop.end} {loop.step}"]
    steady = not _names(sums, " ; ".join(around)) and not _names([loop.name], " ; ".join(places))
    if not steady or not _round(kernel.text.code[slice(*loop.body)], sums, [loop.name, step]):
        return None
    kinds += [_pointed(kernel, to) for to in places]
    return Sums(loop, step, tuple(sums), all(k in EXACT for k in kinds))


def _around(kernel: Kernel) -> tuple[Loop | None, list[str], dict[str, str]]:
    """The one loop of a kernel's own statements, what they declare in front of it, and of each sum the place to which
    it is added behind; no loop where they do anything else."""
    code, leaves = kernel.text.code, returning(kernel)
    every = [x for x in loops(code) if any(a <= x.span[0] < b and _is_loop(code[a:b]) for a, b in kernel.statements)]
    if len(every) != 1 or leaves is None:
        return None, [], {}
    (loop,), guards = every, [leave[:2] for leave in leaves]
    at = next(n for n, (a, b) in enumerate(kernel.statements) if a <= loop.span[0] < b)
    before = [kernel.of(s) for s in kernel.statements[:at] if s not in guards]
    meets = _meets([kernel.of(s) for s in kernel.statements[at + 1 :]])
    strange = any(_BRANCHES.match(one) or _TOGETHER.search(one) for one in before)
    late = any(a > loop.span[0] for a, _ in guards) or kernel.statements[at][1] != loop.body[1]
    return (None, [], {}) if strange or late or meets is None else (loop, before, meets)


def _meets(tail: Sequence[str]) -> dict[str, str] | None:
    """Of each sum the place to which it is added, in a kernel's last statements; None where one is anything else."""
    out: dict[str, str] = {}
    for one in tail:
        match = _MEETS.fullmatch(one.strip())
        if match is None or match["test"] not in (None, match["sum"]) or match["sum"] in out:
            return None
        out[match["sum"]] = match["to"]
    return out


def _is_loop(statement: str) -> bool:
    return re.match(r"\s*(?:#[^\n]*\n\s*)*for\b", statement) is not None


def _known(kernel: Kernel) -> bool:
    """Whether what is called gives a value and does nothing besides: functions of numbers that this file has, which ask
    for no place in the grid, and those of the library."""
    known = functions(kernel.lines, kernel.body)
    called = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", kernel.body)) - {"atomicAdd"}
    texts = [body for _, body in known.values()]
    file = "\n".join(map(blanked, kernel.lines))
    heads = [h for name in known for h in re.findall(rf"__device__[^;{{}}()]*\b{name}\s*\(([^()]*)\)", file)]
    inner = {name for text in texts for name in re.findall(r"\b([A-Za-z_]\w*)\s*\(", text)}
    strange = any(_TOGETHER.search(text) or re.search(r"\bblockIdx\b", text) for text in texts)
    strange = strange or any("*" in p and not re.match(r"\s*const\b", p) for h in heads for p in h.split(","))
    return not strange and not (called | inner) - known.keys() - PURE and not re.search(r"[(,]\s*&", _bare(kernel.body))


def _bare(body: str) -> str:
    """Without the places of atomics, whose address is taken."""
    return re.sub(r"\batomicAdd\s*\(\s*&", "atomicAdd(", body)


def _kind(before: Sequence[str], name: str) -> str | None:
    """The type of a sum that is declared as zero."""
    zero = rf"\b{name}\s*(?:=\s*)?\{{?\s*(?:=\s*)?0(?:\.0*f?|\.f|u|ull)?\s*\}}?\s*(?=[,;])"
    found = [one for one in before if re.search(zero, one)]
    made = re.match(r"\s*(unsigned\s+long\s+long|unsigned\s+int|unsigned|int|float|double)\s", "".join(found))
    return " ".join(made[1].split()) if made is not None and len(found) == 1 else None


def _undeclared(statement: str, sums: Sequence[str]) -> str:
    """A declaration without the sums' own names."""
    return re.sub(rf"\b(?:{'|'.join(sums)})\s*=\s*0", "", statement)


def _names(names: Sequence[str], text: str) -> bool:
    return any(re.search(rf"(?<![\w.]){name}\b", text) for name in names)


def _round(body: str, sums: Sequence[str], steady: Sequence[str]) -> bool:
    """Whether a round changes nothing but the sums, which it adds to, and what it declares itself."""
    if re.search(r"\b(?:return|break|while|do|switch)\b", body) or _TOGETHER.search(body):
        return False
    rest, added = body, 0
    for match in reversed(list(_ADDED.finditer(body))):
        name = match["sum"] or match["up"] or match["one"]
        if name in sums:
            rest = rest[: match.start()] + (match["value"] or "").strip() + ";" + rest[match.end() :]
            added += 1
    own = {n for part in re.split(r"[;{}]|\bfor\s*\(", rest) if (m := _DECLARED.match(part)) is not None and "=" in part
           for n in _declares(m["rest"])}  # fmt: skip
    changed = {a or b for a, b in _CHANGED.findall(rest)}
    return bool(added) and changed <= own and not _names(sums, rest) and not own & {*sums, *steady}


def _declares(rest: str) -> list[str]:
    return [m[1] for part in split_declarators(rest) if (m := re.match(r"\s*\*?\s*(\w+)", part)) is not None]


def _pointed(kernel: Kernel, to: str) -> str:
    """The type of the array that an atomic adds to, as the kernel has it as a parameter."""
    name = re.match(r"\s*&?\s*\(?\s*(\w+)", to)
    kind = kernel.parameters.get(name[1], "") if name is not None else ""
    return kind.partition("*")[0].strip()


def _span(one: Sums, axis: str) -> tuple[int, int, str]:
    loop, times = one.loop, "" if one.step == "1" else f" * {one.step}"
    start = loop.start if re.fullmatch(r"[\w.\s*+]+", loop.start) else f"({loop.start})"
    wide = "" if loop.kind in ("int", "unsigned") else f"({loop.kind})"
    first = f"{wide}blockIdx.{axis}{times}" if start == "0" else f"{start} + {wide}blockIdx.{axis}{times}"
    head = (
        f"for ({loop.kind} {loop.name} = {first}; {loop.name} < {loop.end}; "
        f"{loop.name} += gridDim.{axis}{times})"
    )
    return (*loop.span, head)


def _played(parts: int) -> int:
    """How many sums were written out, if the parts took each of their rounds once; 0 otherwise."""
    played = 0
    for step in TRIED:
        for first in range(4):
            for end in range(0, 3 * parts * step + 2, step + 1):
                done = sorted(r for part in range(parts) for r in range(first + part * step, end, parts * step))
                if done != list(range(first, end, step)):
                    return 0
                played += 1
    return played

