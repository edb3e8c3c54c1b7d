"""How large the elements of arrays are whose types have names of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.given.source import SIZES

_NAMED = re.compile(
    r"\btypedef\s+([A-Za-z_][\w ]*?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([A-Za-z_][\w ]*?)\s*;"
)


def width(kind: str, types: Mapping[str, str]) -> int | None:
    """Bytes of a type, or of what a template's name stands for; None of one that the file defines."""
    return SIZES.get(types.get(kind, kind))


def instantiated(above: str, instance: str) -> dict[str, str]:
    """What names of types stand for, of a template and by typedef. above: the text in front of the kernel's head."""
    known = {m[2] or m[3]: " ".join((m[1] or m[4]).split()) for m in _NAMED.finditer(above)}
    template = re.search(r"template\s*<([^<>{};]*)>\s*(?:static\s+)?$", above)
    given = re.search(r"<(.*)>\s*(?:\(|$)", instance)
    if template is None or given is None:
        return known
    names = [words[-1] for part in template[1].split(",") if (words := re.findall(r"\w+", part.partition("=")[0]))]
    values, depth, last = [], 0, 0
    text = given[1] + ","
    for n, c in enumerate(text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and not depth:
            values.append(text[last:n].strip())
            last = n + 1
    return known | dict(zip(names, values, strict=False))
