"""A loop that is written out so often that no cache holds it: as many rounds behind each other as one does."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.cases.switches import without_comments
from kscope.fixes.cases.variables import local_arrays
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Loop, Text, kernel_text, loops
from kscope.fixes.given.type_names import TYPES
from kscope.model.contract.fixes import Edit, Fix, Proof

HALF = 0.5  # of the code that runs
BYTES = 16  # an instruction
FITS = 8 << 10  # bytes of a loop from which on it is found (kscope.rules.latency.instruction_cache_misses)
_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+unroll\b[ \t]*(?:\(?[ \t]*(\w+)[ \t]*\)?)?[ \t]*$")
_DEFINED = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)\)?[uU]?[ \t]*$")
_KINDS = "|".join(sorted(TYPES))


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or "unroll" not in text.code:
        return []
    code = without_comments(text.code)
    lines = setting.lines(text.file)
    known = {**constants(lines), **{m[1]: int(m[2]) for line in lines if (m := _DEFINED.match(line)) is not None}}
    ran = setting.code.ran(range(len(setting.code)))
    for loop in loops(code):
        row = text.first + code.count("\n", 0, loop.span[0])
        pragma = _PRAGMA.match(lines[row - 2]) if row > 1 and not _before(code, loop) else None
        if pragma is None:
            continue
        trips, said = rounds(loop, known), known.get(pragma[1] or "", int(pragma[1]) if _number(pragma[1]) else 0)
        written = trips if not pragma[1] else min(said, trips or said)
        size = BYTES * sum(_within(setting, text, loop, code, i) for i in ran)
        own = sum(_within(setting, text, loop, code, i, 1) for i in ran)
        fewer = fitting(size, written, trips) if own >= least(code[loop.body[0] : loop.body[1]], written) else 0
        if fewer and size >= HALF * BYTES * len(ran) and not decided(code, loop):
            edit = Edit(file=text.file, line=row - 1, was=lines[row - 2],
                        becomes=f"{lines[row - 2].split('#')[0]}#pragma unroll {fewer}")  # fmt: skip
            return [_fix(asked, edit, size, written, fewer)]
    return []


def _number(text: str | None) -> bool:
    return text is not None and text.isdigit()


def _before(code: str, loop: Loop) -> str:
    """What stands on a loop's line in front of it."""
    return code[code.rfind("\n", 0, loop.span[0]) + 1 : loop.span[0]].strip()


def rounds(loop: Loop, known: Mapping[str, int]) -> int:
    """How many a loop has; 0 where the text does not say."""
    start, end = evaluated(loop.start, known), evaluated(loop.end, known)
    by = re.fullmatch(rf"\+\+\s*{loop.name}|{loop.name}\s*\+\+|{loop.name}\s*\+=\s*(.+)", loop.step)
    step = evaluated(by[1], known) if by is not None and by[1] else 1 if by is not None else None
    if start is None or end is None or not step or end <= start:
        return 0
    return -(-(end - start) // step)


def least(body: str, written: int) -> float:
    """Instructions of its own lines that a loop has if it is written out: half of what its operations say, of eight
    rounds. Whether nvcc did as it was told is in the code alone."""
    return len(re.findall(r"[-+*/%&|^]=?|<<|>>|\[|(?<![=<>!])=(?!=)", body)) * min(written, 8) / 2


def _within(setting: Setting, text: Text, loop: Loop, code: str, index: int, most: int | None = None) -> bool:
    first, last = (text.first + code.count("\n", 0, at) for at in (loop.span[0], loop.body[1]))
    return any(file == text.file and first <= number <= last for file, number in setting.sites(index)[:most])


def fitting(size: int, written: int, trips: int) -> int:
    """Rounds behind each other that a cache holds: of a known number of rounds one that divides it. 0 where that is no
    change, or a single round is too long."""
    most = FITS * written // size if size else 0
    if written < 4 or not 1 <= most <= written // 2:
        return 0
    if trips:
        return next(n for n in range(most, 0, -1) if trips % n == 0)
    return 1 << (most.bit_length() - 1)


def decided(code: str, loop: Loop) -> bool:
    """Whether a round that knows its number is another one: arrays of a thread are registers by it, a test goes away,
    an instruction has it as its own."""
    body = code[loop.body[0] : loop.body[1]]
    made = set(re.findall(rf"\b(?:{_KINDS})\s+(\w+)\s*=", body)) | {loop.name}
    named = re.compile(rf"\b(?:{'|'.join(sorted(made))})\b")
    for array in local_arrays(code):
        for use in re.finditer(rf"(?<![\w.>]){array}\b\s*(\[)?", body):
            if use[1] is None or named.search(_index(body, use.end())):
                return True
    tests = re.finditer(r"\b(?:if|while|switch)\s*\(([^{};]*)|([^;{}()]*)\?|(?:%|/)\s*(\w+)", body)
    counter = re.compile(rf"\b{loop.name}\b")
    return "asm" in body or any(counter.search(" ".join(filter(None, m.groups()))) for m in tests)


def _index(body: str, at: int) -> str:
    """All that stands in the brackets behind an array, to the end of the last of them."""
    out, depth = "", 1
    while at < len(body):
        depth += (body[at] == "[") - (body[at] == "]")
        if not depth and body[at + 1 : at + 2] != "[":
            break
        out, at = out + body[at], at + 1
    return out


def _fix(asked: Asked, edit: Edit, size: int, written: int, fewer: int) -> Fix:
    each = size / written
    return Fix(
        kind="unroll",
        title=f"{fewer} rounds behind each other instead of {written}",
        language="cuda",
        edits=[edit],
        conditions=[
            proved("the loop's code is most of what runs", "code", size // BYTES,
                   f"{size / 1024:.0f} KiB from its lines, about {each:.0f} bytes a round"),
            reads("no array of a thread is indexed by the round", "its places would have to be known, as registers"),
        ],
        proof=[
            Proof(what="bytes of the loop", before=size, after=round(each * fewer), unit="byte",
                  how=f"{written} rounds of {each:.0f} bytes, {fewer} of them; the order of all operations stays")
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


