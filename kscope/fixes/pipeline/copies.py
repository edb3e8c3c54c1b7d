"""A copy from global to shared memory, statement by statement, and the same by cp.async."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.atomics.effects import CHANGED, changed
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing, statement_end
from kscope.fixes.pipeline.places import Place, place

SIZES = {"float": 4, "int": 4, "unsigned": 4, "float2": 8, "int2": 8, "uint2": 8, "double": 8, "float4": 16, "int4": 16,
         "uint4": 16, "double2": 16}  # fmt: skip
"""Types that one cp.async can carry (PTX ISA: 4, 8 or 16 bytes)."""
_REGISTER = re.compile(rf"(?:const\s+)?({'|'.join(SIZES)})\s+(.+)", re.S)
_OWN = re.compile(
    r"(?:const(?:expr)?\s+)?(?:int|unsigned|unsigned int|uint|u?int(?:32|64)_t|size_t|long long|auto|bool|\w+\s*\*)"
    r"[\s*]+\w+\s*=", re.S,
)
_ZERO = re.compile(r":\s*(?:0(?:\.0*)?[fu]?|make_\w+\((?:\s*0(?:\.0*)?f?\s*,?)+\))$")
_CALLS = re.compile(r"\b(?!min\b|max\b|size_t\b|int\b|unsigned\b|for\b|if\b)[A-Za-z_]\w*\s*\(")


class Tile(Struct, frozen=True):
    """A shared array: its type, its dimensions as written, bytes of it, its declaration's span. `sized`: by the launch,
    or a pointer into such an array."""

    name: str
    kind: str
    dims: str
    bytes: int
    declared: tuple[int, int]
    sized: bool = False


def _kept(value: str) -> tuple[str, str] | None:
    """(condition, place) of `condition ? place : 0`, where the condition takes no more than arithmetic."""
    bare = value[1:-1].strip() if value.startswith("(") and closing(value, 1) == len(value) - 1 else value
    match = _ZERO.search(bare)
    test, mark, where = bare[: match.start()].partition("?") if match is not None else ("", "", "")
    if not mark or "?" in where or "[" in test or "=" in re.sub(r"[<>=!]=", "", test) or _CALLS.search(test):
        return None
    return test.strip(), where.strip()


class Copies:
    """What a copy's text does. `local`: names that it declares; `outer`: those of them that are not within a statement;
    `filled`: arrays that it stores to, in `stores` places of the text."""

    def __init__(self, code: str, varying: set[str], tiles: Sequence[Tile], types: Mapping[str, str]) -> None:
        """varying: what is another number in each round; so is what is made of it."""
        self.code, self.varying, self.types = code, set(varying), types
        self.tiles: Mapping[str, Tile] = {t.name: t for t in tiles}
        self.registers: dict[str, str] = {}
        self.local: set[str] = set()
        self.outer: set[str] = set()
        self.filled: set[str] = set()
        self.stores = 0

    def read(self, copy: str) -> str | None:
        """The copy by cp.async; None where it does something else, or not the same in every round."""
        out, at, depth = [], 0, 0
        while at < len(copy):
            skipped = re.match(r"[\s{}]+|[ \t]*#\s*pragma\s+unroll[^\n]*\n", copy[at:])
            head = re.match(r"(?:for|if)\s*\(", copy[at:])
            end: int | None
            if skipped is not None:
                end, new = at + skipped.end(), skipped[0]
                depth += new.count("{") - new.count("}")
            elif head is not None:
                close = closing(copy, at + head.end())
                end = close + 1 if close is not None else None
                new = copy[at:end] if self._head(copy[at:end]) else ""
            elif copy.startswith("else", at):
                end, new = at + 4, "else"
            else:
                end = statement_end(copy, at)
                new = self._statement(copy[at : end - 1].strip(), depth) if end is not None else ""
                new += ";" if new else ""
            if end is None or not new:
                return None
            out.append(new)
            at = end
        return "".join(out)

    def _head(self, head: str) -> bool:
        """A loop or a condition that is the same in every round, and changes nothing but what it counts."""
        own = re.match(r"for\s*\(\s*(?:int|unsigned|uint|size_t|u?int32_t)\s+(\w+)\s*=", head)
        mine = {own[1]} if own is not None else set()
        self.local |= mine
        bare = changed(head) - mine
        other = head.startswith("for") and own is None
        return not (bare or other or self._held(head) or self._varies(head) or _CALLS.search(head) or "[" in head)

    def _statement(self, text: str, depth: int) -> str:
        """"" where it is none of a copy's."""
        register = _REGISTER.fullmatch(text)
        if register is not None and (found := self._declared(register[1], register[2], depth)):
            return found
        if _OWN.match(text):
            return self._number(text, depth)
        to, equals, value = (part.strip() for part in text.partition("="))
        if not equals or value.startswith("=") or CHANGED.search(to + " ") or to[-1] in "+-*/|&^%<>!":
            return ""
        where = place(to) if to not in self.registers else None
        base = where.base if where is not None else to
        if base in self.registers:
            plain = where is None or not where.kind
            return f"{to} = {found}" if plain and (found := self._loaded(value, self.registers[base])) else ""
        return self._stored(where, value) if where is not None else ""

    def _number(self, text: str, depth: int) -> str:
        """A number or a pointer that the copy's places are made of."""
        names = set(re.findall(r"(\w+)\s*=(?!=)", text))
        values = text[text.index("=") :]
        if self._held(values) or re.search(r"\[|[=(,]\s*\*", values) or _CALLS.search(values):
            return ""
        self.local |= names
        self.outer |= names if depth == 0 else set()
        self.varying |= names if self._varies(values) else set()
        return text

    def _stored(self, where: Place, value: str) -> str:
        """A store to a tile, of a register or of what is loaded."""
        kind = self._kind(where)
        if where.base not in self.tiles or kind is None or self._varies(where.inner) or self._held(where.inner):
            return ""
        name, kept = re.match(r"\w+", value), _kept(value)
        self.filled.add(where.base)
        self.stores += 1
        if kept is not None and not self._held(kept[0]):
            found = self._loaded(kept[1], kind)
            return f"copy_or_zero({where.address}, {found}, {kept[0]})" if found else ""
        if name is not None and name[0] in self.registers:
            same = re.fullmatch(r"\w+(?:\s*\[[^][]*\])*", value) is not None and kind == self.registers[name[0]]
            found = value if same else ""
        else:
            found = self._loaded(value, kind)
        return f"copy_ahead({where.address}, {found})" if found else ""

    def _declared(self, kind: str, names: str, depth: int) -> str:
        """Registers that a value passes through: where it is loaded from, instead."""
        out, found = [], {}
        for part in split_declarators(names):
            name, equals, value = part.partition("=")
            match = re.fullmatch(r"\s*(\w+)((?:\s*\[[^][]*\])*)\s*", name)
            loaded = self._loaded(value, kind) if equals else ""
            if match is None or (equals and (match[2] or not loaded)):
                return ""
            found[match[1]] = kind
            out.append(f"*{match[1]}{match[2]}" + (f" = {loaded}" if equals else ""))
        self.registers |= found
        self.local |= found.keys()
        self.outer |= found.keys() if depth == 0 else set()
        return f"const {kind} {', '.join(out)}"

    def _varies(self, text: str) -> bool:
        return not self.varying.isdisjoint(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))

    def _held(self, text: str) -> set[str]:
        return set(re.findall(r"\w+", text)) & (self.tiles.keys() | self.registers.keys())

    def _loaded(self, value: str, kind: str) -> str:
        """Where a value of this type is loaded from; "" where it is none that is loaded as it is."""
        where = place(value)
        if where is None or self._held(value) or self._kind(where) != kind:
            return ""
        return where.address

    def _kind(self, where: Place) -> str | None:
        """The type of a place: of the cast that leads to it, or what its array holds."""
        tile = self.tiles.get(where.base)
        if where.kind is not None:
            found = where.kind
        elif tile is not None:
            found = tile.kind if tile.sized or tile.dims.count("[") == where.subscripts else ""
        else:
            pointer = rf"\b(?:const\s+)?(\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?{where.base}\s*(?=[,)=])"
            declared = {m[1] for m in re.finditer(pointer, self.code)}
            found = declared.pop() if len(declared) == 1 and where.subscripts < 2 else ""
        found = self.types.get(found, found)
        return found if found in SIZES else None
