"""Uses of a shared array that a new layout would not keep: addresses that lead to other elements than the one that they
are of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.given.source import Array, Use, body, constants, evaluated
from kscope.fixes.given.text import blanked, loops
from kscope.fixes.tile.layouts import Layout, Padding, Swizzle

_ADDRESS = re.compile(r"(?:^|[^\w\s)\]&]|\*\s*\))\s*&\s*$|\breturn\s*&\s*$")
_READ = re.compile(r"\*\s*(?:reinterpret_cast\s*<[^<>]*>\s*(?P<open>\()\s*|\([\w\s:]+\*\s*\)\s*(?P<open2>\(\s*)?)&\s*$")
_CAST = re.compile(r"reinterpret_cast\s*<[^<>]*>\s*\(\s*&\s*$|\(\s*\([\w\s:]+\*\s*\)\s*&\s*$")
_CALL = re.compile(r"(?P<name>\w+)\s*(?:<[^<>;]*>\s*)?\((?:[^();]|\([^()]*\))*$")
_SET = re.compile(r"\b(?P<name>\w+)\s*=(?!=)\s*[^=;]*$")
ALONE = re.compile(r"atomic\w+|__pipeline_memcpy_async|__ldmatrix\w*")
"""Functions that take the address of what they move at once, and of nothing else."""
ADDRESSES = "__cvta_generic_to_shared"


def kept(lines: Sequence[str], array: Array, layout: Layout, found: Sequence[Use]) -> bool:
    """Whether every use stands for its own element under a layout, and no index that is written twice changes
    anything."""
    within = body(lines, array.line)
    code = "\n".join(blanked(lines[n - 1]) for n in within)
    if not (isinstance(layout, Padding) and len(array.dims) > 1) and _by_macro(lines, array, code):
        return False
    if isinstance(layout, Swizzle) and len(array.dims) == 1:
        span = (layout.mask + 1) * layout.chunk
        if array.numbers[0] is None or array.numbers[0] * array.element % span:
            return False  # what is exchanged would lie behind the array's end
    for use in found:
        line = blanked(lines[use.line - 1])
        indices = [line[a:b] for a, b in use.spans]
        if isinstance(layout, Swizzle) and any(re.search(r"\+\+|--|(?<![=!<>])=(?!=)", x) for x in indices):
            return False
        if len(indices) > 1 and all(x.strip().isdigit() for x in indices[:-1]) and _over(code, array, indices[-1]):
            return False
        start = line.rindex(array.name, 0, use.spans[0][0])
        if _ADDRESS.search(line[:start]) and not _alone(lines, code, line[:start], line[use.spans[-1][1] + 1 :]):
            return False
    return True


def _over(code: str, array: Array, index: str) -> bool:
    """Whether an index counts on over the end of its row: rows are taken as one then."""
    row, known = array.numbers[-1], constants(code.split("\n"))
    ends = [evaluated(one.end, known) for one in loops(code) if re.search(rf"\b{one.name}\b", index)]
    return any(end is None or row is None or end > row for end in ends)


def _by_macro(lines: Sequence[str], array: Array, code: str) -> bool:
    """Whether a macro that a function uses has the array: its indices are written elsewhere."""
    defined = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", "\n".join(lines), re.M)
    return any(re.search(rf"\b{array.name}\s*\[", of) and re.search(rf"\b{name}\b", code) for name, of in defined)


def _alone(lines: Sequence[str], code: str, before: str, after: str) -> bool:
    """Whether an address leads to its element and no further: read through at once, or given to what takes no more."""
    read = _READ.search(before)
    if read is not None:
        return not (read["open"] or read["open2"]) or after.lstrip().startswith(")")
    if _CAST.search(before) and re.match(r"\s*\)\s*\[\s*0\s*\]", after):
        return True
    call = _CALL.search(before[: before.rindex("&")])
    if call is None or after.lstrip()[:1] not in (",", ")"):
        return False
    if call["name"] == ADDRESSES:
        to = _SET.search(before[: call.start()])
        return to is None or _never_moved(code, to["name"])
    return ALONE.fullmatch(call["name"]) is not None or _assembly(lines, call["name"])


def _never_moved(code: str, name: str) -> bool:
    """Whether nothing is added to an address."""
    return re.search(rf"\b{name}\s*(?:\[|[-+^|])|[-+^|]\s*{name}\b", code) is None


def _assembly(lines: Sequence[str], name: str) -> bool:
    """Whether a function of the file is assembly, which takes an address as it is."""
    code = "\n".join(map(blanked, lines))
    return re.search(rf"\b{name}\s*\([^;{{}}]*\)\s*\{{[^{{}}]*\b(?:asm|__asm__)\b", code) is not None
