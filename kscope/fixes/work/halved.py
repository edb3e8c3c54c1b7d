"""Every second lane leaves at once, by the parity of its place: the others' places given to neighbouring lanes."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import HEAD, Span, asked_here, hidden, index_of, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

SEEDS = (1, 2)
TRIED = 8  # places along x, and what is added to them: each parity and each answer occurs several times
TOGETHER = ("SHFL", "VOTE", "MATCH", "REDUX")
_LEAVES = re.compile(
    r"\bif\s*\(\s*\(?\s*\(\s*(?P<one>\w+)\s*(?P<joined>[+^])\s*(?P<two>\w+)\s*\)\s*(?:&|%)\s*[12]\s*\)?"
    r"(?:\s*(?P<how>==|!=)\s*(?P<answer>\w+))?\s*\)\s*return\s*;",
    re.ASCII,
)
_INDEX = re.compile(
    r"\bint\s+(?:\w+\s*=[^;,]*,\s*)*(?P<name>\w+)\s*=\s*(?P<from>[^;,]*threadIdx\.x[^;,]*)(?=[;,])", re.ASCII
)


class _Parity(Struct, frozen=True):
    """`if ((x + other) & 1) return;`: where it stands, and the parity that x + other has where a lane goes on."""

    span: tuple[int, int]
    x: str
    other: str
    stays: str


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text, launch = kernel_text(setting), setting.launch
    found = _found(text.code) if text is not None else None
    leaves = exits(setting)
    if text is None or found is None or launch is None or len(leaves) != 1 or launch.grid[0] % 2:
        return []
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space == "shared"
                          or ins.opcode in TOGETHER)  # fmt: skip
    if together or launch.threads % LANES or hidden(text.code, setting.lines(text.file)):
        return []
    if not all(asked_here(code, text, place) for place in ("SR_TID", "CTAID")):
        return []
    x, stays = found.x, found.stays
    parity = found.other if stays == "0" else f"({found.other} + {stays})"
    new: list[Span] = [(*found.span, f"{x} = 2 * {x} + ({parity} & 1);")]
    edits = spans_edited(setting, text, new)
    behind = [i for i in range(leaves[0] + 1, len(code)) if code.executed[i] > 0]
    before = total(code.executed, behind)
    grid = (launch.grid[0] // 2, *launch.grid[1:])
    return [
        Fix(
            kind="lane_mapping",
            title=f"{x} of every second place: no lane of a warp leaves at once",
            language="cuda",
            code=f"// launch: {setting.name}<<<dim3{grid}, dim3{launch.block}>>>(...), half as many blocks along x",
            edits=edits,
            parameters={"grid.x": grid[0]},
            conditions=[
                proved("every second lane leaves there", "lanes", LANES * len(SEEDS), "EXIT's guard, lane by lane"),
                proved("each thread works alone", "code", code, "no barrier, no shared memory, no exchange of lanes"),
                shown(_played() > 0, "the same places are done once each", "values", _played(),
                      "all places of rows of several lengths, both parities"),
                proved("the blocks come out even", "launch", launch.grid[:1], f"{launch.grid[0]} along x"),
                *_even(stays),
            ],
            proof=[
                Proof(what="warp instructions behind the branch", before=before, after=before / 2, unit="inst",
                      how=f"{LANES} lanes go on instead of {LANES // 2}, in half as many warps"),
            ],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def exits(setting: Setting) -> list[int]:
    """EXITs that every second lane takes, under all values that are tried."""
    code = setting.code
    worlds = [Lanes(code, Assumption(seed, setting.block)) for seed in SEEDS]
    out = []
    for i in code.ran(code.where(lambda ins, op: ins.opcode == "EXIT" and ins.guard is not None)):
        guards = [world.guard(i) for world in worlds]
        halves = ((0, 1) * (LANES // 2), (1, 0) * (LANES // 2))
        if all(g in halves for g in guards):
            out.append(i)
    return out


def _found(code: str) -> _Parity | None:
    """The one such test of a kernel, between the place's own definition and its first use."""
    tests, places = list(_LEAVES.finditer(code)), list(_INDEX.finditer(code))
    if len(tests) != 1 or len(places) != 1 or code.count("threadIdx.x") != 1 or code.count("blockIdx.x") != 1:
        return None
    (test,), (place,) = tests, places
    x = place["name"]
    if x not in (test["one"], test["two"]) or test["one"] == test["two"] or index_of(place["from"], "") is None:
        return None
    between = re.sub(rf"\bif\s*\(\s*\w+\s*\)\s*{x}\s*=[^;]*;\s*else\b", "", code[place.end() : test.start()])
    if re.search(rf"\b{x}\b|\breturn\b", between) or re.search(r"\bconst\s*$", code[: place.start()]):
        return None
    before = code[: test.start()]
    chosen = re.search(rf"\bif\s*\(\s*(\w+)\s*\)\s*{x}\s*=[^;]*;\s*else\s*$", before)
    of_template = chosen is not None and re.search(rf"\btemplate\s*<[^<>]*\bbool\s+{chosen[1]}\b", code)
    start = before[: chosen.start()] if chosen is not None and of_template else before
    if HEAD.search(start) is None or "gridDim" in code:  # of all threads, and of as many blocks as there are
        return None
    other = test["two"] if test["one"] == x else test["one"]
    if test["how"] is None:
        return _Parity(test.span(), x, other, "0")
    answer = test["answer"]
    stays = answer if test["how"] == "!=" else {"0": "1", "1": "0"}.get(answer, f"1 - {answer}")
    return _Parity(test.span(), x, other, stays)


def _even(stays: str) -> list[Condition]:
    if stays.isdigit():
        return []
    return [Condition(holds=f"{stays} is 0 or 1", state="check", why="it is the parity that goes on")]


def _played() -> int:
    """How many places were written out, if the new ones are those that went on before; 0 otherwise."""
    for length in range(2, 2 * TRIED, 2):
        for other in range(TRIED):
            for stays in (0, 1):
                old = [x for x in range(length) if (x + other) & 1 == stays]
                if old != [2 * x + ((other + stays) & 1) for x in range(length // 2)]:
                    return 0
    return sum(length * TRIED * 2 for length in range(2, 2 * TRIED, 2))
