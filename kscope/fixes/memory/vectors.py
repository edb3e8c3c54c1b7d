"""Neighbouring accesses of one lane as one: loads that def-use, order and alignment allow; the copy of an element."""

from __future__ import annotations

import re

from kscope.features.lanes.vectorizable import Merge, merges
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES, body
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

WIDER = {"float": "float", "int": "int", "unsigned": "uint", "unsigned int": "uint", "double": "double"}
FIELDS = "xyzw"
_POINTER = re.compile(r"\bconst\s+([\w ]+?)\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])", re.ASCII)
_USE = re.compile(r"(?<![\w.])(?<!->)(\w+)\s*\[([^][]+)\]", re.ASCII)


WORDS = {2: "short", 4: "int", 8: "int2", 16: "int4"}
_COPY = re.compile(
    r"for\s*\(\s*(?:\w+ +)+(\w+)\s*=\s*0\s*;\s*\1\s*<\s*(\w+)\s*;\s*(?:\1\s*\+\+|\+\+\s*\1)\s*\)\s*(\{)?\s*"
    r"(\w+)\s*\[\s*\1\s*\]\s*=\s*(\w+)\s*\[\s*\1\s*\]\s*;(?(3)\s*\})", re.ASCII
)  # fmt: skip


def copies(asked: Asked) -> list[Fix]:
    """An element that is copied piece by piece: one access where it has this launch's size, else the loop as before."""
    setting, code = asked.setting, asked.setting.code
    groups = _copied(asked)
    members = code.ran({i for m in groups for i in m.members})
    reached = {p for i in members for p in places(setting, [i])}
    wide = {m.bytes for m in groups}
    if len(reached) != 1 or len(wide) != 1 or not wide <= WORDS.keys():
        return []
    (place,), (size,) = reached, wide
    found = _COPY.findall(place.text.partition("//")[0])
    edits = changed([place], lambda text: _COPY.sub(lambda m: _once(m, size), text)) if len(found) == 1 else []
    if not edits:
        return []
    _, count, _, to, source = found[0]
    return [
        Fix(
            kind="element_access",
            title=f"an element of {size} bytes copied with one access",
            language="cuda",
            edits=edits,
            conditions=[
                reads("elements of another size are copied as before", f"{count} is asked, and the loop stays"),
                proved("the pieces are single bytes", "code", len(members), "byte loads and stores"),
                Condition(holds=f"{to} and {source} do not overlap", state="check",
                          why="each piece is stored before the next is loaded"),
                Condition(holds=f"where {count} is {size}, {to} and {source} are multiples of {size}", state="check",
                          why="elements follow each other at multiples of their size, if their array starts at one"),
            ],
            proof=[
                Proof(
                    what="warp accesses", before=total(code.executed, members),
                    after=total(code.executed, [m.members[0] for m in groups]), unit="inst",
                    how=f"{counted(len(groups), 'group')} of {len(groups[0].members)}: one base, between them only "
                        "stores of what they bring (def-use)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _copied(asked: Asked) -> list[Merge]:
    """Groups of bytes that the finding names, and what is stored beside: the change moves both."""
    setting, code = asked.setting, asked.setting.code
    block = setting.launch.block if setting.launch is not None else None
    at = {x.pc for x in asked.finding.locations}
    every = [m for m in merges(code, block, crossing=True) if m.crossing and not m.sure]
    bytewise = [m for m in every if code.classes[m.members[0]].bytes == 1]
    named = {p for m in bytewise if code[m.members[0]].pc in at for p in places(setting, m.members)}
    return [m for m in bytewise if named.issuperset(places(setting, m.members))]


def _once(match: re.Match[str], size: int) -> str:
    _, count, _, to, source = match.groups()
    word = WORDS[size]
    return (
        f"if ({count} == {size}) *reinterpret_cast<{word}*>({to}) = *reinterpret_cast<const {word}*>({source}); "
        f"else {match[0]}"
    )


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    block = setting.launch.block if setting.launch is not None else None
    groups = [m for m in merges(code, block) if code.classes[m.members[0]].access == "load"]
    members = code.ran({i for m in groups for i in m.members})
    reached = {p for i in members for p in places(setting, [i])}
    if len(reached) != 1:
        return []
    (place,) = reached
    pointers = _pointers(asked, place)
    done: dict[str, int] = {}
    edits = changed([place], lambda text: _wide(text, pointers, groups[0].bytes, done))
    if not edits:
        return []
    (name, count), *others = done.items()
    if others or any(len(m.members) != count for m in groups):
        return []
    return [
        Fix(
            kind="vector_access",
            title=f"{count} neighbouring loads of {name} as one of {groups[0].bytes} bytes",
            language="cuda",
            edits=edits,
            conditions=[*_conditions(groups)],
            proof=[
                Proof(
                    what="warp loads", before=total(code.executed, members),
                    after=total(code.executed, [m.members[0] for m in groups]), unit="inst",
                    how=f"{len(groups)} groups of {count}: one base, one guard, nothing between that writes (def-use)",
                )
            ],
            price=asked.finding.estimate if _all(asked, members) else None,
        )
    ]  # fmt: skip


def _conditions(groups: list[Merge]) -> list[Condition]:
    loads = sum(len(m.members) for m in groups)
    out = [proved("nothing between the loads writes what they read", "code", loads, "def-use and order")]
    for one in sorted({(m.sure, m.condition) for m in groups}):
        sure, words = one
        out.append(
            Condition(
                holds=words, state="assumed" if sure else "check",
                why="cudaMalloc aligns to 256 bytes; the offsets were run" if sure else "a launch value decides",
            )
        )  # fmt: skip
    return out


def _all(asked: Asked, members: list[int]) -> bool:
    """Whether the finding is about these loads alone."""
    at = {asked.setting.code[i].pc for i in members}
    return all(x.pc in at for x in asked.finding.locations)


def _pointers(asked: Asked, place: Place) -> dict[str, str]:
    """Parameters that point to elements with a vector type: name to type."""
    lines = asked.setting.lines(place.file)
    for n in range(place.number, 0, -1):
        if "__global__" in lines[n - 1]:
            if place.number not in body(lines, place.number) or "__device__" in "".join(lines[n : place.number]):
                return {}  # of another function
            return {name: kind for kind, name in _POINTER.findall(lines[n - 1]) if kind in WIDER}
    return {}


def _wide(text: str, pointers: dict[str, str], width: int, done: dict[str, int]) -> str:
    """`x[i] ... x[i + 3]` as fields of one vector at x[i]."""
    for name, kind in pointers.items():
        count = width // SIZES[kind]
        found = [(m, m[2].replace(" ", "")) for m in _USE.finditer(text) if m[1] == name]
        bases = {index for _, index in found if not re.search(r"\+[1-9]\d*$", index)}
        if len(bases) != 1 or count not in (2, 4) or len(found) != count:
            continue
        (base,) = bases
        places_ = {index: n for n, index in enumerate([base, *(f"{base}+{n}" for n in range(1, count))])}
        if {index for _, index in found} != places_.keys():
            continue
        written = next(m[2] for m, index in found if index == base).strip()
        for match, index in reversed(found):
            vector = f"reinterpret_cast<const {WIDER[kind]}{count}*>(&{name}[{written}])->{FIELDS[places_[index]]}"
            text = text[: match.start()] + vector + text[match.end() :]
        done[name] = count
    return text
