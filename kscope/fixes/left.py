"""What a change was to take away, counted in code: how a new version shows whether it has the change."""

from __future__ import annotations

from collections.abc import Callable

from kscope.features.lanes.bank_conflicts import conflicts
from kscope.features.lanes.vectorizable import merges
from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.sass.accesses import accesses
from kscope.fixes.given.setting import Setting
from kscope.model.contract.fixes import Kind


def left(kind: Kind, setting: Setting) -> tuple[str, float] | None:
    """(what is counted, how much of it a kernel has), for each kind of change whose effect its code shows; None for the
    others."""
    count = COUNTS.get(kind)
    return (count[0], count[1](setting)) if count is not None else None


def _excess(setting: Setting) -> float:
    known = conflicts(setting.code, setting.launch.block if setting.launch is not None else None)
    return sum(c.wavefronts - c.ideal for i, c in known.items() if setting.code.executed[i] > 0)


def _doubles(setting: Setting) -> float:
    return len(setting.code.ran(setting.code.where(lambda ins, op: op.pipe == "fp64")))


def _divisions(setting: Setting) -> float:
    return len(integer_divisions(setting.code))


def _spills(setting: Setting) -> float:
    kinds = accesses(setting.code.program, setting.code.classes)
    return sum(a is not None and a.stack in ("spill", "spill slot") for a in kinds)


def _slow_tables(setting: Setting) -> float:
    """Accesses of local arrays, and of constant memory by a lane's index."""
    code = setting.code
    kinds = accesses(code.program, code.classes)
    local = [i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"]
    loads = code.where(lambda ins, op: ins.opcode == "LDC")
    indexed = [i for i in loads if any(o.bases for o in code[i].operands)]
    return len(code.ran([*local, *indexed]))


def _strong(setting: Setting) -> float:
    code = setting.code
    return len(code.where(lambda ins, op: op.access == "load" and op.space == "global" and "STRONG" in ins.mods))


def _pairs(setting: Setting) -> float:
    code = setting.code
    sums = code.ran(code.where(lambda ins, op: ins.opcode == "FADD"))
    made = {p for i in sums for ps in code.defuse.sources(i).values() if len(ps) == 1 for p in ps}
    return sum(code[p].opcode == "FMUL" for p in made)


def _narrow(setting: Setting) -> float:
    found = merges(setting.code, setting.launch.block if setting.launch is not None else None)
    return sum(len(m.members) - 1 for m in found if setting.code.classes[m.members[0]].access == "load")


def _instructions(setting: Setting) -> float:
    return len(setting.code.ran(range(len(setting.code))))


def _narrow_ones(setting: Setting) -> float:
    code = setting.code
    moves = ("load", "store")
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in moves and 0 < op.bytes < 4))
    return len(found)


def _fences(setting: Setting) -> float:
    code = setting.code
    return sum(code.cfg.loop_of[i] is not None for i in code.where(lambda ins, op: ins.opcode == "MEMBAR"))


def _reciprocals(setting: Setting) -> float:
    return len(setting.code.where(lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods))


def _fetches(setting: Setting) -> float:
    return len(setting.code.where(lambda ins, op: ins.opcode in ("TEX", "TLD")))


def _stored(setting: Setting) -> float:
    code = setting.code
    return len(code.ran(code.where(lambda ins, op: op.space == "shared" and op.access == "store")))


COUNTS: dict[Kind, tuple[str, Callable[[Setting], float]]] = {
    "pad": ("wavefronts too many, an execution of each shared access", _excess),
    "swizzle": ("wavefronts too many, an execution of each shared access", _excess),
    "literal": ("double instructions", _doubles),
    "divisor": ("integer divisions", _divisions),
    "launch_bounds": ("spill loads and stores", _spills),
    "copy_constants": ("indexed accesses of local and constant memory", _slow_tables),
    "qualifier": ("strong loads", _strong),
    "hoist": ("products and sums that are not fused", _pairs),
    "vector_access": ("loads that could be part of a wider one", _narrow),
    "math_function": ("instructions", _instructions),
    "neighbours": ("global accesses of one or two bytes a lane", _narrow_ones),
    "fence": ("fences in loops", _fences),
    "reciprocal": ("reciprocals", _reciprocals),
    "texel_loads": ("texture fetches", _fetches),
    "register": ("stores to shared memory", _stored),
    "unroll": ("indexed accesses of local and constant memory", _slow_tables),
}
