"""What the steps of the verdict share: the answer, and two facts that several of them ask for."""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.features.facts import Facts
from kscope.features.sass.columns import total
from kscope.model.contract.analysis import Limiter, Told
from kscope.model.units import counted

UNSEEN = 0.5
"""Confidence at most, where what is seen cannot be held against the units: a full one would overrule it."""
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


class Regimen(Struct, frozen=True):
    """Regime, limiter, confidence (0..1) and the measured reason in words."""

    regime: Told
    limiter: Limiter
    confidence: float
    reason: str


def unknown(reason: str) -> Regimen:
    """Too little was collected, or it says two things: no guess is better than that."""
    return Regimen("unknown", "unknown", 0.0, reason)


def lanes(facts: Facts) -> float:
    """Active lanes an executed instruction, 0..32."""
    return facts.kernel.metrics.get("smsp__thread_inst_executed_per_inst_executed.ratio") or 32.0


def shared_share(facts: Facts) -> float | None:
    """Share of the memory-instruction queue's work that is shared memory, by wavefronts: 0..1; None where neither
    wavefronts nor code were collected."""
    shared = facts.counters.traffic.shared_wavefronts
    every = facts.counters.traffic.l1_wavefronts
    if every is not None and facts.kernel.metrics.get(SHARED) is not None:
        return min(1.0, shared / every) if every else float(shared > 0)
    if facts.code is None:
        return None
    code = facts.code
    mio = code.where(lambda ins, op: op.scoreboard == "short" or op.space == "shared")
    lds = [i for i in mio if code.classes[i].space == "shared"]
    all_mio = total(code.executed, mio)
    return total(code.executed, lds) / all_mio if all_mio else 0.0


def empty_sms(facts: Facts) -> Regimen | None:
    """SMs that the shape of the launch leaves without a block for long, where nothing says how long SMs had work."""
    if "SM activity" in facts.counters.collected.parts or not facts.counters.launch.known:
        return None
    return _few_blocks(facts) or _last_wave(facts)


def _last_wave(facts: Facts) -> Regimen | None:
    """A last wave with a block for a part of the SMs. Blocks go to the emptiest SM first, so the others idle for as
    long as a wave takes: foretold and measured activity are 0.52 and 0.68 on gravity.blocks270, 0.52 and 0.62 on
    mma_waves.rows128, 0.51 and 0.50 on tail_effect.slow, 1.0 and 0.91 on qdot.to_float."""
    launch = facts.counters.launch
    whole, held = math.floor(launch.waves + 1e-6), launch.sms * launch.blocks_per_sm
    rest = launch.blocks - whole * held
    if whole < 1 or rest <= 0 or not held:
        return None
    active = (whole + min(1.0, rest / launch.sms)) / (whole + 1)
    if active >= facts.constants.idle_sms:
        return None
    text = f"{launch.waves:.2f} waves of blocks: the last has {counted(rest, 'block')} for {launch.sms} SMs"
    return Regimen("overhead", "tail", UNSEEN, f"{text}; how long SMs have work was not collected")


def _few_blocks(facts: Facts) -> Regimen | None:
    """Fewer blocks than half of the SMs: most of the chip had none."""
    launch = facts.counters.launch
    if launch.blocks > facts.constants.few_blocks * launch.sms:
        return None
    blocks = f"{counted(launch.blocks, 'block')} for {launch.sms} SMs"
    return Regimen("overhead", "small_grid", UNSEEN, f"{blocks}; how long SMs have work was not collected")
