"""Work of a loop that is the same in every thread: what is computed from nothing but values that all lanes load alike.
Each thread does it again for its own element, so several elements a thread share it."""

from __future__ import annotations

from kscope.features.facts import Code, Facts


def alike(facts: Facts, code: Code) -> dict[int, list[int]]:
    """By innermost loop: its loads that all lanes make of one address, and the instructions that neither the thread's
    index nor another load reaches. Counters and addresses are left aside: unrolling shares those."""
    members = code.ran(code.where(lambda ins, op: bool(ins.defs) or op.access == "load"))
    loads = {
        i
        for i in members
        if code.classes[i].access == "load" and code.cfg.loop_of[i] is not None
        and code.classes[i].space != "constant" and isinstance(facts.lanes.addresses(i), int)
    }  # fmt: skip
    found: dict[int, list[int]] = {}
    for i in members if loads else ():
        loop = code.cfg.loop_of[i]
        if loop is None or (i not in loads and not _fed(code, i, loads)):
            continue
        found.setdefault(loop, []).append(i)
    return found


def _fed(code: Code, index: int, loads: set[int]) -> bool:
    """Whether such loads of its own loop reach it, and no thread's index."""
    names = code.slices.names([index])
    if code.classes[index].access is not None or names is None or "load" not in names or "tid" in names:
        return False
    loop = code.cfg.loop_of[index]
    return all(i in loads and code.cfg.loop_of[i] == loop for i in code.slices.bringing([index], "load"))
