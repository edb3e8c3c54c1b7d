"""MEM104 on machine code: spills that the compiler marked, or slots that look like them."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, counted, derived
from kscope.rules.lint import Lint, where_in_loops
from kscope.rules.memory.register_spills import RegisterSpills


class RegisterSpillsLint(Lint):
    of = RegisterSpills

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        spills, _, certain = facts.patterns.spills_and_arrays
        if not spills:
            return PASSED
        loads = [i for i in spills if code[i].opcode == "LDL"]
        inside = [i for i in spills if code.cfg.depth[i]]
        resources = code.program.resources
        registers = resources.registers if resources is not None else None
        held = f"{registers} registers a thread" if registers else "the registers"
        how = "marked by the compiler" if certain else "fixed slots of the stack; the binary marks none"
        return self.found(
            code, spills,
            title=f"{counted(len(spills), 'spill instruction')}, {len(inside)} of them in loops",
            why=(
                f"{held[0].upper()}{held[1:]} do not hold what is alive: "
                f"{counted(len(spills) - len(loads), 'store')} and {counted(len(loads), 'load')} of "
                f"local memory are spills ({how}), {where_in_loops(code, spills)}."
            ),
            fix="allow more registers (__launch_bounds__, no -maxrregcount) or keep fewer values alive",
            evidence=[
                derived("spill stores", len(spills) - len(loads), "inst", "STL"),
                derived("refills", len(loads), "inst", "LDL"),
            ],
            confidence=0.95 if certain else 0.6,
        )  # fmt: skip
