"""SASS operand text to `kscope.model.operand.Operand`, each distinct text once. Nothing here raises on odd text: what
is not known is a `word`."""

from __future__ import annotations

import re
from functools import lru_cache

from kscope.model.operand import PREDICATE_BASE, UNIFORM_BASE, UNIFORM_PREDICATE_BASE, Base, Kind, Operand

BASES = {"R": 0, "UR": UNIFORM_BASE, "P": PREDICATE_BASE, "UP": UNIFORM_PREDICATE_BASE}
_REGISTER = re.compile(r"([-+!~|]*)(?:(UR|UP|R|P)(\d+)(?![\w\[])|(URZ|UPT|RZ|PT|PR)(?!\w))(.*)", re.DOTALL).fullmatch
_ZEROS: dict[str, Kind] = {
    "RZ": "register", "URZ": "register", "PT": "predicate", "UPT": "predicate", "PR": "predicates",
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|\d+)").fullmatch
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|\.\d+|INF|[QS]?NAN)", re.IGNORECASE).fullmatch
_NUMBERED = re.compile(r"(S?B)(\d+)").fullmatch
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_TERM = re.compile(r"(-?)(?:\b(UR|UP|R|P)(\d+)((?:\.\w+)*)|\b0x([0-9a-f]+)\b)")
_SCALE = re.compile(r"\.X(\d{1,2})(?!\d)")
_TWO_WORDS = frozenset({"desc", "gdesc", "cx"})  # 64-bit descriptors; wgmma's pair of them prints alike, its shape says


@lru_cache(maxsize=1 << 16)
def operand(text: str) -> Operand:
    """The operand that a text stands for; the same text gives the same object."""
    if "[" in text:
        return _bracketed(text)
    match = _REGISTER(text)
    if match:
        return _register(text, *match.groups())
    first = text[:1]
    if first.isdigit() or first in "+-~":
        bare = text.lstrip("~")
        if _INTEGER(bare):
            return Operand(text, "integer", value=int(bare, 16 if "0x" in bare else 10), inverted=first == "~")
    if _FLOAT(text):
        return Operand(text, "float")
    if text.startswith("SR"):
        return Operand(text, "special")
    match = _NUMBERED(text)
    if match:
        return Operand(text, "scoreboard" if match[1] == "SB" else "barrier", value=int(match[2]))
    return Operand(text, "word")


def _register(text: str, signs: str, file: str | None, number: str | None, named: str | None, rest: str) -> Operand:
    kind: Kind = _ZEROS[named] if named else "register" if file in ("R", "UR") else "predicate"
    at = BASES[file] + int(number) if file and number else -1
    if not signs and not rest:
        return Operand(text, kind, at)
    marks = [mark for mark in rest.replace("|", "").split(".") if mark]
    return Operand(
        text, kind, at, negated="-" in signs or "!" in signs, inverted="~" in signs, absolute="|" in signs,
        reuse="reuse" in marks, part=".".join(mark for mark in marks if mark != "reuse"),
    )  # fmt: skip


def _bracketed(text: str) -> Operand:
    """An address or a word of a constant bank: `desc[UR6][R2.64+-0x10]`, `-c[0x0][0x210].H0`, `c[0x3][R4+0x8]`."""
    bare = text.lstrip("-+!~|")
    prefix, _, _ = bare.partition("[")
    groups = _GROUP.findall(bare)
    if not groups:
        return Operand(text, "word")
    bases, value = _sum(groups[-1], 2 if len(groups) == 1 and prefix in _TWO_WORDS else 0)
    descriptor = -1
    if prefix == "c":
        named, bank = _sum(groups[0], 0) if len(groups) > 1 else ((), -1)
        signs, marks = text[: len(text) - len(bare)], bare[bare.rfind("]") + 1 :].replace("|", "").split(".")
        return Operand(
            text, "constant", value=value, bank=-1 if named else bank, bases=(*named, *bases), prefix=prefix,
            negated="-" in signs or "!" in signs, inverted="~" in signs, absolute="|" in signs,
            reuse="reuse" in marks, part=".".join(m for m in marks if m and m != "reuse"),
        )  # fmt: skip
    if len(groups) > 1:
        named, _ = _sum(groups[0], 2 if prefix in _TWO_WORDS else 0)
        if prefix in _TWO_WORDS:
            descriptor = named[0].register if named else -1
        else:
            bases = (*named, *bases)
    return Operand(text, "memory", value=value, bases=bases, prefix=prefix, descriptor=descriptor)


def _sum(inside: str, words: int) -> tuple[tuple[Base, ...], int]:
    """Registers and the sum of the constants in a pair of brackets. `words`: what an unmarked register covers."""
    bases: list[Base] = []
    value = 0
    for sign, file, number, marks, digits in _TERM.findall(inside):
        if digits:
            value += -int(digits, 16) if sign else int(digits, 16)
            continue
        scale = _SCALE.search(marks) if marks else None
        # `.64` covers a pair, `.U32`, `.S32` and scales one register: 32-bit offsets to a wide base.
        covers = 2 if ".64" in marks else 1 if scale or ".U32" in marks or ".S32" in marks else words
        covers = 1 if file in ("P", "UP") else covers
        factor = int(scale[1]) if scale else 1
        bases.append(Base(BASES[file] + int(number), -factor if sign else factor, covers))
    return tuple(bases), value
