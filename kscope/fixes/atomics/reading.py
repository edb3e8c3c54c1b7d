"""A kernel's text as parameters and statements, and what in it is the same for all threads of a block."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from kscope.fixes.given.rewrite import PURE, calls_of, macros_of
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import constants, split_declarators
from kscope.fixes.given.text import Loop, Text, closing, index_of, kernel_text, statement_end

MODIFIED = r"\s*(?:[-+*/%&|^]?=(?!=)|<<=|>>=|\+\+|--)"
_DIMENSION = re.compile(r"\b(?:blockIdx|gridDim|blockDim)\s*\.\s*[xyz]\b")
_PURE = re.compile(r"[\w\s+\-*/%&|^<>().]*")
_STRANGE = re.compile(
    r"\b(?:goto|asm|volatile|__threadfence\w*|__nanosleep|atomicCAS|atomicExch|cooperative_groups|try|catch|"
    r"co_\w+)\b|\bcg\s*::|\bcuda\s*::|#(?!\s*pragma)|/\*|\b[A-Z][A-Z0-9_]{2,}\s*\("
    r"|[=(,;{?:]\s*\[[^\[\]]*\]\s*[({]"  # a lambda, that is called elsewhere
    r"|(?:[{}]|\belse\s|;[ \t]*\n)\s*(?!(?:return|break|continue)\b)[A-Za-z_]\w*\s*;"  # what a macro does
    r"|(?:;|\bif\s*\((?:[^;{}=]|[=!<>]=)*\))\s*[A-Z][A-Z0-9_]{2,}\s*;"
)
_DOES = re.compile(r"[;{}]|(?<![=!<>])=(?!=)|\b(?:return|break|continue|if|else|for|while|do|\w*atomic\w*|"
                   r"__sync\w*|__\w+_sync|__shared__|__threadfence\w*)\b")  # fmt: skip
_KINDS = r"const|constexpr|int|unsigned|size_t|long|auto|short|char|float|double|bool|u?int\d+_t"
_INTEGER = "const|constexpr|int|unsigned|size_t|long|auto"
_WHOLE = r"(?:const )?(?:(?:unsigned )?(?:int|long|long long)|unsigned|size_t|u?int(?:32|64)_t)"
_MADE = re.compile(
    r"(\*\s*(?:(?:const|__restrict(?:__)?)\s+)*|&\s*|\bauto\s+|[;{})]\s*)([A-Za-z_]\w*)\s*=(?!=)\s*([^;,]*)"
)  # pointers and references, and what they are given
_GUARD = re.compile(r"if\s*\(")


class Kernel(Struct, frozen=True):
    """`opening`, `closing`: of its braces in the text; `parameters`: type by name; `statements`: spans of those between
    the braces, in order."""

    text: Text
    opening: int
    closing: int
    parameters: dict[str, str]
    statements: tuple[tuple[int, int], ...]
    lines: Sequence[str]

    @property
    def body(self) -> str:
        return self.text.code[self.opening + 1 : self.closing]

    def of(self, span: tuple[int, int]) -> str:
        return self.text.code[span[0] : span[1]]


def kernel_of(setting: Setting) -> Kernel | None:
    """None where the text is not here, or holds words that change what an order of statements means: fences, assembly,
    macros that are more than a value."""
    text = kernel_text(setting)
    return read(text, setting.name, setting.lines(text.file)) if text is not None else None


def read(text: Text, name: str, lines: Sequence[str]) -> Kernel | None:
    """lines: of the whole file, which has the constants."""
    code = text.code
    head = re.search(rf"\b{re.escape(name)}\s*\(", code)
    if head is None:
        return None
    close = closing(code, head.end())
    opening, end = (code.find("{", close), code.rstrip().rfind("}")) if close is not None else (-1, -1)
    if close is None or opening < 0 or end < opening or code[close + 1 : opening].strip():
        return None
    known: dict[str, str] = {}
    for one in split_declarators(code[head.end() : close]):
        named = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*(?:=.*)?", one, re.S)
        if named is not None and named[1]:
            known[named[2]] = " ".join(named[1].replace("*", " * ").split())
    found = statements(code, opening + 1, end)
    if found is None or _STRANGE.search(code[opening:]) or _does(code[opening:], lines):
        return None
    return Kernel(text, opening, end, known, tuple(found), lines)


def _does(code: str, lines: Sequence[str]) -> bool:
    """Whether a macro of the file that a text names does more than to stand for a value."""
    return bool(macros_of(lines, _DOES) & set(re.findall(r"[A-Za-z_]\w*", code)))


def statements(code: str, start: int, end: int) -> list[tuple[int, int]] | None:
    """Spans of the statements between two places, an else with its if; None where one has no end there."""
    out: list[tuple[int, int]] = []
    at = start
    while True:
        at += len(code[at:end]) - len(code[at:end].lstrip())
        if at >= end:
            return out
        if again := re.match(r"else\b\s*", code[at:]):
            stop = statement_end(code, at + again.end())
            at = out.pop()[0] if out else at
        else:
            stop = statement_end(code, at)
        if stop is None or stop > end:
            return None
        out.append((at, stop))
        at = stop


def plain_ends(loop: Loop, pure: Collection[str]) -> bool:
    """Whether a loop begins and ends at values, which nothing is done for, and ends nowhere else."""
    calls = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", f"{loop.start} {loop.end}"))
    ends = re.search(rf"[&|^?=<>,]|\b{loop.name}\b", loop.end)
    return calls <= set(pure) and ends is None and not re.search(r"\+\+|--|=(?!=)", loop.start + loop.end)


def returning(kernel: Kernel) -> list[tuple[int, int, str]] | None:
    """(start, end, test) of each `if (..) return;` of a kernel's own statements; None where it returns elsewhere."""
    out = []
    for start, end in kernel.statements:
        one = kernel.of((start, end))
        head = _GUARD.match(one)
        close = closing(one, head.end()) if head is not None else None
        if head is not None and close is not None and re.fullmatch(r"\s*\{?\s*return\s*;\s*\}?", one[close + 1 :]):
            out.append((start, end, one[head.end() : close]))
    return out if len(re.findall(r"\breturn\b", kernel.body)) == len(out) else None


def changed(code: str, name: str) -> int:
    """How often a name is given a value, or its address taken."""
    after = rf"(?<![\w.])(?<!->){name}\b(?:\s*\[[^\]]*\])?{MODIFIED}"
    return len(re.findall(after, code)) + len(re.findall(rf"(?:\+\+|--|[(,=;{{?:]\s*&)\s*{name}\b", code))


def _named_again(code: str, name: str) -> int:
    """How often a text declares a name behind a type of numbers."""
    return len(re.findall(rf"\b(?:{_KINDS})(?:\s*[&*]+\s*|\s+){name}\b", code))


def into_the_same(code: str, name: str) -> set[str]:
    """Other pointers into what a pointer leads to, and references to it, as far as a text makes one of the other."""
    known = set(re.findall(r"\*\s*(?:(?:const|__restrict(?:__)?)\s+)*([A-Za-z_]\w*)", code[: code.find("{")]))
    known |= set(re.findall(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[", code))
    made = _MADE.findall(code) + [("", *pair) for pair in re.findall(r"\bswap\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", code)]
    same, before = {name}, 0
    while len(same) > before:
        before = len(same)
        for how, one, value in made:
            whole = value if how.startswith("&") else re.sub(r"(?<![&\w])\s*\w+\s*\[[^\[\]]*\]", "", value)
            words = set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", whole))
            group = {one} | (words & (known | same) or (words if how.startswith("*") else set()))
            same |= group if group & same else set()
    return same - {name}


def handed_out(name: str, passed: str, code: str) -> bool:
    """Whether a piece of a text may change a name that it does not assign to: as a call is given it, or as another
    name stands for it."""
    calls = re.findall(r"\b([A-Za-z_]\w*)\s*(?=\()", passed)
    given = any(name in one.arguments for f in {*calls} - PURE - {"if", "for", "while", "switch"}
                if not f.startswith("__") for one in calls_of(passed, f))  # fmt: skip
    return given or re.search(rf"[(,=;{{?:]\s*&\s*{name}\b|&\s*\w+\s*=\s*{name}\b", code) is not None


def used_by(code: str, names: Iterable[str]) -> bool:
    """Whether a piece of text uses one of these."""
    return any(re.search(rf"(?<![\w.])(?<!->){name}\b", code) for name in names)


def uniform(kernel: Kernel, expression: str, before: int, depth: int = 0) -> bool:
    """Whether an expression is made of numbers, the block's place, parameters that stay as they are, constants and
    names that are made of those before a place in the text."""
    bare = _DIMENSION.sub("0", expression)
    if depth > 4 or not _PURE.fullmatch(bare):
        return False
    for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare):
        if name in ("int", "unsigned", "size_t"):
            continue
        if name in kernel.parameters:
            if "*" in kernel.parameters[name] or "&" in kernel.parameters[name] or changed(kernel.body, name):
                return False
            if _named_again(kernel.body, name):
                return False
        elif re.search(rf"(?<![\w.]){name}\s*(?:\(|\.\s*\w)", bare):
            return False
        elif re.search(rf"\b[a-z_]\w*\s+(?:[^;(){{}}]*,\s*)?{name}\s*=(?!=)", kernel.body):
            if not _made_before(kernel, name, before, depth):
                return False
        elif not _constant(kernel, name):
            return False
    return True


def whole(kernel: Kernel, expression: str) -> bool:
    """Whether what an expression names are whole numbers, and so are its literals."""
    named = re.findall(r"(?<![\w.])[A-Za-z_]\w*", expression)
    said = [kernel.parameters[n] for n in named if n in kernel.parameters and "*" not in kernel.parameters[n]]
    made = rf"\b(?:float|double|auto|__half|half)\b[^;()]*\b(?:{'|'.join(named) or '(?!)'})\s*="
    fraction = re.search(r"\d\.|\.\d", expression) or any(re.match(r"(?:const )?(?:float|double|half)",
                         kernel.parameters.get(n, "")) for n in named)  # fmt: skip
    return not fraction and all(re.fullmatch(_WHOLE, kind) for kind in said) and not re.search(made, kernel.body)


def one_each(setting: Setting, text: Text, index: str) -> bool:
    """Whether an index is the thread's number in the grid: no two threads have one element, and one that all of them
    store, each the same sum, would be added up too often."""
    launch, lines = setting.launch, setting.lines(text.file)
    per = index_of(index, text.code[text.code.find("{") :])
    if launch is None or per is None or max(launch.grid[1:]) > 1 or max(launch.block[1:]) > 1:
        return False
    count, said = str(launch.block[0]), constants(lines).get(per)
    template = re.search(rf"template\s*<[^<>]*\bint\s+{per}\b", "\n".join(lines[: text.first][-3:]))
    of_instance = template is not None and re.search(rf"<[^<>]*\b{count}\b", setting.instance) is not None
    return per in ("blockDim.x", count) or str(said) == count or of_instance


def _made_before(kernel: Kernel, name: str, before: int, depth: int) -> bool:
    """Of a name that has one value from one of the kernel's own statements on."""
    if changed(kernel.body, name) != 1 or _named_again(kernel.body, name) > 1:
        return False
    for start, end in kernel.statements:
        if end > before:
            return False
        one = kernel.of((start, end))
        for part in split_declarators(one.rstrip(";")):
            made = re.fullmatch(rf"(?:\s*(?:{_INTEGER}))*\s*\b{name}\s*=(.*)", part, re.S)
            if made is not None:
                return uniform(kernel, made[1], start, depth + 1)
    return False


def _constant(kernel: Kernel, name: str) -> bool:
    """Of a whole number that the file names, or of a template's argument."""
    above = "\n".join([*kernel.lines[max(0, kernel.text.first - 3) : kernel.text.first - 1], kernel.text.code])
    head = above[: above.find("__global__")] if "__global__" in above else ""
    said = re.findall(r"template\s*<([^<>{};]*)>\s*$", head)
    if said and re.search(rf"\b(?:int|unsigned|size_t|bool)\s+{name}\b", said[0]):
        return True
    defined = any(re.match(rf"\s*#\s*define\s+{name}\s+\(?\d+[uUlL]*\)?\s*(?://.*)?$", one) for one in kernel.lines)
    return defined or name in constants(kernel.lines)
