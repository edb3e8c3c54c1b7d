"""A text as the preprocessor may leave it: what stands between #if and #endif in each way, columns as they were."""

from __future__ import annotations

import re
from itertools import product

MOST = 8  # texts that one may be (judged)
_LINE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[^\n]*$", re.M)


def ways(code: str) -> list[str]:
    """All that a text may be; the text alone where it has no such lines, or more than are followed."""
    found: list[list[tuple[int, int, str]]] = []
    for match in _LINE.finditer(code):
        mark = (*match.span(), match[1])
        if match[1].startswith("if"):
            if found and found[-1][-1][2] != "endif":
                return [code]  # one within another
            found.append([mark])
        elif not found or found[-1][-1][2] == "endif":
            return [code]
        else:
            found[-1].append(mark)
    if not found or found[-1][-1][2] != "endif":
        return [code]
    options = [len(group) - 1 + (not any(m[2] == "else" for m in group)) for group in found]
    out = []
    for chosen in product(*map(range, options)):
        text = code
        for group, way in zip(found, chosen, strict=True):
            kept = range(group[way][1], group[way + 1][0]) if way < len(group) - 1 else range(0)
            start, end = group[0][0], group[-1][1]
            text = text[:start] + "".join(
                c if n in kept or c == "\n" else " " for n, c in enumerate(text[start:end], start)
            ) + text[end:]  # fmt: skip
        out.append(text)
    return out if len(out) <= MOST else [code]
