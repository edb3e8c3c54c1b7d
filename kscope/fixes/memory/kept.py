"""Sums of a thread that lie in shared memory: in a register of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import changed
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, kernel_text, spans_edited, statement_end
from kscope.model.contract.fixes import Fix, Proof

TYPES = ("float", "double", "int", "unsigned", "unsigned int")
SEEDS = (1, 2, 3)
_USE = re.compile(r"(?<![\w.])(?<!->)(\w+)\s*\[\s*(\w+(?:\.x)?)\s*\]")


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    text = kernel_text(setting)
    if text is None or setting.block[1] * setting.block[2] > 1:
        return []
    code = text.code
    for name, kind, uses in sums(code):
        made = _own(asked, name, kind, uses)
        if made is not None:
            return [made]
    return []


def sums(code: str) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """(name, type, uses) of arrays of a text that each thread sums up an element of, and nobody has another's."""
    named = set(re.findall(r"\bint\s+(?:[^;]*,\s*)?(\w+)\s*=\s*threadIdx\.x\s*[,;]", code))
    own = {"threadIdx.x", *(n for n in named if changed(code, n) == 1)}
    for name in dict.fromkeys(m[1] for m in _USE.finditer(code) if m[2] in own):
        kind = _type(code, name)
        uses = [m for m in _USE.finditer(code) if m[1] == name and m[2] in own]
        others = _others(code, name, uses) or re.search(rf"\b{name}_own\b", code) or _reached(code, name)
        added = [u for u in uses if re.match(r"\s*[-+*]=", code[u.end() :])]
        if kind is not None and not others and added and _in_its_block(code, uses):
            yield name, kind, [u.span() for u in uses]


def _in_its_block(code: str, uses: list[re.Match[str]]) -> bool:
    """Whether the first use is a statement that gives a value, in front of all others in its block."""
    first, end = uses[0].start(), statement_end(code, uses[0].start())
    alone = code[:first].rstrip()[-1:] in (";", "{", "}") and re.match(r"\s*=(?!=)", code[uses[0].end() :])
    if not alone or end is None or len([*split_declarators(code[first:end])]) > 1:
        return False
    depth = 0
    for c in code[end : uses[-1].start()]:
        depth += (c == "{") - (c == "}")
        if depth < 0:
            return False
    addressed = any(code[: u.start()].rstrip().endswith("&") for u in uses)
    return not addressed and all(u.start() >= end for u in uses[1:])


def _reached(code: str, name: str) -> bool:
    """Whether what a pointer leads to is used by another name, as far as the text tells: at the same place, or by the
    memory's own name."""
    made = re.search(rf"\*\s*{name}\s*=\s*(\w+)\s*\+\s*(\w+)", code)
    if made is None:
        return True
    base, at = made[1], made[2]
    rest = re.sub(rf"\b__shared__[^;]*\b{base}\s*\[[^\]]*\]\s*;", "", code.replace(made[0], ""))
    parts = re.findall(rf"\*\s*(\w+)\s*=\s*{base}\b(?:\s*\+\s*(\w+))?\s*(?=[;,])", rest)
    again = any(re.search(rf"=\s*&?\s*{part}\b\s*[-+;,]", rest) for part, _ in parts)
    return again or at in ("0", *(other for _, other in parts)) or len(parts) < len(re.findall(rf"\b{base}\b", rest))


def _others(code: str, name: str, uses: list[re.Match[str]]) -> list[int]:
    """Where a name stands that is no use by the thread's own index and no declaration."""
    found = [m.start() for m in re.finditer(rf"(?<![\w.])(?<!->){name}\b", code)]
    own = [at for at in found if any(u.start() <= at < u.end() for u in uses)]
    return [at for at in found if at not in own and not _declares(code, at, name)]


def _own(asked: Asked, name: str, kind: str, uses: list[tuple[int, int]]) -> Fix | None:
    setting = asked.setting
    text = kernel_text(setting)
    covered = _accesses(asked)
    if text is None or not covered or not _apart(asked, covered):
        return None
    spans: list[Span] = [(a, b, f"{name}_own") for a, b in uses]
    spans[0] = (*uses[0], f"{kind} {name}_own")
    edits = spans_edited(setting, text, spans)
    before = total(setting.code.executed, covered)
    return Fix(
        kind="register",
        title=f"{name}[] of each thread in a register",
        language="cuda",
        edits=edits,
        conditions=[
            proved("no thread uses another's element in these accesses", "lanes", len(SEEDS) * len(covered),
                   "lanes' addresses are distinct, and the same in each of them"),
            reads("no thread uses another's element anywhere", "every use has the thread's own index"),
        ],
        proof=[
            Proof(
                what="warp loads and stores of shared memory for the sum", before=before, after=0, unit="inst",
                how=f"{len(covered)} instructions become uses of a register",
            )
        ],
        price=asked.finding.estimate,
    ) if edits else None  # fmt: skip


def _type(code: str, name: str) -> str | None:
    """What a pointer that is declared once points to."""
    found = list(re.finditer(rf"\*\s*{name}\s*=(?!=)", code))
    before = code[: found[0].start()] if found else ""
    kind = " ".join(before[max(before.rfind(c) for c in ";{}") + 1 :].partition("*")[0].split())
    return kind if len(found) == 1 and kind in TYPES else None


def _declares(code: str, at: int, name: str) -> bool:
    """A declaration: `*name = space + 128`, with nobody else's hand in it."""
    return re.match(rf"{name}\s*=\s*\w+\s*\+\s*\w+\s*[;,]", code[at:]) is not None and code[:at].rstrip().endswith("*")


def _accesses(asked: Asked) -> list[int]:
    """Loads and stores of shared memory that the finding is about."""
    code = asked.setting.code
    at = {x.pc for x in asked.finding.locations}
    lines = {(code[i].file, code[i].line) for i in range(len(code)) if code[i].pc in at}
    shared = code.ran(code.where(lambda ins, op: op.space == "shared" and op.access in ("load", "store")))
    stores = {_bracket(asked, i) for i in shared if code.classes[i].access == "store" and code[i].pc in at}
    return [i for i in shared if (code[i].file, code[i].line) in lines and _bracket(asked, i) in stores]


def _bracket(asked: Asked, index: int) -> object:
    ins = asked.setting.code[index]
    return next((o.text for o in ins.operands if o.kind == "memory"), None)


def _apart(asked: Asked, indices: list[int]) -> bool:
    """Whether every lane has an address of its own, the same in each of these accesses."""
    code, shape = asked.setting.code, asked.setting.block
    for seed in SEEDS:
        found = {Lanes(code, Assumption(seed, shape)).address(i) for i in indices}
        if len(found) != 1 or not isinstance(one := found.pop(), tuple) or len(set(one)) != len(one):
            return False
    return True
