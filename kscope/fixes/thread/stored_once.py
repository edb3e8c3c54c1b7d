"""A sum that each term writes to global memory: kept in a local variable and stored once behind the last term."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.patterns.kept_in_memory import Kept, kept_in_memory
from kscope.features.patterns.loop_parallelism import trips
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED, into_the_same, used_by
from kscope.fixes.given.conditions import not_written, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, kernel_text, loops, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

WRITTEN_OUT = 4  # rounds that nvcc puts behind each other in a loop of unknown length (seen in its code)
TYPES = ("float", "double", "int", "unsigned", "unsigned int", "long long", "unsigned long long")
_ADDED = re.compile(
    r"(?<![\w.*)\]&])(?<!->)(?:\*\s*(?P<at>[A-Za-z_]\w*)|(?P<of>[A-Za-z_]\w*)\s*\[[^][;{}=]+\])\s*[-+*]="
)
_LEAVES = re.compile(
    r"\b(?:return|continue|goto|break|asm|__sync\w+|__threadfence\w*|atomic\w+|volatile)\b|#\s*(?!pragma)\w"
)
_HEAD = re.compile(r"\b(?:for|if|while)\s*\([^{};]*(?:;[^{};]*;[^{};]*)?\)\s*$|\belse\s*$")
_ASKS = re.compile(r"\b(?:if|else|switch)\b|\?|&&|\|\|")
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
    uses = _uses(code, place)
    if not uses or any(_as_more(code, m) for m in uses):
        return None
    given = re.match(r"\s*=(?!=)", code[uses[0].end() :]) and _BEGINS.search(code[: uses[0].start()])
    found = (_from_its_value if given else _of_loop)(code, name, uses)
    if found is None or uses[-1].start() >= found.end or re.match(r"\s*else\b", code[found.end :]):
        return None
    inside = code[found.start : found.end]
    behind = inside[uses[0].end() - found.start :] if found.opened else inside
    others = len(re.findall(rf"(?<![\w.])(?<!->){name}\b", inside)) - len(list(_uses(inside, found.place)))
    left = _LEAVES.search(inside) or used_by(inside, into_the_same(code, name))
    return found if not others and not left and _steady(behind, found.place) else None


def _from_its_value(code: str, name: str, uses: list[re.Match[str]]) -> _Sum | None:
    """From the statement on that gives a first value, which gives nothing else one."""
    first, last = uses[0].start(), uses[-1].start()
    if len([*split_declarators(code[first : statement_end(code, first)])]) > 1:
        return None
    return _Sum(uses[0][0], name, first, _last_end(code, first, last), opened=True)


def _of_loop(code: str, name: str, uses: list[re.Match[str]]) -> _Sum | None:
    """The outermost loop around all uses that leaves the place where it is, and that asks for nothing before one of
    them: where it does, it may be nobody's place."""
    first, last, place = uses[0].start(), uses[-1].start(), uses[0][0]
    around = [x for x in loops(code) if x.body[0] <= first and last < x.body[1]]
    steady = [x for x in around if _steady(code[x.span[0] : x.body[1]], place)]
    if not steady or not _BEGINS.search(code[: steady[0].span[0]]):
        return None
    start = steady[0].span[0]
    asked = all(_ASKS.search(_open_heads(code[start : m.start()])) for m in uses)
    return _Sum(place, name, start, steady[0].body[1], opened=False) if not asked else None


def _as_more(code: str, use: re.Match[str]) -> bool:
    """Whether a use is of more than the place's value: its address, or the next place's (`*o++`)."""
    before, after = code[: use.start()].rstrip(), code[use.end() :].lstrip()
    return (before.endswith("&") and not before.endswith("&&")) or (
        use[0].startswith("*") and after.startswith(("++", "--", "[", "->", "("))
    )


def _open_heads(text: str) -> str:
    """What stands in front of a text's end in the statements that are open there."""
    outer: list[str] = []
    now, depth = "", 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "{":
            outer.append(now)
        elif c == "}" and outer:
            outer.pop()
        now = "" if c in "{}" or (c == ";" and not depth) else now + c
    return " ".join([*outer, now])


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
        while end is not None and (other := re.match(r"\s*else\b\s*", code[end:])) is not None:
            end = statement_end(code, end + other.end())
        if end is None or last < end:
            return end or first
        rest = code[end:]
        at = end + len(rest) - len(rest.lstrip())


def _steady(region: str, place: str) -> bool:
    """Whether nothing that the place is made of changes in a piece of text."""
    names = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", place))
    for use in _uses(region, place):
        region = region[: use.start()] + " " * len(use[0]) + region[use.end() :]
    return not any(re.search(rf"(?<![\w.])(?<!->){n}{MODIFIED}|(?:\+\+|--|&)\s*{n}\b", region) for n in names)


def _type(code: str, name: str) -> str | None:
    """What a pointer points to, if all that is declared by its name is of one type."""
    head = r"(?:^|[(,;{}])\s*((?:[A-Za-z_][\w:]*\s+)*[A-Za-z_][\w:]*)\s*\*\s*(?:(?:__restrict__|const)\s+)*"
    found = {" ".join(kind.split()) for kind in re.findall(rf"{head}{name}\b", code)}
    return found.pop() if len(found) == 1 and found <= set(TYPES) else None


def _spans(code: str, one: _Sum, kind: str) -> list[Span]:
    local = f"{one.name}_sum"
    if re.search(rf"\b{local}\b", code):
        return []
    found = [m for m in _uses(code, one.place) if one.start <= m.start() < one.end]
    first = statement_end(code, one.start) if one.opened else None
    found = [m for m in found if m.start() == one.start or first is None or m.start() >= first]
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
            *([] if one.opened else [Condition(holds="no other thread changes it meanwhile", state="check",
                                                why="it is read and stored again even where the loop has no rounds")]),
        ],
        proof=[
            Proof(
                what="warp stores between terms", before=total(code.executed, stores), after=0, unit="inst",
                how=f"{len(stores)} instructions, at {rounds} terms a pass: one store behind the last stays",
            )
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
