"""Bulk copies that one lane asks for round after round: the rounds dealt out to the lanes of its warp."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.features.sass.slices import steps_from_loaded
from kscope.fixes.atomics.reading import used_by
from kscope.fixes.given.conditions import WRITES, proved, reads, shown
from kscope.fixes.given.rewrite import made_of, places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import (
    Loop,
    Span,
    Text,
    closing,
    kernel_text,
    loops,
    plain,
    spans_edited,
    statement_end,
)
from kscope.isa.families import family
from kscope.model.contract.fixes import Condition, Fix, Proof

ROUNDS = 4  # a lane's rounds from which dealing them out is worth a line (judged)
LENGTHS = 200  # ends that the rounds are played for, with each step
STEPS = (1, 2, 4)
_ONE = re.compile(r"\bif\s*\(\s*(?P<lane>\w+|threadIdx\.x\s*%\s*32)\s*==\s*0\s*\)\s*(?=for\b)")
_FLOW = re.compile(r"\b(?:break|continue|return|goto|while|switch|atomic\w*|__\w*sync\w*|__shared__|static)\b|#")
_OWN = re.compile(r"\b(?:const\s+)?(?:auto|unsigned|int|float|size_t|[iu]nt[234]|float[24])\s+(\w+)\s*=")
_WRITTEN = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)?(?:(?<![=!<>])[-+*/|&^]?=(?!=)|\+\+|--)")
_JOINS = re.compile(r"[\s}]*(?:else\s*\{[^{}]*\}\s*)?__syncwarp\s*\(")
_SYNCED = re.compile(r"__syncwarp\s*\(\s*\)\s*;\s*(?:if\s*\([^(){};]*\)\s*\{\s*)?$")


class _Serial(Struct, frozen=True):
    """`if (lane == 0) for (r = 0; r < end; r += step) { .. }`: where the `if` begins, the lane's name, the loop."""

    start: int
    lane: str
    loop: Loop
    step: int


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    found = _found(text.code) if text is not None else None
    serial = by_one_lane(setting)
    if text is None or found is None or not serial or setting.launch is None:
        return []
    mine = [i for i in range(len(code)) if _inside(setting, text, found, i)]
    here = [i for i in mine if i in serial]
    if not here or not _free(setting, mine):
        return []
    asks, entries = total(code.executed, here), _entries(setting, here)
    if not entries or asks < ROUNDS * entries or not _whole_warps(setting, here):
        return []
    each = asks / entries
    edits = spans_edited(setting, text, _spans(text, found))
    return [
        Fix(
            kind="lane_mapping",
            title=f"rounds of the loop over {found.loop.name} dealt out to the lanes of the warp, not all to lane 0",
            language="cuda",
            edits=edits,
            parameters={"lanes": LANES},
            conditions=[
                shown(_played() > 0, "each round is done once", "values", _played(), "loops of many lengths, by lane"),
                proved("all lanes of the warp get there", "code", here,
                       "as many threads as lanes, counted in front of the branch"),
                proved("a round uses nothing that a round before has made", "code", mine,
                       "no store, no atomic, no load whose address the round before has loaded"),
                reads("what a round writes is its own", "names that its body declares"),
                Condition(holds="the mbarrier does not count which lane asks", state="assumed",
                          why="it counts bytes (PTX ISA, complete_tx)"),
            ],
            proof=[
                Proof(what="bulk copies that one lane asks for, one after the other", before=each,
                      after=max(1.0, each / LANES), unit="inst", how=f"{LANES} lanes take their share of each warp's"),
            ],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def by_one_lane(setting: Setting) -> list[int]:
    """Bulk copies behind a branch that one lane of the warp alone goes through."""
    code, copies = setting.code, family("bulk_copy")
    asked = code.ran(code.where(lambda ins, op: ins.opcode in copies))
    if not asked:
        return []
    entered = {b for i in _branches(setting) for b in code.cfg.blocks[code.cfg.block_of[i]].successors
               if _alone(setting, i, b)}  # fmt: skip
    return [i for i in asked if any(code.cfg.dominates(b, code.cfg.block_of[i]) for b in entered)]


def _branches(setting: Setting) -> list[int]:
    code = setting.code
    return code.ran(code.where(lambda ins, op: ins.opcode == "BRA" and ins.guard is not None))


def _alone(setting: Setting, branch: int, block: int) -> bool:
    """Whether exactly lane 0 goes from a branch to a block that nothing else enters."""
    code = setting.code
    if len(code.cfg.blocks[block].predecessors) != 1:
        return False
    taken = Lanes(code, Assumption(1, setting.block)).guard(branch)
    behind = code.cfg.blocks[block].start == branch + 1
    return taken == (tuple(int(lane > 0) for lane in range(LANES)) if behind else _FIRST)


_FIRST = (1, *(0,) * (LANES - 1))


def _found(code: str) -> _Serial | None:
    every = loops(code)
    for match in _ONE.finditer(code):
        loop = next((x for x in every if x.span[0] == match.end()), None)
        if loop is None or loop.start != "0" or plain(match["lane"], code) not in ("threadIdx.x%32", "threadIdx.x&31"):
            continue
        step = "1" if loop.step in (f"{loop.name}++", f"++{loop.name}") else plain(loop.step.partition("+=")[2])
        if re.match(r"\s*else\b", code[loop.body[1] :]) or _of_lanes(code, match.start(), loop):
            continue
        if step.isdigit() and int(step) in STEPS and _rounds_apart(code[slice(*loop.body)], loop.name, match["lane"]):
            return _Serial(match.start(), match["lane"], loop, int(step))
    return None


def _of_lanes(code: str, start: int, loop: Loop) -> bool:
    """Whether the rounds, or how many there are, use a value that lanes of a warp have of their own, or some have at
    all."""
    before = re.sub(r"\bthreadIdx\.x\s*(?:/\s*32\b|>>\s*5\b)", "0", code[:start])
    t = re.search(r"\b(\w+)\s*=\s*threadIdx\.x\s*[;,]", before)
    if t is not None:
        before = re.sub(rf"\b{t[1]}\s*(?:/\s*32\b|>>\s*5\b)", "0", before)
    apart = re.sub(r"\([^()]*\)|(,)", lambda m: ";" if m[1] else m[0], before)
    own = made_of("threadIdx", apart, ["-"])
    for test in re.finditer(r"\bif\s*\(", before):
        close = closing(before, test.end())
        end = statement_end(before, test.start()) if close is not None else None
        if close is not None and used_by(before[test.end() : close], own):
            inside = before[close:end] if end is not None else ""
            own |= set(_WRITTEN.findall(inside)) - set(_OWN.findall(inside))
    return used_by(code[loop.span[0] : loop.body[1]], own)


def _rounds_apart(body: str, counter: str, lane: str) -> bool:
    """Whether a round writes names alone that it declares, and asks for neither the lane nor another way out."""
    others = {m[1] for m in _WRITTEN.finditer(body)} - set(_OWN.findall(body))
    changed = re.search(rf"\b{counter}\s*(?:[-+*/]?=(?!=)|\+\+|--)|\b{re.escape(lane)}", body)
    return not others and changed is None and _FLOW.search(body) is None


def _inside(setting: Setting, text: Text, one: _Serial, index: int) -> bool:
    first, last = (text.first + text.code[:at].count("\n") for at in (one.loop.span[0], one.loop.body[1]))
    return any(first <= p.number <= last for p in places(setting, [index]))


def _free(setting: Setting, mine: list[int]) -> bool:
    """Whether the loop's instructions store nothing, and take no address from what another of them has loaded."""
    code = setting.code
    loads = [i for i in mine if code.classes[i].access == "load" and code.classes[i].space in ("global", "generic")]
    stores = [i for i in mine if code.classes[i].access in WRITES]
    return not stores and not any(steps_from_loaded(code, i) for i in loads)


def _entries(setting: Setting, here: list[int]) -> float:
    """How often a warp comes to these copies: to the branch that lets one lane through."""
    code = setting.code
    return max((code.executed[i] for i in _before(setting, here)), default=0.0)


def _before(setting: Setting, here: list[int]) -> list[int]:
    """The branches that let one lane through to these."""
    code = setting.code
    return [
        i for i in _branches(setting) for b in code.cfg.blocks[code.cfg.block_of[i]].successors
        if _alone(setting, i, b) and all(code.cfg.dominates(b, code.cfg.block_of[c]) for c in here)
    ]  # fmt: skip


def _whole_warps(setting: Setting, here: list[int]) -> bool:
    """Whether all lanes came to the branch, each time, and one went on."""
    threads, code = getattr(setting.code, "threads", None), setting.code
    front = _before(setting, here)
    if threads is None or not front:
        return False
    came = max(front)
    first = code.cfg.blocks[code.cfg.block_of[came]].start
    ran = [i for i in range(first, came) if code[i].guard is None]
    return bool(ran) and threads[ran[-1]] == LANES * code.executed[ran[-1]]


def _spans(text: Text, one: _Serial) -> list[Span]:
    loop, code = one.loop, text.code
    waits = _SYNCED.search(code[: one.start]) is None, _JOINS.match(code[loop.body[1] :]) is None
    before, after = ("{ " + "__syncwarp(); " * waits[0], " __syncwarp();" * waits[1] + " }") if any(waits) else ("", "")
    lane = one.lane if one.lane.isidentifier() else f"({one.lane})"
    first = lane if one.step == 1 else f"{lane} * {one.step}"
    head = f"for ({loop.kind} {loop.name} = {first}; {loop.name} < {loop.end}; {loop.name} += {LANES * one.step})"
    spans: list[Span] = [(one.start, loop.span[1], before + head)]
    return [*spans, (loop.body[1], loop.body[1], after)] if after else spans


def _played() -> int:
    """How many rounds were dealt out, if each was done once; 0 otherwise."""
    count = 0
    for step in STEPS:
        for end in range(LENGTHS):
            done = sorted(r for lane in range(LANES) for r in range(lane * step, end, LANES * step))
            if done != list(range(0, end, step)):
                return 0
            count += len(done)
    return count
