"""Calls and lines in source text: what the changes of single lines share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import split_declarators
from kscope.model.contract.fixes import Edit

PURE = frozenset(
    x + end for x in (
        "exp exp2 exp10 expm1 log log2 log10 log1p pow sqrt rsqrt cbrt sin cos tan asin acos atan atan2 sinh cosh tanh "
        "erf erfc hypot floor ceil round rint trunc fabs fmax fmin fma fmod tgamma lgamma sinpi cospi"
    ).split() for end in ("", "f")
) | {"__expf", "__logf", "__powf", "__fdividef", "__frsqrt_rn", "__fsqrt_rn", "__frcp_rn", "__fmaf_rn", "__fmul_rn",
     "__fadd_rn", "__half2float", "__bfloat162float", "min", "max", "abs",
     "float", "double", "int", "unsigned"}  # fmt: skip
"""Functions whose value follows from what they are given alone."""

_VECTOR = re.compile(r"\b(?:float|int|uint|double|half|short|ushort|char|uchar|longlong|__half|__nv_bfloat16)[248]\b")
_DECLARATION = re.compile(
    r"(?:^|(?<=[;{}(,\n]))\s*(?:(?:const|static|volatile|constexpr|register)\s+)*(?P<type>[A-Za-z_]\w*)"
    r"(?:\s*[*&]+\s*|\s+)(?:(?:const|__restrict__)\s+)*(?=(?P<rest>[A-Za-z_][^;{}]*))", re.ASCII,
)
_NO_TYPES = ("return", "else", "new", "delete", "goto", "case", "typename", "do", "if", "while", "for", "switch")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[\w, ]*>)?\(")


class Call(Struct, frozen=True):
    """`name(a, b)` in a text: its span and the texts of its arguments."""

    start: int
    end: int
    arguments: tuple[str, ...]


class Place(Struct, frozen=True):
    """A line of the source; `number` from 1."""

    file: str
    number: int
    text: str


def places(setting: Setting, indices: Iterable[int]) -> list[Place]:
    """Lines that instructions come from, each once: of code that was inlined from elsewhere the line that has it."""
    found: dict[tuple[str, int], Place] = {}
    for i in indices:
        ins = setting.code[i]
        sites = [(ins.file, ins.line), *((s.file, s.line) for s in ins.inlined)]
        for file, number in reversed(sites):
            lines = setting.lines(file) if file is not None else ()
            if file is not None and number is not None and 0 < number <= len(lines):
                found[file, number] = Place(file, number, lines[number - 1])
                break
    return [found[key] for key in sorted(found)]


def changed(where: Sequence[Place], change: Callable[[str], str]) -> list[Edit]:
    """Edits of the lines that a change of text changes; what stands in a comment stays."""
    out = []
    for place in where:
        at = place.text.find("//")
        code, comment = (place.text, "") if at < 0 else (place.text[:at], place.text[at:])
        new = change(code) + comment
        if new != place.text:
            out.append(Edit(file=place.file, line=place.number, was=place.text, becomes=new))
    return out


def calls_of(text: str, name: str) -> list[Call]:
    """Calls of a function by this very name, outermost first."""
    out = []
    for match in re.finditer(rf"(?<![\w.])(?<!->){re.escape(name)}\s*\(", text):
        arguments, depth, start = [], 1, match.end()
        for n in range(match.end(), len(text)):
            c = text[n]
            depth += (c in "([{") - (c in ")]}")
            if (c == "," and depth == 1) or depth == 0:
                arguments.append(text[start:n].strip())
                start = n + 1
            if depth == 0:
                out.append(Call(match.start(), n + 1, tuple(arguments)))
                break
    return out


def replaced(text: str, name: str, new: Callable[[Call], str | None]) -> str:
    """A text with each call of a function replaced; None leaves one as it is. Calls within arguments are reached."""
    at = 0
    while True:
        one = next((c for c in calls_of(text, name) if c.start >= at), None)
        if one is None:
            return text
        put = new(one)
        if put is not None:
            text = text[: one.start] + put + text[one.end :]
        at = one.start + (1 if put is None else len(put) if put.startswith(name) else 0) + (put is None)


def calls(text: str) -> set[str]:
    """Names that are called on a line."""
    return set(_CALL.findall(text))


def vector(text: str) -> bool:
    """Whether a line names a vector type: what is wide there is wide by the author's hand."""
    return bool(_VECTOR.search(text))


def declarations(code: str) -> list[tuple[str, str]]:
    """(last word of the type, name) of what a text declares, parameters and counters too."""
    out = []
    for match in _DECLARATION.finditer(code):
        for n, part in enumerate(split_declarators(re.sub(r"->| [<>]=? ", "  ", match["rest"]))):
            name = re.match(r"\s*[*&]*\s*([A-Za-z_]\w*)\s*(?=[=\[;{,:)(]|$)", part)
            if match["type"] not in _NO_TYPES and name is not None:
                out.append((match["type"], name[1]))
            elif not n:
                break
    return out


def made_of(t: str, code: str, arrays: Iterable[str]) -> set[str]:
    """Names made of the thread's number, `t` or threadIdx: other threads have other values of them. Not what comes out
    of the elements of some arrays, and what lanes have put together."""
    bare = re.sub(rf"(?<![\w.])(?<!->)(?:{'|'.join(arrays)})\s*\[[^][]*\]", "", code)
    made = re.findall(r"(?<![\w.\]])(\w+)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)(?=([^;{}]*))", bare)
    names, together = {t, "threadIdx"}, {name for name, of in made if "__shfl" in of}
    while more := {n for n, of in made if n not in names | together
                   and any(re.search(rf"(?<![\w.]){re.escape(w)}\b", of) for w in names)}:  # fmt: skip
        names |= more
    return names


def macros_of(lines: Sequence[str], what: re.Pattern[str]) -> set[str]:
    """Macros of a file that have something in them, or other ones that do."""
    defined = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", "\n".join(lines), re.M)
    found, more = set[str](), {name for name, made in defined if what.search(made)}
    while more - found:
        found |= more
        more = {name for name, made in defined if found & set(re.findall(r"[A-Za-z_]\w*", made))}
    return found
