"""Which other instances of a template are worth a try, by what a finding is about: values of its number, the blocks and
grids that go with them, the best first."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kscope.features.sass.columns import total
from kscope.fixes.given.setting import Setting
from kscope.fixes.template.instance import Kernel, Way
from kscope.model.kernel import Launch

WARP, MOST_THREADS = 32, 1024
TIMES = (2, 4, 8, 16, 32)  # that a value is tried as, and the parts of it
FASTER = 1.5  # from which more threads for the same work are proposed: by rounds and waves alone (judged)
MOST_MORE = 0.1  # of the instructions, that more threads may add by what each does once (judged)
FEW = 64  # threads of a block, below which an SM's slots for blocks are full before it is (judged: two warps)
CHAINS = 8  # side by side: twice the latency of an FMA in cycles (judged)


def more_threads(setting: Setting, one: Kernel) -> Iterator[Way]:
    """More threads for what each block does."""
    launch, was = setting.launch, setting.occupancy()
    if launch is None or was is None:
        return
    now = _rounds(setting, launch, launch.threads, was.blocks)
    found = []
    for value, block in _larger(one):
        threads = block[0] * block[1]
        held = setting.occupancy(threads=threads)
        warps = -(-threads // WARP) / launch.warps
        if held is None or threads % WARP or _once(setting) * (warps - 1) > MOST_MORE:
            continue
        takes = _rounds(setting, launch, threads, held.blocks)
        if takes * FASTER <= now:
            found.append((takes, threads, Way(value, block)))
    yield from (way for _, _, way in sorted(found, key=lambda f: f[:2]))


def more_blocks(setting: Setting, one: Kernel) -> Iterator[Way]:
    """Smaller blocks, as many more, for SMs that have none."""
    launch = setting.launch
    if launch is None or launch.blocks >= setting.sms:
        return
    found = []
    for times, value, block in _smaller(one):
        threads = block[0] * block[1]
        blocks = launch.blocks * times
        busy, most = min(blocks, setting.sms), -(-blocks // setting.sms) * -(-threads // WARP)
        if threads % WARP == 0 and most <= -(-launch.blocks // setting.sms) * launch.warps:
            found.append((-busy, most, -threads, Way(value, block, Fraction(times))))
    yield from (way for *_, way in sorted(found, key=lambda f: f[:3]))


def whole_warps(setting: Setting, one: Kernel) -> Iterator[Way]:
    """The threads of several small blocks in one."""
    launch, was = setting.launch, setting.occupancy()
    if launch is None or was is None or launch.threads >= FEW:
        return
    now = min(launch.blocks, was.blocks * setting.sms) * launch.threads
    found = []
    for value, block in _larger(one):
        threads, times = block[0] * block[1], block[0] // one.block[0]
        held = setting.occupancy(threads=threads)
        if held is None or threads % WARP or launch.grid[0] % times or launch.blocks // times < setting.sms:
            continue
        resident = min(launch.blocks // times, held.blocks * setting.sms) * threads
        fuller = threads / -(-threads // WARP) > launch.threads / launch.warps
        if resident > now or (fuller and resident >= now):
            found.append((-resident, threads, Way(value, block, Fraction(1, times))))
    yield from (way for *_, way in sorted(found, key=lambda f: f[:2]))


def fewer_warps(setting: Setting, one: Kernel) -> Iterator[Way]:
    """Half as many warps that meet at each barrier, where an SM holds as many of them as before; what a flag leaves of
    the barriers."""
    launch, was = setting.launch, setting.occupancy()
    if one.flag:
        yield Way(1 - one.now, one.block)
    if launch is None or was is None or launch.blocks < 2 * was.blocks * setting.sms:
        return
    for times, value, block in _smaller(one):
        threads = block[0] * block[1]
        held = setting.occupancy(threads=threads)  # its shared memory is taken for as much as now
        if times == TIMES[0] and threads % WARP == 0 and held is not None and held.warps >= was.warps:
            yield Way(value, block)
            if launch.grid[0] > 1:
                yield Way(value, block, Fraction(times))


def more_chains(setting: Setting, one: Kernel) -> Iterator[Way]:
    """More values side by side in each thread, the most last."""
    if not one.flag:
        yield from (Way(one.now * times, one.block) for times in TIMES[:2] if one.now * times <= CHAINS)


def more_results(setting: Setting, one: Kernel) -> Iterator[Way]:
    """Twice the results a thread along both axes of the grid, or one."""
    launch = setting.launch
    half = Fraction(1, 2)
    if launch is None or one.flag:
        return
    for x, y in ((half, half), (half, Fraction(1)), (Fraction(1), half)):
        even = not launch.grid[0] % x.denominator and not launch.grid[1] % y.denominator
        if even and launch.blocks * x * y >= setting.sms:
            yield Way(2 * one.now, one.block, x, y)


def _larger(one: Kernel) -> Iterator[tuple[int, tuple[int, int]]]:
    """Values and blocks that have times as many threads, where a block is so many as the value says, or times that."""
    if not one.flag and one.now and one.block[0] % one.now == 0:
        for times in TIMES:
            if one.block[0] * one.block[1] * times <= MOST_THREADS:
                yield one.now * times, (one.block[0] * times, one.block[1])


def _smaller(one: Kernel) -> Iterator[tuple[int, int, tuple[int, int]]]:
    if not one.flag and one.now and one.block[0] % one.now == 0:
        for times in TIMES:
            if one.now % times == 0:
                yield times, one.now // times, (one.block[0] // times, one.block[1])


def _rounds(setting: Setting, launch: Launch, threads: int, held: int) -> float:
    """Waves of blocks by what each thread of them has to do, in parts of a block's work."""
    return -(-launch.blocks // max(1, held * setting.sms)) / threads


def _once(setting: Setting) -> float:
    """The share of the warp instructions that run outside of the loops that load, which more threads share: once for
    each of them, or for what they have in common."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    around = {loop for n in loads if (loop := code.cfg.loop_of[n]) is not None}
    inside = {i for loop in around for i in code.cfg.loops[loop].instructions}
    outside = [i for i in range(len(code)) if i not in inside]
    return total(code.executed, outside) / max(1.0, code.all_executed)
