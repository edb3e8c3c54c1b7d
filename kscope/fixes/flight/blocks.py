"""The work of several blocks in one, the loads of all of them first: blocks run in any order, so that what one loads
may go before what another one stores, whether or not the arrays overlap. Each block's own operations stay in order."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.fixes.atomics.names import pointers
from kscope.fixes.atomics.reading import MODIFIED, changed, statements
from kscope.fixes.flight.guards import guard
from kscope.fixes.flight.heads import Head
from kscope.fixes.flight.held import Held, Step
from kscope.fixes.flight.reader import AHEAD, N, Reader
from kscope.fixes.flight.written import code_above, each_of, kinds, needed, nested
from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, asked_here, by_lines, closing, hidden, kernel_text, shape, spans_edited
from kscope.fixes.work.several import WAVES
from kscope.fixes.work.several import fixes as without_loads_first
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

TIMES = (4, 2)  # blocks that become one, as LAT302 counts them; fewer where registers would cost warps
MOST = 0.5  # of what the finding's loads wait that those which go first do, from which its promise is theirs (judged)
MANY = 8  # blocks of the new launch along an axis, from which one that is partly empty costs little (judged)
COPIES = 6  # registers for places of several elements (judged)
BLOCK = "block_n"
_MEETS = re.compile(
    r"__shared__|\b__sync\w*|\b__\w+_sync\b|\b(?:asm|goto|cooperative_groups|volatile|static|for|while|do|switch)\b|"
    r"\batomic\w*|\bcg::|#|/\*|\[\s*[&=]?\s*\]|\bauto\s*&{0,2}\s*\[|\bblockIdx\b(?!\s*\.\s*[xyz]\b)"
)


class Body(Struct, frozen=True):
    """A kernel whose blocks along an axis can be one. `span`: of its body with the braces;
    `behind`: whether a load stands behind what may store; `guard`: the
    test of their place that all of their work is under."""

    axis: str
    span: tuple[int, int]
    held: tuple[Held, ...]
    steps: tuple[Step, ...]
    behind: bool
    guard: str


def fixes(asked: Asked) -> list[Fix]:
    setting, text, launch = asked.setting, kernel_text(asked.setting), asked.setting.launch
    estimate = asked.finding.estimate
    if text is None or launch is None or estimate is None or not setting.sms or without_loads_first(asked):
        return []
    if not asked_here(setting.code, text, "CTAID") or "elements a thread" not in asked.finding.fix:
        return []
    shares = {x.pc: x.share or 0.0 for x in asked.finding.locations}
    every = bodies(text.code, setting.name, setting.lines(text.file))
    for one in sorted(every, key=lambda b: launch.grid["xyz".index(b.axis)] % TIMES[0] > 0):  # even ones first
        loads = _loads(setting, text, one)
        waits = sum(shares.get(setting.code[i].pc, 0.0) for i in loads)
        times = _times(setting, one, loads) if waits >= MOST * sum(shares.values()) else 0
        edits = spans_edited(setting, text, spans(text.code, one, times)) if times else []
        if edits:
            return [_fix(asked, one, edits, loads, times)]
    return []


def _fix(asked: Asked, one: Body, edits: list[Edit], loads: list[int], times: int) -> Fix:
    setting, launch, axis = asked.setting, asked.setting.launch, one.axis
    assert launch is not None
    along = launch.grid["xyz".index(axis)]
    grid = [-(-n // times) if a == axis else n for a, n in zip("xyz", launch.grid, strict=True)]
    even = proved("the blocks come out even", "launch", launch.grid, f"{along} is a multiple of {times}")
    every = Condition(holds=f"every launch has a multiple of {times} blocks along {axis}", state="check")
    if one.guard:
        even = reads("blocks behind the last have nothing to do", f"all of their work is under {one.guard}")
        why = "one that ends later would do more"
        every = Condition(holds=f"the last block along {axis} ends where the data do, in each launch", state="check",
                          why=why)  # fmt: skip
    shared = [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    start = f"// launch: {setting.name}<<<{', '.join([shape(grid), shape(launch.block), *shared])}>>>(...)"
    above = code_above(one.held)
    return Fix(
        kind="jam",
        title=f"the work of {times} blocks in one, their loads before the work: {times} elements a thread",
        language="cuda",
        code=f"{above}\n{start}" if above else start,
        edits=edits,
        parameters={"blocks": times, f"grid.{axis}": -(-along // times)},
        conditions=[
            even,
            proved("threads share nothing and meet nowhere", "code", len(setting.code),
                   "no shared memory, barriers or atomics among them, nor in what they call"),
            reads("a block takes nothing from another one",
                  f"blockIdx.{axis} is put in for each of them; blocks run in any order, so their loads may go first"),
            *(not_written(setting.code, loads) if one.behind else ()),
            Condition(holds=f"registers hold {times} elements' values without spills", state="check",
                      why="kscope fix --check on the new cubin"),
            every,
        ],
        proof=[
            Proof(what="loads of a thread on their way together", before=len(loads), after=len(loads) * times,
                  unit="loads", how=f"of {times} blocks along {axis}, before the first of them is used"),
        ],
        costs=[f"{times * _words(setting, loads)} registers a thread"],
        price=asked.finding.estimate if times == TIMES[0] else None,
    )  # fmt: skip


def bodies(code: str, name: str, lines: Sequence[str]) -> list[Body]:
    """A kernel without loops whose threads have nothing to do with each other, for each axis along which its blocks
    tell what they do by their number alone."""
    start = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, start.end()) if start is not None else None
    opening, end = (code.find("{", close), code.rfind("}")) if close is not None else (-1, -1)
    if start is None or close is None or not 0 < opening < end:
        return []
    body, words = code[opening + 1 : end], set(re.findall(r"\w+", code))
    inside = statements(code, opening + 1, end)
    known = pointers(code[start.end() : close], "", body)
    given = re.findall(r"(\w+)\s*(?=[,)]|\[|=)", code[start.end() : close + 1])
    if inside is None or _MEETS.search(body) or {N, BLOCK} & words or AHEAD in code or hidden(code, lines):
        return []
    # A parameter that a thread changes would be another one in its next round.
    if len(re.findall(r"\breturn\b", body)) != len(re.findall(r"\breturn\s*;", body)) or any(
            changed(re.sub(rf"\b{p}\s*\[", "[", body), p)
            or re.search(rf"(?<![\w.])(?<!->){p}(?:\s*\.\s*\w+)+{MODIFIED}", body) for p in given):  # fmt: skip
        return []
    out = []
    for axis in "xyz":
        if not re.search(rf"\bblockIdx\s*\.\s*{axis}\b", body) or re.search(rf"\bgridDim\s*\.\s*{axis}\b", body):
            continue
        head = Head(None, "", "", (opening, opening + 1), (opening, end + 1), tuple(inside), opening)
        reader = Reader(code, head, [], known, lines, blocks=True)
        if reader.read(head.inside):
            under = guard(code, inside, reader.steps, axis)
            found = tuple(reader.held), tuple(reader.steps)
            out.append(Body(axis, (opening, end + 1), *found, reader.behind, under))
    return out


def spans(code: str, one: Body, times: int) -> list[Span]:
    """What becomes of the kernel's text."""
    place = re.compile(rf"\bblockIdx\s*\.\s*{one.axis}\b")
    each = each_of(times, "")
    mine = f"    const unsigned {BLOCK} = blockIdx.{one.axis} * {times} + {N};\n"
    out = f"\n  {kinds(one.held, times)}\n"
    for level in sorted({h.level for h in one.held}):
        out += f"{each} {{\n{mine}{place.sub(BLOCK, nested(needed(one.steps, level), '    '))}  }}\n"
    start, end = one.span
    held = [(*h.span, f"{h.name}[{N}]") for h in one.held if h.span != (0, 0)]
    found = [(m.start(), m.end(), BLOCK) for m in place.finditer(code, start, end)]
    found += [(m.start(), m.end(), "continue;") for m in re.compile(r"\breturn\s*;").finditer(code, start, end)]
    found = [f for f in found if not any(a <= f[0] < b for a, b, _ in held)]
    first = f"{out}{each} {{\n{mine.rstrip()}" + ("" if code[start + 1 : start + 2] == "\n" else "\n ")
    return by_lines(code, [(start + 1, start + 1, first), *held, *found, (end - 1, end - 1, "}")])


def _loads(setting: Setting, text: Text, one: Body) -> list[int]:
    """Loads of the lines that hold some."""
    code = setting.code
    held = {text.first + text.code.count("\n", 0, h.span[0]) for h in one.held if h.span[1]}
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    return [i for i in loads if any(file == text.file and line in held for file, line in setting.sites(i))]


def _words(setting: Setting, loads: list[int]) -> int:
    return sum(math.ceil(setting.code.classes[i].bytes / 4) for i in loads)


def _times(setting: Setting, one: Body, loads: list[int]) -> int:
    """How many blocks come out even or end where the data do, leave the device full and cost no warps; 0 for none."""
    launch, was, now = setting.launch, setting.occupancy(), setting.registers
    meets = setting.code.where(
        lambda ins, op: op.space in ("shared", "local") or op.access in ("atomic", "reduction") or "barrier" in op.kind
    )  # fmt: skip
    if launch is None or was is None or now is None or not loads or meets:
        return 0
    along, slots = launch.grid["xyz".index(one.axis)], was.blocks * setting.sms
    for times in TIMES:
        then = setting.occupancy(registers=now + times * _words(setting, loads) + COPIES)
        even = along % times == 0 or (bool(one.guard) and along >= MANY * times)
        full = launch.blocks // times >= WAVES * slots
        if even and full and then is not None and then.blocks >= was.blocks:
            return times
    return 0
