"""The texts that a kernel runs: its own, and those of functions that it calls from files of its line information."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import LONGEST, WIDEST, Text, blanked, closing, kernel_text

DEEPEST = 3  # calls within calls (judged)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[\w:,\s]*>\s*)?\(")
_WORDS = frozenset(("if", "for", "while", "switch", "return", "sizeof", "assert", "defined"))
_TOOLKIT = re.compile(r"/cuda[-.\d]*/(?:.*/)?include/")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)


def regions(setting: Setting) -> list[Text]:
    """The kernel's text first. A function that is defined more than once is left out: which one runs is not known."""
    own = kernel_text(setting)
    if own is None:
        return []
    said = (setting.code[n].file for n in range(len(setting.code)))
    files = dict.fromkeys([own.file, *(f for f in said if f is not None and not _TOOLKIT.search(f))])
    texts = [(file, "\n".join(map(blanked, setting.lines(file)))) for file in files]
    texts = [(file, clear(code)) for file, code in texts if code.strip()]
    out, names, asked = [Text(own.file, own.first, clear(own.code))], {setting.name}, [own.code]
    for _ in range(DEEPEST):
        more = {m[1] for code in asked for m in _CALLED.finditer(code[code.find("{") :])} - _WORDS
        if setting.name in more and re.search(rf"::\s*{setting.name}\s*\(", "\n".join(asked)):
            names.discard(setting.name)  # a function of another namespace
        asked = []
        for name in sorted(more - names):
            names.add(name)
            found = [one for file, code in texts for one in _defined(file, code, name)]
            if len(found) == 1:
                out += found
                asked.append(found[0].code)
    return out


def clear(code: str) -> str:
    """Without what stands between /* and */: blanks, so that columns stay."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def _defined(file: str, code: str, name: str) -> Iterator[Text]:
    """Definitions of a function for the device, none of a kernel."""
    for head in re.finditer(rf"\b{re.escape(name)}\s*\(", code):
        close = closing(code, head.end())
        after = re.match(r"\s*(?:const\s*|noexcept\s*)*\{", code[close + 1 :]) if close is not None else None
        start = max(code.rfind(c, 0, head.start()) for c in ";}{") + 1
        before = re.sub(r"^\s*#.*$", "", code[start : head.start()], flags=re.M)
        if close is None or after is None or not before.strip() or re.search(r"[=(.]|\breturn\b|__global__", before):
            continue
        end = closing(code, close + 1 + after.end())
        first = start + len(code[start:]) - len(code[start:].lstrip())
        first = code.rfind("\n", 0, first) + 1
        if end is None or end - first > LONGEST or any(len(x) > WIDEST for x in code[first:end].split("\n")):
            continue
        yield Text(file, code.count("\n", 0, first) + 1, code[first : end + 1])


def shared_names(texts: Sequence[Text]) -> set[str]:
    """Names that stand for shared memory in some texts: declared so, or pointers made of such."""
    code = "\n".join(t.code for t in texts)
    names = set(re.findall(r"__shared__[^;()=]*?\b(\w+)\s*(?:\[[^;]*)?;", code))
    while True:
        known = "|".join(map(re.escape, names)) or "(?!)"
        made = rf"[*&]\s*(?:const\s+|__restrict__\s+)*(\w+)\s*=\s*[^;]*?\b(?:{known})\b"
        more = set(re.findall(made, code)) - names
        if not more:
            return names
        names |= more
