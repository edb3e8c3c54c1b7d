"""Statements about one element, written for a group of neighbours: loaded and stored as vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.algebra.groups import Group
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import closing

WIDEST = 16  # bytes that a lane loads at once
E = "element_n"
_VECTORS = {"float": "float", "int": "int", "unsigned": "uint", "double": "double", "int32_t": "int",
            "uint32_t": "uint", "unsigned int": "uint"}  # fmt: skip


class Elements:
    """Statements about one element, written for a group: vectors in local arrays, a loop over their elements."""

    def __init__(self, code: str, group: Group, types: Mapping[str, str]) -> None:
        self.code, self.group, self.types = code, group, types
        self.local: dict[tuple[str, str], str] = {}  # (array, index) -> the local array
        self.read: set[str] = set()
        self.set: set[str] = set()  # those that have a value before they are read
        self.stored: set[str] = set()

    def text(self) -> str | None:
        parts = [p.strip() for p in self.code.split(";")]
        if parts.pop() or any("{" in p or re.search(r"\b(?:if|else|return)\b", p) for p in parts):
            return None
        made = [self._statement(p) for p in parts]
        if any(m is None for m in made) or not self.stored or not self._apart() or not self._wide():
            return None
        return self._written([m for m in made if m is not None])

    def _types(self) -> dict[str, str]:
        return {a: " ".join(self.types[array].split()) for (array, _), a in self.local.items()}

    def _wide(self) -> bool:
        """Whether a group of the widest elements is as much as a lane loads at once."""
        kinds = set(self._types().values())
        return kinds <= set(_VECTORS) and max(SIZES[k] for k in kinds) * self.group.size == WIDEST

    def _written(self, made: list[str]) -> str:
        n, types = self.group.size, self._types()
        vector = {a: f"{_VECTORS[k]}{n}" for a, k in types.items()}
        place = {a: f"&{array}[{index}]" for (array, index), a in self.local.items()}
        copied = re.fullmatch(rf"(\w+)\[{E}\] = (\w+)\[{E}\];", " ".join(made))
        if copied is not None and vector[copied[1]] == vector[copied[2]]:
            to, of = copied[1], copied[2]
            return f"*({vector[to]}*){place[to]} = *(const {vector[of]}*){place[of]};"
        arrays = [f"{k} {a}[{n}];" for a, k in types.items()]
        loads = [f"*({v}*){a} = *(const {v}*){place[a]};" for a, v in vector.items() if a in self.read]
        stores = [f"*({v}*){place[a]} = *({v}*){a};" for a, v in vector.items() if a in self.stored]
        each_one = f"#pragma unroll\n    for (int {E} = 0; {E} < {n}; {E}++) {{ {' '.join(made)} }}"
        return "\n    ".join([" ".join([*arrays, *loads]), each_one, " ".join(stores)])

    def changed(self) -> set[str]:
        return {array for (array, _), a in self.local.items() if a in self.stored}

    def _statement(self, text: str) -> str | None:
        """One statement for the element E of the group; None where it is about anything else."""
        out, at, bare = "", 0, text
        while (less := re.sub(r"\[[^][]*\]", "", bare)) != bare:
            bare = less
        assigned = re.match(r"[\w\s]+?((?:[-+*/%&|^]|<<|>>)?=)(?!=)", bare)
        for match in re.finditer(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[", text):
            if match.start() < at:
                continue
            close = closing(text, match.end())
            way = self.group.of(text[match.end() : close]).way if close is not None else "other"
            if close is None or match[1] not in self.types or way == "other" or (way == "same" and not match.start()):
                return None
            out += self._moved(text[at : match.start()])
            at = close + 1
            if way == "same":
                out += text[match.start() : at]
                continue
            name = self._local(match[1], " ".join(text[match.end() : close].split()))
            plain = assigned is not None and assigned[1] == "="
            if match.start() == 0:
                self.stored.add(name)
            if match.start() or (not plain and name not in self.set):
                self.read |= {name} - self.set
            self.set |= {name} if match.start() == 0 else set()
            out += f"{name}[{E}]"
        return None if assigned is None else f"{out}{self._moved(text[at:])};"

    def _local(self, array: str, index: str) -> str:
        count = sum(a == array for a, _ in self.local)
        return self.local.setdefault((array, index), f"{array}_of{count or ''}")

    def _moved(self, text: str) -> str:
        """With what follows one another moved on to the element."""
        for name in (self.group.index, *(n for n, v in self.group.names.items() if v.way == "next")):
            text = re.sub(rf"(?<![\w.])(?<!->){name}\b", f"({name} + {E})", text)
        return text

    def _apart(self) -> bool:
        """Whether what is stored is read at the same place alone, and nothing that tells a place is stored."""
        for (array, index), name in self.local.items():
            if name in self.stored and any(a == array and i != index for a, i in self.local):
                return False
            if name in self.stored and any(re.search(rf"\b{array}\b", i) for _, i in self.local):
                return False
        kept = "".join(self.code.split())
        places = [(array, f"{array}[{''.join(index.split())}]") for array, index in self.local]
        told = {array: sum(kept.count(place) for a, place in places if a == array) for array, _ in self.local}
        return all(kept.count(f"{array}[") == told[array] for array in self.changed())
