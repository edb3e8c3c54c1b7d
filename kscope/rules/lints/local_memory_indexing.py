"""MEM105 on machine code: local memory that is no spill."""

from __future__ import annotations

from kscope.features.facts import CodeFacts, Listing
from kscope.rules.base import PASSED, Outcome, derived
from kscope.rules.lint import Lint, where_in_loops
from kscope.rules.memory.local_memory_indexing import COPY, INLINED, WHERE_IT_LIES, LocalMemoryIndexing

EITHER = "constant indices (full unroll), or the array in shared memory with the thread as fastest index"


class LocalMemoryIndexingLint(Lint):
    of = LocalMemoryIndexing

    def check(self, facts: CodeFacts, code: Listing) -> Outcome:
        _, arrays, _ = facts.patterns.spills_and_arrays
        computed = [i for i in arrays if not facts.patterns.fixed_slot(i)]
        if not any(code[i].opcode == "LDL" for i in arrays):
            return PASSED  # stored for somebody else, such as a descriptor handed over by address
        resources = code.program.resources
        stack = resources.frame or resources.stack if resources is not None else None
        size = f" of up to {stack} bytes a thread" if stack else ""
        shown = computed or arrays
        copied = facts.patterns.copied_parameters(arrays)
        passed = facts.patterns.passed_on(arrays)
        what = "what a call by pointer needs in memory" if passed else "an array"
        return self.found(
            code, shown,
            why=(
                f"{len(arrays)} loads and stores of local memory are no spills but {what}{size}, "
                f"{len(computed)} of them at addresses computed at run time, {where_in_loops(code, shown)}."
                + COPY * copied
            ),
            fix=WHERE_IT_LIES if copied else INLINED if passed else EITHER,
            evidence=[
                derived("local accesses that are no spills", len(arrays), "inst", "LDL, STL"),
                derived("at computed addresses", len(computed), "inst", "not the stack pointer and a constant"),
            ],
            # The slow path of an accurate sine or cosine keeps a few words in local memory: CMP204 is about that.
            severity="info" if any(map(facts.patterns.reduces_range, range(len(code)))) else None,
            confidence=0.9 if computed else 0.6,
        )  # fmt: skip
