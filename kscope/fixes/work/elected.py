"""Bulk copies of 16 bytes that each lane asks for: one of the whole tile, by one thread."""

from __future__ import annotations

import re
from itertools import pairwise

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.rewrite import calls_of, places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Loop, Text, kernel_text, loops, plain, spans_edited
from kscope.isa.families import family
from kscope.model.contract.fixes import Condition, Fix, Proof

EACH = 16  # bytes of the least bulk copy (PTX ISA, cp.async.bulk: sizes are multiples of 16)
SEEDS = (1, 2)
_ENDS = r"(?=\s*(?:[-+,)]|$))"  # of a term
_TO, _OF = "<to>", "<of>"
_ASM = re.compile(
    r'asm\s+volatile\s*\(\s*"(?P<head>cp\.async\.bulk\.[^"]*\[%0\],\s*\[%1\],\s*)16(?P<rest>,\s*\[%2\];)"\s*::\s*'
    r'"r"\((?P<to>[^"]*)\)\s*,\s*"l"\((?P<of>[^"]*)\)\s*,\s*"r"\((?P<bar>[^"]*)\)(?P<end>\s*:\s*"memory"\s*)?\)\s*;'
)


class _Copies(Struct, frozen=True):
    """`for (e = t; e < count; e += threads)` around a copy of 16 bytes, and what stands in its place."""

    loop: Loop
    count: int
    new: str


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text, launch = kernel_text(setting), setting.launch
    serial = by_lane(setting)
    if text is None or launch is None or not serial or launch.block[1] * launch.block[2] > 1:
        return []
    known = constants(setting.lines(text.file))
    every = (_copies(text.code, one, launch.threads, known) for one in loops(text.code))
    found = next((c for c in every if c is not None), None)
    gaps = _gaps(setting, serial)
    if found is None or not gaps or set(gaps) != {EACH}:
        return []
    edits = spans_edited(setting, text, [(found.loop.span[0], found.loop.body[1], found.new)])
    if not edits or not all(_inside(text, found.loop, p.number) for p in places(setting, serial)):
        return []
    before, size = total(code.executed, serial), found.count * EACH
    around = [n for i in serial for n in code.cfg.loops_around(i)[1:]]
    waits = [i for i in code.where(lambda ins, op: ins.opcode == "BAR") if code.cfg.loop_of[i] in around]
    return [
        Fix(
            kind="lane_mapping",
            title=f"one bulk copy of {size} bytes by one thread, instead of {found.count} of {EACH}",
            language="cuda",
            edits=edits,
            parameters={"bytes": size},
            conditions=[
                proved("pieces lie one behind the other on both sides", "lanes", gaps,
                       f"{EACH} bytes between neighbouring lanes, at the source and in shared memory"),
                reads(f"rounds go on by the block's {launch.threads} pieces", "the loop's step, both addresses"),
                shown(bool(waits), "nobody reads the slot any more when it is filled", "code", waits,
                      "a barrier in the loop around", "a barrier must stand between its last use and the copy"),
                Condition(holds="the mbarrier expects the tile's bytes once, not each lane's", state="check",
                          why="one arrive.expect_tx a tile"),
            ],
            proof=[
                Proof(what="bulk copies", before=before, after=before / found.count, unit="inst",
                      how=f"{found.count} pieces of {EACH} bytes in one"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def by_lane(setting: Setting) -> list[int]:
    """Bulk copies in loops that serve a lane each time: they elect one, and go round while any is left."""
    code, copies = setting.code, family("bulk_copy")
    elects = {code.cfg.loop_of[i] for i in code.where(lambda ins, op: ins.opcode == "ELECT")} - {None}
    return code.ran([i for i in code.where(lambda ins, op: ins.opcode in copies) if code.cfg.loop_of[i] in elects])


def _gaps(setting: Setting, serial: list[int]) -> list[int]:
    """Bytes between what neighbouring lanes give to the copies, both sides, wherever the code tells; empty where it
    tells it of no copy whole."""
    code = setting.code
    out: list[int] = []
    for seed in SEEDS:
        lanes = Lanes(code, Assumption(seed, setting.block))
        for copy in serial:
            named = [b.register for o in code[copy].operands[:2] for b in o.bases]
            rows = [_given(setting, lanes, copy, register) for register in named]
            if len(rows) == 2 and all(rows):
                out += [gap for row in rows for gap in row]
    return out


def _given(setting: Setting, lanes: Lanes, copy: int, register: int) -> list[int]:
    """Gaps between the lanes of what R2UR moves to a copy's uniform register, in the loop around the copy."""
    code, loop = setting.code, setting.code.cfg.loop_of[copy]
    moves = [i for i in code.defuse.producers(copy, register) if code.cfg.loop_of[i] == loop]
    if len(moves) != 1 or code[moves[0]].opcode != "R2UR":
        return []
    (move,) = moves
    value = lanes.operand(move, len(code[move].operands) - 1)
    return [b - a for a, b in pairwise(value)] if isinstance(value, tuple) else []


def _inside(text: Text, loop: Loop, line: int) -> bool:
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    return first <= line <= last


def _copies(code: str, loop: Loop, threads: int, known: dict[str, int]) -> _Copies | None:
    """Whether a loop deals pieces out to a block's threads and does nothing but copy them."""
    e, body = loop.name, code[slice(*loop.body)].strip()
    body = body[1:-1].strip() if body.startswith("{") else body
    count, step = evaluated(loop.end, known), plain(loop.step.partition("+=")[2])
    first = plain(loop.start, code)
    if count is None or first != "threadIdx.x" or step not in (str(threads), "blockDim.x"):
        return None
    asm, calls = _ASM.fullmatch(body), re.match(r"(\w+)\s*\(", body)
    if asm is not None:
        to, of, bar = asm["to"], asm["of"], asm["bar"]
        end = asm["end"] or ""
        to_, of_ = f'"r"({_TO})', f'"l"({_OF})'
        copied = f'asm volatile("{asm["head"]}%3{asm["rest"]}" ::{to_}, {of_}, "r"({bar}), "r"({count * EACH}){end});'
    elif calls is not None and len(one := calls_of(body, calls[1])) == 1 and body[one[0].end :].strip() == ";":
        given = one[0].arguments
        if "bulk" not in calls[1] or len(given) != 4 or given[2] != str(EACH):
            return None
        to, of, bar = given[0], given[1], given[3]
        copied = f"{calls[1]}({_TO}, {_OF}, {count * EACH}, {bar});"
    else:
        return None
    target, source = _without(to, rf"\+\s*{e}\s*\*\s*{EACH}\b{_ENDS}", e), _without(of, rf"\+\s*{e}\b{_ENDS}", e)
    if target is None or source is None or re.search(rf"\b{e}\b", bar):
        return None
    return _Copies(loop, count, f"{{ if ({loop.start} == 0) {copied.replace(_TO, target).replace(_OF, source)} }}")


def _without(text: str, term: str, name: str) -> str | None:
    """An address without the one term that names the counter."""
    out, found = re.subn(rf"\s*{term}", "", text)
    return out.strip() if found == 1 and not re.search(rf"\b{name}\b", out) else None
