"""Copies whose stores to shared memory are assembly, to addresses that are numbers: the same by cp.async."""

from __future__ import annotations

import re

from kscope.fixes.given.text import closing
from kscope.fixes.pipeline.copies import SIZES, Copies

_STORED = re.compile(
    r"asm\s+volatile\s*\(\s*\"st\.shared(?P<form>\.v[24]|)\.[bufs]32\s+\[%0\],\s*(?P<slots>[^;\"]*);?\s*\"\s*:\s*:"
    r"\s*\"r\"\s*\((?P<rest>.*\))\s*(?::\s*\"memory\"\s*)?\)", re.S
)
_WIDTHS = {"": ("%1", 1), ".v2": ("{%1,%2}", 2), ".v4": ("{%1,%2,%3,%4}", 4)}
_GIVEN = re.compile(r",\s*\"[rf]\"\s*\(\s*(\w+)(?:\.([xyzw]))?\s*\)\s*")
_VALUE = re.compile(r"\bauto\s+(?P<name>\w+)\s*=\s*\[[^]]*\]\s*\([^(){}]*\)\s*\{\s*return\s+(?P<value>[^;{}=]*);\s*\}")
_MORE = re.compile(r"\[|\+\+|--|(?<![<>=!])=(?!=)")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


def words(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))


class Stores(Copies):
    """A copy whose stores are assembly, to addresses that are numbers. own: those that it declares itself; `roots`:
    names that the others are made of; `asked`: names that lambdas see which compute them."""

    def __init__(self, code: str, varying: set[str], own: set[str]) -> None:
        super().__init__(code, varying, (), {})
        self.own, self.roots, self.asked = own, set[str](), set[str]()
        self.values = {m["name"]: m["value"] for m in _VALUE.finditer(code)}

    def _statement(self, text: str, depth: int) -> str:
        match = _STORED.fullmatch(text.strip())
        if match is None:
            return super()._statement(text, depth)
        wanted, count = _WIDTHS[match["form"]]
        end = closing(match["rest"], 0)
        place, rest = match["rest"][:end], match["rest"][(end or 0) + 1 :]
        values = _GIVEN.findall(rest)
        if end is None or _GIVEN.sub("", rest).strip() or "".join(match["slots"].split()) != wanted:
            return ""
        names, letters = {v[0] for v in values}, "".join(v[1] for v in values)
        kind = self.registers.get(values[0][0], "") if len(names) == 1 and len(values) == count else ""
        if letters != ("xyzw"[:count] if count > 1 else "") or SIZES.get(kind) != 4 * count or not self._plain(place):
            return ""
        self.stores += 1
        self.roots |= words(place) - self.local - self.own
        return f"copy_ahead_at({place}, {values[0][0]})"

    def _plain(self, place: str) -> bool:
        """Whether an address is arithmetic, the same in every round: of names, and of lambdas that are such."""
        called = set(_CALLED.findall(place))
        inner = " ".join(self.values.get(name, "") for name in called)
        self.asked |= words(inner)
        bare = called <= self.values.keys() and not _CALLED.search(inner) and not _MORE.search(place + inner)
        return bare and not self._held(place) and not self._varies(f"{place} {inner}")
