"""ASY505 on machine code: the same proof as on a report, without a block shape."""

from __future__ import annotations

from kscope.features.lanes.proxy_hazards import hazards
from kscope.features.sass.listing import Listing
from kscope.rules.asynchronous.missing_proxy_fence import MissingProxyFence
from kscope.rules.base import Outcome
from kscope.rules.lint import Lint


class MissingProxyFenceLint(Lint):
    of = MissingProxyFence

    def check(self, code: Listing) -> Outcome:
        return MissingProxyFence().judge(code, hazards(code))
