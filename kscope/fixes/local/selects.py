"""Small local arrays at run-time indices: loops unrolled, other places asked one by one, so that they stay in
registers."""

from __future__ import annotations

import re

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import play
from kscope.fixes.given.setting import Asked as Given
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import SIZES, constants
from kscope.fixes.given.text import Text, kernel_text, spans_edited
from kscope.fixes.local.places_asked import CODE, GETS, PUTS, Asked, asked
from kscope.fixes.tile.own_rows import arguments
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

WORD, REGISTERS, ALL, UNIT = 4, 255, 65536, 8  # of a thread, of an SM; what they are handed out by (CUDA C++ Guide)
REST = 24  # registers that anything else needs at least (judged)
A_PLACE = 2  # instructions that ask a place: a comparison, a choice
_TEMPLATE = re.compile(r"\b(?:class|typename)\s+(\w+)\s*[,=>]")


def fixes(given: Given) -> list[Fix]:
    setting, code, text = given.setting, given.setting.code, kernel_text(given.setting)
    if text is None or setting.launch is None or setting.registers is None:
        return []
    lines = setting.lines(text.file)
    if any(name in line for line in lines for name in (GETS, PUTS)):
        return []
    head = "\n".join(lines[max(0, text.first - 3) : text.first])
    one = asked(text.code, constants(lines) | arguments(setting, lines, text), tuple(_TEMPLATE.findall(head)))
    kinds = accesses(code.program, code.classes)
    local = code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    if one is None or not local or not _all_there(setting, text, one, local):
        return []
    words = sum(max(1, -(-SIZES.get(a.kind, 2 * WORD) // WORD)) * a.count for a in one.arrays)
    room = min(REGISTERS, ALL // setting.launch.threads // UNIT * UNIT)
    rows = played(max(a.count for a in one.arrays))
    if words + REST > room or setting.registers + words > REGISTERS or not rows:
        return []
    if _added(setting, text, one, local) > sum(code.executed):
        return []
    bounded = _bounds(setting, text, one, setting.registers + words > room)
    edits = spans_edited(setting, text, bounded)
    return [_fix(given, one, (words, room, rows), local, edits)] if edits else []


def _all_there(setting: Setting, text: Text, one: Asked, local: list[int]) -> bool:
    """Whether all accesses of local memory are on lines that name one of the arrays, and no other array there is."""
    lines = text.code.split("\n")
    named = re.compile(rf"\b(?:{'|'.join(a.name for a in one.arrays)})\b")
    mine = {text.first + n for n, line in enumerate(lines) if named.search(line)}
    # The compiler gives what it moves to an array the line of the statement that uses it.
    return all(any(f == text.file and n in mine for f, n in setting.sites(i)) for i in local)


def _added(setting: Setting, text: Text, one: Asked, local: list[int]) -> float:
    """Instructions of warps that ask for places, as often as local memory is accessed on those lines."""
    counts: dict[int, int] = {}
    for use in one.chosen:
        line = text.first + text.code.count("\n", 0, use.span[0])
        counts[line] = max(use.array.count, counts.get(line, 0))
    out = 0.0
    for i in local:
        most = max((counts.get(n, 0) for f, n in setting.sites(i) if f == text.file), default=0)
        out += setting.code.executed[i] * max(1, setting.code.classes[i].bytes // WORD) * A_PLACE * most
    return out


def _bounds(setting: Setting, text: Text, one: Asked, needed: bool) -> list[tuple[int, int, str]]:
    """The spans, with the block's threads said where they leave fewer registers than there may be."""
    at = re.search(rf"\bvoid\s+(?={re.escape(setting.name)}\s*\()", text.code)
    head = text.code[: text.code.find("{")]
    if not needed or "__launch_bounds__" in head or at is None or setting.launch is None:
        return list(one.spans)
    return [*one.spans, (at.end(), at.end(), f"__launch_bounds__({setting.launch.threads}) ")]


def played(count: int) -> int:
    """How many pairs of indices a place was set and one got at, as they are and by asking each place, with the same
    result; 0 where they differ."""
    rows = count * count
    begins = f"""{{ int row = blockIdx.x * blockDim.x + threadIdx.x; int a[{count}];
      for (int q = 0; q < {count}; q++) a[q] = given[row * {count} + q];
      int i = set_at[row]; int j = got_at[row]; int value = given[row] + 1;"""
    ends = f"for (int q = 0; q < {count}; q++) results[row * {count + 1} + q] = a[q]; " \
           f"results[row * {count + 1} + {count}] = found; }}"  # fmt: skip
    bodies = (
        "a[i] = value; int found = a[j];",
        f"for (int q = 0; q < {count}; q++) if (q == i) a[q] = value; "
        f"int found = a[0]; for (int q = 1; q < {count}; q++) if (q == j) found = a[q];",
    )
    seen = []
    for body in bodies:
        memory = {
            "given": np.random.default_rng(count).integers(0, 2**20, rows * count),
            "set_at": np.arange(rows) // count, "got_at": np.arange(rows) % count,
            "results": np.zeros(rows * (count + 1), dtype=np.int64),
        }  # fmt: skip
        try:
            play(begins + body + ends, (count, 1), (count, 1), memory, {})
        except Unplayable:
            return 0
        seen.append(memory["results"])
    return rows if (seen[0] == seen[1]).all() and seen[0].any() else 0


def _fix(given: Given, one: Asked, room: tuple[int, int, int], local: list[int], edits: list[Edit]) -> Fix:
    setting, (words, limit, rows) = given.setting, room
    names = ", ".join(a.name for a in one.arrays)
    bounds = any("__launch_bounds__" in e.becomes and "__launch_bounds__" not in e.was for e in edits)
    threads = setting.launch.threads if setting.launch is not None else 0
    conditions = [
        reads("each access reads or writes the element that it did",
              "an index outside of an array was undefined before; values and their order stay"),
        Condition(holds="the compiler reports no stack and no spills (-Xptxas -v)", state="check",
                  why=f"{setting.registers} registers a thread now, {words} words of arrays, {limit} at most in blocks "
                      f"of {threads} threads"),
    ]  # fmt: skip
    if one.chosen:
        conditions.insert(
            1, proved("asking each place finds the one at the index", "values", rows, "every pair of indices played")
        )  # fmt: skip
    for loop in one.ended:
        most = loop.limit - (loop.relation == "<=")
        goes = f"{loop.end} is at most {most} in the loop over {loop.name}"
        why = "each round uses an array at its counter" if loop.sure else "the loop is as long as the array now"
        conditions.append(reads(goes, why) if loop.sure else Condition(holds=goes, state="check", why=why))
    if bounds:
        conditions.append(Condition(holds=f"no launch has blocks of more than {threads} threads", state="check",
                                    why="the kernel is bound to them, so that its registers fit"))  # fmt: skip
    return Fix(
        kind="unroll",
        title=f"{names} in registers: loops unrolled, other places asked one by one",
        language="cuda",
        code=CODE if one.chosen else "",
        edits=edits,
        parameters={"arrays": len(one.arrays), "words": words},
        conditions=conditions,
        proof=[
            Proof(what="local loads and stores of warps", before=total(setting.code.executed, local), after=0,
                  unit="inst", how=f"{len(local)} accesses at computed addresses become registers"),
        ],
        costs=[f"{words} registers a thread for {names}",
               *([f"a comparison for each place where the index is not known ({len(one.chosen)} times)"]
                 if one.chosen else [])],
        price=given.finding.estimate,
    )  # fmt: skip
