"""What a kernel of tiles takes, and so what it brings: waves of blocks, each as long as its depth."""

from __future__ import annotations

from kscope.arch.chips import Chip, chips
from kscope.features.estimate.gains import of_new_time
from kscope.fixes.given.setting import Setting
from kscope.model.contract.frozen import Estimate

DEPTH = 4096  # for which a wave's time is given
STARTS = 8.0  # microseconds beside waves: the launch, the first tiles on their way, the last results
"""Fitted on an H200: 2048 and 4096 rows and columns, depths of 1024 to 4096, by mma.sync and by wgmma: within 1.1 of
each of fourteen times (tests/fixes/test_worth.py)."""
MEASURED = "h200"  # chip of these times: others by what they attain in products of bfloat16
WITHIN = 1.3  # times the expected time, either way: other shapes and clocks (judged)
LEAST = 1.1  # expected gain, below which another kernel is not worth it (judged)


def of_tiles(setting: Setting, blocks: int, at_once: int, wave_us: float, depth: int) -> Estimate | None:
    """blocks: all of them; at_once: those that an SM holds; wave_us: of DEPTH. None where the time is not known."""
    if not setting.us or not setting.sms or not depth:
        return None
    waves = -(-blocks // (setting.sms * at_once))
    after = STARTS + waves * wave_us * depth / DEPTH * _slower(setting)
    return of_new_time(setting.us, after, WITHIN, "the tiles' own time")


def _slower(setting: Setting) -> float:
    """An SM's rate on the chip that the times are from, over that of this one, known by its architecture and SMs."""
    known = chips()
    like = [c for c in known.values() if c.cc == setting.code.program.sm and c.sms == setting.sms and _rate(c)]
    return 1.0 if not like or known[MEASURED] in like else _rate(known[MEASURED]) / _rate(like[0])


def _rate(chip: Chip) -> float:
    return chip.attained.get("bf16", 0.0) / chip.sms
