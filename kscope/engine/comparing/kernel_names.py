"""Names of one kernel in different tools made equal.

Nsight Compute writes `void layer::transpose<(int)0>(const float *, float *, int)`, CUPTI (torch profiler, Nsight
Systems) `void layer::transpose<0>(float const*, float*, int)` or the mangled `_ZN5layer9transposeILi0EEvPKfPfi`, an old
export the bare `transpose`.
"""

from __future__ import annotations

import re

_CAST = re.compile(r"\((?:(?:un)?signed|int|bool|char|short|long|__int128|wchar_t|std::size_t|\s)+\)(?=[-\d'])")
_LITERAL = re.compile(r"\b(\d+)(?:u|l)+\b", re.I)
_LAMBDA = re.compile(r"\[lambda\(.*?\) \(instance (\d+)\)\]|\{lambda\(.*?\)#(\d+)\}")
_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")
_TRUTH = {"true": "1", "false": "0"}


def canonical(name: str) -> str:
    """The name without return type, parameters, spaces and whatever the demanglers write differently."""
    text = _UNNAMED.sub("@", name.strip())
    text = _LAMBDA.sub(lambda m: f"@lambda{m[1] or m[2]}", text)
    text = _CAST.sub("", text)
    text = _LITERAL.sub(r"\1", text)
    text = re.sub(r"\b(?:true|false)\b", lambda m: _TRUTH[m[0]], text)
    text = re.sub(r"\bconst\b|\benum\b|\bstruct\b|\bclass\b", "", text)
    text = without_parameters(re.sub(r"\s+", " ", text).strip())
    return _without_return(text).replace(" ", "")


def base(name: str) -> str:
    """The function's own name: no namespace, template arguments or parameters; of a mangled name too."""
    if name.startswith("_Z"):
        return _mangled(name)
    text = canonical(name)
    depth, out = 0, []
    for char in text:
        depth += char == "<"
        if not depth:
            out.append(char)
        depth -= char == ">"
    return "".join(out).rpartition("::")[2] or text


def bare(name: str) -> bool:
    """Whether the name tells neither template arguments nor namespace: then only `base` can be compared."""
    return name.startswith("_Z") or not re.search(r"[<(:]", name)


def without_parameters(text: str) -> str:
    """A demangled name without the parameter list that ends it."""
    if not text.endswith(")"):
        return text
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if not depth:
            return text[:i] if i else text
    return text


def _without_return(text: str) -> str:
    """What follows the last space outside of template arguments: templates are written with their return type."""
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == ">") - (text[i] == "<")
        if text[i] == " " and not depth:
            return text[i + 1 :]
    return text


def _mangled(name: str) -> str:
    """The innermost source name of an Itanium mangling, "" where there is none."""
    at, last = 2 + name.startswith("_ZN", 0), ""
    while found := re.match(r"(?:[rVK]+|L)?(\d+)", name[at:]):
        begin, size = at + found.end(), int(found[1])
        last, at = name[begin : begin + size], begin + size
        if size == 0 or at > len(name):
            return ""
    return "" if last.startswith("_GLOBAL__N") else last
