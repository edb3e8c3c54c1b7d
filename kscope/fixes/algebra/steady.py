"""What each round of a loop loads again, and computes of it, since the loop stores through another pointer, which may
point there for all that a compiler knows: once, in front of the loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kscope.features.patterns.repeated_loads import Repeated, repeated_loads
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.algebra.steady_values import Steady, spans, steady
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, by_lines, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

AGAIN = "loads of loops whose address no round changes"
LEAST = 0.02  # of a kernel's instructions that such loads are: below it nobody would see the change (judged)
def fixes(asked: Asked) -> list[Fix]:
    return kept_in_front(asked.setting)


def kept_in_front(setting: Setting) -> list[Fix]:
    """The change for the first of a kernel's loops that has such loads."""
    text = kernel_text(setting)
    found = _loads(setting)
    if text is None or not found:
        return []
    for loop in loops(text.code):
        mine = steady(text.code, loop, setting.lines(text.file))
        kept = [one for one in mine if _seen(setting, text, one, mine, found)]
        edits = spans_edited(setting, text, by_lines(text.code, spans(text.code, loop, kept))) if kept else []
        if edits:
            return [_fix(setting, text, kept, edits, found)] if _worth(setting, text, kept, found) else []
    return []


def _fix(setting: Setting, text: Text, kept: Sequence[Steady], edits: list[Edit], found: Sequence[Repeated]) -> Fix:
    code = setting.code
    loads = _of(setting, text, kept, found)
    before, anew = total(code.executed, loads), len({text.code[slice(*one.span)] for one in kept})
    entered = max(code.executed[i] / r.rounds for r in found for i in r.loads if i in loads)
    told = "executions counted" if code.counted else "a loop's rounds taken for eight"
    arrays = ", ".join(sorted({a for one in kept for a in one.arrays}))
    whole = any("(" in text.code[slice(*one.span)] for one in kept)
    return Fix(
        kind="register",
        title=f"what each round reads of {arrays}{' and computes of it' * whole}, once in front of the loop",
        language="cuda",
        edits=edits,
        conditions=[
            proved("its addresses are the same in each round, and the loop stores through other parameters", "code",
                   loads, "address slices of the loop's loads and stores"),
            reads("each round reads it", "nothing in front of it in the loop's body asks or leaves"),
            Condition(holds=f"what the loop stores to does not overlap {arrays}", state="check",
                      why="two parameters may point into one array: then rounds would read what others stored"),
        ],
        proof=[
            Proof(what="loads that warps execute", before=before, after=anew * entered, unit="inst",
                  how=f"{len(loads)} instructions, {told}; {anew} in front of the loop")
        ],
        costs=["registers for what is kept"],
        price=None,
    )  # fmt: skip


def _loads(setting: Setting) -> list[Repeated]:
    """Loads that their innermost loop repeats although it stores elsewhere."""
    code, out = setting.code, []
    for one in repeated_loads(code):
        inside = code.cfg.loops[one.loop].instructions
        stores = [i for i in inside if code.classes[i].access in ("store", "atomic", "reduction")]
        if any(code.classes[i].space in ("global", "generic") for i in stores):
            out.append(one)
    return out


def again(setting: Setting) -> int:
    """How many of them a kernel has."""
    return sum(len(one.loads) for one in _loads(setting))


def _of(setting: Setting, text: Text, kept: Iterable[Steady], found: Iterable[Repeated]) -> list[int]:
    """Loads of the lines of what is kept."""
    lines = {n for one in kept for n in _lines(text, one.span)}
    every = {i for one in found for i in one.loads}
    return sorted(i for i in every if any(f == text.file and n in lines for f, n in setting.sites(i)))


def _lines(text: Text, span: tuple[int, int]) -> range:
    first, last = (text.first + text.code.count("\n", 0, at) for at in span)
    return range(first, last + 1)


def _seen(setting: Setting, text: Text, one: Steady, mine: Sequence[Steady], found: Sequence[Repeated]) -> bool:
    """Whether the machine code repeats loads of as many arrays as the text has on its lines."""
    loads, lines = _of(setting, text, [one], found), {*_lines(text, one.span)}
    arrays = {a for other in mine if lines & {*_lines(text, other.span)} for a in other.arrays}
    return len({pointer(setting.code, i) for i in loads}) >= len(arrays)


def _worth(setting: Setting, text: Text, kept: Sequence[Steady], found: Sequence[Repeated]) -> bool:
    """Whether functions go along, or the loads alone are enough."""
    called = any(re.search(r"\w\s*\(", text.code[slice(*one.span)]) for one in kept)
    executed = setting.code.executed
    return called or total(executed, _of(setting, text, kept, found)) > LEAST * total(executed)


