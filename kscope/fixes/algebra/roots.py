"""Divisions by a square root: products with its reciprocal, which is one function where root and division are two."""

from __future__ import annotations

import re

from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.atomics.regions import regions
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, Text, closing, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Fix, Proof

_ROOT = re.compile(r"/\s*(?:std\s*::\s*)?(sqrt)\s*\(")  # of sqrtf accuracy.math_functions
_NAMED = re.compile(
    r"(?<![\w.])(?<!->)(?P<kind>(?:const\s+)?(?!return\b|else\b)[A-Za-z_]\w*)\s+(?P<name>[A-Za-z_]\w*)\s*=\s*"
    r"(?P<root>(?:std\s*::\s*)?sqrtf?)\s*\("
)
_ONE = re.compile(r"(?<![\w.)\]])(?<![eE][-+])1(?:\.0*)?f?\s*$")
_OTHER = re.compile(
    r"u?int(?:8|16|32|64)?(?:_t)?|unsigned|signed|size_t|long|short|char|u?int|bool|auto|return|else|"
    r"(?:__)?half|(?:nv_|__nv_)?bfloat16"
)
_KINDS = re.compile(r"(?:const\s+)?(?:float|double|auto|[A-Z]|\w*real\w*|scalar_t)", re.I)
_SEVERAL = re.compile(r"\w+[234]|.*(?:complex|vec|quat).*", re.I)
_CAST = re.compile(r"^\s*\(\s*(?:int|unsigned|long|size_t|u?int\d+_t)\b[\w\s]*\)|^\s*(?:int|unsigned)\s*\(")
_BEHIND = re.compile(r"\s*(?:[\[.(]|->)")


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    of = named if asked.finding.code == "CMP204" else divided  # whose calls accuracy.math_functions has
    found = {text: spans for text in regions(setting) if (spans := of(text))}
    files = {text.file for text in found}
    if len(files) != 1:
        return []
    edits = [e for text, spans in found.items() for e in spans_edited(setting, text, spans)]
    if not edits or len({e.line for e in edits}) < len(edits):
        return []
    count = sum("rsqrt" in new for spans in found.values() for _, _, new in spans)
    return [
        Fix(
            kind="reciprocal",
            title="products with reciprocal roots for divisions by roots",
            language="cuda",
            edits=edits,
            conditions=[
                reads("roots that have a name are divisors alone", "each use of the name stands behind a /"),
                Condition(holds="an ulp or two more: the quotient is rounded twice", state="check",
                          why="rsqrt has 1 ulp in double, 2 ulp in float (CUDA C++ Programming Guide)"),
            ],
            proof=[
                Proof(what="functions for a root and a division by it", before=2 * count, after=count,
                      unit="functions", how="as the text has them: rsqrt is one, and a product")
            ],
            price=None,  # the finding's figures are of other functions
        )
    ]  # fmt: skip


def divided(text: Text) -> list[Span]:
    """What becomes of a text's divisions by roots."""
    return [*_called(text.code), *_kept(text.code)]


def named(text: Text) -> list[Span]:
    """What becomes of the divisions by roots that have a name."""
    return _kept(text.code)


def _called(code: str) -> list[Span]:
    """`a / sqrt(b)`, and `1 / sqrt(b)`, which is the function itself."""
    out: list[Span] = []
    for match in _ROOT.finditer(code):
        one = _ONE.search(code, 0, match.start())
        name = f"r{match[1]}("
        close = closing(code, match.end())
        if close is None or not _fractional(code, code[match.end() : close]):
            continue
        if one is not None and re.search(r"(?:[=(,;{+\-*?:]|\breturn)\s*$", code[: one.start()]):
            out.append((one.start(), match.end(), name))
        else:
            out.append((match.start(), match.end(), f"* {name}"))
    return out


def _kept(code: str) -> list[Span]:
    """`r = sqrt(b)`, a name that is a divisor wherever it is met."""
    out: list[Span] = []
    for match in _NAMED.finditer(code):
        name, close = match["name"], closing(code, match.end())
        end = statement_end(code, match.start())
        if close is None or end is None or code[close + 1 : end].strip() != ";":
            continue
        if not _fractional(code, code[match.end() : close]):
            continue
        last = closing(code, end) or len(code)  # of the block that has the name
        if code[last : last + 1] not in ("}", "") or not _KINDS.fullmatch(match["kind"]):
            continue  # of a head, or the root is cut off
        uses = list(re.compile(rf"(?<![\w.])(?<!->){name}\b").finditer(code, end, last))
        over = [re.search(r"(?<![/*])/\s*$", code[: m.start()]) for m in uses]
        plain = all(not _BEHIND.match(code, m.end()) for m in uses)
        changed = re.search(rf"(?<![\w.])(?<!->){name}{MODIFIED}", code[end:last])
        if not uses or not plain or changed is not None or any(slash is None for slash in over):
            continue
        root = match["root"].rpartition(":")[2].strip()
        out.append((match.start("root"), match.end("root"), f"r{root}"))
        out += [(slash.start(), slash.start() + 1, "*") for slash in over if slash is not None]
    return out if not _overlap(out, _called(code)) else []


def _fractional(code: str, argument: str) -> bool:
    """Whether what a root is of has a name that is declared as a number, and as no integer: of these there is no
    reciprocal root."""
    if _CAST.search(argument):
        return False
    for name in dict.fromkeys(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*\b(?!\s*\()", argument)):
        kinds = re.findall(rf"(?<![\w.])([A-Za-z_]\w*)[\s*&]+(?:[^;(){{}}]*,\s*)?{name}\s*[=;,)\[]", code)
        kinds = [kind for kind in kinds if not re.search(rf"\w\s+[*&]?\s*{kind}\s*[=;,)\[]", code)]  # no products
        if kinds and not any(_OTHER.fullmatch(kind) or _SEVERAL.fullmatch(kind) for kind in kinds):
            return True
    return False


def _overlap(one: list[Span], other: list[Span]) -> bool:
    return any(a < d and c < b for a, b, _ in one for c, d, _ in other)

