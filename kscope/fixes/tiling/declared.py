"""Types of numbers that a place of a text may name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing

KINDS = ("float", "double", "int", "unsigned", "unsigned int", "uint32_t", "int32_t", "long long", "unsigned long long",
         "size_t", "uint64_t", "int64_t")  # fmt: skip
"""That __shfl_sync takes."""

TYPE = r"(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|float|double|int|unsigned|size_t|u?int(?:32|64)_t)"
_BEFORE = re.compile(rf"(?:(?<=[;{{}}(,])|\n)\s*(?:const\s+)?(?P<type>{TYPE})\s+(?P<rest>[A-Za-z_][^;{{}}]*)(?=[;{{])")
_NUMBER = re.compile(r"\.?\d")


def kind_of(word: str, known: Mapping[str, str]) -> str:
    """The type of a number, or of a name."""
    if not _NUMBER.match(word):
        return known.get(word, "")
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|0|[1-9]\d*", word):
        return "int" if int(word, 0) < 2**31 else ""
    if re.fullmatch(r"(?:0[xX][0-9a-fA-F]+|0|[1-9]\d*)[uU]", word):
        return "unsigned" if int(word[:-1], 0) < 2**32 else ""
    if re.fullmatch(r"(?![xX])[\d.]+(?:[eE][-+]?\d+)?[fF]", word):
        return "float"
    return "double" if re.fullmatch(r"(?=.*[.eE])[\d.]+(?:[eE][-+]?\d+)?", word) else ""


def declared(code: str, opened: int, at: int) -> dict[str, str]:
    """Types of numbers that a place of a text may name: each declared once, and not left since."""
    found: dict[str, str] = {}
    twice = set[str]()
    end = code.rfind(")", 0, opened)
    given = next((n for n in range(end, -1, -1) if code[n] == "(" and closing(code, n + 1) == end), end)
    for part in code[given + 1 : end].split(","):
        match = re.fullmatch(rf"\s*(?:const\s+)?({TYPE})\s+([A-Za-z_]\w*)\s*", part)
        if match is not None:
            found[match[2]] = " ".join(match[1].split())
    for m in _BEFORE.finditer(code, opened, at):
        depth = least = 0
        for c in code[m.end() : at]:
            depth += (c == "{") - (c == "}")
            least = min(least, depth)
        for part in split_declarators(m["rest"]):
            name = re.match(r"\s*([A-Za-z_]\w*)\s*(?:=(?!=)|$)", part)
            if name is not None:
                twice |= {name[1]} & found.keys()
                if least == 0:
                    found[name[1]] = " ".join(m["type"].split())
    again = [n for n in found if len(re.findall(rf"{TYPE}\s+(?:[^;{{}}()]*,\s*)?{n}\b\s*[=;,)]", code[opened:])) > 1]
    return {n: k for n, k in found.items() if n not in twice and n not in again}
