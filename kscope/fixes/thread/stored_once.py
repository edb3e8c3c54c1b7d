"""A sum that each term writes to global memory: kept in a local variable and stored once behind the last term."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.patterns.kept_in_memory import Kept, kept_in_memory
from kscope.features.patterns.loop_parallelism import trips
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import not_written, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, kernel_text, loops, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

WRITTEN_OUT = 4  # rounds that nvcc puts behind each other in a loop of unknown length (seen in its code)
TYPES = ("float", "double", "int", "unsigned", "long long")
_ADDED = re.compile(
    r"(?<![\w.*)\]&])(?<!->)(?:\*\s*(?P<at>[A-Za-z_]\w*)|(?P<of>[A-Za-z_]\w*)\s*\[[^][;{}=]+\])\s*[-+*]="
)
_LEAVES = re.compile(r"\b(?:return|continue|goto|break|asm|__sync\w+|__threadfence\w*|atomic\w+|volatile)\b")
_HEAD = re.compile(r"\b(?:for|if|while)\s*\([^{};]*(?:;[^{};]*;[^{};]*)?\)\s*$|\belse\s*$")
_BEGINS = re.compile(r"(?:^|[;{}])\s*$")


class _Sum(Struct, frozen=True):
    """`place` as the text has it, of array or pointer `name`; the region in which it can be a local variable: from
    `start` (its first value is put there: `opened`, else the place's own) to `end`."""

    place: str
    name: str
    start: int
    end: int
    opened: bool


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    kept = [k for k in kept_in_memory(setting.code) if k.space != "shared" and k.stores]
    text = kernel_text(setting)
    if text is None or not kept or all(_few(setting, k) for k in kept):
        return []
    code = text.code
    lines = {line for k in kept for i in k.stores for file, line in setting.sites(i) if file == text.file}
    for match in _ADDED.finditer(code):
        if text.first + code.count("\n", 0, match.start()) not in lines:
            continue
        one = _region(code, match)
        kind = _type(code, one.name) if one is not None else None
        if one is None or kind is None:
            continue
        edits = spans_edited(setting, text, _spans(code, one, kind))
        if edits:
            return [_fix(asked, one, edits, kept)]
    return []


def _few(setting: Setting, kept: Kept) -> bool:
    """Rounds whose number the compiler does not know and which are fewer than those that it would write out behind each
    other: their loads wait for each other as before. Measured: 0.94x for three."""
    return kept.loop >= 0 and kept.rounds == 1 and trips(setting.code, kept.loop) < WRITTEN_OUT


def _region(code: str, match: re.Match[str]) -> _Sum | None:
    """Where the sum may be a local variable; None where something between reads or leaves it."""
    place, name = code[match.start() : match.end()].rstrip("=").rstrip("+-*").rstrip(), match["at"] or match["of"]
    found_uses = _uses(code, place)
    if not found_uses:
        return None
    uses, first, place = [m.start() for m in found_uses], code[found_uses[0].end() :].lstrip(), found_uses[0][0]
    begins = _BEGINS.search(code[: uses[0]]) is not None
    if first.startswith("=") and not first.startswith("==") and begins:
        found = _Sum(place, name, uses[0], _last_end(code, uses[0], uses[-1]), opened=True)
    else:
        around = [x for x in loops(code) if x.body[0] <= uses[0] and uses[-1] < x.body[1]]
        steady = [x for x in around if _steady(code[x.span[0] : x.body[1]], place)]
        if not steady or not _BEGINS.search(code[: steady[0].span[0]]):
            return None
        found = _Sum(place, name, steady[0].span[0], steady[0].body[1], opened=False)
    inside = code[found.start : found.end]
    behind = inside[found_uses[0].end() - uses[0] :] if found.opened else inside
    others = len(re.findall(rf"(?<![\w.])(?<!->){name}\b", inside)) - len(list(_uses(inside, place)))
    leaves = _LEAVES.search(inside)
    if uses[-1] >= found.end or others or leaves or not _steady(behind, place) or _base(code, name, inside):
        return None
    return found


def _uses(code: str, place: str) -> list[re.Match[str]]:
    spaced = r"\s*".join(re.escape(t) for t in re.findall(r"\w+|[^\w\s]", place))
    found = re.finditer(rf"(?<![\w.])(?<!->){spaced}(?!\w)", code)
    return [m for m in found if not (place.startswith("*") and _factor(code[: m.start()]))]


def _factor(before: str) -> bool:
    """Whether an asterisk behind a text multiplies or declares: behind a value that is no head of a statement."""
    return bool(re.search(r"[\w)\]]\s*$", before)) and not _HEAD.search(before)


def _last_end(code: str, first: int, last: int) -> int:
    """The end of the statement beside the first use that holds the last one; the first's where there is none."""
    at = first
    while True:
        end = statement_end(code, at)
        if end is None or last < end:
            return end or first
        rest = code[end:]
        at = end + len(rest) - len(rest.lstrip())


def _steady(region: str, place: str) -> bool:
    """Whether nothing that the place is made of changes in a piece of text."""
    names = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", place))
    for use in _uses(region, place):
        region = region[: use.start()] + " " * len(use[0]) + region[use.end() :]
    written = r"(?<![\w.])(?<!->){0}\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)|(?:\+\+|--|&){0}\b"
    return not any(re.search(written.replace("{0}", name), region) for name in names)


def _base(code: str, name: str, inside: str) -> bool:
    """Whether the array that a local pointer points into has other uses there."""
    made = re.search(rf"\*\s*{name}\s*=\s*&?\s*([A-Za-z_]\w*)", code)
    return made is not None and re.search(rf"(?<![\w.])(?<!->){made[1]}\b", inside) is not None


def _type(code: str, name: str) -> str | None:
    pointer = r"\s*\*\s*(?:__restrict__\s+|const\s+)*"
    return next((k for k in TYPES if re.search(rf"(?<!const )\b{k}{pointer}{name}\b", code)), None)


def _spans(code: str, one: _Sum, kind: str) -> list[Span]:
    local = f"{one.name}_sum"
    if re.search(rf"\b{local}\b", code):
        return []
    found = [m for m in _uses(code, one.place) if one.start <= m.start() < one.end]
    spans: list[Span] = [(m.start(), m.end(), local) for m in found]
    if one.opened:
        spans[0] = (*spans[0][:2], f"{kind} {local}")
    else:
        spans.insert(0, (one.start, one.start, f"{kind} {local} = {one.place}; "))
    return [*spans, (one.end, one.end, f" {one.place} = {local};")]


def _fix(asked: Asked, one: _Sum, edits: list[Edit], kept: list[Kept]) -> Fix:
    code = asked.setting.code
    stores, loads = [i for k in kept for i in k.stores], {i for k in kept for i in k.loads}
    others = [i for k in kept for i in k.others if i not in loads]
    rounds = max(k.rounds for k in kept)
    return Fix(
        kind="register",
        title=f"{one.place} in a local variable, stored once",
        language="cuda",
        edits=edits,
        conditions=[
            reads("nothing between its terms reads or leaves it", "every use there is the sum itself"),
            *not_written(code, others),
            *([] if one.opened else [Condition(holds="no other thread changes it meanwhile", state="check")]),
        ],
        proof=[
            Proof(
                what="warp stores between terms", before=total(code.executed, stores), after=0, unit="inst",
                how=f"{len(stores)} instructions, at {rounds} terms a pass: one store behind the last stays",
            )
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
