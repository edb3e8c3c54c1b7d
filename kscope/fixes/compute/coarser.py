"""The work of several blocks in one, side by side: what their threads load and compute alike in the rounds of a loop is
then loaded and computed once for all. Each block's own operations stay in their order: results are the same to the last
bit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.effects import names_changed
from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, split_declarators
from kscope.fixes.given.text import Loop, Text, asked_here, hidden, kernel_text, loops, shape
from kscope.fixes.packed.ends import End, ended
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

TIMES = (8, 4, 2)  # blocks that become one: as many results of each kind in registers (judged)
MOST = 4  # values of a block that are kept over the loop, at most: 32 registers (judged)
FULL, WAVES = 0.9, 2  # of a wave that must be filled, or so many waves left (judged)
_TYPES = (
    r"(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|unsigned|int|float[234]?|double2?|size_t|u?int[24]|bool|"
    r"u?int(?:32|64)_t)"
)
_DECLARED = re.compile(
    rf"(?P<const>const\s+)?(?P<type>{_TYPES})(?P<star>\s*\*)?\s+(?:__restrict__\s+)?(?P<rest>\w+\b.*)", re.S
)
_FLOW = re.compile(
    r"\b(?:break|continue|return|goto|asm|while|switch|for|if|atomic\w*|__\w*sync\w*|__shared__)\b|[#{}?]|\[[^][]*\]\s*[-+*/|&^]?=(?!=)|[(,]\s*&\s*\w"
)
_ENDS = re.compile(r"\b(?:return|goto|asm)\b|#\s*(?!pragma\s+unroll)\w")
_UNROLL = re.compile(r"#\s*pragma\s+unroll(?:\s+\d+)?[ \t]*$", re.M)


class Value(Struct, frozen=True):
    """One name that a text declares. own: whether it is another one in each of the blocks that become one."""

    kind: str
    name: str
    value: str
    own: bool


class Coarse(Struct, frozen=True):
    """The axis of the grid along which blocks become one, what is declared in front of the loop and in its rounds, the
    rounds' other statements, and where the kernel's body begins and ends."""

    axis: str
    loop: Loop
    before: tuple[Value, ...]
    inside: tuple[Value | str, ...]
    tail: str
    span: tuple[int, int]

    @property
    def names(self) -> list[str]:
        return [v.name for v in self.before if v.own]

    @property
    def loads(self) -> tuple[int, int]:
        """Elements that a round loads for all blocks, and for each."""
        texts = [(p.value, p.own) if isinstance(p, Value) else (p, True) for p in self.inside]
        found = [(len(re.findall(r"\w\s*\[", text)), own) for text, own in texts]
        return sum(n for n, own in found if not own), sum(n for n, own in found if own)


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text, held = kernel_text(setting), asked.setting.occupancy()
    one = coarse(text.code, _around(setting, text)) if text is not None and _own_lines(setting, text) else None
    if text is None or one is None or launch is None or held is None or not setting.sms:
        return []
    along = launch.grid["xyz".index(one.axis)]
    slots = held.blocks * setting.sms
    waves = {n: launch.blocks / n / slots for n in TIMES if along % n == 0}
    times = next((n for n, w in waves.items() if w >= WAVES or FULL <= w <= 1), 0)
    here = _loads(setting, text, one)
    if not times or not here:
        return []
    grid = [n // times if axis == one.axis else n for axis, n in zip("xyz", launch.grid, strict=True)]
    shared, own = one.loads
    before = total(code.executed, here)
    after = before * (shared / times + own) / (shared + own)
    given = [shape(grid), shape(launch.block), *([str(launch.shared_dynamic)] if launch.shared_dynamic else [])]
    return [
        Fix(
            kind="jam",
            title=f"the work of {times} blocks in one: what their threads compute alike once for {times}",
            language="cuda",
            code=f"{setting.name}<<<{', '.join(given)}>>>(...);",
            edits=_edits(setting, text, one, times, _end(setting, text, one, times)),
            parameters={"blocks": times, f"grid.{one.axis}": along // times},
            conditions=[
                proved("the blocks come out even", "launch", launch.grid, f"{along} is a multiple of {times}"),
                reads("a block takes nothing from another one", f"blockIdx.{one.axis} is put in for each of them"),
                *not_written(code, here),
                Condition(holds=f"registers hold {times} blocks' values without spills", state="check",
                          why="kscope fix --check on the new cubin"),
                Condition(holds=f"every launch has a multiple of {times} blocks along {one.axis}", state="check"),
            ],
            proof=[
                Proof(
                    what="warp loads in the loop", before=before, after=after, unit="inst",
                    how=f"{shared} of {shared + own} elements a round are the same for all values of "
                        f"blockIdx.{one.axis}, as the text reads: one load for {times} blocks",
                )
            ],
            costs=[f"{(times - 1) * len(one.names)} registers a thread", f"{launch.blocks // times} blocks are left"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _around(setting: Setting, text: Text) -> str:
    """The file, and those that hold what the kernel calls."""
    files = {ins.file for ins in setting.code.program.instructions if ins.file is not None} | {text.file}
    return "\n".join(line for file in sorted(files) for line in setting.lines(file))


def _own_lines(setting: Setting, text: Text) -> bool:
    """Whether the kernel's own lines alone ask for blocks, and wait for the block's other threads."""
    if hidden(text.code, setting.lines(text.file)) or not asked_here(setting.code, text, "CTAID"):
        return False
    last = text.first + text.code.count("\n")
    barriers = [setting.code[i] for i in setting.code.where(lambda ins, op: "barrier" in op.kind)]
    return all(ins.file == text.file and text.first <= (ins.line or 0) <= last for ins in barriers)


def coarse(code: str, around: str = "") -> Coarse | None:
    """What becomes of a kernel of declarations, one loop without branches, and an end; None for any other, and where
    the rounds of different blocks have no load in common."""
    open_, close = code.find("{"), code.rfind("}")
    every = [one for one in loops(code) if one.span[0] > open_]
    if open_ < 0 or not every or re.search(r"\b\w+_of\b|\bblock_n\b", code):
        return None
    loop = every[0]
    head = _statements(_UNROLL.sub("", code[open_ + 1 : loop.span[0]]))
    body, tail = code[slice(*loop.body)].strip(), code[loop.body[1] : close]
    rounds = _statements(body[1:-1] if body.startswith("{") else body)
    if head is None or rounds is None or _ENDS.search(tail) or _FLOW.search(" ; ".join([*head, *rounds])):
        return None
    parts = head, rounds, tail
    altered = {one: names_changed(f"{one};", code, around) for one in [*_assigned(rounds), _loose(tail)]}
    found = [c for axis in "xyz" if (c := _along(code, axis, loop, parts, (open_, close), altered)) is not None]
    return max(found, key=lambda one: one.loads[0], default=None)


def _along(
    code: str, axis: str, loop: Loop, parts: tuple[Sequence[str], Sequence[str], str], span: tuple[int, int],
    altered: Mapping[str, set[str]],
) -> Coarse | None:  # fmt: skip
    """altered: names that are given a value, by the round's statements and by the end."""
    place, (head, rounds, tail) = f"blockIdx.{axis}", parts
    if place not in code[slice(*span)]:
        return None
    changed = set[str]().union(*altered.values())
    before = _values(head, place, changed, ())
    if before is None:
        return None
    own = [v.name for v in before if v.own]
    inside = _round(rounds, place, own, altered)
    if inside is None:
        return None
    mine = [v.name for v in inside if isinstance(v, Value)]
    given = {v.name for v in before}
    unknown = changed - given - set(re.findall(rf"\b{_TYPES}\s+(\w+)", tail))
    header = f"{loop.start} {loop.end} {loop.step}"
    again = given & set(re.findall(rf"\b{_TYPES}\s*\*?\s+(\w+)", tail))
    if unknown or again or _asks(header, [*own, place]) or given & set(mine) or len(own) > MOST or loop.name in own:
        return None
    one = Coarse(axis, loop, tuple(before), tuple(inside), tail, span)
    return one if one.loads[0] and any(isinstance(v, str) for v in inside) else None


def _round(
    rounds: Sequence[str], place: str, own: Sequence[str], altered: Mapping[str, set[str]]
) -> list[Value | str] | None:
    """What a round declares, and its other statements, which change nothing but what each block has of its own; None
    where one does."""
    inside: list[Value | str] = []
    for statement in rounds:
        made = _values([statement], place, set(), [*own, *(v.name for v in inside if isinstance(v, Value) and v.own)])
        if made is not None:
            inside += made
        elif altered[statement] <= set(own):
            inside.append(statement)
        else:
            return None
    return inside


def _values(
    statements: Sequence[str], place: str, changed: set[str], own: Sequence[str]
) -> list[Value] | None:  # fmt: skip
    """What statements declare, each with a value; None where one does anything else."""
    out: list[Value] = []
    for statement in statements:
        match = _DECLARED.fullmatch(statement)
        if match is None:
            return None
        for n, part in enumerate(split_declarators(match["rest"])):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or not re.fullmatch(r"\w+", name) or (n and match["star"]):
                return None
            mine = name in changed or _asks(value, [place, *own, *(v.name for v in out if v.own)])
            star = "*" if match["star"] else ""
            const = "const " if match["const"] and (star or not mine) else ""
            out.append(Value(f"{const}{match['type']}{star}", name, value, mine))
    return out


def _assigned(statements: Sequence[str]) -> list[str]:
    """Those that declare nothing."""
    return [s for s in statements if _DECLARED.fullmatch(s) is None]


def _loose(tail: str) -> str:
    """The end of a kernel without its own declarations' values."""
    return re.sub(rf"\b(?:__shared__\s+)?{_TYPES}\s+\w+(?:\s*\[[^]]*\])*\s*(?==|;)=?", "", tail)


def _asks(text: str, names: Sequence[str]) -> bool:
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?!\w)", text) for n in names)


def _statements(text: str) -> list[str] | None:
    """Statements of a text, without their semicolons; None where the last one has no end."""
    parts = text.split(";")
    return [p.strip() for p in parts[:-1] if p.strip()] if not parts[-1].strip() else None


def _loads(setting: Setting, text: Text, one: Coarse) -> list[int]:
    """Global loads of the loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (one.loop.span[0], one.loop.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    inside = [i for i in loads if code.cfg.loop_of[i] is not None]
    return [i for i in inside if any(first <= p.number <= last for p in places(setting, [i]))]


def _end(setting: Setting, text: Text, one: Coarse, times: int) -> End | None:
    """What is done behind the loop, all blocks' parts between barriers side by side; None where it has no such parts,
    or where the shared memory of all of them leaves fewer blocks an SM."""
    end = ended(one.tail, _TYPES, constants(setting.lines(text.file)))
    more = setting.occupancy(more_shared=(times - 1) * end.bytes) if end is not None else None
    held = setting.occupancy()
    return end if more is not None and held is not None and more.blocks >= held.blocks else None


def written(code: str, one: Coarse, times: int, end: End | None = None) -> str:
    """The kernel's body as it will be, from its brace to its brace."""
    n, names = "block_n", [*one.names, *(end.names if end is not None else ())]

    def of(part: str) -> str:
        for name in names:
            part = re.sub(rf"(?<![\w.]){name}\b", f"{name}_of[{n}]", part)
        part = re.sub(rf"\bblockIdx\.{one.axis}\b", f"(blockIdx.{one.axis} * {times} + {n})", part)
        return whole(part)

    def whole(part: str) -> str:
        return re.sub(rf"\bgridDim\.{one.axis}\b", f"(gridDim.{one.axis} * {times})", part)

    each = f"#pragma unroll\n  for (int {n} = 0; {n} < {times}; {n}++)"
    alike = [f"{v.kind} {v.name} = {whole(v.value)};" for v in one.before if not v.own]
    arrays = [f"{v.kind} {v.name}_of[{times}];" for v in one.before if v.own]
    made = [f"{v.name}_of[{n}] = {of(v.value)};" for v in one.before if v.own]
    once = [f"{v.kind} {v.name} = {whole(v.value)};" for v in one.inside if isinstance(v, Value) and not v.own]
    mine = [
        f"{v.kind} {v.name} = {of(v.value)};" if isinstance(v, Value) else f"{of(v)};"
        for v in one.inside if not isinstance(v, Value) or v.own
    ]  # fmt: skip
    if end is None:
        last = [of(one.tail).strip() + (" __syncthreads();" if "__shared__" in one.tail else "")]
    else:
        last = [of(phase) for phase in end.phases]
    ends = "\n  __syncthreads();\n  ".join(f"{each} {{ {part} }}" for part in last)
    header = whole(" ".join(code[slice(*one.loop.span)].split()))
    return (
        f"{{\n  {' '.join([*alike, *arrays])}\n  {each} {{ {' '.join(made)} }}\n"
        f"  {header} {{\n  {' '.join(once)}\n  {each} {{ {' '.join(mine)} }}\n  }}\n"
        f"{f'  {end.declared(times)}' + chr(10) if end is not None else ''}  {ends}\n}}"
    )


def _edits(setting: Setting, text: Text, one: Coarse, times: int, end: End | None) -> list[Edit]:
    """The whole body on the line where it begins; its other lines go."""
    lines = setting.lines(text.file)
    begin, stop = (text.first + text.code[:at].count("\n") for at in one.span)
    column = one.span[0] - (text.code.rfind("\n", 0, one.span[0]) + 1)
    rest = lines[stop - 1][one.span[1] + 1 - (text.code.rfind("\n", 0, one.span[1]) + 1) :]
    out = [Edit(file=text.file, line=begin, was=lines[begin - 1],
                becomes=lines[begin - 1][:column] + written(text.code, one, times, end) + rest)]  # fmt: skip
    return out + [Edit(file=text.file, line=n, was=lines[n - 1], becomes="") for n in range(begin + 1, stop + 1)]
