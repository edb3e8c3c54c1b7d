"""Rules on machine code alone: no profile, so no gain is promised, only what the code proves.

A lint belongs to a rule, whose code, slug and page it shares: `kscope explain MEM104` explains both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from kscope.features.facts import CodeFacts, Listing
from kscope.model.contract.analysis import Evidence, Finding, Severity
from kscope.rules.base import AnyRule, Outcome


class Lint:
    """Base of the lints: one function from a listing, and what is known of it, to an outcome."""

    of: ClassVar[type[AnyRule]]

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        raise NotImplementedError(self.of.code)

    def found(
        self,
        code: Listing,
        members: Iterable[int],
        *,
        why: str,
        fix: str,
        evidence: list[Evidence],
        title: str | None = None,
        severity: Severity | None = None,
        confidence: float = 0.8,
        places: Iterable[int] | None = None,
        limit: int = 8,
    ) -> Finding:
        """A finding on these instructions. Its severity follows from the loops around them unless one is given;
        `places`: the instructions to show, in this order (the hottest members otherwise)."""
        members = list(members)
        shown = list(places) if places is not None else sorted(code.hottest(members)[:limit])
        return Finding(
            rule=self.of.slug, code=self.of.code, title=title or self.of.title, regime=self.of.regime,
            severity=severity or grade(code, members), evidence=evidence, why=why, fix=fix,
            locations=[code.location(i) for i in shown[:limit]], confidence=round(confidence, 2),
        )  # fmt: skip


def grade(code: Listing, members: Iterable[int]) -> Severity:
    """How much instructions can matter by where they are: major in an innermost loop, minor in an outer one or in
    code without loops, information beside a loop."""
    cfg = code.cfg
    depth = max((cfg.depth[i] for i in members), default=0)
    if depth:
        inner = any(cfg.loops[lp].innermost for i in members if (lp := cfg.loop_of[i]) is not None)
        return "major" if inner else "minor"
    return "info" if any(code.executed[lp.instructions[0]] for lp in cfg.loops) else "minor"


def where_in_loops(code: Listing, members: Iterable[int]) -> str:
    """Words for the deepest place of some instructions."""
    depth = max((code.cfg.depth[i] for i in members), default=0)
    return "outside loops" if not depth else "in a loop" if depth == 1 else f"in a loop of depth {depth}"
