"""What each kind of change takes away: computed of the proposal, counted in the better version's own report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from kscope.features.facts import FMA_OPCODES, SECTORS, WAVEFRONTS, Facts
from kscope.features.sass.columns import total
from kscope.fixes.given.setting import Setting
from kscope.fixes.left import left
from kscope.model.contract.fixes import Fix
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from tests.support import reports

TOLERATED = 1.1  # of what the better version needs (judged: as tests/fixes/test_shared.py has it for wavefronts)
Word = Literal["same", "as good", "less", "none"]


class Judged(Struct, frozen=True):
    """`after`: of the proposal, computed; `better`: of the better version, counted in its report; `what`: of what."""

    word: Word
    what: str
    before: float | None = None
    after: float | None = None
    better: float | None = None
    reason: str = ""


@cache
def facts(case: str) -> Facts:
    with open_input(reports.fixture(case)) as path:
        return Facts(next(iter(read_kernels(path))))


class Compared(Struct, frozen=True):
    """A proposal and the better version."""

    fix: Fix
    case: str
    better: str
    slow: Setting
    fast: Setting
    code: str
    row: dict[str, Any] | None


def against(
    what: str, before: float | None, after: float, better: float, *, more: bool = False, reason: str = ""
) -> Judged:  # fmt: skip
    good = after * TOLERATED >= better if more else after <= TOLERATED * better
    return Judged("as good" if good else "less", what, before, after, better, "" if good else reason)


def _executed(one: Setting, choose: Callable[..., bool]) -> float:
    code = one.code
    return total(code.executed, code.where(choose))


def _taken(what: str, choose: Callable[..., bool]) -> Callable[[Compared], Judged | None]:
    """Executions of some instructions: those of the slow version less what the first figure takes away."""

    def measure(c: Compared) -> Judged | None:
        row = c.fix.proof[0]
        before = _executed(c.slow, choose)
        after = max(0.0, before - (row.before - row.after))
        return against(what, before, after, _executed(c.fast, choose))

    return measure


def _wavefronts(c: Compared) -> Judged | None:
    slow, fast = facts(c.case).code, facts(c.better).code
    if slow is None or fast is None:
        return None
    before, better = (sum(one.column(WAVEFRONTS) or ()) for one in (slow, fast))
    less = sum(p.before - p.after for p in c.fix.proof if p.unit == "wavefronts")
    return against("wavefronts of shared memory", before, before - less, better)


def _sectors(c: Compared) -> Judged | None:
    row, fast = c.fix.proof[0], facts(c.better).code
    if row.unit != "sectors" or fast is None:
        return None
    column = fast.column(SECTORS) or []
    loads = fast.ran(fast.where(lambda ins, op: op.space == "global" and op.access == "load"))
    if row.before > 32:  # of all accesses together
        return against("sectors of global accesses", row.before, row.after, sum(column))
    each = [column[i] / fast.executed[i] for i in loads if fast.executed[i] and column]
    if not each:
        return None
    if c.fix.kind == "align":
        return against("sectors of one access", row.before, row.after, max(each))
    mean = sum(column[i] for i in loads) / total(fast.executed, loads)
    return against("sectors of one warp load", row.before, row.after, mean)


def _barriers(c: Compared) -> Judged | None:
    row, launch = c.fix.proof[0], c.fast.launch
    if row.unit != "barriers" or launch is None:
        return None
    passed = _executed(c.fast, lambda ins, op: ins.opcode == "BAR") / (launch.warps * launch.blocks)
    return against("barriers that a warp passes", row.before, row.after, passed)


def _compiled(c: Compared) -> Judged | None:
    """What the compiled proposal still has of what the change takes away, or its instructions."""
    now = left(c.fix.kind, c.fast, c.code)
    if c.row is None or "new" not in c.row or now is None or c.row["has"] not in ("yes", "partly"):
        return None
    return against(f"{now[0]}, compiled", c.row["old"], c.row["new"], now[1])


def _atomics(c: Compared) -> Judged | None:
    row, fast = c.fix.proof[0], c.fast
    atoms = fast.code.where(lambda ins, op: op.access in ("atomic", "reduction") and op.space != "shared")
    lanes = getattr(fast.code, "threads", None)
    better = total(lanes, atoms) if lanes is not None else 32 * total(fast.code.executed, atoms)
    return against("atomics of lanes on global memory", row.before, row.after, better)


def _divided(c: Compared) -> Judged | None:
    from kscope.features.patterns.math_functions import integer_divisions

    row = c.fix.proof[0]
    each = total(c.slow.code.executed, integer_divisions(c.slow.code)) * (row.before - row.after)
    before, better = c.slow.code.all_executed, c.fast.code.all_executed
    return against("instructions", before, before - each, better, reason="the better version divides less often")


def _loaded(c: Compared) -> Judged | None:
    """Elements that are loaded from global memory a multiplication."""
    code = c.fast.code
    loads = code.where(lambda ins, op: op.space == "global" and op.access in ("load", "async_copy"))
    words = sum(code.executed[i] * code.classes[i].bytes / 4 for i in loads)
    products = total(code.executed, code.where(lambda ins, op: ins.opcode in FMA_OPCODES))
    row = c.fix.proof[0]
    if products:
        return against(row.what, row.before, row.after, words / products)
    loaded = c.slow.code.where(lambda ins, op: op.space == "global" and op.access == "load")
    before = sum(c.slow.code.executed[i] * c.slow.code.classes[i].bytes / 4 for i in loaded)
    return against("words of warps loaded from global memory", before, before * row.after / row.before, words)


def _held(c: Compared) -> Judged | None:
    """Warps, waves, lanes, SMs, bytes of a ring: of the better version's launch, by the same limits."""
    row, fast, launch = c.fix.proof[0], c.fast, c.fast.launch
    ring = c.fix.parameters.get("shared_dynamic")
    if c.fix.kind == "stages" and isinstance(ring, int) and launch is not None and c.slow.launch is not None:
        before, better = c.slow.launch.shared_dynamic, launch.shared_dynamic
        return against("bytes of the ring and what is beside it", before, ring, better, more=True)
    held = fast.occupancy()
    if launch is None or held is None:
        return None
    slots = max(1, held.blocks * fast.sms)
    if row.what.startswith("waves"):
        return against(row.what, row.before, row.after, -(-launch.blocks // slots))
    if row.what == "blocks that the launch starts":
        return against(row.what, row.before, row.after, launch.blocks)
    known: dict[str, float] = {
        "warps that an SM holds": held.warps,
        "warps that the chip holds": min(launch.blocks, slots) * launch.warps,
        "lanes of each warp that hold a thread": launch.threads / launch.warps,
        "SMs that have a program": min(launch.blocks, fast.sms),
        "SMs that have a block": min(launch.blocks, fast.sms),
        "threads that the chip holds": min(launch.blocks, slots) * launch.threads,
        "bytes on their way on an SM": launch.shared_dynamic * held.blocks,
    }
    most = known.get(row.what)
    return against(row.what, row.before, row.after, most, more=True) if most is not None else None


def _per_row(c: Compared) -> Judged | None:
    """Bytes that are loaded, where the figure is how often."""
    row = c.fix.proof[0]
    if not row.what.startswith("times that a row"):
        return None

    def moved(one: Setting) -> float:
        loads = one.code.where(lambda ins, op: op.space == "global" and op.access == "load")
        return sum(32 * one.code.executed[i] * one.code.classes[i].bytes for i in loads)

    before = moved(c.slow)
    return against("bytes that lanes load", before, before * row.after / row.before, moved(c.fast))


def _started(c: Compared) -> Judged | None:
    """Blocks, where several become one that does their work."""
    return _held(c) if c.fix.proof[0].unit == "blocks" else None


def _chains(c: Compared) -> Judged | None:
    row = c.fix.proof[0]
    if row.unit != "loads":
        return None
    has = left("jam", c.fast, c.code)
    return against(row.what, row.before, row.after, 1 / has[1] if has and has[1] else 1, more=True)


def _ordered(c: Compared) -> Judged | None:
    """Loads that stores keep where they are, by the code of both."""
    row, has = c.fix.proof[0], left(c.fix.kind, c.fast, c.code)
    return against(row.what, row.before, row.after, has[1]) if has is not None and has[0] == row.what else None


def _bus(c: Compared) -> Judged | None:
    slower = [m for m in ("lts__t_sectors_aperture_sysmem.sum", "lts__t_sectors_srcunit_tex_aperture_sysmem.sum")
              if m in facts(c.better).kernel.metrics]  # fmt: skip
    known = {m: facts(c.better).kernel.metrics[m] for m in slower}
    if not known:
        return Judged("as good", "bytes read over the bus", c.fix.proof[0].before, 0.0, 0.0)
    return against("sectors read over the bus", None, 0.0, sum(known.values()))


def _memory(op: Any, space: str, kinds: Sequence[str] = ("load", "store")) -> bool:
    return op.space == space and op.access in kinds


def _kept(c: Compared) -> Judged | None:
    """Stores of sums that stay in memory, in the code of both."""
    has = left("register", c.fast, c.code) if c.code == "MEM114" else None
    return against(c.fix.proof[0].what, c.fix.proof[0].before, c.fix.proof[0].after, has[1]) if has else None


def _fused(c: Compared) -> Judged | None:
    """Products that tensor cores would make, or warpgroups."""
    chosen = {
        "CMP201": lambda ins, op: ins.opcode in FMA_OPCODES,
        "CMP202": lambda ins, op: "packed_mma_sync" in op.kind,
    }  # fmt: skip
    return _taken(c.fix.proof[0].what, chosen[c.code])(c) if c.code in chosen else None


def _stopped(c: Compared) -> Judged | None:
    """Barriers of a block."""
    count = _taken(c.fix.proof[0].what, lambda ins, op: ins.opcode == "BAR")
    return count(c) if c.fix.proof[0].what.startswith("barriers") else None


MEASURES: dict[str, tuple[Callable[[Compared], Judged | None], ...]] = {
    "pad": (_wavefronts,), "swizzle": (_wavefronts,), "lane_mapping": (_sectors, _barriers, _held, _compiled),
    "align": (_sectors,), "aggregate": (_atomics,), "divisor": (_divided,), "tile": (_fused, _loaded),
    "block_size": (_held, _per_row), "shared_bytes": (_held,), "carveout": (_held,),
    "stages": (_held, _compiled), "host_copy": (_bus,),
    "neighbours": (_taken("warp loads and stores", lambda ins, op: _memory(op, "global")),),
    "element_access": (_taken("warp loads and stores", lambda ins, op: _memory(op, "global")),),
    "vector_access": (_taken("warp loads", lambda ins, op: _memory(op, "global", ("load",))),),
    "jam": (_started, _chains, _taken("warp loads", lambda ins, op: _memory(op, "global", ("load",))),),
    "literal": (_taken("warp instructions of the FP64 pipe", lambda ins, op: op.pipe == "fp64"),),
    "hoist": (_ordered, _taken("FP32 instructions", lambda ins, op: ins.opcode in ("FADD", "FMUL", "FFMA")),),
    "launch_bounds": (_taken("loads and stores of the stack", lambda ins, op: _memory(op, "local")),),
    "qualifier": (_taken("strong loads", lambda ins, op: op.access == "load" and "STRONG" in ins.mods),),
    "register": (_kept, _per_row, _taken("shared loads and stores", lambda ins, op: _memory(op, "shared")),),
    "fence": (_stopped, _taken("fences", lambda ins, op: ins.opcode == "MEMBAR"),),
    "reciprocal": (_taken("reciprocals", lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods),),
    "build": (_compiled, _taken("moves of a register to itself", lambda ins, op: ins.opcode == "MOV" and len(
        {o.text for o in ins.operands}) == 1),),
    "math_function": (_compiled,), "copy_constants": (_compiled,), "unroll": (_compiled,), "texel_loads": (_compiled,),
}  # fmt: skip
"""What each kind of change takes away, as it is told from a report and from a proposal."""
