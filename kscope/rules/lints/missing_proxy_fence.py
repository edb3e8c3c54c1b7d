"""ASY505 on machine code: the same proof as on a report, without a block shape."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.asynchronous.missing_proxy_fence import MissingProxyFence
from kscope.rules.base import Outcome
from kscope.rules.lint import Lint


class MissingProxyFenceLint(Lint):
    of = MissingProxyFence

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        return MissingProxyFence().led_by_the_gravest(code, facts.lanes.proxy_hazards)
