"""Chains that a thread carries side by side become threads of their own: of blocks that come too late to fill the
device, or of a launch that has too few threads to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kscope.features.estimate.gains import expected_at_most
from kscope.features.sass.columns import total
from kscope.fixes.given.called import functions
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, by_lines, spans_edited
from kscope.fixes.rows.function import Function, constants, function
from kscope.fixes.rows.regrouped import applied
from kscope.fixes.tiling.by_lanes import Plan, rewritten
from kscope.fixes.tiling.chains import Chains, chains
from kscope.fixes.tiling.hidden import hides_places
from kscope.fixes.tiling.smaller import PIECES, SCHEDULERS, STRANGE, WARP, apart
from kscope.fixes.tiling.written_out import written_out
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

PARTS = (2, 4, 8, 16, 32)  # lanes for a thread
LOOP = 0.25  # instructions of a round that count and branch: four of 16 rounds, which nvcc 13.0 makes one of
LONG = 0.75  # of what warps execute, that the loop must be (judged)
LATENCY = 4  # cycles from an FMA to one that needs it, an issue slot each (arch/latency.toml)
GAIN = 0.95  # of what blocks in pieces alone take, that must be left at most (judged)
EXTRA = 0.25  # operations of a round that all lanes make, by those of one chain, at most (judged)
SIZES, CELLS, LEAST = (3, 40, 300), 1 << 15, 2  # numbers of a launch that is played, elements of an array, of sizes
CHAINED = "loops of chains that no lanes share"
BLOCKS = 3  # that are played
_MEETS = re.compile(
    r"\b(?:__sync\w*|__\w+_sync|__activemask|__match\w*|__ballot|__any|__all|clock\w*|goto|assert)\b|#\s*(?!pragma)\w"
)
_IMPURE = re.compile(
    r"\[|->|(?:[{;(,=]|\breturn)\s*\*|&(?!&)|\b(?:threadIdx|blockIdx|asm|static|clock\w*|volatile|goto)\b"
    r"|\b__\w*(?:sync|shared)\w*"
)
_UNUSED = re.compile(r"\bextern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?[\w ]+\s\w+\s*\[\s*\]\s*;")


class Worth(Struct, frozen=True):
    """A plan, and operations of chains for each step of a loop that the busiest scheduler comes to: before and after;
    blocks of the new launch."""

    plan: Plan
    before: float
    after: float
    blocks: int


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, fn = asked.setting, asked.setting.launch, function(asked.setting)
    if launch is None or fn is None or fn.call is not None or not setting.sms or max(launch.cluster) > 1:
        return []
    if max(*launch.block[1:], *launch.grid[1:]) > 1 or launch.threads % WARP:
        return []
    lines, text = setting.lines(fn.file), Text(fn.file, fn.first, fn.code)
    if hides_places(lines, fn.code) or STRANGE.search(fn.code) or _MEETS.search(fn.body) or not apart(setting, text):
        return []
    source, one = _source(fn, lines, constants(lines, fn.code))  # another instance has other numbers
    if one is None or one.shared > EXTRA * one.own or not _rolled(setting, text):
        return []
    if setting.code.where(lambda ins, op: op.space == "local"):  # loops that are not written out as the text's are
        return []
    found = _worth(setting, one)
    if found is None:
        return []
    known, key = setting.code.found, (_same, fn.code, found.plan)  # played once, whatever rule asks
    if key not in known:
        known[key] = _same(setting, fn, source, one, found.plan)
    edits = spans_edited(setting, text, by_lines(fn.code, rewritten(fn, source, one, found.plan))) if known[key] else []
    return [_fix(asked, one, found, known[key], edits)] if edits else []


def _fix(asked: Asked, one: Chains, found: Worth, same: int, edits: list[Edit]) -> Fix:
    setting, launch, plan, price = asked.setting, asked.setting.launch, found.plan, asked.finding.estimate
    assert launch is not None
    threads, chained, n = launch.threads // plan.pieces, len(one.states), plan.lanes
    all_ = launch.blocks * plan.pieces
    smaller = f"blocks of {threads} threads instead of {launch.threads}; " if plan.pieces > 1 else ""
    of = f"of those behind the first {plan.whole} " if plan.whole else ""
    gone = f", and no dynamic shared memory instead of {launch.shared_dynamic}" if launch.shared_dynamic else ""
    counted = f"{plan.whole} of {all_}, and {n} for each of the others" if plan.whole else f"{n} for each of {all_}"
    cut = f"of 1 / {plan.pieces} of the threads, {plan.pieces} for each of before, " if plan.pieces > 1 else ""
    many = f"and {n} times as many" + (f" of those behind the first {plan.whole}" if plan.whole else "")
    return Fix(
        kind="lane_mapping" if asked.finding.code == "GRD402" else "register",
        title=f"{smaller}{of}{n} lanes for each thread, with {chained // n} of its {chained} chains each{gone}",
        language="cuda",
        code=f"{setting.name}<<<{found.blocks}, {threads}>>>(...);  // {counted}",
        edits=edits,
        parameters={"lanes": n, "grid.x": found.blocks, "block.x": threads},
        conditions=[
            proved("every result is the same, to the last bit", "values", same,
                   "both versions played on numbers and fractions, in several sizes, every result compared"),
            proved("no thread waits for another block's part", "code", setting.code,
                   "no barrier and no access to shared memory"),
            reads(f"the {chained} chains need nothing of each other", "each is changed by itself and by what no round "
                  "changes, by the same statements"),
            Condition(holds="products and sums of a round are fused as before", state="assumed",
                      why="its statements stay as they are, in a loop"),
            reads("nothing but the kernel's own lines asks for the thread's place", "each use of it is put in"),
            Condition(holds=f"every launch of {setting.name} has blocks {cut}{many}", state="check",
                      why="the kernel counts by them"),
            *([Condition(holds="the bytes of shared memory are not there to hold blocks back", state="check",
                         why="no instruction touches them")] if launch.shared_dynamic else []),
        ],
        proof=[
            Proof(what="steps of chains that the busiest scheduler runs, a round", before=found.before,
                  after=found.after, unit="steps", how=f"{launch.blocks * launch.warps} warps of {chained} chains on "
                  f"{setting.sms} SMs of {SCHEDULERS} schedulers; a step waits {LATENCY} for the one before"),
        ],
        price=expected_at_most(price, found.before / found.after) if price is not None else None,
    )  # fmt: skip


def _worth(setting: Setting, one: Chains) -> Worth | None:
    """The plan that leaves the busiest scheduler least; None where blocks in pieces alone do nearly as well."""
    launch, was, count = setting.launch, setting.occupancy(), len(one.states)
    assert launch is not None
    if was is None or not was.blocks:
        return None
    loop = LOOP / max(1.0, one.own / 2)  # a product and a sum are one instruction
    waves, last = divmod(launch.blocks, was.blocks * setting.sms)
    warps = launch.threads / WARP / SCHEDULERS
    before = waves * _steps(was.blocks * warps, count, loop)
    before += _steps(-(-last // setting.sms) * warps, count, loop)
    alone, found = before, list[Worth]()
    for pieces in (1, *PIECES):
        threads = launch.threads // pieces
        will = setting.occupancy(threads=threads, more_shared=-(setting.shared or 0)) if threads else None
        if launch.threads % (pieces * WARP) or will is None:
            continue
        each, blocks, room = -(-threads // (WARP * SCHEDULERS)), launch.blocks * pieces, will.blocks * setting.sms
        if blocks <= room:
            alone = min(alone, _steps(-(-blocks // setting.sms) * each, count, loop))
        whole = blocks // setting.sms * setting.sms
        for lanes in (n for n in PARTS if count % n == 0):
            for first in sorted({0, whole} - {blocks}):
                new = first + (blocks - first) * lanes
                late = -(-(new - first) // setting.sms)
                busy = each * (first // setting.sms + late)
                chained = each * (first // setting.sms * count + late * count // lanes)
                after = _steps(busy, chained / busy, loop)
                if new <= room:
                    found.append(Worth(Plan(pieces, lanes, first), before, after, new))
    best = min(found, key=lambda w: (w.after, w.plan.lanes, w.plan.pieces), default=None)
    return best if best is not None and best.after <= GAIN * alone else None


def _steps(warps: float, chains: float, loop: float) -> float:
    """Of a scheduler that has so many warps, a round: those of one chain wait for each other. chains: of a warp,
    the mean."""
    return max(warps * chains, LATENCY) + warps * loop if warps else 0.0


def _source(fn: Function, lines: Sequence[str], known: Mapping[str, int]) -> tuple[Function, Chains | None]:
    """The text that has chains: the function's own, or that in which its small arrays are variables."""
    called = [name for name, (_, body) in functions(lines, fn.body).items() if not _IMPURE.search(body)]
    one, written = chains(fn.code, fn.opened, called), written_out(fn, known)
    if one is not None or written is None:
        return fn, one
    return written, chains(written.code, written.opened, called)


def _rolled(setting: Setting, text: Text) -> bool:
    """Whether the loop is one in the machine code, and most of what runs. Where it is written out, what stands around
    it is fused with it."""
    code, lines = setting.code, range(text.first, text.first + text.code.count("\n") + 1)
    mine = [i for i, ins in enumerate(code.program.instructions) if ins.file == text.file and ins.line in lines]
    inside = [i for i in mine if code.cfg.loop_of[i] is not None]
    return bool(inside) and total(code.executed, inside) >= LONG * code.all_executed


def _same(setting: Setting, fn: Function, source: Function, one: Chains, plan: Plan) -> int:
    """How many results were written and compared, if both texts leave the same, to the last bit; 0 otherwise."""
    assert setting.launch is not None
    threads, compared, played = setting.launch.threads, 0, 0
    whole = min(plan.whole, plan.pieces + plan.pieces // 2)
    spans = rewritten(fn, source, one, Plan(plan.pieces, plan.lanes, whole))
    new = applied(fn.code, spans)[fn.opened :] if spans else ""
    blocks = whole + (BLOCKS * plan.pieces - whole) * plan.lanes
    lines = setting.lines(fn.file)
    known = {"warpSize": WARP, **constants(lines, fn.code), **fn.values}
    for drawn in ("drawn", "real"):
        rules = Rules(literals=drawn, races=True, kinds=fn.kinds, functions=functions(lines, fn.body))
        for size in SIZES if new else ():
            numbers = {**known, **dict.fromkeys(fn.numbers, size)}
            was = _left(fn, fn.body, (BLOCKS, threads), numbers, rules)
            now = _left(fn, new, (blocks, threads // plan.pieces), numbers, rules)
            if was is None:
                continue
            if now is None or any(was[n].tobytes() != now[n].tobytes() for n in was):
                return 0
            wrote = sum(int((cells != _first(n, fn.pointers[n], drawn)).sum()) for n, cells in was.items())
            compared, played = compared + wrote, played + (wrote > 0 and drawn == "real")
    return compared if played >= LEAST else 0


def _left(
    fn: Function, body: str, launch: tuple[int, int], numbers: Mapping[str, int], rules: Rules
) -> dict[str, Any] | None:  # fmt: skip
    """What a launch of so many blocks and threads leaves in memory; None where it cannot be played."""
    memory = {name: _first(name, kind, rules.literals) for name, kind in fn.pointers.items()}
    try:
        play(_UNUSED.sub("", body), (launch[0], 1), (launch[1], 1), memory, numbers, rules)
    except Unplayable:
        return None
    return memory


def _first(name: str, kind: str, drawn: str) -> Any:
    made = np.random.default_rng([*map(ord, name)])
    return made.random(CELLS) if drawn == "real" and kind in FLOATS else made.integers(1, 200, CELLS)


def unshared(setting: Setting) -> float:
    """Loops of a kernel in which no lane takes over what others made."""
    code = setting.code
    loops = {code.cfg.loop_of[i] for i in code.ran(range(len(code)))} - {None}
    return 0 if code.where(lambda ins, op: ins.opcode == "SHFL") else len(loops)
