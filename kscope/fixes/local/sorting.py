"""A local array that code sorts at indices which come from the data: a sorting network, whose places are numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Span, kernel_text, loops, spans_edited, statement_end
from kscope.fixes.local.keys import moved_alone, order, unbroken
from kscope.fixes.local.network import NAMES, exchanges, function, sorts
from kscope.fixes.local.registers import TYPES, Local, arrays, in_registers, instead, on_lines, written
from kscope.fixes.tile.own_rows import arguments
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

MOST = 64  # keys: more than registers hold besides the rest (judged)
FLOATS = ("float", "double")
_LOOPS = re.compile(r"\b(?:for|while)\s*\(")
_EFFECTS = re.compile(r"(?<![=!<>])=(?!=)|\+\+|--|\b(?!(?:__ldg|__ldcs|__ldcg|size_t|min|max)\b)[A-Za-z_]\w*\s*\(")
GIVEN, RESULTS, ROW = "given_keys", "sorted_keys", "key_row"


class _Sort(Struct, frozen=True):
    """A piece of text that sorts: what stands in it in place of the network, before it; the same for a play."""

    array: Local
    span: tuple[int, int]
    filled: str
    played: str


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or any(name in text.code for name in (GIVEN, RESULTS, ROW, *NAMES.values())):
        return []
    kinds = accesses(setting.code.program, setting.code.classes)
    local = setting.code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    lines = setting.lines(text.file)
    known = constants(lines) | arguments(setting, lines, text)
    found_arrays = list(arrays(text.code, known))
    for one in (s for array in found_arrays if 2 < array.count <= MOST for s in _sorts(text.code, array, known)):
        found = _proved(one, known)
        spans = _spans(text.code, one, found[0], known) if found is not None else None
        edits = spans_edited(setting, text, spans) if spans else []
        if found is not None and edits and on_lines(setting, text, one.span, local):
            alone = len(found_arrays) == 1
            return [_fix(asked, one, found, local, alone, edits)]
    return []


def _sorts(code: str, array: Local, known: dict[str, int]) -> Iterator[_Sort]:
    """Loops that may sort the array: in place, or as it is filled."""
    end = -1
    for head in _LOOPS.finditer(code, array.end):
        last = statement_end(code, head.start())
        if head.start() < end or last is None:
            continue
        whole = code[head.start() : last]
        counters = _counters(code, array, head.start(), last)
        if not re.search(rf"\b{array.name}\s*\[", whole) or counters is None:
            continue
        rows = f"int {ROW} = (blockIdx.x * blockDim.x + threadIdx.x) * {array.count};"
        begins = f"{{ {rows} {array.kind} {array.name}[{array.count}]; {counters} "
        ends = f" for (int q = 0; q < {array.count}; q++) {RESULTS}[{ROW} + q] = {array.name}[q]; }}"
        given = f"for (int q = 0; q < {array.count}; q++) {array.name}[q] = {GIVEN}[{ROW} + q]; "
        yield _Sort(array, (head.start(), last), "", begins + given + whole + ends)
        filling = _filling(code, array, (head.start(), last), known)
        if filling is not None:
            yield _Sort(array, (head.start(), last), filling[0], begins + filling[1] + ends)
        end = last


def _counters(code: str, array: Local, start: int, end: int) -> str | None:
    """Declarations of numbers that a loop changes and nobody else uses; None where it changes anything else."""
    inside, found = code[start:end], []
    names = set(re.findall(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)", inside))
    for name in sorted(names | set(re.findall(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", inside))):
        if re.search(rf"\b(?:{'|'.join(TYPES)}|auto|bool|size_t)\s+(?:[^;(){{}}]*,\s*)?{name}\s*[=;,]", inside):
            continue
        declared = rf"\b({'|'.join(TYPES)})\s+(?:\w+,\s*)*({name}(?:\s*=\s*\d+)?)\s*(?=[;,])"
        made = list(re.finditer(declared, code[:start]))
        if len(made) != 1 or len(re.findall(rf"(?<![\w.])(?<!->){name}\b", code[:start] + code[end:])) != 1:
            return None
        at = made[0].start()
        if any((statement_end(code, head.start()) or end) >= end for head in _LOOPS.finditer(code, at, start)):
            return None  # what is left of one round is there in the next
        found.append(f"{made[0][1]} {made[0][2]};")
    return " ".join(found)


def _filling(code: str, array: Local, span: tuple[int, int], known: dict[str, int]) -> tuple[str, str] | None:
    """(the loop that fills the array alone, the loop with given keys) of one that loads a key in each round."""
    loop = next((x for x in loops(code) if x.span[0] == span[0]), None)
    if loop is None or loop.start != "0" or loop.step not in (f"{loop.name}++", f"++{loop.name}"):
        return None
    inside = code[slice(*loop.body)]
    if evaluated(loop.end, known) != array.count or written(loop.name, inside) or code[loop.body[0]] != "{":
        return None
    head, at, last = code[slice(*loop.span)], loop.body[0] + 1, loop.body[1] - 1
    target = rf"(?:const\s+)?{array.kind}\s+\w+|\w+|{array.name}\s*\[[^][;]*\]"
    load, before = rf"\s*(?:{target})\s*=\s*(?P<value>[^;]*\[[^;]*);", ""
    while at < last:
        rest = code[at:last]
        at += len(rest) - len(rest.lstrip())
        end = statement_end(code, at)
        if end is None or end > last:
            return None
        one, behind = re.fullmatch(load, code[at:end]), code[end:last]
        if one is not None and not re.search(rf"\b{array.name}\b", one["value"]):
            if not _alone(one["value"], before, behind):
                return None
            played = code[at:end].replace(one["value"], f"{GIVEN}[{ROW} + {loop.name}]")
            return f"{head} {{ {before}{array.name}[{loop.name}] = {one['value']}; }}", f"{head} {{ {played}{behind} }}"
        if not re.match(r"(?:const\s+)?(?:int|unsigned|size_t|auto)\s", code[at:end]) or re.search(
            rf"\b{array.name}\b", code[at:end]
        ):
            return None
        before, at = f"{before}{code[at:end]} ", end
    return None


def _alone(value: str, before: str, behind: str) -> bool:
    """Whether a key can be loaded in a loop of its own: what follows changes nothing that it is made of, and what was
    made for it nobody else needs."""
    changed = any(written(name, behind) for name in re.findall(r"\w+", value + before))
    made = re.findall(r"(\w+)\s*=", before)
    return not (_EFFECTS.search(value) or changed or any(re.search(rf"\b{name}\b", behind) for name in made))


def _proved(one: _Sort, known: dict[str, int]) -> tuple[bool, int] | None:
    """(whether the least key comes first, rows that were played) of a piece that is a sort."""
    name, count, played = one.array.name, one.array.count, unbroken(one.played)
    silent = played.replace(f"{RESULTS}[{ROW} + q] = {name}[q];", ";")
    if not moved_alone(silent, name, one.array.kind, GIVEN) or not sorts(count):
        return None
    return order(played, count, GIVEN, RESULTS, known)


def _spans(code: str, one: _Sort, up: bool, known: dict[str, int]) -> list[Span] | None:
    """The network in place of the sort, and the other loops over the array unrolled; None where another use of it is
    at an index that is no number then."""
    start, end = one.span
    new = f"{NAMES[up]}({one.array.name});"
    if one.filled:
        new = f"#pragma unroll\n{one.filled}\n{new}"
    others = in_registers(code, one.array, (start, end), known)
    put = instead(code, (start, end), new)
    return [*put, *others] if put is not None and others is not None else None


def _fix(asked: Asked, one: _Sort, found: tuple[bool, int], local: list[int], alone: bool, edits: list[Edit]) -> Fix:
    up, rows = found
    name, count = one.array.name, one.array.count
    pairs = exchanges(count)
    return Fix(
        kind="unroll",
        title=f"{name} sorted by a network of {len(pairs)} exchanges in registers",
        language="cuda",
        code=function(up),
        edits=edits,
        parameters={"keys": count, "exchanges": len(pairs)},
        conditions=[
            proved("this code sorts the array", "values", rows,
                   f"played on {rows} rows of {count} keys: every place of a key among sorted ones, equal ones, orders "
                   "drawn at random"),
            proved("the network sorts any keys", "values", sorts(count),
                   "every pair of sorted runs of zeros and ones that its rounds merge (0-1 principle)"),
            reads("keys are only compared and moved", "equal ones are the same, nothing moves along with them"),
            *([Condition(holds="no key is a NaN", state="check",
                         why="min and max leave it out; zeros of both signs may change places")]
              if one.array.kind in FLOATS else []),
        ],
        proof=[
            Proof(what="local loads and stores of warps", before=total(asked.setting.code.executed, local), after=0,
                  unit="inst", how=f"{len(local)} accesses at computed addresses become {2 * len(pairs)} min and max"),
        ],
        costs=[f"{count} registers a thread for {name}"],
        price=asked.finding.estimate if alone else None,
    )  # fmt: skip
