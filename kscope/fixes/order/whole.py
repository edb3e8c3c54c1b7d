"""A kernel's body as one text that is written anew: statements, names that they declare, and the edits of its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Text
from kscope.model.contract.fixes import Edit

KINDS = (
    r"(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|unsigned\s+char|unsigned\s+short|unsigned|int|short|char|"
    r"long|float[234]?|double[24]?|size_t|u?int[234]|bool|u?int(?:8|16|32|64)_t|uchar4|__half2?|half2?|__nv_bfloat16)"
)
_DECLARED = re.compile(rf"(?P<const>const\s+)?(?P<kind>{KINDS})\b(?P<rest>(?:\s|\*).*);", re.S)
_ONE = re.compile(r"\s*(?P<star>\*?)\s*(?:__restrict__\s+)?(?P<name>[A-Za-z_]\w*)\s*(?P<dims>\[[^=]*\])?\s*(?:=|$)")


class Declared(Struct, frozen=True):
    """A name of a declaration: its type without const, whether that stands there, its value's text, and whether it is
    an array."""

    name: str
    kind: str
    const: bool
    value: str
    array: bool


def declared(statement: str) -> list[Declared]:
    """What a statement declares; none where it is no declaration of numbers, vectors and pointers to them."""
    match = _DECLARED.fullmatch(statement.strip())
    if match is None:
        return []
    out = []
    for part in split_declarators(match["rest"]):
        one = _ONE.match(part)
        if one is None:
            return []
        kind, star = " ".join(match["kind"].split()), one["star"]
        kind = f"{'const ' if match['const'] and star else ''}{kind}{star}"
        value = part[one.end() :].strip()
        out.append(Declared(one["name"], kind, bool(match["const"]) and not star, value, one["dims"] is not None))
    return out


def named(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", text) is not None


def body_edits(setting: Setting, text: Text, span: tuple[int, int], new: str) -> list[Edit]:
    """The lines of a piece of a kernel, all of them where its first one was. span: from its first character to behind
    its last one."""
    lines, starts = setting.lines(text.file), [0]
    for line in text.code.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    begin, stop = (max(n for n, start in enumerate(starts) if start <= at) for at in (span[0], span[1] - 1))
    head = lines[text.first + begin - 1][: span[0] - starts[begin]]
    rest = lines[text.first + stop - 1][span[1] - starts[stop] :]
    numbers: Sequence[int] = range(text.first + begin, text.first + stop + 1)
    return [
        Edit(file=text.file, line=n, was=lines[n - 1], becomes=f"{head}{new}{rest}" if n == numbers[0] else "")
        for n in numbers
    ]
