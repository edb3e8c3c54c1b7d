"""Fragments that a function of the file stores in pairs, as epilogues of products do: four lanes exchange theirs, so
that each of them stores sixteen bytes. What the function stores is seen by playing it alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from kscope.features.lanes.semantics import LANES
from kscope.features.sass.columns import total
from kscope.fixes.epilogue.reached import all_come, files
from kscope.fixes.epilogue.stores import ends_played, exchangeable
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, constants, evaluated
from kscope.fixes.given.text import LONGEST, Text, blanked, closing, kernel_text, spans_edited
from kscope.fixes.packed import quads
from kscope.fixes.packed.quads import FUNCTION, exchanged, together, written
from kscope.fixes.packed.stored import PAIR, QUAD, WHOLE, Stored, stored
from kscope.fixes.roles.declared import devices
from kscope.fixes.roles.lanes import Shared
from kscope.fixes.roles.played import lane_names
from kscope.fixes.roles.texts import Kernel, Parameter, kernel, parameters
from kscope.fixes.roles.values import Place
from kscope.fixes.roles.warp import Warp
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

NUMBERS = (264, 1048, 4096)  # lengths of rows that are played: multiples of eight, as the change needs them
ELEMENTS = 1024  # of a lane's own array whose length the text does not say (judged)
GIVEN = "given_"


class Function(Struct, frozen=True):
    """A function of a file, from its template on. `head`: where its parameters begin and end in the text."""

    text: Text
    name: str
    head: tuple[int, int]
    names: tuple[str, ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or setting.launch is None or setting.block[0] % LANES:
        return []
    made = [] if quads.fixes(asked) else inside(asked, text)
    for one in functions(setting, text) if not made else ():
        body = one.text.code
        found = [x for x in stored(body) if together(body, x.span[0], {*one.names, *_named(setting, one.text.file)})]
        mine = machine(setting, one.text, found)
        here = asked.finding.code == "ASY503" or _at(asked, mine)
        calls = called(setting, text, one) if mine and here else []
        ran = sum(played(setting, text, one, values, len(found)) for values in calls)
        spans = [(*x.span, written(x)) for x in found]
        edits = spans_edited(setting, one.text, spans) if calls and ran else []
        if edits:
            given = [p for p in parameters(body[slice(*one.head)], {}) if p.way == "*" and not _own(one, p)]
            return [_fix(asked, f"{one.name} stores", mine, ran, edits, several=len(given) > 1)]
    return made


def inside(asked: Asked, text: Text) -> list[Fix]:
    """For stores in the kernel's own text, which is played as a whole."""
    setting = asked.setting
    every = [x for x in stored(text.code) if all_come(setting, text, x.span[0])]
    mine = machine(setting, text, every)
    if not mine or not (asked.finding.code == "ASY503" or _at(asked, mine)):
        return []
    ran = sum(ends_played(setting, text, every))
    edits = spans_edited(setting, text, [(*x.span, written(x)) for x in every]) if ran else []
    return [_fix(asked, "each lane stores", mine, ran, edits, several=True)] if edits else []


def _at(asked: Asked, mine: Sequence[int]) -> bool:
    return bool({x.pc for x in asked.finding.locations} & {asked.setting.code[i].pc for i in mine})


def _named(setting: Setting, file: str) -> set[str]:
    return set(constants(setting.lines(file)))


def functions(setting: Setting, text: Text) -> list[Function]:
    """Those that instructions which store four bytes stand in, the kernel apart."""
    code = setting.code
    places: dict[str, set[int]] = {}
    for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store" and op.bytes == PAIR)):
        for file, line in setting.sites(i)[:1]:
            places.setdefault(file, set()).add(line)
    out = []
    every = "\n".join(blanked(line) for f in sorted(files(setting)) for line in setting.lines(f))
    says = "|".join(["__device__", *devices(every)])
    for file, numbers in sorted(places.items()):
        lines = [blanked(line) for line in setting.lines(file)]
        whole = "\n".join(lines)
        head = re.compile(rf"(?:template\s*<(?P<given>[^<>]*)>\s*)?(?:\b(?:static|inline|__forceinline__)\s+)*"
                          rf"\b(?:{says})\b[^;{{}}()=#]*?\b(?P<name>\w+)\s*\(")  # fmt: skip
        for match in head.finditer(whole):
            close = closing(whole, match.end())
            start = whole.find("{", close) if close is not None else -1
            end = closing(whole, start + 1) if start >= 0 else None
            if close is None or end is None or whole[close + 1 : start].strip() or end - match.start() > LONGEST:
                continue
            first = whole.count("\n", 0, match.start()) + 1
            rows = range(first, whole.count("\n", 0, end) + 2)
            if not numbers & set(rows) or (file == text.file and text.first in rows):
                continue
            begin = whole.rfind("\n", 0, match.start()) + 1
            names = [p.split()[-1] for p in (match["given"] or "").split(",") if p.strip()]
            one = Text(file, first, whole[begin : end + 1])
            out.append(Function(one, match["name"], (match.end() - begin, close - begin), tuple(names)))
    return out


def machine(setting: Setting, text: Text, found: Sequence[Stored]) -> list[int]:
    """The stores' instructions, where all lanes of every warp that came ran them, and each statement has some."""
    code = setting.code
    every = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store"))
    out: list[int] = []
    lanes = getattr(code, "threads", ())
    for one in found:
        first, last = (text.first + text.code.count("\n", 0, at) for at in one.span)
        mine = [i for i in every if code[i].file == text.file and first <= (code[i].line or 0) <= last]
        whole = all(code.classes[i].bytes == PAIR and code[i].guard is None for i in mine)
        if not mine or not whole or not lanes or any(lanes[i] != LANES * code.executed[i] for i in mine):
            return []
        out += mine
    return sorted(set(out))


def called(setting: Setting, text: Text, one: Function) -> list[list[str]]:
    """What the kernel gives the function's template at each call; none where some lanes may not come to one of them, or
    something else calls it too."""
    out = []
    call = re.compile(rf"\b{one.name}\s*(?:<(?P<given>[^<>;()]*)>)?\s*\(")
    inside = list(call.finditer(text.code))
    every = sum(len(call.findall("\n".join(map(blanked, setting.lines(f))))) for f in files(setting))
    if every != len(inside) + 1:  # its own head
        return []
    for match in inside:
        if not all_come(setting, text, match.start()):
            return []
        out.append([v.strip() for v in (match["given"] or "").split(",") if v.strip()])
    return out


def played(setting: Setting, text: Text, one: Function, values: Sequence[str], statements: int) -> int:
    """How many addresses a call of the function was seen to store to, if four lanes always store side by side, and
    four rounds sixteen bytes after one another; 0 otherwise."""
    given = parameters(one.text.code[slice(*one.head)], {})
    made, names = [], []
    for n, p in enumerate(given):
        names.append(f"{GIVEN}{n}")
        if p.way == "&" or "[" in p.kind:
            return 0
        if _own(one, p):
            made.append(f"float {GIVEN}{n}[{p.sides or ELEMENTS}];")
    arguments = f"<{', '.join(values)}>" if values else ""
    body = f"{{ {' '.join(made)} {one.name}{arguments}({', '.join(names)}); }}"
    ran = 0
    try:
        known = kernel(setting, text, body)
        if any(evaluated(v, known.numbers) is None for v in values):
            return 0
        for number in NUMBERS:
            ran += _side_by_side(setting, known, given, number, statements)
    except (Unplayable, KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return 0
    return ran


def _own(one: Function, parameter: Parameter) -> bool:
    """Whether it is a reference of an array: of a lane's registers."""
    head = one.text.code[slice(*one.head)]
    return re.search(rf"\(\s*&\s*{parameter.name}\s*\)\s*\[", head) is not None


def _side_by_side(setting: Setting, known: Kernel, given: Sequence[Parameter], number: int, statements: int) -> int:
    """Raises Unplayable where lanes do not store so."""
    assert setting.launch is not None
    ran = 0
    for warp in range(setting.launch.threads // LANES):
        thread = warp * LANES + np.arange(LANES)
        names: dict[str, Any] = lane_names(known, setting.launch, thread, number) | {"blockIdx.x": 0}
        for n, p in enumerate(given):
            size = SIZES.get(p.kind, 0) or PAIR
            names[f"{GIVEN}{n}"] = Place(f"{GIVEN}{n}", 0, size) if p.way == "*" else number + WHOLE * n
        one = Warp(known, names, Shared(), setting.launch.threads, 1)
        one.run(known.body)
        ran += exchangeable(one.events, statements)
    return ran


def _fix(asked: Asked, who: str, mine: list[int], ran: int, edits: list[Edit], *, several: bool) -> Fix:
    code, turned = asked.setting.code, exchanged()
    before = total(code.executed, mine)
    apart = Condition(holds="none of the arrays overlap", state="check", why="two parameters may point into one array")
    return Fix(
        kind="register",
        title=f"four lanes exchange the pairs that {who}, and each stores sixteen bytes",
        language="cuda",
        code=FUNCTION,
        edits=edits,
        parameters={"bytes": WHOLE},
        conditions=[
            proved("four lanes store side by side, and the next round's sixteen bytes follow", "values", ran,
                   "played for all warps of a block and several lengths of rows"),
            shown(turned > 0, "each lane gets what the four have at its place", "values", turned,
                  "the exchange was run for all lanes"),
            proved("all lanes come to the stores", "code", mine,
                   "every warp that ran them had all its threads, and none is predicated"),
            reads("all lanes of a warp come to the call", "what is tested before it is known to the compiler, or an "
                  "instruction that needs all of them stands in the same block"),
            Condition(holds="rows and the place of the first start at multiples of sixteen bytes", state="check",
                      why="row lengths and columns that are multiples of 8 elements, in an array as cudaMalloc has it"),
            *[apart] * several,
        ],
        proof=[
            Proof(what="sectors that warps write in part", before=before * LANES / QUAD, after=0.0, unit="sectors",
                  how=f"{len(mine)} stores: 16 bytes a row; 64 at once then"),
            Proof(what="warp stores", before=before, after=before / QUAD, unit="inst",
                  how="four exchanges between lanes for four of them"),
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
