"""Types of a kernel's integers where its text says them by another name: by an alias, as its template's type, or by
what they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kscope.fixes.given.c_types import FLOAT, INT, WIDE, Kind, Whole, named, typed
from kscope.fixes.given.converted import Conversions
from kscope.fixes.given.grammar import Parser, Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import in_functions, split_declarators
from kscope.fixes.given.text import Text, blanked, declared_at
from kscope.fixes.given.whole_numbers import drawn

_ALIAS = re.compile(
    r"\btypedef\s+(?P<old>[\w\s:]+?)\s+(?P<older>\w+)\s*;"
    r"|\busing\s+(?P<newer>\w+)\s*=\s*(?P<new>[\w\s:]+?)\s*;", re.ASCII
)
_STANDARD = re.compile(r"\bstd\s*::\s*(?=(?:u?int(?:8|16|32|64)|size|ptrdiff)_t\b)")
_LONG = re.compile(r"\blong\s+int\b")
_AUTO = re.compile(r"(?<![\w.])(?:const\s+)?auto\s+(?:const\s+)?(?P<rest>[A-Za-z_]\w*\s*=[^;{}]*);", re.ASCII)
_DECLARED = re.compile(
    r"(?<![\w.])(?P<kind>(?:(?:unsigned|signed|long|short|int|char|bool|float|double|size_t|ptrdiff_t|u?int(?:8|16|32|64)_t)"
    r"\s+(?:const\s+)?)+)(?P<rest>[A-Za-z_]\w*\s*(?:[;,)=:]|\{))", re.ASCII
)
_NAMES = re.compile(r"[A-Za-z_]\w*", re.ASCII)
DEEPEST = 8  # aliases of aliases (judged)


def plainly(setting: Setting, text: Text) -> str:
    """The kernel's text with its types as they are built in, for reading: columns move."""
    lines = setting.lines(text.file)
    types = {**_aliases(lines, text), **_of_template(setting, lines, text)}
    code = _STANDARD.sub("", text.code)
    for name, kind in types.items():
        code = re.sub(rf"(?<![\w.])(?<!->)(?:typename\s+)?{name}\b", kind, code)
    return _LONG.sub("long", code)


def _aliases(lines: Sequence[str], text: Text) -> dict[str, str]:
    """Names of types that a file, or the kernel, gives to built-in ones; none of those that stand for several."""
    within = in_functions(lines) - {*range(text.first, text.first + text.code.count("\n") + 1)}
    found: dict[str, set[str]] = {}
    for n, line in enumerate(lines, 1):
        for m in _ALIAS.finditer(blanked(line)) if n not in within else ():
            kind = " ".join(_STANDARD.sub("", m["old"] or m["new"]).split())
            found.setdefault(m["older"] or m["newer"], set()).add(kind)
    known = {name: next(iter(kinds)) for name, kinds in found.items() if len(kinds) == 1}
    for _ in range(DEEPEST):
        known = {name: known.get(kind, kind) for name, kind in known.items()}
    return {name: kind for name, kind in known.items() if _built_in(kind)}


def _built_in(kind: str) -> bool:
    return named(kind) == FLOAT or isinstance(named(kind), Whole)


def _of_template(setting: Setting, lines: Sequence[str], text: Text) -> dict[str, str]:
    """Types of the instance that ran; a name that is none of these stays, and hides the file's."""
    above = " ".join(lines[declared_at(lines, text.first) - 1 : text.first])
    found = re.findall(r"\btemplate\s*<([^<>]*)>", above)
    parts = [part.partition("=")[0].split() for part in split_declarators(found[0])] if len(found) == 1 else []
    given = [x.strip() for x in split_declarators(setting.instance.partition("<")[2].rpartition(">")[0])]
    alike = len(given) == len(parts) and "..." not in "".join(found)
    out: dict[str, str] = {}
    for n, words in enumerate(parts):
        if len(words) == 2 and words[0] in ("typename", "class"):
            out[words[1]] = given[n] if alike and _built_in(given[n]) else words[1]
    return out


def made(code: str) -> dict[str, str]:
    """Types of what is declared as `auto`, where what it is made of says them: (long long, unsigned ..) by name."""
    kinds: dict[str, set[Kind]] = {}
    for name, kind in _declared(code):
        kinds.setdefault(name, set()).add(kind)
    names: dict[str, Kind] = {n: next(iter(k)) if len(k) == 1 else None for n, k in kinds.items()}
    out: dict[str, set[Kind]] = {}
    for m in _AUTO.finditer(code):
        for part in split_declarators(m["rest"]):
            name, _, value = part.partition("=")
            kind = _kind(value, names)
            out.setdefault(name.strip(), set()).add(kind)
            names[name.strip()] = kind if name.strip() not in kinds else None
    return {
        name: _TEXT[kind] for name, found in out.items()
        if name not in kinds and len(found) == 1 and (kind := next(iter(found))) in _TEXT
    }  # fmt: skip


_TEXT: Mapping[Kind, str] = {
    INT: "int", Whole(INT.bits, signed=False): "unsigned", Whole(WIDE, signed=True): "long long",
    Whole(WIDE, signed=False): "unsigned long long",
}  # fmt: skip


def _declared(code: str) -> Iterator[tuple[str, Kind]]:
    """(name, type) of integers and fractions; pointers are none."""
    for m in _DECLARED.finditer(code):
        kind = named(m["kind"])
        end = m.end("kind")
        stop = min((at for c in ";{}" if (at := code.find(c, end)) >= 0), default=len(code))
        opened = code[end:stop].startswith("(")
        for n, part in enumerate(split_declarators(code[end:stop]) if not opened else ()):
            name = _NAMES.match(part.strip())
            if name is None or (n and re.match(r"(?:const\s+)?\w+[\s*&]+\w", part.strip())):
                break  # the next parameter, of a type of its own
            yield name[0], kind
            if ")" in part and part.count(")") > part.count("("):
                break


def _kind(value: str, names: Mapping[str, Kind]) -> Kind:
    try:
        parser = Parser(value, lambda word: typed(word, drawn(word)))
        tree = parser.expression()
        return Conversions(names, real=False, functions={}).of(tree)[1] if not parser.next() else None
    except (Unplayable, RecursionError, ValueError):
        return None
