"""Divisions of floats that are rounded as IEEE asks for, by the intrinsic: a reciprocal and a product."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from kscope.arch import table
from kscope.features.sass.columns import total
from kscope.fixes.accuracy import math_functions, reciprocals
from kscope.fixes.accuracy.spots import Spot, for_host, priced, spots
from kscope.fixes.given.rewrite import changed
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import WIDEST, kernel_text
from kscope.model.contract.fixes import Condition, Fix, Proof

NAME = "__fdividef"
_OPERATOR = re.compile(r"(?<![/*])/(?![/*=])")
_FLOAT = re.compile(
    r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=f\b|e-?\d))(?:e[-+]?\d+)?f?\b|\(\s*float\s*\)|\bfloat\s*\(|\b\w+f\s*\("
)
_SEVERAL = re.compile(
    r"[234](?:[dfi]|x\d)?$|[Vv]ec(?!tor_size)|[Mm]at(?:rix|\d|$)|[Cc]omplex|[Qq]uat|(?:half|bfloat16|bf16|bfloat162)$"
)
_KINDS = r"(?:unsigned|signed|int|long|short|char|bool|size_t|ptrdiff_t|uint|u?int\d+_t)\b"
_INTEGER = re.compile(
    rf"\(\s*(?:const\s+)?{_KINDS}[\w\s]*\)|\b{_KINDS}\s*[(>]|\bsizeof\b|\b__\w+2u?(?:int|ll|short)_\w+|"
    r"\b(?:ll?(?:rint|round)|ilogb)f?\s*\("
)
_NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*(?!\w)")
_CALL = re.compile(r"(?<![\w.])(?!float\b)[A-Za-z_]\w*(?<!f)\s*\([^()]*\)")
_CAST = re.compile(r"\(\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s+[A-Za-z_]\w*)*\s*\)\s*$")
_TYPE = re.compile(rf"\(\s*(?:{_KINDS}.*|float|double|half|\w+_t|[A-Z]\w*)\s*\)")
_FIRST = re.compile(
    r"\d+\.?\d*(?:[eE][-+]?\d+)?[fFuU]?|\.\d+[fF]?|[A-Za-z_][\w:]*(?:<[\w\s:,*&]*>(?=\s*\())?"
)
_MACRO = re.compile(r"\b[A-Z][A-Z0-9_]+\s*\(")
_KEYWORDS = ("return", "case", "else", "throw")
_NUMBERS = re.compile(r"\b(?:dot|length|distance|norm\w*)\s*\([^()]*\)")
_DOUBLE = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:e[-+]?\d+)?(?![\w.])|\bdouble\b")


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    if reciprocals.fixes(asked):
        return []  # which change the same lines, and more of them
    other = {(e.file, e.line) for fix in math_functions.fixes(asked) for e in fix.edits}
    found = spots(setting)
    mine = [s for s in found if s.function == "division" and s.places]
    floats, several, whole = _kinds(setting, mine)
    counted: Counter[str] = Counter()

    def change(one: str) -> str:
        new, count = divided(one, floats, several, whole)
        counted[NAME] += count
        return new

    where = {(s.places[0].file, s.places[0].number): s.places[0] for s in mine
             if not for_host(setting.lines(s.places[0].file), s.places[0].number)}  # fmt: skip
    edits = changed([where[k] for k in sorted(where) if k not in other and len(where[k].text) <= WIDEST], change)
    at = {(e.file, e.line) for e in edits}
    taken = [s for s in mine if (s.places[0].file, s.places[0].number) in at]
    row = table("functions")["float division"]
    executed = total(code.executed, [s.anchor for s in taken])
    if not edits or not executed:
        return []
    fix = Fix(
        kind="math_function",
        title=f"{counted[NAME]} divisions by {NAME}",
        language="cuda",
        edits=edits,
        conditions=[
            Condition(holds=f"{NAME}: {row['fast_error']}, where it was {row['error']}", state="check",
                      why=row["range"]),
        ],
        proof=[
            Proof(what="instructions of the divisions", before=executed * row["instructions"],
                  after=executed * row["fast_instructions"], unit="inst",
                  how=f"{len(taken)} divisions by what they begin with; both compiled by nvcc 13.0 for sm_90, all "
                      "paths (arch/functions.toml)"),
        ],
    )  # fmt: skip
    return priced(fix, asked.finding.estimate, found, taken)


def _kinds(setting: Setting, found: Sequence[Spot]) -> tuple[set[str], set[str], set[str]]:
    """Names of floats, of more than a number, and of integers, as a kernel's text has them, or the divisions' lines."""
    text = kernel_text(setting)
    own = text.code if text is not None else "\n".join(dict.fromkeys(s.places[0].text for s in found))
    lines = [line for file in sorted({s.places[0].file for s in found}) for line in setting.lines(file)]
    return _floats(own), _several(own, lines), _integers(own)


def _floats(text: str) -> set[str]:
    """Names that a text declares as floats, and never as anything else."""
    kinds = "float|double|int|unsigned|long|size_t|half|__half|auto"
    made = re.findall(rf"\b({kinds})\s+(?:\*\s*)?(\w+)(?=\s*[=;,)\[])", text)
    return {n for k, n in made if k == "float"} - {n for k, n in made if k != "float"}


def _integers(text: str) -> set[str]:
    """Names that a text declares as integers, or as arrays of them."""
    return set(re.findall(rf"\b{_KINDS}[\s*&]+(?:__restrict__\s+|const\s+)?(\w+)(?=\s*[=;,)\[])", text)) - _floats(text)


def _several(text: str, lines: Sequence[str] = ()) -> set[str]:
    """Names that a text declares as vectors, matrices, complex numbers or halves, as pointers to such, or of types that
    the file makes: their divisions are operators of a library's, which the intrinsic is none for."""
    made = set(re.findall(r"\b(?:struct|class)\s+(?:\w+\([^)]*\)\s*)?(\w+)|\}\s*(\w+)\s*;", "\n".join(lines)))
    types = {name for names in made for name in names}
    return {name for kind, name in re.findall(r"\b([A-Za-z_][\w:]*)[\s*&]+(\w+)(?=\s*[=;,)\[(])", text)
            if _SEVERAL.search(kind) or kind in types}  # fmt: skip


def divided(
    text: str, floats: AbstractSet[str] = frozenset(), several: AbstractSet[str] = frozenset(),
    whole: AbstractSet[str] = frozenset(),
) -> tuple[str, int]:  # fmt: skip
    """(a line with its divisions of floats by the intrinsic, how many). Where a line has several, each is one of floats
    as the line or its names say; one alone is what the machine code has there, if it is none of integers. several:
    names of more than a number."""
    found = list(_OPERATOR.finditer(text))
    if not found or _DOUBLE.search(text) or '"' in text or "constexpr" in text:
        return text, 0
    alone = len(found) == 1 and not _MACRO.search(text)
    count, at = 0, 0
    while (match := _OPERATOR.search(text, at)) is not None:
        sides = _left(text, match.start()), _right(text, match.end())
        at = match.end()
        if sides[0] is None or sides[1] is None:
            continue
        left, right = text[sides[0] : match.start()].strip(), text[match.end() : sides[1]].strip()
        if not (_certain(left, floats) or _certain(right, floats)):
            index = text.count("[", 0, at) > text.count("]", 0, at)
            if not alone or index or (_integral(left, whole) and _integral(right, whole)):
                continue
        if _whole(left, several) or _whole(right, several):
            continue
        new = f"{NAME}({left}, {right})"
        text = text[: sides[0]] + new + text[sides[1] :]
        count, at = count + 1, sides[0] + len(NAME) + 1  # what it divides may divide too
        at = sides[0] + len(new) if not _OPERATOR.search(new) else at
    return text, count


def _whole(operand: str, several: AbstractSet[str]) -> bool:
    """Whether an operand is a vector, or an element of an array of them, and not a member of one (v.x, v[k].y)."""
    bare = _NUMBERS.sub("0", _unindexed(operand))
    return any(
        match[0] in several and not re.match(r"\s*(?:\.|->)", bare[match.end() :])
        for match in re.finditer(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", bare)
    ) or re.search(r"\bmake_\w+\s*\(", bare) is not None


def _unindexed(operand: str) -> str:
    """Without what stands in square brackets."""
    while (less := re.sub(r"\[[^][]*\]", "", operand)) != operand:
        operand = less
    return operand


def _certain(operand: str, floats: AbstractSet[str]) -> bool:
    """Whether an operand is a float: it says so, or has a name that is one, and nothing makes an integer of it."""
    bare = _unindexed(operand)
    if _INTEGER.search(bare):
        return False
    while (less := _CALL.sub("0", bare)) != bare:  # of whatever type
        bare = less
    return _FLOAT.search(bare) is not None or any(m[0] in floats for m in _NAME.finditer(bare))


def _integral(operand: str, whole: AbstractSet[str]) -> bool:
    """Whether an operand is made of integers alone."""
    bare = _INTEGER.sub(" ", _unindexed(operand))
    if operand.startswith("(") and _INTEGER.match(operand):
        return True
    bare = re.sub(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b|\bwarpSize\b", "1", bare)
    return re.search(r"[.(]\s*\w*\s*\(|\.", bare) is None and all(m[0] in whole for m in _NAME.finditer(bare))


def _left(text: str, end: int) -> int | None:
    """Where the product begins that stands before a division."""
    at = _before(text, end)
    while at is not None:
        rest = text[:at].rstrip()
        word = re.search(r"(?:(\w+)|[)\]])\s*\*$", rest)
        if rest.endswith("*") and not rest.endswith(("**", "/*")) and word is not None and word[1] not in _KEYWORDS:
            further = _before(text, len(rest) - 1)
            if further is None:
                return None
            at = further
            continue
        if rest.endswith(("/", "%", ".", "->", "!", "~", "++", "--", "**")):
            return None
        return len(rest) - 1 if rest.endswith("*") else at  # what a pointer points to
    return None


def _before(text: str, end: int) -> int | None:
    """Where the operand begins that ends before a place: a name or a number with its brackets, members and casts."""
    at = len(text[:end].rstrip())
    seen = False
    while at:
        if text[at - 1] in ")]":
            opened = _opened(text, at - 1)
            if opened is None:
                return None
            at, seen = opened, True
            word = re.search(r"[A-Za-z_]\w*\s*$", text[:at])
            if text[:at].rstrip().endswith(">"):
                return None  # of a template, or a comparison
            if text[at] == "(" and word is not None and word[0].strip() in (*_KEYWORDS, "if", "while", "sizeof"):
                return at if word[0].strip() in _KEYWORDS else None
            continue
        word = re.search(r"(?:\d*\.?\d+(?:[eE][-+]?\d+)?|\d+\.|[A-Za-z_]\w*)[fFuU]?$", text[:at])
        if word is None or (seen and text[at : at + 1] not in ("(", "[", ".")):
            break
        at, seen = word.start(), True
        if text[:at].rstrip().endswith((".", "->", "::")):
            at = len(text[:at].rstrip()) - (1 if text[:at].rstrip().endswith(".") else 2)
            continue
        return _cast(text, at)
    return _cast(text, at) if seen else None


def _cast(text: str, at: int) -> int:
    """Where the casts begin that stand before an operand."""
    while (cast := _CAST.search(text, 0, at)) is not None and not re.search(r"[\w)\]>]\s*$", text[: cast.start()]):
        at = cast.start()
    return at


def _opened(text: str, close: int) -> int | None:
    depth = 0
    for n in range(close, -1, -1):
        depth += (text[n] in ")]") - (text[n] in "([")
        if not depth:
            return n
    return None


def _right(text: str, start: int) -> int | None:
    """Where the operand ends that stands behind a division."""
    match = re.match(r"\s*[-+]?\s*(?:\(\s*(?:float|int|unsigned|double)\s*\)\s*)*", text[start:])
    begin = at = start + (match.end() if match is not None else 0)
    first = _FIRST.match(text[at:])
    if first is None and text[at : at + 1] != "(":
        return None
    at += first.end() if first is not None else 0
    while at < len(text):
        if text[at] in "([":
            depth, n = 0, at
            for n in range(at, len(text)):
                depth += (text[n] in "([") - (text[n] in ")]")
                if not depth:
                    break
            if depth:
                return None
            at = n + 1
        elif (member := re.match(r"(?:\.|->)\s*[A-Za-z_]\w*", text[at:])) is not None:
            at += member.end()
        else:
            break
    behind = text[at:].lstrip()
    if behind[:2] in ("++", "--") or (behind[:1] in tuple("-+*&~!") and _TYPE.fullmatch(text[begin:at])):
        return None
    cast = text[begin] == "(" and re.match(r"[\w(.]", behind) is not None
    return _right(text, at) if cast else at
