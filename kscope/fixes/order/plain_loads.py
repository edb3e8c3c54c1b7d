"""A kernel's text with its loads as indices of arrays, however they are written there, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, Kernel, read
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Text, closing, statement_end
from kscope.fixes.order.batched import Walk

_LDG = re.compile(r"\b(?P<how>__ldg|__ldcs|__ldcg|__ldca)\s*\(\s*(?P<name>\w+)\s*\+")
_AT = re.compile(r"\b(?P<how>__ldg|__ldcs|__ldcg|__ldca)\s*\(\s*&\s*(?P<name>\w+)\s*\[")
_OF = re.compile(r"\b(?P<how>[A-Za-z_]\w*(?:\s*<\s*(?P<kind>[\w ]+?)\s*>)?)\s*\(\s*(?P<name>\w+)\s*,(?P<at>[^(),]*)\)")
_HEAD = re.compile(r"\bfor\s*\(\s*(?P<kind>int|unsigned|size_t|long long|int64_t)\s+(?P<name>\w+)\s*=(?P<first>[^;,]*);"
                   r"\s*(?P=name)\s*<(?P<end>[^;<>=&|?]*\[[^;<>=&|?]*);")  # fmt: skip
_POINTER = re.compile(r"\bconst\s+\w+\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*=\s*(?P<base>\w+)\s*\+"
                      r"(?P<by>[^;,?]*);")  # fmt: skip
_SET = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>[^;]*);")


class Plain(Struct, frozen=True):
    """A kernel with its loads as `name[at]`. `ways`: how those of an array are written, with @ for its index; `types`:
    those that the kernel's template is given, and `values`: its numbers."""

    kernel: Kernel
    ways: dict[str, str]
    types: dict[str, str] = {}
    values: dict[str, int] = {}

    def typed(self, text: str) -> str:
        """With the types of this instance."""
        for name, kind in self.types.items():
            text = re.sub(rf"\b{name}\b", kind, text)
        return text


def plainly(setting: Setting, text: Text) -> Plain | None:
    """None where one array is loaded in two ways, or a function does more than to load."""
    lines = [x for f in sorted({i.file for i in setting.code.program.instructions if i.file}) for x in setting.lines(f)]
    found = plain_of(text, setting.name, setting.lines(text.file), "\n".join(lines))
    given = _given(setting, text)
    if found is None or given is None:
        return None
    types = {n: v for n, v in given.items() if not v.isdigit()}
    values = {n: int(v) for n, v in given.items() if v.isdigit()}
    return Plain(found.kernel, found.ways, types, values)


def _given(setting: Setting, text: Text) -> dict[str, str] | None:
    """What a kernel's template is given, types and numbers."""
    lines = setting.lines(text.file)
    above = "\n".join([*lines[max(0, text.first - 4) : text.first - 1], text.code[: text.code.find("(")]])
    found = re.search(r"template\s*<([^<>]*)>(?![^;{}]*[;}])", above)
    if found is None:
        return {}
    names = [p.split("=")[0].split()[-1] for p in found[1].split(",")]
    given = split_declarators(setting.instance.partition("<")[2].partition(">(")[0])
    values = [re.sub(r"^\(\w+\)", "", v.strip()) for v in given]
    return dict(zip(names, values, strict=True)) if len(names) == len(values) else None


def plain_of(text: Text, name: str, lines: Sequence[str], files: str) -> Plain | None:
    code, ways, at = text.code, dict[str, str](), text.code.find("{")
    for pattern in (_LDG, _AT):
        while (match := pattern.search(code, at)) is not None:
            close = closing(code, match.end())
            behind = close + 1 if close is not None else 0
            if close is not None and pattern is _AT:  # behind the bracket of the call, too
                last = re.match(r"\s*\)", code[behind:])
                behind = behind + last.end() if last is not None else 0
            way = f"{match['how']}(&@)"
            if close is None or not behind or ways.setdefault(match["name"], way) != way:
                return None
            code = f"{code[: match.start()]}{match['name']}[{code[match.end() : close].strip()}]{code[behind:]}"
    for match in reversed(list(_OF.finditer(code, at))):
        if not loads_alone(match["how"].partition("<")[0].strip(), files):
            continue
        way = f"{match['how']}({match['name']}, #)"
        if ways.setdefault(match["name"], way) != way:
            return None
        code = f"{code[: match.start()]}{match['name']}[{match['at'].strip()}]{code[match.end() :]}"
    if any(re.search(rf"(?<![\w.>&]){n}\s*\[|\*\s*\(?\s*{n}\b", text.code[at:]) for n in ways):
        return None
    code = re.sub(r"\b(\w+)\s*\[\s*\](?=\s*[,)])", r"* \1", code[:at]) + _own(_based(_ends(code, at)[at:]), 0)
    found = read(Text(text.file, text.first, code), name, lines)
    return Plain(found, ways) if found is not None else None


def _based(body: str) -> str:
    """Indices of a pointer that has one place in an array for good, as the array's."""
    for match in list(_POINTER.finditer(body)):
        name, rest = match["name"], body[match.end() :]
        fixed = [name, match["base"], *re.findall(r"[A-Za-z_]\w*", match["by"])]
        uses = len(re.findall(rf"(?<![\w.])(?<!->){name}\b", rest))
        indices = list(re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[", rest))
        if uses != len(indices) or len(re.findall(rf"\*\s*(?:__restrict__\s+)?{name}\b", body)) != 1:
            continue
        if any(re.search(rf"(?<![\w.])(?<!->){n}{MODIFIED}|(?:\+\+|--|&)\s*{n}\b", rest) for n in fixed):
            continue
        for one in reversed(indices):
            close = closing(rest, one.end())
            if close is None:
                return body
            at = rest[one.end() : close].strip()
            inside = f"{match['base']}[{match['by'].strip()} + {at if at.isidentifier() else f'({at})'}]"
            rest = f"{rest[: one.start()]}{inside}{rest[close + 1 :]}"
        body = body[: match.end()] + rest
    return body


def _ends(code: str, at: int) -> str:
    """Where a loop's rounds end, loaded once where its head loads it."""
    return code[:at] + _HEAD.sub(
        lambda m: f"for ({m['kind']} {m['name']} = {m['first'].strip()}, stop_n = {m['end'].strip()}; "
        f"{m['name']} < stop_n;", code[at:],
    )  # fmt: skip


def loads_alone(name: str, files: str) -> bool:
    """Whether a function of an array and an index is made of tests of the array and of what lies at the index."""
    heads = list(re.finditer(rf"__device__[^;{{}}()]*\b{re.escape(name)}\s*\(([^()]*)\)\s*\{{", files))
    if len(heads) != 1:
        return False
    end = closing(files, heads[0].end())
    given = [re.search(r"(\w+)\s*$", p) for p in heads[0][1].split(",")]
    if end is None or len(given) != 2 or given[0] is None or given[1] is None or "*" not in heads[0][1].split(",")[0]:
        return False
    body = re.sub(rf"\b{given[0][1]}\s*\[\s*{given[1][1]}\s*\]", "0", files[heads[0].end() : end])
    body = re.sub(rf"\b{given[0][1]}\s*[!=]=\s*(?:nullptr|NULL|0)\b", "0", body)
    body = re.sub(r"\bstatic_cast\s*<\s*\w+\s*>", "", body)
    return not re.sub(r"\b(?:if|else|return)\b|\d+(?:\.\d*)?f?|[\s(){};?:]|\b[A-Z]\b", "", body)


def _own(code: str, at: int) -> str:
    """A name that a loop's rounds give a value, and that nobody else uses, as their own."""
    for kind, name in re.findall(r"(?m)^\s*(int|unsigned|long long|size_t)\s+(\w+)\s*;", code[at:]):
        uses = list(re.finditer(rf"(?<![\w.])(?<!->){name}\b", code))
        sets = [m for m in _SET.finditer(code, at) if m["name"] == name]
        if len(sets) != 1 or len(uses) < 3 or uses[1].start() != sets[0].start() or name in sets[0]["value"]:
            continue
        opened = code.rfind("{", 0, sets[0].start())
        end = closing(code, opened + 1)
        before = code[opened + 1 : sets[0].start()].rstrip()
        whole = before[-1:] in ("", ";", "}") and re.search(r"\bfor\s*\([^{}]*\)\s*$", code[:opened])
        if whole and end is not None and uses[-1].end() < end:
            code = f"{code[: sets[0].start()]}{kind} {code[sets[0].start() :]}"
    return code


def there(kernel: Kernel, one: Walk, text: Text) -> tuple[int, int]:
    """Where the loop is in the text as it stands: the same one of its loops."""
    nth = len(re.findall(r"\bfor\s*\(", kernel.text.code[: one.span[0]]))
    pragma = kernel.text.code[one.span[0]] == "#"
    start = list(re.finditer(r"\bfor\s*\(", text.code))[nth].start()
    end = statement_end(text.code, start) or start
    return (text.code.rfind("#", 0, start) if pragma else start), end


def as_written(new: str, ways: dict[str, str]) -> str:
    """With loads as the kernel has them."""
    for name, way in ways.items():
        at = 0
        while (match := re.compile(rf"(?<![\w.>&]){name}\s*\[").search(new, at)) is not None:
            close = closing(new, match.end())
            if close is None:
                return ""
            index = new[match.end() : close]
            put = way.replace("@", f"{name}[{index}]").replace("#", index)
            new = new[: match.start()] + put + new[close + 1 :]
            at = match.start() + len(put)
    return new
