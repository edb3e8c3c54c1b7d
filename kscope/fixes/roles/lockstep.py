"""Barriers of a block in the rounds of warps that have roles, where mbarriers order already what they share: left out.
Without them a role runs ahead as far as the ring of slots lets it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, by_lines, closing, kernel_text, spans_edited, statement_end
from kscope.fixes.roles.declared import plain_devices
from kscope.fixes.roles.events import Copy, Stopped
from kscope.fixes.roles.played import Warps, ordered, plays
from kscope.fixes.roles.texts import kernel, opened
from kscope.fixes.roles.warp import MARK
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

MOST = 8  # barriers in loops that are looked at (judged)
LEAST = 0.01  # of all samples at those that are left out, from which they are worth a line (judged)
_LOOP = re.compile(r"\b(?:for|while)\s*\(")
_BARRIER = re.compile(
    r"(?:\b(?:asm|__asm__)\b\s*(?:volatile|__volatile__)?\s*\(\s*\"\s*(?:bar|barrier(?:\.cta)?)\.sync(?:\.aligned)?\b[^;\"]*;?\s*\""
    r"|\b(?P<name>[A-Za-z_]\w*)\s*(?:<[\w:+* ]*>)?\s*\()"
)
_GUARDED = re.compile(r"\bif\s*(?:constexpr\s*)?\((?:[\w\s!&|=<>:]|==)*\)\s*$")
_BODY = (r"__device__[^;{{}}()]*\b{name}\s*\([^(){{}}]*\)\s*\{{\s*(?:asm|__asm__)\s*(?:volatile|__volatile__)?\s*"
         r"\(\s*\"\s*bar")  # fmt: skip


class Stop(Struct, frozen=True):
    """A statement that is a barrier: its span, and that of the `if` around it where it asks for names alone."""

    span: tuple[int, int]
    around: tuple[int, int]


class Unneeded(Struct, frozen=True):
    """Barriers by their numbers; how many rounds were played, and accesses compared; whether lanes that wait for one
    phase have to go on together for it; whether boxes of tensors are copied."""

    stops: list[int]
    rounds: int
    compared: int
    together: bool
    boxes: bool


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting) if _piped(setting) else None
    at = opened(text.code, setting.name) if text is not None else None
    if text is None or at is None:
        return []
    stops = stops_in_loops(setting, text, at[2])
    mine = [barriers(setting, text, stop) for stop in stops]
    if not 0 < len(stops) <= MOST or (code.share_of([i for one in mine for i in one]) or 0) < LEAST:
        return []
    found = unneeded(setting, text, at[2], stops)
    dropped = [i for n in found.stops for i in mine[n]] if found is not None else []
    if found is None or (code.share_of(dropped) or 0) < LEAST:
        return []
    spans: list[Span] = [(*stops[n].around, "") for n in found.stops]
    edits = spans_edited(setting, text, by_lines(text.code, spans))
    return [_fix(asked, dropped, found, edits)] if edits else []


def _piped(setting: Setting) -> bool:
    """Whether blocks, alone or in clusters along x, have mbarriers."""
    launch = setting.launch
    along = launch is not None and max(launch.cluster[1:]) <= 1
    return along and bool(setting.code.where(lambda ins, op: ins.opcode == "SYNCS"))


def stops_in_loops(setting: Setting, text: Text, at: int) -> list[Stop]:
    """Barriers of the block that are statements of their own in the kernel's loops."""
    code, inside = text.code, list[tuple[int, int]]()
    for loop in _LOOP.finditer(code, at):
        close = closing(code, loop.end())
        start = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip()) if close is not None else -1
        end = statement_end(code, start) if start > 0 else None
        inside += [(start, end)] if end is not None else []
    files = {ins.file for ins in setting.code.program.instructions if ins.file is not None}
    every = plain_devices("\n".join(line for f in sorted(files) for line in setting.lines(f)))
    found = [m for m in _BARRIER.finditer(code, at) if any(a <= m.start() < b for a, b in inside)]
    stops = [_stop(code, m.start()) for m in found if _stops(m["name"], every)]
    return [stop for stop in stops if stop is not None]


def _stop(code: str, start: int) -> Stop | None:
    """A barrier that begins there, if it is a statement: alone, or behind one `if` without `else`."""
    end, before = statement_end(code, start), code[:start].rstrip()
    if end is None or not before or before[-1] not in ";{})":
        return None
    guard = _GUARDED.search(code[:start])
    lone = guard is not None and not re.match(r"\s*else\b", code[end:])
    first = guard.start() if lone and guard is not None else start
    if (before[-1] == ")" and not lone) or re.search(r"\belse\s*$", code[:first]):
        return None
    blanks = len(code[:first]) - len(code[:first].rstrip(" \t"))
    alone = code[first - blanks - 1] == "\n" and code[end : end + 1] == "\n"
    return Stop((start, end), (first - blanks * alone, end))


def _stops(name: str | None, files: str) -> bool:
    """Whether a call is a barrier: that of CUDA, or of a function that is assembly for one."""
    if name is None or name == "__syncthreads":
        return True
    return name not in ("asm", "if", "for", "while") and re.search(_BODY.format(name=name), files) is not None


def barriers(setting: Setting, text: Text, stop: Stop) -> list[int]:
    """Instructions of a statement."""
    code = setting.code
    first, last = (text.first + text.code.count("\n", 0, at) for at in stop.span)
    found = code.where(lambda ins, op: ins.opcode == "BAR")
    return [i for i in found if any(p.file == text.file and first <= p.number <= last for p in places(setting, [i]))]


def unneeded(setting: Setting, text: Text, at: int, stops: Sequence[Stop]) -> Unneeded | None:
    """Which of the barriers nothing needs."""
    body = text.code[at:]
    for n, stop in reversed(list(enumerate(stops))):
        start, end = (x - at for x in stop.span)
        body = f"{body[:start]}{{ {MARK}({n}); {body[start:end]} }}{body[end:]}"
    for together in (False, True):
        try:
            played = plays(kernel(setting, text, body), setting.launch, together=together)  # type: ignore[arg-type]
        except Unplayable:
            continue
        for without in _sets(played[-1]):
            compared = [ordered(warps, without, together=together) for warps in reversed(played)]
            if all(compared):
                return Unneeded(sorted(without), len(played), sum(compared), together, boxed(played[-1]))
        return None
    return None


def boxed(warps: Warps) -> bool:
    return any(isinstance(e, Copy) and e.box for w in warps for e in w)


def _sets(warps: Warps) -> list[set[int]]:
    """What may be left out together, the most first: all that are passed, those of one number, one alone."""
    passed = {(e.number, e.mark) for w in warps for e in w if isinstance(e, Stopped) and e.mark >= 0}
    numbers = sorted({n for n, _ in passed})
    groups = [{mark for n, mark in passed if n == number} for number in numbers]
    single = [{mark} for _, mark in sorted(passed)]
    out: list[set[int]] = []
    for one in [set().union(*groups), *groups, *single]:
        out += [one] if one and one not in out else []
    return out


def _more(found: Unneeded) -> list[Condition]:
    lanes = reads(
        "lanes of a warp that wait for one phase go on together",
        "they come to the wait as one; the kernel counts on it with the barrier as well as without",
    )
    boxes = reads(
        "boxes of tensors that arrive at one mbarrier lie side by side, and are the bytes announced",
        "how large they are stands in the host's code; the kernel would wait for ever for others",
    )
    return [lanes] * found.together + [boxes] * found.boxes


def _fix(asked: Asked, dropped: Sequence[int], found: Unneeded, edits: list[Edit]) -> Fix:
    code: Listing = asked.setting.code
    every = code.where(lambda ins, op: ins.opcode == "BAR")
    before, less = total(code.executed, every), total(code.executed, dropped)
    share = code.share_of(dropped) or 0
    return Fix(
        kind="fence",
        title="the block's barrier in each round left out: mbarriers order the warps' roles already",
        language="cuda",
        edits=edits,
        parameters={"barriers": len(found.stops)},
        conditions=[
            proved("all accesses of shared memory and of arrays that are written have an order without it", "values",
                   found.compared,
                   f"warps played on their own for {found.rounds} numbers of rounds, their order by mbarriers and "
                   "the barriers that stay computed by vector clocks, every two accesses of a word compared"),
            proved("every phase of every mbarrier is the same in every order of the warps", "values", found.rounds,
                   "who arrives knows that the phase before is over; none ends before all have seen the one before"),
            reads("nothing else is shared", "each instruction of assembly that the kernel comes to is known"),
            Condition(holds="none of the arrays overlap", state="check", why="two parameters may point into one array"),
            *_more(found),
        ],
        proof=[
            Proof(what="barriers of the block that warps pass", before=before, after=before - less, unit="inst",
                  how=f"executions counted; {share:.0%} of all samples are at those that go"),
        ],
        price=asked.finding.estimate,
    )  # fmt: skip
