"""Names of a kernel's text behind which its place in the grid may stand: macros."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.given.text import blanked

_DEFINED = re.compile(r"^\s*#\s*define\s+(\w+)(?:\([^()]*\))?(.*)$")
_PLACE = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_NAMED = re.compile(r"(?<![\w.])[A-Z][A-Z0-9_]{2,}\b")
_KNOWN = re.compile(r"(?:U?INT|U?LONG|SHRT|CHAR|FLT|DBL|SIZE|CUDART)_\w+|INFINITY|NAN|NULL|M_\w+|HUGE_VALF?")
"""Of the headers: numbers."""

_DECLARED = (
    r"\b(?:int|unsigned|size_t|float|double|bool|long|auto|class|typename|u?int\d+_t)\s+(?:[^;{{}}()]*,\s*)?{0}\s*[=,>;[]"
    r"|\benum\b[^;]*?\b{0}\b"
)


def hides_places(lines: Sequence[str], code: str) -> bool:
    """Whether a kernel has a macro that names a place, or a name that looks like one and is defined elsewhere."""
    joined = "\n".join(map(blanked, lines)).replace("\\\n", " ")
    macros = {m[1]: m[2] for line in joined.split("\n") if (m := _DEFINED.match(line)) is not None}
    asked, seen = set(re.findall(r"[A-Za-z_]\w*", code)) & macros.keys(), set[str]()
    while asked:
        name = asked.pop()
        seen.add(name)
        if _PLACE.search(macros[name]):
            return True
        asked |= (set(re.findall(r"[A-Za-z_]\w*", macros[name])) & macros.keys()) - seen
    unknown = {n for n in _NAMED.findall(code) if n not in macros and not _KNOWN.fullmatch(n)}
    return any(not re.search(_DECLARED.format(name), joined) for name in unknown)
