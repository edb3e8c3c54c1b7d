"""What a kernel's text declares: types of its variables, arrays that a thread has for itself."""

from __future__ import annotations

import re

from kscope.fixes.given.c_types import TYPES
from kscope.fixes.given.source import split_declarators

_DECLARED = re.compile(rf"\b((?:unsigned\s+|long\s+)?(?:{'|'.join(sorted(TYPES))}))\s+((?!\w+\s*\()[^;{{}}]*)")
_PASSED = re.compile(rf"[(,]\s*(?:const\s+)?((?:unsigned\s+|long\s+)?(?:{'|'.join(sorted(TYPES))}))\s+(\w+)\s*(?=[,)])")
_LIST = re.compile(r"=\s*\{[^{}]*\}|\{\s*\}(?=\s*[,;])")
_STATEMENT = re.compile(
    r"\s*(?:for\s*\(\s*|else\b\s*|case\b[^:]*:\s*)*"
    r"(?:(?:const|constexpr|static|volatile|unsigned|long|struct|(?:__align__|alignas)\s*\([^()]*\))\s+)*"
    r"(?!(?:return|else|case|goto|typedef|using|extern|__shared__)\b)[A-Za-z_][\w:]*(?:\s*<[^;=]*>)?\s+(?=[A-Za-z_])"
)


def variables(code: str) -> dict[str, str]:
    """Types of a kernel's variables; "" where a name is declared more than once, or its address is taken."""
    found: dict[str, str] = {}
    for match in _DECLARED.finditer(re.sub(r"\b(?:__shared__|volatile)\b[^;]*;", ";", code)):
        for part in split_declarators(match[2]):
            name = re.match(r"\s*(\w+)\s*(?:=|$)", part)
            if name is not None and name[1] not in TYPES:
                found[name[1]] = "" if name[1] in found else " ".join(match[1].split())
    for match in _PASSED.finditer(code[: code.find("{")]):
        found[match[2]] = "" if match[2] in found else " ".join(match[1].split())
    return {name: "" if re.search(rf"&\s*{name}\b", code) else kind for name, kind in found.items()}


def local_arrays(code: str) -> set[str]:
    """Arrays that a thread has for itself, of whatever type."""
    found = set()
    for statement in re.split(r"[;{}]", _LIST.sub("", code[code.find("{") + 1 :])):
        bare = re.sub(r"(?m)^\s*#[^\n]*$", "", statement)
        head = _STATEMENT.match(bare)
        if head is None or "__shared__" in bare:
            continue
        names = (re.match(r"\s*([A-Za-z_]\w*)\s*\[", part) for part in split_declarators(bare[head.end() :]))
        found |= {name[1] for name in names if name is not None}
    return found
