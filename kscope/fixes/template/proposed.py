"""The instance of a template that answers a finding, proved by playing it beside the one that runs: more blocks or more
threads for SMs that idle, fewer warps at a barrier, more chains or results in a thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import edited
from kscope.fixes.given.text import blanked, shape
from kscope.fixes.template import ways
from kscope.fixes.template.instance import Kernel, Player, Same, Way, kernel
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

MOST_OWN = 96  # words of a thread's arrays: what registers hold with ease beside the rest (judged)
FEWER_MET = 0.7  # of the warps that come to barriers, from which another block or way is proposed (judged)
FEWER = 0.9  # of the loads, from which more results a thread are proposed (judged)
MOST_TRIED = 4  # ways: each takes some tenths of a second
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*(?P<most>[^,()]+?)\s*(?P<more>,[^()]*)?\)")


class Found(Struct, frozen=True):
    one: Kernel
    way: Way
    same: Same


def idle(asked: Asked) -> list[Fix]:
    """Of a grid that leaves SMs idle: more threads a block, or more blocks."""
    setting = asked.setting
    found = _first(asked, ways.more_threads, lambda same: True)
    if found is not None:
        return _printed(asked, found, "block_size", "what a block does by more threads", _held(setting, found))
    found = _first(asked, ways.more_blocks, _loads_as_few)
    if found is None or setting.launch is None:
        return []
    before = min(setting.launch.blocks, setting.sms)
    after = min(int(setting.launch.blocks * found.way.x), setting.sms)
    proof = Proof(what="SMs that have a block", before=before, after=after, unit="SMs", how="blocks, at most one an SM")
    return _printed(asked, found, "block_size", "smaller blocks, for SMs that have none", proof)


def small(asked: Asked) -> list[Fix]:
    """Of blocks that are too small: more threads for the same work, or the threads of several blocks."""
    for ways_of, enough, what in (
        (ways.more_threads, lambda same: True, "what a block does by more threads"),
        (ways.whole_warps, _loads_as_few, "the threads of several blocks in one"),
    ):
        found = _first(asked, ways_of, enough)
        if found is not None:
            return _printed(asked, found, "block_size", what, _held(asked.setting, found))
    return []


def barriers(asked: Asked) -> list[Fix]:
    """Of barriers: fewer warps that meet at each."""
    code = asked.setting.code
    met = total(code.executed, code.ran(code.where(lambda ins, op: ins.opcode == "BAR")))
    found = _first(asked, ways.fewer_warps, lambda same: _loads_as_few(same)
                   and same.after.passed <= FEWER_MET * same.before.passed)  # fmt: skip
    if found is None or not met:
        return []
    share = found.same.after.passed / found.same.before.passed
    proof = Proof(what="warps that come to barriers", before=met, after=met * share, unit="inst",
                  how=f"where both were played: {share:.3g} of those before")  # fmt: skip
    if found.one.flag:
        return _printed(asked, found, "lane_mapping", "fewer barriers", proof)
    return _printed(asked, found, "block_size", "half as many warps meet at each barrier", proof)


def chains(asked: Asked) -> list[Fix]:
    """Of one chain of sums: several side by side, as far as they bring another order."""
    one = kernel(asked.setting)
    if one is None:
        return []
    player, best, own = Player(one), None, 0
    for way in ways.more_chains(asked.setting, one):
        same = player.same(way)
        wider = same is not None and same.after.own > max(own, same.before.own) and same.after.own <= MOST_OWN
        if same is None or not wider or same.bits or not _loads_as_few(same):
            break
        finer = player.same(way, best.way) if best is not None else same
        if finer is None or finer.bits:
            break  # what there is more of is not used
        best, own = Found(one, way, same), same.after.own
    if best is None:
        return []
    proof = Proof(what="sums side by side in a thread", before=one.now, after=best.way.value, unit="sums",
                  how=f"arrays of each thread: {best.same.before.own} words, with more {own}")  # fmt: skip
    return _printed(asked, best, "jam", "as many chains side by side", proof)


def results(asked: Asked) -> list[Fix]:
    """Of loads that serve few results: more of them a thread."""
    code = asked.setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    found = _first(asked, ways.more_results, lambda same: same.after.own <= MOST_OWN
                   and same.after.loads <= FEWER * same.before.loads)  # fmt: skip
    if found is None:
        return []
    before, share = total(code.executed, loads), found.same.after.loads / found.same.before.loads
    proof = Proof(what="warp loads", before=before, after=before * share, unit="inst",
                  how=f"elements that threads loaded where both were played: {share:.3g} of those before")  # fmt: skip
    return _printed(asked, found, "jam", "more results a thread, which share their loads", proof)


def _first(
    asked: Asked, of: Callable[[Setting, Kernel], Iterable[Way]], enough: Callable[[Same], bool]
) -> Found | None:  # fmt: skip
    """The first way that gives the same, if it is enough."""
    one = kernel(asked.setting)
    if one is None or not asked.setting.sms:
        return None
    player = Player(one)
    for n, way in enumerate(of(asked.setting, one)):
        if n >= MOST_TRIED:
            break
        if (same := player.same(way)) is not None and enough(same):
            return Found(one, way, same)
    return None


def _loads_as_few(same: Same) -> bool:
    return same.after.loads <= same.before.loads


def _held(setting: Setting, found: Found) -> Proof:
    launch, was = setting.launch, setting.occupancy()
    threads = found.way.block[0] * found.way.block[1]
    will = setting.occupancy(threads=threads, more_shared=4 * (found.same.after.shared - found.same.before.shared))
    assert launch is not None and was is not None and will is not None
    blocks = int(launch.blocks * found.way.x)
    before = min(launch.blocks, was.blocks * setting.sms) * launch.threads
    after = min(blocks, will.blocks * setting.sms) * threads
    how = f"{was.blocks} blocks an SM before, {will.blocks} after, with as many registers (arch/sm.toml)"
    return Proof(what="threads that the chip holds", before=before, after=after, unit="threads", how=how)


def _printed(
    asked: Asked, found: Found, kind: Literal["block_size", "jam", "lane_mapping"], what: str, proof: Proof
) -> list[Fix]:  # fmt: skip
    setting, launch, one, way = asked.setting, asked.setting.launch, found.one, found.way
    assert launch is not None
    block = (*way.block, 1)
    grid = (int(launch.grid[0] * way.x), int(launch.grid[1] * way.y), 1)
    edits = _edits(setting, found)
    if edits is None:
        return []
    value = _said(one, way.value)
    name = setting.name if edits else f"{setting.name}<{value}>"
    sides = {"block.x": block[0], "grid.x": grid[0]} | ({"grid.y": grid[1]} if launch.grid[1] > 1 else {})
    threads = f"blocks of {block[0] * block[1]} threads and " if way.block != one.block else ""
    others = Condition(holds=f"every launch of {setting.name} takes {threads}a grid to match", state="check")
    return [
        Fix(
            kind=kind,
            title=f"{one.name} = {value} instead of {_said(one, one.now)}: {what}",
            language="cuda",
            code=f"{name}<<<{shape(grid)}, {shape(block)}>>>(...);",
            edits=edits,
            parameters={**({} if edits else {"instance": value}), **sides},
            conditions=[*_conditions(found.same), *([others] if edits else [])],
            proof=[proof],
            costs=_costs(found),
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _said(one: Kernel, value: int) -> str:
    return ("false", "true")[value] if one.flag else str(value)


def _conditions(same: Same) -> list[Condition]:
    out = [proved("every result is the same", "values", same.compared,
                  "both instances played in small, in two sizes, every result compared; nothing else is read, and no "
                  "two threads use one place but with a barrier between them")]  # fmt: skip
    if not same.bits:
        out.append(Condition(holds="the order of the sums does not matter", state="check", why="it is another one"))
    if not same.ties:
        why = "played with many that are equal, the results are others"
        out.append(Condition(holds="which of equal numbers is taken does not matter", state="check", why=why))
    if not same.rests:
        why = "there is no test for rests"
        out.append(Condition(holds="the numbers of the launch come out even", state="check", why=why))
    if same.after.own > same.before.own:
        why = "kscope fix --check on the new cubin"
        out.append(Condition(holds="registers hold the results without spills", state="check", why=why))
    return out


def _costs(found: Found) -> list[str]:
    own, shared = (getattr(found.same.after, n) - getattr(found.same.before, n) for n in ("own", "shared"))
    registers = [f"{own} registers a thread"] if own > 0 else []
    return registers + ([f"{4 * shared} bytes of shared memory a block"] if shared > 0 else [])


def _edits(setting: Setting, found: Found) -> list[Edit] | None:
    """The kernel's line that calls the other instance, and how large its blocks may be; no lines where the launch names
    the instance; None where the text holds blocks to another size."""
    one, was, now = found.one.function, found.one.block, found.way.block
    before, after = was[0] * was[1], now[0] * now[1]
    lines = [blanked(line) for line in setting.lines(one.file)]
    if one.call is None:
        bounds = _BOUNDS.search(one.code[: one.opened])
        return [] if bounds is None or _fits(bounds, found.one.name, before, after) else None
    row, (start, end, _) = one.call
    changes = {row: [(start, end, f"{one.name}<{_said(found.one, found.way.value)}>")]}
    head = next((n for n in range(row, max(0, row - 4), -1) if "__global__" in lines[n - 1]), None)
    if head is None:
        return None
    for n in range(head, row + 1):
        for bounds in _BOUNDS.finditer(lines[n - 1][: start if n == row else None]):
            if before != after and bounds["most"] == str(before) and not bounds["more"]:
                changes.setdefault(n, []).append((*bounds.span("most"), str(after)))
            elif not _fits(bounds, "", before, after):
                return None
    return edited(one.file, setting.lines(one.file), changes)


def _fits(bounds: re.Match[str], name: str, before: int, after: int) -> bool:
    """Whether launch bounds let blocks of another size be."""
    if before == after:
        return True
    most = bounds["most"]
    return not bounds["more"] and (most == name if not most.isdigit() else int(most) >= after)
