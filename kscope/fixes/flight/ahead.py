"""Loads of several rounds of a loop on their way together, before the first round works: where they load follows from
what the loop goes on by, while a store, a test, a step that the compiler does not know or what a round hands to the
next keeps the compiler from moving them up. The rounds' work stays in its order: results are the same."""

from __future__ import annotations

import math
import re
from collections import Counter

from kscope.features.patterns.loop_parallelism import trips
from kscope.features.sass.slices import pointer
from kscope.fixes.flight.rounds import Rounds, rounds
from kscope.fixes.flight.written import code_above, spans
from kscope.fixes.given.conditions import WRITES, not_written, proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

_BOUND = re.compile(r"__launch_bounds__\s*\([^()]*,|__maxnreg__")  # registers are full by the author's hand
TIMES = (4, 2)  # rounds on their way together, as LAT302 counts them; fewer where registers would cost warps
FEW = 3.0  # rounds each time that the loop is entered, below which two are enough (judged)
LEAST = 2.0  # rounds each time that the loop is entered, from which there is a later one to load for
COPIES = 6  # registers for what the rounds ahead go on by (judged)
MOST = 0.5  # of what the finding's loads wait that this loop's do, from which its promise is the loop's (judged)


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or setting.launch is None or _BOUND.search(text.code):
        return []
    shares = {x.pc: x.share or 0.0 for x in asked.finding.locations}
    for one in rounds(text.code, setting.name, setting.lines(text.file)):
        loads = _loads(setting, text, one)
        mine = [i for i in loads if setting.code[i].pc in shares]
        waits = sum(shares[setting.code[i].pc] for i in mine)
        if not mine or waits < MOST * sum(shares.values()) or not _apart(setting, loads):
            continue
        many = trips(setting.code, setting.code.cfg.loop_of[loads[0]] or 0)
        wanted = TIMES[many < FEW]
        times = _times(setting, loads, wanted)
        edits = spans_edited(setting, text, spans(text.code, one, times)) if times else []
        if edits:
            promised = "elements a thread" not in asked.finding.fix or many >= TIMES[0]  # what its figure stands for
            return [_fix(asked, one, edits, loads, times, whole=times == wanted and promised)]
    return []


def _fix(asked: Asked, one: Rounds, edits: list[Edit], loads: list[int], times: int, *, whole: bool) -> Fix:
    code = asked.setting.code
    on = ", ".join(dict.fromkeys(g.name for g, _ in one.on))
    levels = max(h.level for h in one.held) + 1
    many = len({h.name for h in one.held})
    return Fix(
        kind="unroll",
        title=f"the loads of {times} rounds on their way together, before the first of them is used",
        language="cuda",
        code=code_above(one.held),
        edits=edits,
        parameters={"rounds": times},
        conditions=[
            reads("where a round loads follows from what the loop goes on by",
                  f"{on}, what stays, and what is loaded so"),
            reads("a round works as before, in its turn", "its text stays, with values in place of these loads"),
            proved("rounds behind the last load what the last one loads", "values", _rounds(),
                   "the new loops' counting played for many lengths and steps"),
            *not_written(code, loads),
            Condition(holds=f"registers hold the values of {times} rounds without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(what=f"waits for loads, one behind the other, in {times} rounds", before=levels * times, after=levels,
                  unit="waits", how=f"{many} loads a round; each of these is issued before a round uses its first"),
        ],
        costs=[f"{times * _words(asked.setting, loads)} registers a thread"],
        price=asked.finding.estimate if whole else None,
    )  # fmt: skip


def _loads(setting: Setting, text: Text, one: Rounds) -> list[int]:
    """The loads of the loop that are held; none where the compiler has several rounds in it already (rounds of four
    became slower by eight, 0.74x), or it hardly has a second round."""
    code = setting.code
    held = Counter(_line(text, span[0]) for span in {h.span for h in one.held} if span[1])
    found = {n: mine for n in range(len(code.cfg.loops)) if (mine := _mine(setting, text, one, n))}
    mine = max(found.values(), key=lambda f: max(code.executed[i] for i in f), default=[])
    places = Counter(_own(setting, text, i) for i in mine)
    foreign = places.pop(0, 0)
    twice = any(count > held[line] for line, count in places.items()) or foreign > sum(held.values())
    return [] if twice or (foreign and places) else mine


def _mine(setting: Setting, text: Text, one: Rounds, number: int) -> list[int]:
    """Of a loop of the code that is this one by its lines and has rounds enough: the loads of lines that hold some, or
    of other files, whose functions stand there."""
    code, head = setting.code, one.head
    held = {_line(text, span[0]) for span in {h.span for h in one.held} if span[1]}
    lines = range(_line(text, head.span[0]), _line(text, head.body[1] - 1) + 1)
    body = [i for i in code.cfg.loop_body(number) if code.cfg.loop_of[i] == number]
    from_ = {i: _own(setting, text, i) for i in body}
    mine = [
        i for i in body
        if code.classes[i].space in ("global", "generic") and code.classes[i].access == "load" and code.executed[i]
        and (not from_[i] or from_[i] in held)
    ]  # fmt: skip
    own = sum(line in lines for line in from_.values())
    return mine if mine and 2 * own > len(body) and trips(code, number) >= LEAST else []


def _line(text: Text, at: int) -> int:
    return text.first + text.code.count("\n", 0, at)


def _own(setting: Setting, text: Text, i: int) -> int:
    """The line of the kernel's file that an instruction is from; 0 where another file has it."""
    return next((line for file, line in setting.sites(i) if file == text.file), 0)


def _apart(setting: Setting, loads: list[int]) -> bool:
    """Whether the loop meets nobody, spills nothing, and stores through other parameters as far as that is known."""
    code = setting.code
    loop = code.cfg.loop_of[loads[0]]
    body = code.cfg.loop_body(loop) if loop is not None else ()
    meets = any(code.classes[i].kind & {"barrier", "fence", "mbarrier"} or not _computes(setting, i) for i in body)
    if meets or any(code.classes[i].space == "local" for i in body):
        return False
    stores = [i for i in body if code.classes[i].space in ("global", "generic") and code.classes[i].access in WRITES]
    return ({pointer(code, i) for i in stores} - {None}).isdisjoint({pointer(code, i) for i in loads})


def _computes(setting: Setting, i: int) -> bool:
    """Whether an instruction calls nothing, or what only computes, as slow paths of divisions do."""
    code = setting.code
    if "call" not in code.classes[i].kind:
        return True
    at = code.cfg.calls.get(i)
    while at is not None and at < len(code):
        if code[at].opcode == "RET":
            return True
        op = code.classes[at]
        at = None if op.space in ("global", "generic", "shared") or "barrier" in op.kind else at + 1
    return False


def _words(setting: Setting, loads: list[int]) -> int:
    return sum(math.ceil(setting.code.classes[i].bytes / 4) for i in loads)


def _times(setting: Setting, loads: list[int], wanted: int) -> int:
    """How many rounds registers hold without a block less on an SM than the launch has for it; 0 for none."""
    launch, now, was = setting.launch, setting.registers, setting.occupancy()
    if launch is None or now is None or was is None or not setting.sms:
        return 0
    needed = min(was.blocks, math.ceil(launch.blocks / setting.sms))
    for times in (n for n in TIMES if n <= wanted):
        then = setting.occupancy(registers=now + times * _words(setting, loads) + COPIES)
        if then is not None and then.blocks >= needed:
            return times
    return 0


def _rounds() -> int:
    """How many rounds were counted, if rounds ahead are those that work, and none is behind the last; 0 otherwise."""
    counted = 0
    for times in TIMES:
        for step in (1, 2, 7, 64):
            for length in range(1, 6 * step * times, max(1, step - 1)):
                at, worked, ahead = 0, list[int](), list[int]()
                while at < length:
                    first = at
                    for _ in range(times):
                        ahead.append(first)
                        first += step if first + step < length else 0
                    for n in range(times):
                        if at < length:
                            if ahead[n - times] != at:
                                return 0
                            worked.append(at)
                            at += step
                if worked != list(range(0, length, step)) or max(ahead) >= length:
                    return 0
                counted += len(worked)
    return counted
