"""LAT306 on machine code: a loop that no instruction cache of the SM holds."""

from __future__ import annotations

from kscope.arch import table
from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.latency.instruction_cache_misses import BYTES, InstructionCacheMisses
from kscope.rules.lint import Lint


class InstructionCacheMissesLint(Lint):
    of = InstructionCacheMisses

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        held = _capacity(code.program.sm)
        ran = [lp for lp in code.cfg.loops if code.executed[lp.instructions[0]]]
        large = [lp for lp in ran if len(lp.instructions) * BYTES > held]
        if not large:
            return PASSED
        inner = min(large, key=lambda lp: len(lp.instructions))
        size = len(inner.instructions) * BYTES
        return self.found(
            code, [inner.instructions[0], inner.instructions[-1]],
            title=f"A loop of {size / 1024:.0f} KiB exceeds the instruction cache",
            why=f"{size / 1024:.0f} KiB of code are fetched anew each round; an SM holds {held / 1024:.0f} KiB.",
            fix="unroll less, keep rare paths out of line, fewer template variants in the loop",
            evidence=[
                derived("bytes of the loop", size, "byte", "16 an instruction"),
                derived("instruction cache of an SM", held, "byte", "kscope/arch/icache.toml"),
            ],
            severity="major",
            confidence=0.7,
        )  # fmt: skip


def _capacity(sm: int) -> int:
    sizes = {int(k): int(v) for k, v in table("icache")["sm"].items()}
    return sizes[max((k for k in sizes if k <= sm), default=min(sizes))]
