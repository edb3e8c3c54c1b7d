"""CMP211: vector instructions that compute the same in all lanes."""

from __future__ import annotations

from kscope.features.listing import Listing
from kscope.features.uniformity import warp_uniform
from kscope.rules.base import PASSED, Outcome, derived, percent
from kscope.rules.compute.uniform_datapath_misses import UniformDatapathMisses
from kscope.rules.lint import Lint

PART = 0.1  # of a loop's instructions


class UniformDatapathMissesLint(Lint):
    of = UniformDatapathMisses

    def check(self, code: Listing) -> Outcome:
        if code.program.sm < 75:
            return PASSED  # no uniform datapath
        found, roots = warp_uniform(code)
        loops = {code.cfg.loop_of[i] for i in found}
        size = sum(len(code.cfg.loop_body(lp)) for lp in loops if lp is not None)
        if not found or len(found) < PART * size:
            return PASSED
        return self.found(
            code, found,
            why=(
                f"{len(found)} integer instructions, {percent(len(found) / size)} of their loops, depend on "
                "threadIdx.x and give all lanes of a warp the same number: the compiler cannot see that."
            ),
            fix="broadcast the warp number from lane 0: __shfl_sync(~0u, threadIdx.x / 32, 0)",
            evidence=[
                derived("uniform vector instructions in loops", len(found), "inst", "each lane's value computed"),
                derived("where they come from", len(roots), "inst", "for example the shift that makes the warp number"),
            ],
            severity="info",
            confidence=0.6,
            places=sorted([*roots[:2], *found[:6]]),
        )  # fmt: skip
