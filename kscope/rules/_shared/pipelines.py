"""What the rules on specialised kernels share: what they look at, and how they show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts, Places
from kscope.model.contract.analysis import Evidence
from kscope.rules.base import PASSED, Missing, Passed, ProfiledRule, derived

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kscope.features.facts import Loss, Specialization

COLLECT = "--set full --section PmSampling"
EXPOSED = 0.03  # of the time that the unit loses to waits for data: findings that promise less are for information
FULL = 0.85  # load of a memory unit from which it is what the waits are for
REMOVED = 0.85  # of a loss that its remedy usually takes away: an overlapped epilogue leaves a rest


class PipelineRule(ProfiledRule):
    """A rule on the pipeline of a warp-specialised kernel. Kernels whose warps all do the same pass."""

    needs_samples = True
    collect = COLLECT

    def pipeline(self, facts: Facts, *, bounds: bool = False) -> tuple[Specialization, Loss] | Passed | Missing:
        """What the rule looks at. `bounds`: the rule can do with bounds where the phases are not resolved."""
        sp = facts.specialized.pipeline
        if sp is None:
            return PASSED
        if sp.phases is None or sp.loss is None:
            return Missing(f"no PM-sampling timeline of the {unit_title(sp)}; profile with {COLLECT}")
        if not sp.resolved and not bounds:
            return self.unresolved(sp)
        return sp, sp.loss

    def unresolved(self, sp: Specialization) -> Missing:
        """The kernel is too short for its timeline."""
        bins = len(sp.activity.full) if sp.activity else 0
        width = sp.phases.bin if sp.phases else 0.0
        return Missing(
            f"only {bins} bins of {width:.1f} us have work: the phases are not resolved; profile a larger problem, or "
            "with a shorter --pm-sampling-interval"
        )


class DataRule(PipelineRule):
    """A rule on waits for data that no full memory explains: the producer asks late (ASY502), or in time, but for too
    few stages (ASY504)."""

    def late(self, facts: Facts) -> tuple[Specialization, Loss, float] | Passed | Missing:
        """The kernel, its loss, and the share of its time that the producer waits for slots, 0..1."""
        known = self.pipeline(facts)
        if isinstance(known, (Passed, Missing)):
            return known
        sp, loss = known
        if loss.data < EXPOSED or sp.slot_waits is None or facts.counters.beyond_l1_load > FULL:
            return PASSED
        return sp, loss, sp.slot_waits

    def lost(self, sp: Specialization, loss: Loss, slots: float) -> list[Evidence]:
        """Who waits for how long."""
        return [
            derived("lost to waits for data", loss.data, "", f"{sp.unit} timeline and waits of the consumers"),
            derived("producer waiting for slots", slots, "", "share of the producer's time"),
        ]


def unit_title(sp: Specialization) -> str:
    """The unit that the kernel is for, in words."""
    return {"tensor": "tensor pipe", "dram": "device memory", "l2": "L2"}.get(sp.unit, sp.unit)


def sampled(code: Code, members: Iterable[int], count: int = 4) -> Places:
    """Where the samples of these instructions are, most first, with their share of all samples."""
    every = sum(code.samples) or 1.0
    hot = [i for i in code.hottest(dict.fromkeys(members), code.samples) if code.samples[i]]
    share = sum(code.samples[i] for i in hot) / every
    return Places((code.location(i, code.samples[i] / every) for i in hot[:count]), (code[i].pc for i in hot), share)


def role_evidence(sp: Specialization) -> list[Evidence]:
    """How the waits of each role stand, from exact retry counts where there are any."""
    out = []
    for time in sp.times:
        for unit, (failed, made) in time.retried.items():
            what = "data" if unit == "memory" else "a free slot"
            out.append(
                derived(
                    f"{time.role.name}: waits for {what} that were not over at once", failed / made, "",
                    f"{failed:,.0f} of {made:,.0f}, exact counts of the retry code",
                )
            )  # fmt: skip
    return out
