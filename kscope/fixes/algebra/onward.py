"""A search that each round of a loop begins anew, though what it looks for only grows: it goes on where the round
before has ended."""

from __future__ import annotations

import re
from typing import Any

from kscope.features.patterns.repeated_loads import repeated_loads
from kscope.fixes.algebra.rising import leaves, parsed
from kscope.fixes.algebra.search import BEGINS, Search, searches, uses
from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

ANEW = "loads that each round of a loop makes anew"
LENGTH = 1 << 10  # of the arrays that are searched where it is played
PIECE = 36  # of them that rise in one of the plays, as what is searched does mostly
PLAYED = ((40, 1, 3), (7, 2, 1), (30, 5, 2), (17, 0, 1))  # bounds, the first step of a thread and the next


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None or "volatile" in text.code:
        return []
    lines = {(x.file, x.line) for x in asked.finding.locations}
    for one in searches(text.code):
        first, last = (text.first + text.code.count("\n", 0, at) for at in (one.head, one.loop.body[1]))
        here = [i for i in _loads(setting) if any(first <= p.number <= last for p in places(setting, [i]))]
        if not any((text.file, n) in lines for n in range(first, last + 1)) or not here:
            continue
        edits, ran = spans_edited(setting, text, _spans(text, one)), played(one)
        if edits and ran:
            return [_fix(asked, one, edits, here, ran, code)]
    return []


def _loads(setting: Setting) -> list[int]:
    code = setting.code
    return code.ran(code.where(lambda ins, op: op.space in ("global", "shared") and op.access == "load"))


def _spans(text: Text, one: Search) -> list[Span]:
    """The start in front of the loop instead of in it; braces around both where the name is another's, too."""
    code, loop = text.code, one.loop
    begins = BEGINS.search(code[: loop.start])
    outside = code[: loop.start] + code[loop.body[1] :]
    wrap = begins is None or (bool(one.kind) and uses(one.name, outside) > 0)
    if wrap and uses(one.name, code[loop.start : loop.body[0]]):
        return []
    pragma = code.rfind("#", 0, loop.start) if begins is not None and "#" in begins[0] else -1
    at, more = (pragma, "\n") if pragma >= 0 else (loop.start, " ")
    put = f"{'{ ' * wrap}{one.kind + ' ' * bool(one.kind)}{one.name} = {one.start};{more}"
    return [(at, at, put), *one.spans, *([(loop.body[1], loop.body[1], " }")] if wrap else [])]


def played(one: Search) -> int:
    """How many searches of both kinds ended at the same place, on arrays in no order; 0 where one did not."""
    import numpy as np

    from kscope.fixes.given.played import Rules, play

    known = [leaf for text in (*one.goes, one.start) if (node := parsed(text)) is not None for leaf in leaves(node)]
    arrays = {name for name, array in known if array and name != one.name}
    names = {name for name, _ in known if "." not in name} - arrays - {one.name, one.loop.name}
    ran = sizes = 0
    for size, first, step in PLAYED:
        numbers = {**dict.fromkeys(names, size), "first_n": first, "step_n": step}
        left = []
        for anew in (True, False):
            memory: dict[str, Any] = {"found_n": np.full(32 * LENGTH, -1)}
            for name in sorted(arrays):
                drawn = np.random.default_rng([size, *map(ord, name)]).integers(0, LENGTH, (LENGTH // 2, PIECE + 1))
                drawn[:, PIECE] = 1 << 20  # nothing that is looked for is as large: a search without a bound ends
                memory[name] = (np.sort(drawn) if size % 2 == 0 else drawn).ravel()
            try:
                play(_written(one, anew=anew), (1, 1), (32, 1), memory, numbers, Rules(literals="real"))
            except Unplayable:
                break
            left.append(memory["found_n"])
        if len(left) == 2:
            if not np.array_equal(*left):
                return 0
            ran, sizes = ran + int((left[0] >= 0).sum()), sizes + 1
    return ran if sizes > 1 else 0


def _written(one: Search, *, anew: bool) -> str:
    """The search alone, in the rounds of its loop, as a kernel that says where each ends."""
    start, i = f"{one.name} = {one.start};", one.loop.name
    goes = re.sub(r"\b__ldg\s*\(", "*(", " && ".join(one.goes))
    head = f"for (int {i} = first_n * threadIdx.x; {i} < {LENGTH // 2}; {i} += step_n * 7)"
    return (
        f"{{ int round_n = 0; int {start} {head} {{ {start if anew else ''} while ({goes}) {{ {one.step}; }}"
        f" found_n[threadIdx.x * {LENGTH} + round_n] = {one.name}; round_n++; }} }}"
    )


def _fix(asked: Asked, one: Search, edits: list[Any], loads: list[int], ran: int, code: Any) -> Fix:
    said = {e.metric: e.value for e in asked.finding.evidence}
    times, looked = (float(said.get(k, 0) or 0) for k in ("rounds of the loop", "elements looked at in each"))
    i = one.loop.name
    why = f"else what is looked for falls while {i} grows"
    hopes = [Condition(holds=f"{x} is not negative", state="check", why=why) for x in dict.fromkeys(one.hopes)]
    wraps = "unsigned" in one.loop.kind or one.loop.kind in ("size_t", "uint32_t", "uint64_t")
    shared = code.where(lambda ins, op: op.space == "shared" and op.access == "load")
    of_memory = [x for x in loads if x not in shared]
    return Fix(
        kind="hoist",
        title=f"the search for {one.name} goes on where the round before has ended",
        language="cuda",
        edits=edits,
        conditions=[
            proved("each search ends where it did", "values", ran,
                   "both played on arrays in no order, in several sizes and steps, every end compared"),
            reads(f"what a search has passed for one {i} it would pass for a larger one",
                  f"its bounds stay, {i} only grows, and what it is compared with does not change"),
            *(not_written(code, of_memory) if of_memory else []),
            *hopes,
            *([Condition(holds=f"{i} does not wrap", state="check", why="it is unsigned")] if wraps else []),
        ],
        proof=[
            Proof(what=ANEW, before=sum(len(r.loads) for r in repeated_loads(code)), after=0, unit="inst",
                  how="their addresses begin anew in each round (slices)"),
            Proof(
                what="elements a thread looks at", before=times * looked, after=times + 2 * looked, unit="elements",
                how="rounds and elements by executions; one a round, and each that is passed once",
            )
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
