"""What one instruction is for, as an expert would say it in a few words.

A role is one of ROLES, from the opcode's class and modifiers. `words` adds what the name alone does not tell: the
meaning of a TMA, mbarrier, tcgen05 or fence opcode, the shape of a matrix instruction, a special register's CUDA name.
Meanings were read off code compiled for each PTX instruction with CUDA 13.0; PTX ISA names are given where there is
one, because documentation exists for those only.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from kscope.isa.families import by_opcode, family
from kscope.isa.operand_shapes import mma_shape, shape_of

if TYPE_CHECKING:
    from kscope.isa.opcodes import OpClass
    from kscope.model.operand import Operand
    from kscope.model.program import Instruction

ROLES = (
    "load", "store", "atomic", "reduction", "async copy", "TMA", "tensor", "tensor memory", "tensor wait", "async wait",
    "mbarrier", "barrier", "fence", "shuffle", "vote", "branch", "call", "exit", "control", "special function",
    "conversion", "float", "half", "double", "integer", "compare", "move", "nop", "unknown",
)  # fmt: skip
_ACCESS = {"load": "load", "matrix_load": "load", "store": "store", "atomic": "atomic", "reduction": "reduction",
           "async_copy": "async copy"}  # fmt: skip
_BY_KIND = (
    ("tma", "TMA"), ("tcgen05", "tensor memory"), ("wgmma_wait", "tensor wait"), ("tensor", "tensor"),
    ("async_wait", "async wait"), ("mbarrier", "mbarrier"), ("barrier", "barrier"), ("fence", "fence"),
    ("shuffle", "shuffle"), ("vote", "vote"), ("call", "call"), ("branch", "branch"), ("exit", "exit"),
    ("control", "control"), ("mufu", "special function"), ("conversion", "conversion"), ("predicate", "compare"),
    ("fp64", "double"), ("fp16", "half"), ("fp32", "float"), ("fp32_select", "float"), ("int", "integer"),
    ("move", "move"), ("nop", "nop"),
)  # fmt: skip

_SPECIAL = {
    "SR_TID": "threadIdx", "SR_CTAID": "blockIdx", "SR_NTID": "blockDim", "SR_NCTAID": "gridDim",
    "SR_LANEID": "lane", "SR_VIRTID": "warp and lane", "SR_CgaCtaId": "block's rank in its cluster",
    "SR_CLOCKLO": "clock()", "SR_CLOCKHI": "clock(), high", "SR_CLOCK": "clock()", "SR_GLOBALTIMERLO": "globaltimer",
    "SR_GLOBALTIMERHI": "globaltimer, high", "SR_LTMASK": "lanes below", "SR_LEMASK": "lanes up to",
    "SR_GTMASK": "lanes above", "SR_GEMASK": "lanes from", "SR_EQMASK": "own lane's mask", "SR_SMID": "SM number",
    "SR_SWINHI": "shared window", "SR_NWARPID": "warp slots", "SR_WARPID": "warp slot",
}  # fmt: skip
_VIEWS = {"S": ".shared", "G": ".global", "T": ".tensor"}
_SCOPES = {"CTA": "block", "GPU": "GPU", "SYS": "system", "CGA": "cluster", "VC": "cluster"}
_UTC_KIND = by_opcode("tcgen05_kind")
_ELEMENT = by_opcode("matrix", "element")
_PLAIN = by_opcode("words")
_TILE, _BULK, _TCGEN05 = (by_opcode(f"{what}_words") for what in ("tile", "bulk", "tcgen05"))
_OPERATIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR")
_TYPES = ("F16", "BF16", "TF32", "F32", "F64", "S8", "U8", "S4", "U4", "S32", "E4M3", "E5M2", "E2M1", "E3M2", "E2M3")
_DIMENSION = re.compile(r"^[1-5]D$")


def constant_of(ins: Instruction) -> int | None:
    """The value that `HFMA2 R3, -RZ, RZ, 1.875, 0` moves: two half constants added to a product of zeros, a constant
    load by way of the FP16 pipe. None for other instructions."""
    if ins.opcode != "HFMA2" or len(ins.operands) != 5 or not all(o.zero for o in ins.operands[1:3]):
        return None
    high, low = (o.number for o in ins.operands[3:])
    if high is None or low is None:
        return None
    try:
        return int.from_bytes(struct.pack("<2e", low, high), "little")
    except OverflowError:
        return None


def role_of(op: OpClass) -> str:
    """One of ROLES."""
    if op.pipe == "unknown":
        return "unknown"
    if op.access is not None and "tma" not in op.kind and "tcgen05" not in op.kind:
        return _ACCESS[op.access]
    if "tcgen05" in op.kind and "tensor" in op.kind:
        return "tensor"
    return next((role for kind, role in _BY_KIND if kind in op.kind), "unknown")


def words(ins: Instruction, op: OpClass) -> str:
    """What the instruction does where its name does not say it plainly; empty for the others."""
    if "S2" in ins.opcode[:3] and ins.operands:  # S2R, S2UR
        base, _, axis = ins.operands[-1].text.partition(".")
        meaning = _SPECIAL.get(base, "")
        return f"{meaning}.{axis.lower()}" if meaning and axis else meaning
    if ins.guard is None and ins.guard_negated:
        return "never runs (@!PT)"
    if (value := constant_of(ins)) is not None:
        return _constant(value)
    if ins.opcode == "USETMAXREG":
        return _handover(ins)
    if ins.opcode == "BAR":
        return _named_barrier(ins)
    return _words(ins.name, ins.opcode, ins.mods)


@lru_cache(maxsize=4096)
def _words(name: str, opcode: str, mods: tuple[str, ...]) -> str:
    if opcode.startswith(("UTMA", "UBLK")):
        return _tma(opcode, mods)
    if opcode == "SYNCS":
        return _mbarrier(mods)
    if opcode.startswith("UTC") or opcode in ("LDTM", "STTM"):
        return _tcgen05(name, opcode, mods)
    if opcode.endswith("MMA") and not opcode.startswith("HFMA"):
        return matrix_words(name)
    if opcode in ("FENCE", "MEMBAR"):
        return _fence(opcode, mods)
    return _PLAIN.get(opcode, "") or _with_modifier(opcode, mods)


def _with_modifier(opcode: str, mods: tuple[str, ...]) -> str:
    if opcode in family("group_order"):
        return {"ARRIVE": "wgmma.fence", "DEPBAR": "wgmma.wait_group"}.get(mods[0] if mods else "", "")
    if opcode == "BRA" and "DIV" in mods:
        return "taken where lanes have diverged"
    if opcode == "WARPSYNC" and "COLLECTIVE" in mods:
        return "shuffle of a diverged warp"
    if opcode in family("matrix_move"):
        count = next((m for m in reversed(mods) if m in ("1", "2", "4")), "1")
        return f"{count} 8x8 {'matrix' if count == '1' else 'matrices'}" + (", transposed" if "MT88" in mods else "")
    if opcode == "MUFU":
        return {"RCP64H": "start of a double reciprocal", "RSQ64H": "start of a double root"}.get("".join(mods), "")
    if opcode == "F2F" and {"F64", "F32"} <= set(mods):
        return "float to double" if mods[0] == "F64" else "double to float"
    if opcode == "CCTL":
        return "acquire: invalidates L1" if "IVALL" in mods else ""
    return ""


def _tma(opcode: str, mods: tuple[str, ...]) -> str:
    rank = next((m for m in mods if _DIMENSION.match(m)), "")
    tile = f"{rank} " + ("im2col tile" if "IM2COL" in mods else "tile")
    more = ", multicast" if "MULTICAST" in mods else ""
    if opcode in _TILE:
        operation = next((f" ({m.lower()})" for m in mods if m in _OPERATIONS), "")
        return str(_TILE[opcode].format(tile=tile, more=more, operation=operation))
    if opcode == "UTMACCTL":
        return "prefetches the tensor map" if "PF" in mods else "invalidates the tensor map" if "IV" in mods else ""
    what = _BULK.get(opcode)
    if what is None:
        return str(_PLAIN.get(opcode, ""))
    if mods[:2] == ("S", "G"):
        return f"{what}{more}, global to shared, completes on an mbarrier"
    if mods[:2] == ("G", "S"):
        return f"{what}, shared to global, completes with its bulk group"
    if mods[:2] == ("S", "S"):
        return f"{what}, shared to another block's shared, completes on an mbarrier"
    return str(what)


def _mbarrier(mods: tuple[str, ...]) -> str:
    if "PHASECHK" in mods:
        return "mbarrier.try_wait" if "TRYWAIT" in mods else "mbarrier.test_wait"
    if "ARRIVE" in mods:
        if "A1T0" in mods or "ART0" in mods:
            return "mbarrier.arrive"
        if "A0TX" in mods:
            return "mbarrier.complete_tx"
        return "mbarrier.expect_tx" if "A0TR" in mods else "mbarrier.arrive.expect_tx"
    if "EXCH" in mods:
        return "mbarrier.init"
    return "mbarrier.inval" if "CCTL" in mods else "mbarrier"


def _tcgen05(name: str, opcode: str, mods: tuple[str, ...]) -> str:
    pair = ", both blocks of a pair" if "2CTA" in mods else ""
    if opcode in _UTC_KIND:
        return f"tcgen05.mma {_UTC_KIND[opcode]}{pair}: result in tensor memory, shape in idesc"
    if opcode in _TCGEN05:
        return str(_TCGEN05[opcode].format(pair=pair))
    if opcode == "UTCATOMSWS":
        return "tcgen05.alloc" if "FIND_AND_SET" in mods else "tcgen05.dealloc" if "AND" in mods else ""
    if opcode == "LDTM":
        return f"tcgen05.ld: {shape_of(name).dests[0]} columns of tensor memory"
    return f"tcgen05.st: {shape_of(name).source} columns of tensor memory" if opcode == "STTM" else ""


def _fence(opcode: str, mods: tuple[str, ...]) -> str:
    if opcode == "MEMBAR":
        scope = next((_SCOPES[m] for m in mods if m in _SCOPES), "")
        strength = "seq-cst fence" if "SC" in mods else "fence"
        return f"memory {strength}, {scope}" if scope else f"memory {strength}"
    if "ASYNC" in mods:
        return f"fence.proxy.async{_VIEWS.get(mods[-1], '')}: orders ordinary and async accesses"
    return "fence"


def _named_barrier(ins: Instruction) -> str:
    number = ins.operands[0] if ins.operands else None
    what = {"SYNC": "sync", "ARV": "arrive", "RED": "reduce"}.get(ins.mods[0] if ins.mods else "", "")
    if what == "sync" and (number is None or number.equals(0)) and len(ins.operands) < 2:
        return "__syncthreads"
    shown = "0" if number is None else str(number.value) if number.kind == "integer" else number.text
    count = f", {_threads(ins.operands[1])}" if len(ins.operands) > 1 else ""
    return f"named barrier {shown} {what}{count}".rstrip()


def handover_of(ins: Instruction) -> int | None:
    """Registers a thread that setmaxnreg leaves or asks for; None for other instructions."""
    last = ins.operands[-1] if ins.opcode == "USETMAXREG" and ins.operands else None
    return last.value if last is not None and last.kind == "integer" else None


def _handover(ins: Instruction) -> str:
    count = handover_of(ins)
    if count is None:
        return "setmaxnreg"
    if "DEALLOC" in ins.mods:
        return f"setmaxnreg.dec: keeps {count} registers"
    return f"setmaxnreg.inc: asks for {count} registers"


def _constant(value: int) -> str:
    """`constant 0x3f800000 = 1.0f`; the float only where the number is one that people write."""
    number = struct.unpack("<f", struct.pack("<I", value))[0]
    written = f" = {number:.6g}f" if 1e-6 <= abs(number) <= 1e9 else ""
    return f"constant {value:#x}{written}"


def _threads(operand: Operand) -> str:
    return f"{operand.value} threads" if operand.kind == "integer" else f"threads in {operand.text}"


@lru_cache(maxsize=1024)
def matrix_words(name: str) -> str:
    """Shape and types of a matrix instruction: `m16n8k16, F16 to F32, 2,048 FMA` (a warp's, a warpgroup's for wgmma);
    empty where the name does not tell them."""
    opcode, *rest = name.split(".")
    mods = tuple(rest)
    group = opcode.endswith("GMMA")
    shape = mma_shape("GMMA" if group else opcode, mods)
    if shape is None:
        return ""
    m, n, k = shape
    types = [t for t in mods if t in _TYPES]
    element = _ELEMENT.get(opcode, "")
    result = types[0] if types and types[0] in ("F32", "F16", "S32", "F64") else {"I": "S32", "D": "F64"}.get(opcode[0])
    inputs = list(dict.fromkeys(types[1:] if types and types[0] == result else types)) or [element]
    sparse = ", 2:4 sparse" if "SP" in mods else ""
    fma = m * n * k // (2 if sparse else 1)
    arrow = f"{' x '.join(inputs)} to {result}" if result else " x ".join(inputs)
    return f"{'wgmma ' if group else ''}m{m}n{n}k{k}, {arrow}{sparse}, {fma:,} FMA"
