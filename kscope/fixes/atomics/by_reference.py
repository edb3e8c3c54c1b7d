"""What a text gives to functions that could change it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.given.source import SIZES, split_declarators
from kscope.fixes.given.text import closing

CALLED = {"min", "max", "abs", "make_float2", "make_float4", "make_int2", "make_int4"}
"""Functions whose result their arguments alone decide."""
_BY_VALUES = re.compile(
    r"__\w+|f?(?:min|max|abs|r?sqrt|exp2?|exp10|expm1|log|log2|log1p|sin|cos|tanh?|pow|floor|ceil|fma|round|rint|erf)f?"
    r"|make_\w+|static_cast|float|half|double|int"
)


def given(body: str, lines: Sequence[str]) -> set[str]:
    """Names that a text gives as they are to functions that could take them by reference."""
    out = set[str]()
    text = "\n".join(lines)
    for m in re.finditer(r"([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\(", body):
        if m[1] in {"if", "for", "while", "switch", "sizeof"} | CALLED | set(SIZES) or _BY_VALUES.fullmatch(m[1]):
            continue
        close = closing(body, m.end())
        params = re.findall(rf"__device__[^;{{}}()]*\b{m[1]}\s*\(([^()]*)\)", text)
        if close is not None and not (params and all("&" not in p for p in params)):
            out |= {a.strip() for a in split_declarators(body[m.end() : close])}
    return out | set(re.findall(r"&\s*\w+\s*=\s*(\w+)\s*;", body))
