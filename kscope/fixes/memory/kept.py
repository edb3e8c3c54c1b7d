"""Sums of a thread that lie in shared memory: in a register of its own."""

from __future__ import annotations

import re

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, kernel_text, spans_edited
from kscope.model.contract.fixes import Fix, Proof

TYPES = ("float", "double", "int", "unsigned")
SEEDS = (1, 2, 3)
_USE = re.compile(r"(?<![\w.])(?<!->)(\w+)\s*\[\s*(\w+(?:\.x)?)\s*\]")


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    text = kernel_text(setting)
    if text is None or setting.block[1] * setting.block[2] > 1:
        return []
    code = text.code
    own = {"threadIdx.x", *re.findall(r"\bint\s+(?:[^;]*,\s*)?(\w+)\s*=\s*threadIdx\.x\s*[,;]", code)}
    for name in dict.fromkeys(m[1] for m in _USE.finditer(code) if m[2] in own):
        kind = _type(code, name)
        uses = [m for m in _USE.finditer(code) if m[1] == name and m[2] in own]
        others = _others(code, name, uses)
        added = [u for u in uses if re.match(r"\s*[-+*]=", code[u.end() :])]
        if kind is None or others or not added or not re.match(r"\s*=(?!=)", code[uses[0].end() :]):
            continue
        made = _own(asked, name, kind, [u.span() for u in uses])
        if made is not None:
            return [made]
    return []


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
    """The element's type: of a shared array, or of a pointer that is declared."""
    for kind in TYPES:
        if re.search(rf"\b{kind}\b[^;()]*\*\s*{name}\s*=|\b__shared__\s+{kind}\s+{name}\s*\[", code):
            return kind
    return None


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
