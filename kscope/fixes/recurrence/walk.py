"""A walk along sums by one thread, until one passes a goal, while its block waits: all threads add up a stretch each,
scan the sums of the stretches, and the first place that passes is found by all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Span, closing, plain
from kscope.fixes.recurrence.linear import parsed
from kscope.fixes.recurrence.rewritten import Side, alike, edits, numbers, sized
from kscope.fixes.recurrence.scanned import FORMS, SYNC, VECTOR, WARP, Form, Walk, scanned
from kscope.fixes.rows.compared import arrayed
from kscope.fixes.rows.function import Function, function
from kscope.model.contract.fixes import Condition, Fix, Proof

EACH = 16  # elements of a thread at most: more are longer than a walk is worth sharing this way (judged)
LEAST = 64  # rounds of a walk that a scan is worth (judged)
_ALONE = re.compile(
    rf"{SYNC}\s*if\s*\(\s*(?:!\s*(?P<t>\w+(?:\.x)?)|(?P<u>\w+(?:\.x)?)\s*==\s*0)\s*\)\s*(?P<open>\{{)", re.ASCII
)
_WALK = re.compile(
    r"(?:while\s*\(\s*(?P<k>\w+)\s*<\s*(?P<n>[^;(){}]+)\)|for\s*\(\s*;\s*(?P<k2>\w+)\s*<\s*(?P<n2>[^;(){}]+);\s*"
    r"(?:(?P=k2)\s*\+\+|\+\+\s*(?P=k2))\s*\))\s*\{\s*"
    r"(?P<c>\w+)\s*\+=\s*(?P<value>[^;{}]+);\s*if\s*\(\s*(?P=c)\s*(?P<test>>=?)\s*(?P<goal>[^;{}]+)\)\s*break\s*;\s*"
    r"(?P<step>(?:\w+\s*\+\+|\+\+\s*\w+)\s*;\s*)?\}"
)
_NEVER = re.compile(r"\b(?:asm|goto|extern|volatile|\w+_n)\b|\bthreadIdx\.[yz]|#\s*(?!pragma\s+unroll)\w")
_TYPES = ("float", "double", "int", "unsigned")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    fn = function(setting)
    if fn is None or fn.call is not None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    known, block = numbers(setting, fn), launch.block[0]
    found = walk(fn, known)
    if found is None or block % WARP or not LEAST <= found.many <= EACH * block:
        return []
    best = sparing(found, block, known)
    if best is None:
        return []
    form, spans, compared = best
    code = setting.code
    barriers = total(code.executed, code.ran(code.where(lambda ins, op: ins.opcode == "BAR")))
    met = barriers / (launch.warps * launch.blocks)
    fractions = found.kind in ("float", "double")
    each = -(-found.many // block)
    return [
        Fix(
            kind="lane_mapping",
            title=f"the walk along {found.many} sums by all {block} threads of the block: a scan, and the first place "
                  "that passes",
            language="cuda",
            edits=edits(setting, fn, spans),
            conditions=[
                proved("every result is the same", "values", compared,
                       "both versions played on numbers, every result compared; no races"),
                reads("what one thread did in front of the walk all may do", "it stores nothing"),
                *([Condition(holds="a place next to it may be found where a sum all but meets the goal", state="check",
                             why="sums in another order round differently")] if fractions else []),
                Condition(holds=f"every launch has blocks of {block} threads", state="check",
                          why="how far each goes is a number in the code"),
            ],
            proof=[
                Proof(what="steps of the walk, one behind the other", before=found.many,
                      after=2 * each + 5 + block // WARP, unit="steps",
                      how=f"{each} elements a thread, twice, 5 shuffles, a sum for each of {block // WARP} warps"),
            ],
            costs=[f"{block // WARP + 1} words of shared memory a block",
                   *([f"{form.meetings} barriers more, of {met:.3g} that a warp passes"] if form.meetings > 0 else [])],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def sparing(found: Walk, block: int, known: Mapping[str, int]) -> tuple[Form, list[Span], int] | None:
    """The form with the fewest meetings that is played and comes out the same, its spans, and results compared."""
    fn, numbers_ = found.fn, sized(found.fn, known, block, block)
    for form in FORMS:
        spans = scanned(found, block, form)
        if spans is None:
            continue
        old, new = (Side(arrayed(text), (2, 1), (block, 1)) for text in (fn.body, put(fn, spans)))
        compared = alike(fn, old, new, (), numbers_)
        if compared:
            return form, spans, compared
    return None


def put(fn: Function, spans: Sequence[Span]) -> str:
    """The function's body with spans put."""
    body = fn.code
    for start, end, new in sorted(spans, reverse=True):
        body = body[:start] + new + body[end:]
    return body[fn.opened :]


def walk(fn: Function, known: Mapping[str, int]) -> Walk | None:
    """The walk of a function that one thread does between two barriers; None where it does more than a scan can."""
    every = list(_ALONE.finditer(fn.code, fn.opened))
    found = [one for m in every if (one := _walk(fn, m, known)) is not None]
    return found[0] if len(found) == 1 and not _NEVER.search(fn.body) else None


def _walk(fn: Function, alone: re.Match[str], known: Mapping[str, int]) -> Walk | None:
    code, opened = fn.code, alone.start("open")
    end = closing(code, opened + 1)
    thread = alone["t"] or alone["u"]
    head = code[fn.opened + 1 : alone.start()]
    if end is None or not re.match(rf"\s*{SYNC}", code[end + 1 :]) or head.count("{") != head.count("}"):
        return None
    inside = code[opened + 1 : end]
    walks = list(_WALK.finditer(inside))
    if len(walks) != 1 or "return" in head or (thread != "threadIdx.x" and plain(thread, head) != "threadIdx.x"):
        return None
    (m,) = walks
    place, many = m["k"] or m["k2"], evaluated(m["n"] or m["n2"], known)
    before, behind = inside[: m.start()], inside[m.end() :]
    kind = _summed(m, place, before, behind)
    if many is None or not kind:
        return None
    start = alone.end() - len(alone[0]) + re.match(SYNC, alone[0]).end()  # type: ignore[union-attr]
    return Walk(fn, thread, place, many, m["c"], kind, m["value"], f"{m['test']} {m['goal'].strip()}", before, behind,
                (start, end + 1), alone.start(), _row(fn, kind, place, m["value"], known))  # fmt: skip


def _row(fn: Function, kind: str, place: str, value: str, known: Mapping[str, int]) -> tuple[str, int, int]:
    one = re.fullmatch(rf"\s*(\w+)\s*\[\s*{place}\s*\]\s*", value)
    named = re.escape(one[1]) if one is not None else "0"
    made = re.search(rf"__shared__\s+(?={kind}\s)[^;]*?[\s,]{named}\s*\[([^]]*)\]\s*[,;]", fn.code[fn.opened :])
    long = evaluated(made[1], known) if made is not None and kind in VECTOR else None
    if one is None or made is None or long is None:
        return "", 0, 0
    return one[1], long, fn.opened + made.start() + len("__shared__")


def _summed(m: re.Match[str], place: str, before: str, behind: str) -> str:
    """The type of a walk's sum, if sum and place begin at 0 and the place alone is asked for; "" otherwise."""
    stepped = re.fullmatch(rf"(?:{place}\s*\+\+|\+\+\s*{place})\s*;\s*", m["step"] or "") is not None
    if stepped != (m["k"] is not None) or (m["step"] and not stepped):
        return ""
    kinds = _begins(before) or {}
    kind = kinds.get(m["c"], "")
    if kinds.get(place) not in ("int", "unsigned") or kind not in _TYPES:
        return ""
    if re.search(rf"\b(?:{place}|{m['c']})\b", m["goal"]) or re.search(rf"\b{m['c']}\b", m["value"] + behind):
        return ""
    return kind if not re.search(r"\+\+|--|[^=!<>]=(?!=)", m["value"] + m["goal"]) else ""


def _begins(text: str) -> dict[str, str] | None:
    """Names that a text sets to 0 and never again, with their types; None where it does anything but declare and work
    out what is its own."""
    try:
        tree = parsed(f"{{{text}}}")
        own = {name: (kind, value) for one in tree[1] if one[0] == "declare" and not one[3] for kind, name, value in
               ((one[1], name, value) for name, _, _, value in one[2])}  # fmt: skip
        changed = _changed(tree)
    except Unplayable:
        return None
    if changed is None or not changed <= own.keys():
        return None
    zero = (("number", "0"), ("number", "0.f"), ("number", "0.0f"), ("number", "0."), ("number", "0.0"))
    return {name: kind for name, (kind, value) in own.items() if value in zero and name not in changed}


def _changed(node: object) -> set[str] | None:
    """Names that a tree assigns to but those that its loops count; None where it does what not all threads may do."""
    if not isinstance(node, (tuple, list)):
        return set()
    if node and node[0] in ("barrier", "meeting", "return", "leave", "claim"):
        return None
    if len(node) == 3 and node[0] == "call" and (str(node[1]).startswith("atomic") or "_sync" in str(node[1])):
        return None
    found: set[str] = set()
    if len(node) == 4 and node[0] in ("assign", "after"):
        if node[2][0] != "name":
            return None
        found.add(node[2][1])
    counted = _counted(node) if len(node) == 5 and node[0] == "for" else set()
    for part in node:
        inner = _changed(part)
        if inner is None:
            return None
        found |= inner
    return found - counted


def _counted(loop: Sequence[Any]) -> set[str]:
    return {name for name, *_ in loop[1][2]} if loop[1][0] == "declare" else set()
