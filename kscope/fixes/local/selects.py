"""Small local arrays at run-time indices: loops unrolled, other places asked one by one, so that they stay in
registers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import play
from kscope.fixes.given.setting import Asked as Given
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import SIZES, body, constants
from kscope.fixes.given.text import LONGEST, Span, Text, blanked, kernel_text, spans_edited
from kscope.fixes.local import unrolled
from kscope.fixes.local.places_asked import CODE, GETS, PUTS, Asked, asked
from kscope.fixes.tile.own_rows import arguments
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

WORD, REGISTERS, ALL, UNIT = 4, 255, 65536, 8  # of a thread, of an SM; what they are handed out by (CUDA C++ Guide)
REST = 24  # registers that anything else needs at least (judged)
A_PLACE = 2  # instructions that ask a place: a comparison, a choice
_KINDS = "|".join(map(re.escape, SIZES))
_RECORD = re.compile(r"\bstruct\s+(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?(\w+)\s*\{([^{}()]*)\}\s*;")
_TEMPLATE = re.compile(r"\b(?:class|typename)\s+(\w+)\s*[,=>]")


class _Room(Struct, frozen=True):
    """Words of arrays, registers that a thread of such a block may have, pairs of indices that were played."""

    words: int
    limit: int
    played: int


def fixes(given: Given) -> list[Fix]:
    setting, code = given.setting, given.setting.code
    kinds = accesses(code.program, code.classes)
    local = code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    if not local or setting.launch is None:
        return []
    kernel = kernel_text(setting)
    found = [(text, one) for text in _texts(setting, kernel, local) if (one := _asked(setting, text)) is not None]
    room = _room(setting, found, local) if _all_there(setting, found, local) else None
    if room is None or (not any(one.chosen for _, one in found) and unrolled.fixes(given)):
        return []
    edits = _edits(setting, kernel, found, _bounds(setting, kernel, room))
    return [_fix(given, [one for _, one in found], room, local, edits)] if edits else []


def _room(setting: Setting, found: list[tuple[Text, Asked]], local: list[int]) -> _Room | None:
    """None where registers do not hold the arrays, or asking for places takes more than the kernel."""
    arrays = [a for _, one in found for a in one.arrays]
    sizes = dict(SIZES)
    for text, _ in found:
        sizes |= _records(setting.lines(text.file))
    words = sum(max(1, -(-sizes.get(a.kind, 2 * WORD) // WORD)) * a.count * a.row for a in arrays)
    limit = min(REGISTERS, ALL // setting.launch.threads // UNIT * UNIT) if setting.launch is not None else 0
    added = sum(_added(setting, text, one, local) for text, one in found)
    rows = played(max(max(a.count, a.row) for a in arrays))
    few = words + REST > limit or (setting.registers or REGISTERS) + words > REGISTERS
    return _Room(words, limit, rows) if rows and not few and added <= sum(setting.code.executed) else None


def _asked(setting: Setting, text: Text) -> Asked | None:
    lines = setting.lines(text.file)
    if any(name in line for line in lines for name in (GETS, PUTS)):
        return None
    head = "\n".join(lines[max(0, text.first - 3) : text.first])
    types = (*_TEMPLATE.findall(head), *_records(lines))
    return asked(text.code, constants(lines) | arguments(setting, lines, text), types)


def _records(lines: Sequence[str]) -> dict[str, int]:
    """Bytes of the records that a file declares, those of plain numbers."""
    out = {}
    for match in _RECORD.finditer("\n".join(map(blanked, lines))):
        fields = [re.fullmatch(rf"\s*({_KINDS})\s+(\w+(?:\s*,\s*\w+)*)\s*", x) for x in match[2].split(";")[:-1]]
        if fields and all(fields):
            out[match[1]] = sum(SIZES[x[1]] * len(x[2].split(",")) for x in fields if x is not None)
    return out


def _texts(setting: Setting, kernel: Text | None, local: list[int]) -> list[Text]:
    """The kernel, and functions that it calls from which accesses of local memory are."""
    out = {(kernel.file, kernel.first): kernel} if kernel is not None else {}
    for file, line in dict.fromkeys(site for i in local for site in setting.sites(i)):
        lines = setting.lines(file)
        if not 0 < line <= len(lines) or any(_within(t, file, line) for t in out.values()):
            continue
        inside = body(lines, line)
        code = "\n".join(blanked(lines[n - 1]) for n in inside)
        head = "\n".join(lines[max(0, inside.start - 3) : inside.start])
        if "__device__" in head and "__global__" not in head and len(code) <= LONGEST:
            out[file, inside.start] = Text(file, inside.start, code)
    return list(out.values())


def _within(text: Text, file: str, line: int) -> bool:
    return text.file == file and text.first <= line <= text.first + text.code.count("\n")


def _edits(
    setting: Setting, kernel: Text | None, found: list[tuple[Text, Asked]], bounds: list[Span] | None
) -> list[Edit]:
    """None where the spans of one of the texts cannot be edits, or bounds that are needed cannot be said."""
    out: list[Edit] = []
    for text, one in found if bounds is not None else ():
        mine = spans_edited(setting, text, one.spans)
        if not mine:
            return []
        out += mine
    if bounds and kernel is not None:
        head = spans_edited(setting, kernel, bounds)
        if any(e.file == h.file and e.line == h.line for e in out for h in head):
            return []
        out += head
    return sorted(out, key=lambda e: (e.file, e.line))


def _all_there(setting: Setting, found: list[tuple[Text, Asked]], local: list[int]) -> bool:
    """Whether all accesses of local memory are on lines that name these arrays alone; helpers are of one file."""
    if len({text.file for text, one in found if one.chosen}) > 1:
        return False
    mine = set[tuple[str, int]]()
    for text, one in found:
        named = re.compile(rf"\b(?:{'|'.join(a.name for a in one.arrays)})\b")
        other = re.compile(rf"\b(?:{'|'.join(one.others)})\b" if one.others else r"(?!)")
        each = enumerate(text.code.split("\n"), text.first)
        mine |= {(text.file, n) for n, x in each if named.search(x) and not other.search(x)}
    # The compiler gives what it moves to an array the line of the statement that uses it.
    return all(any(site in mine for site in setting.sites(i)) for i in local)


def _added(setting: Setting, text: Text, one: Asked, local: list[int]) -> float:
    """Instructions of warps that ask for places, as often as local memory is accessed on those lines."""
    counts: dict[int, int] = {}
    for use in one.chosen:
        line = text.first + text.code.count("\n", 0, use.span[0])
        counts[line] = max(use.count, counts.get(line, 0))
    out = 0.0
    for i in local:
        most = max((counts.get(n, 0) for f, n in setting.sites(i) if f == text.file), default=0)
        out += setting.code.executed[i] * max(1, setting.code.classes[i].bytes // WORD) * A_PLACE * most
    return out


def _bounds(setting: Setting, kernel: Text | None, room: _Room) -> list[Span] | None:
    """What says how many threads a block has, where its registers may be too many; None where it cannot be said."""
    if (setting.registers or 0) + room.words <= room.limit:
        return []
    if kernel is None or setting.launch is None:
        return None
    at = re.search(rf"\bvoid\s+(?={re.escape(setting.name)}\s*\()", kernel.code)
    if "__launch_bounds__" in kernel.code[: kernel.code.find("{")]:
        return []
    return [(at.end(), at.end(), f"__launch_bounds__({setting.launch.threads}) ")] if at is not None else None


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
    for done in bodies:
        memory = {
            "given": np.random.default_rng(count).integers(0, 2**20, rows * count),
            "set_at": np.arange(rows) // count, "got_at": np.arange(rows) % count,
            "results": np.zeros(rows * (count + 1), dtype=np.int64),
        }  # fmt: skip
        try:
            play(begins + done + ends, (count, 1), (count, 1), memory, {})
        except Unplayable:
            return 0
        seen.append(memory["results"])
    return rows if (seen[0] == seen[1]).all() and seen[0].any() else 0


def _fix(given: Given, all_: list[Asked], room: _Room, local: list[int], edits: list[Edit]) -> Fix:
    setting, words, limit = given.setting, room.words, room.limit
    arrays, chosen = [a for one in all_ for a in one.arrays], [use for one in all_ for use in one.chosen]
    names = ", ".join(dict.fromkeys(a.name for a in arrays))
    bounds = any("__launch_bounds__" in e.becomes and "__launch_bounds__" not in e.was for e in edits)
    threads = setting.launch.threads if setting.launch is not None else 0
    conditions = [
        reads("each access reads or writes the element that it did",
              "an index outside of an array was undefined before; values and their order stay"),
        Condition(holds="the compiler reports no stack and no spills (-Xptxas -v)", state="check",
                  why=f"{setting.registers} registers a thread now, {words} words of arrays, {limit} at most in blocks "
                      f"of {threads} threads"),
    ]  # fmt: skip
    if chosen:
        holds, why = "asking each place finds the one at the index", "every pair of indices played"
        conditions.insert(1, proved(holds, "values", room.played, why))
    for loop in (x for one in all_ for x in one.ended):
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
        code=CODE if chosen else "",
        edits=edits,
        parameters={"arrays": len(arrays), "words": words},
        conditions=conditions,
        proof=[
            Proof(what="local loads and stores of warps", before=total(setting.code.executed, local), after=0,
                  unit="inst", how=f"{len(local)} accesses at computed addresses become registers"),
        ],
        costs=[f"{words} registers a thread for {names}",
               *([f"a comparison for each place where the index is not known ({len(chosen)} times)"]
                 if chosen else [])],
        price=given.finding.estimate,
    )  # fmt: skip
