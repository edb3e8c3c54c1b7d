"""Functions that are called for an element: which take it as a value, and which do nothing that hangs on the thread or
on the order of threads, however they write through pointers that they are handed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import LONGEST, Text, blanked, closing

MOST = 64  # functions that are looked for: what more are called is not known (judged)
_BEFORE = re.compile(r"(?:(?<![\w.])(?<!->)(?:::\s*)?([A-Za-z_]\w*)\s*(?:<[\w\s:,]*>)?|([\w\])>]))\s*$")
CALLED = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*(?:<[\w\s:,]*>\s*)?\(")
_MEETS = re.compile(
    r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|laneid|__\w*sync\w*|__shfl\w*|__ballot\w*|__any\w*|__all\w*|"
    r"__match\w*|__activemask|__shared__|cooperative_groups|this_thread\w*)\b|\bcg\s*::|%%?(?:laneid|tid|ctaid|warpid)"
)
_WAITS = re.compile(
    r"\b(?:while|do|goto|asm|volatile|static|__threadfence\w*|__nanosleep|clock\w*)\b|for\s*\([^;]*;\s*;"
)
_PLAIN = re.compile(
    r"atomic(?:Add|Sub|Max|Min|And|Or|Xor|Inc|Dec)|printf|assert|is(?:nan|inf|finite)|f?(?:min|max|abs)f?|sqrtf?|expf?|"
    r"logf?|__half2float|__bfloat162float|(?:unsigned|float|double|int|bool|char|long|if|for|switch|return|sizeof|half)"
)


class _Defined(Struct, frozen=True):
    """A definition: how its parameters read, its body, its file and lines."""

    parameters: tuple[str, ...]
    body: str
    file: str
    lines: range


class Callees(Struct, frozen=True):
    """By name, all definitions of the functions that a text calls, and that these call."""

    known: Mapping[str, tuple[_Defined, ...]] = {}

    def value(self, name: str, position: int) -> bool:
        """Whether a function's argument is a value, in each of its definitions."""
        mine = self.known.get(name, ())
        given = [d.parameters[position] for d in mine if position < len(d.parameters)]
        return bool(mine) and len(given) == len(mine) and not any(re.search(r"[&*]|\.\.\.", p) for p in given)

    def first_alone(self, name: str) -> bool:
        """Whether a function uses of what its first argument leads to the first element alone."""
        mine = self.known.get(name, ())
        named = [re.fullmatch(r"[\w\s:<>]*\*\s*(?:const\s+)?(?:__restrict__\s+)?(\w+)", d.parameters[0]) for d in mine
                 if d.parameters]  # fmt: skip
        return bool(mine) and len(named) == len(mine) and all(
            m is not None and not re.search(rf"\b{m[1]}\b", re.sub(rf"\b{m[1]}\s*\[\s*0\s*\]", "", d.body))
            for m, d in zip(named, mine, strict=True)
        )  # fmt: skip

    def changes(self, text: str, own: Collection[str]) -> bool:
        """Whether a function may change a variable that a text hands it, and that is not its own."""
        for match in CALLED.finditer(text):
            close = closing(text, match.end())
            given = [one.strip() for one in split_declarators(text[match.end() : close])] if close is not None else []
            for d in self.known.get(match[1], ()):
                for argument, parameter in zip(given, d.parameters, strict=False):
                    by_name = "&" in parameter and not re.match(r"const\b|[\w:<>]+\s+const\b", parameter)
                    if by_name and re.fullmatch(r"[A-Za-z_]\w*", argument) and argument not in own:
                        return True
        return False

    def meets(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a function is seen to ask which thread it is in, or to meet others."""
        mine = self.known.get(name, ()) if name not in seen else ()
        return any(
            _MEETS.search(d.body) or any(self.meets(n, seen | {name}) for n in CALLED.findall(d.body)) for d in mine
        )

    def apart(self, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether all that a function does is known, and it waits for nobody: several calls by one thread are one of
        the orders in which several threads may make them."""
        mine = self.known.get(name, ())
        return bool(mine) and name not in seen and not any(
            _MEETS.search(d.body) or _WAITS.search(d.body)
            or any(not (_PLAIN.fullmatch(n) or self.apart(n, seen | {name})) for n in CALLED.findall(d.body))
            for d in mine
        )  # fmt: skip

    def holds(self, names: Iterable[str], file: str, line: int) -> bool:
        """Whether a line is one of these functions'."""
        return any(d.file == file and line in d.lines for n in names for d in self.known.get(n, ()))


NONE = Callees()


def callees(setting: Setting, text: str) -> Callees:
    """Those of the files that the kernel's instructions are from."""
    files = sorted({file for i in range(len(setting.code)) for file, _ in setting.sites(i)})
    return defined({file: "\n".join(map(blanked, setting.lines(file))) for file in files}, text)


def defined(files: Mapping[str, str], text: str) -> Callees:
    """files: their texts, by name."""
    found: dict[str, tuple[_Defined, ...]] = {}
    asked = set(CALLED.findall(text))
    while asked and len(found) < MOST:
        name = min(asked)
        asked.remove(name)
        mine = [d for file, code in files.items() for d in _definitions(file, code, name)]
        if mine and name not in found:
            found[name] = tuple(mine)
            asked |= {n for d in mine for n in CALLED.findall(d.body)} - found.keys()
    return Callees(found)


def handed_on(setting: Setting, text: Text, calls: Callees) -> Text | None:
    """The text of the function that a kernel is no more than a call of, where it is defined once."""
    inside = text.code[text.code.find("{") + 1 : text.code.rstrip().rfind("}")]
    call = re.fullmatch(r"\s*(?:return\s+)?([A-Za-z_]\w*)\s*(?:<[\w\s:,]*>\s*)?\([\w\s,]*\)\s*;\s*", inside)
    mine = calls.known.get(call[1], ()) if call is not None else ()
    if len(mine) != 1:
        return None
    lines = setting.lines(mine[0].file)
    return Text(mine[0].file, mine[0].lines.start, "\n".join(blanked(lines[n - 1]) for n in mine[0].lines))


def _definitions(file: str, code: str, name: str) -> Iterable[_Defined]:
    for head in re.finditer(rf"__device__[^;{{}}()]*?\b{re.escape(name)}\s*(?:<[\w\s:,]*>\s*)?\(", code):
        close = closing(code, head.end())
        opened = code.find("{", close) if close is not None else -1
        end = closing(code, opened + 1) if opened >= 0 else None
        if close is None or end is None or re.sub(r"\b(?:const|noexcept)\b", "", code[close + 1 : opened]).strip():
            continue
        if end - opened <= LONGEST:
            given = tuple(p.strip() for p in split_declarators(code[head.end() : close]))
            first, last = (code.count("\n", 0, n) + 1 for n in (head.start(), end))
            yield _Defined(given, code[opened : end + 1], file, range(first, last + 1))


def handed_to(
    code: str, body: tuple[int, int], known: Mapping[str, tuple[str, bool]], calls: Callees
) -> dict[str, list[str]] | None:  # fmt: skip
    """Functions that pointers are handed to as they are; None where one may do more than several threads' calls in some
    order, or another place of the kernel uses what the pointer leads to."""
    text, rest = code[slice(*body)], code[code.find("{") : body[0]] + code[body[1] :]
    out: dict[str, list[str]] = {}
    for array in (n for n, (_, const) in known.items() if not const):
        for match in re.finditer(rf"(?<![\w.])(?<!->){array}\b(?!\s*\[)", text):
            function, _ = taker(text[: match.start()])
            whole = re.match(r"\s*[,)]", text[match.end() :])
            if whole is None or not function or not calls.apart(function) or re.search(rf"\b{array}\b", rest):
                return None
            out[array] = [*dict.fromkeys([*out.get(array, []), function])]
    return out


def taker(before: str) -> tuple[str | None, int]:
    """(function in whose brackets a text ends, which of its arguments follows): empty for a bracket of its own, None
    for what is no name."""
    depth, position = 0, 0
    for n in range(len(before) - 1, -1, -1):
        c = before[n]
        depth += (c in ")]}") - (c in "([{")
        position += c == "," and not depth
        if depth < 0:
            called = _BEFORE.search(before[:n])
            return ("", 0) if called is None or c != "(" else (called[1], position)
    return "", 0
