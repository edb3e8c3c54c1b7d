"""What all threads of the grid compute alike: values that follow from parameters, constants, loop counters and loads at
places that follow from these. Several results a thread compute it once for all of them.

A value is taken for each thread's own if it comes from a thread's or block's number, another lane, shared or local
memory, an atomic or the clock, or runs where a part of the lanes is gone (a merge of two ways is no value of all)."""

from __future__ import annotations

from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.patterns.slicing import computation
from kscope.features.profile.code import Code
from kscope.isa.families import family

COMPUTED = frozenset({"fma", "fmaheavy", "alu", "xu", "fp64", "fp16"})
FLOATS = frozenset({"fp32", "fp32_fma", "fp64", "fp16"})
WHOLE = 0.97  # of the lanes that the launch has in a warp: the grid's last warp may be partial


def alike(code: Code) -> tuple[list[int], list[int]]:
    """(float arithmetic that is alike in all threads, all arithmetic and loads that are), as far as it ran."""
    threads = code.kernel.launch.threads
    full = threads / -(-threads // 32)
    own = [i for i in range(len(code)) if _own(code, i, full)]
    found = set(own)
    for i in own:
        new = [c for c in code.defuse.consumers(i) if c not in found]
        found.update(new)
        own += new
    divided = computation(code, tuple(integer_divisions(code)))  # a matter of its own, with a fix of its own
    same = [i for i in code.ran(range(len(code))) if i not in found and i not in divided and _works(code, i)]
    return [i for i in same if code.classes[i].kind & FLOATS or code.classes[i].pipe == "xu"], same


def _own(code: Code, index: int, full: float) -> bool:
    op, ins = code.classes[index], code[index]
    if op.access is not None and (op.access != "load" or op.space not in ("global", "constant")):
        return True
    tells = ins.opcode in family("own_value") or ins.opcode in family("other_value")
    if tells and "SRZ" not in ins.text:
        return True
    return code.threads[index] < WHOLE * full * code.executed[index]


def _works(code: Code, index: int) -> bool:
    op = code.classes[index]
    if op.access == "load":
        return op.space == "global"
    return op.access is None and op.pipe in COMPUTED and not op.kind & {"branch", "control"}
