"""MEM102 on machine code: neighbouring accesses that are proven to be one."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.lint import Lint, where_in_loops
from kscope.rules.memory.narrow_global_access import NarrowGlobalAccess

TYPES = {32: "double4_32a / v8.f32", 16: "float4 / uint4", 8: "float2 / uint2"}


class NarrowGlobalAccessLint(Lint):
    of = NarrowGlobalAccess

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        groups = sorted(facts.lanes.mergeable, key=lambda m: (-code.executed[m.members[0]], -len(m.members), m.members))
        if not groups:
            return PASSED
        members = [i for g in groups for i in g.members]
        best = groups[0]
        narrow, wide = code.classes[best.members[0]].bytes, best.bytes
        conditions = "; ".join(dict.fromkeys(g.condition for g in groups))
        return self.found(
            code, members,
            title=f"{len(best.members)} {code[best.members[0]].name} could be one access of {wide} bytes",
            why=(
                f"{len(members)} accesses {where_in_loops(code, members)} at adjacent offsets of one base could be "
                f"{len(groups)}: the base is not redefined and nothing that may alias stands between. "
                f"Condition: {conditions}."
            ),
            fix=f"{TYPES.get(wide, 'an aligned vector type')}: {wide} bytes at once; __restrict__, an aligned pointer",
            evidence=[
                derived("narrow accesses", len(members), "inst", f"{narrow} bytes a lane and more"),
                derived("after merging", len(groups), "inst", f"up to {wide} bytes a lane"),
            ],
            confidence=0.9 if all(g.sure for g in groups) else 0.6,
            places=sorted(best.members) + sorted(i for g in groups[1:] for i in g.members),
        )  # fmt: skip
