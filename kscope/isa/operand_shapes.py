"""How many registers each operand of a SASS opcode covers.

A Shape says, for one opcode with its modifiers, where the destinations end and how wide every register operand is.
Widths are in 32-bit registers. Matrix fragments follow from the shape in the name: an m x k tile of b-bit elements
held by 32 lanes takes m*k*b/1024 registers a lane (PTX ISA, matrix fragments of mma.m16n8k16 and others); a wgmma
accumulator is held by 128 lanes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from kscope.isa.families import by_opcode, family


class Shape(Struct, frozen=True):
    """Operand layout of one opcode. `sources` gives widths by place among the sources; further ones are `source`.
    `wide`: unmarked address registers are 64-bit. `address_words`: registers read from the base of an address
    operand, by place (TMA descriptors and coordinates lie in consecutive registers). `predicates_first`: how many
    leading predicates are destinations; `register_after`: a destination register follows them. `plain`: predicates
    right after the destination register are sources. `shared_first`: the first address is a shared-memory one (32 bits)
    although the second is wide. `texture`: widths follow from the component mask and the dimension operand."""

    writes: bool = True
    dests: tuple[int, ...] = (1,)
    sources: tuple[int, ...] = ()
    source: int = 1
    wide: bool = False
    address_words: tuple[int, ...] = ()
    predicates_first: int = 0
    register_after: bool = False
    last_is_source: bool = False
    plain: bool = False
    shared_first: bool = False
    texture: bool = False


_WORDS = {"64": 2, "96": 3, "128": 4, "256": 8, "F64": 2, "U64": 2, "S64": 2}
_PAIRS = frozenset({"64", "U64", "S64"})
"""Modifiers that make an operand of a comparison two registers."""
_NO_DEST = family("no_destination")
_DOUBLE = family("double_registers")
_PREDICATE_ONLY = by_opcode("predicates_only")
_PREDICATE_THEN_REGISTER = family("predicate_then_register")
_LOADS, _STORES, _ATOMICS = family("loads"), family("stores"), family("atomics")
_GLOBAL = family("global_address")
_MMA_SYNC = family("mma_sync")
_UNIFORM = frozenset(f"U{name}" for name in family("uniform_twin"))
_BITS = {"TF32": 32, "S8": 8, "U8": 8, "S4": 4, "U4": 4, "E4M3": 8, "E5M2": 8, "E3M2": 8, "E2M3": 8, "E2M1": 8,
         "F16": 16, "BF16": 16}  # fmt: skip
_MMA_BITS = by_opcode("matrix", "bits")
_DIGITS = re.compile(r"^\d{3,6}$")
_TIMES = re.compile(r"^(\d{1,3})x(\d{1,3})x(\d{1,3})$")
_LONGEST = 512  # of a side of a tensor instruction's tile: more than any has, so that no text asks for more registers


def words(mods: tuple[str, ...]) -> int:
    """Width in registers that the modifiers of a memory access name (1 where they name none)."""
    return max((_WORDS.get(m, 1) for m in mods), default=1)


def mma_shape(opcode: str, mods: tuple[str, ...]) -> tuple[int, int, int] | None:
    """(m, n, k) of a tensor instruction, from `16816`, `884`, `16x8x16` or `64x256x16`."""
    for mod in mods:
        match = _TIMES.match(mod)
        if match:
            return min(int(match[1]), _LONGEST), min(int(match[2]), _LONGEST), min(int(match[3]), _LONGEST)
        if _DIGITS.match(mod) and opcode in _MMA_SYNC:
            m, rest = (16, mod[2:]) if mod.startswith("16") else (8, mod[1:])
            return m, int(rest[0]), min(int(rest[1:] or 0), _LONGEST)
    return None


@lru_cache(maxsize=4096)
def shape_of(name: str) -> Shape:
    """Layout of an opcode with modifiers (`LDG.E.128`)."""
    opcode, *rest = name.split(".")
    mods = tuple(rest)
    base = opcode[1:] if opcode in _UNIFORM else opcode
    if base in _NO_DEST:
        return _without_destination(base, mods)
    if base in _LOADS:
        return _load(base, mods)
    if base in _ATOMICS:
        width = words(mods)
        return Shape(dests=(width,), source=width, wide=base in _GLOBAL, predicates_first=1, register_after=True)
    if base in _MMA_SYNC:
        return _mma(base, mods)
    if base.endswith("GMMA"):
        return _wgmma(base, mods)
    if base in family("texture_fetch"):
        return Shape(dests=(2, 2), sources=(2,), plain=True, texture=True)
    if base == "SULD":
        return Shape(dests=(words(mods),), wide=True, plain=True)
    return _arithmetic(base, mods)


def _without_destination(base: str, mods: tuple[str, ...]) -> Shape:
    width = words(mods)
    if base in _STORES:
        if base == "STSM":
            width = _matrices(mods)
        elif base == "STTM":
            width = _tensor_memory(mods)
        elif "ENL2" in mods:
            width //= 2
        return Shape(writes=False, source=width, wide=base in _GLOBAL and _extended(base, mods))
    if base in _ATOMICS:
        return Shape(writes=False, source=width, wide=base in _GLOBAL and _extended(base, mods))
    if base == "SUST":
        return Shape(writes=False, source=width, wide=True)
    if base in family("tensor_map"):
        dims = next((int(m[0]) for m in mods if re.fullmatch(r"[1-5]D", m)), 2)
        return Shape(writes=False, address_words=(dims + (2 if base == "UTMALDG" else 1), 2))
    if base in family("bulk"):
        return Shape(writes=False, address_words=(2, 2))
    if base in family("jump_by_register"):
        return Shape(writes=False, sources=(2,))
    return Shape(writes=False, wide=base in _GLOBAL, shared_first=base == "LDGSTS")


def _extended(base: str, mods: tuple[str, ...]) -> bool:
    # `.E` is a 64-bit address; a generic or global access without it uses 32 bits.
    return "E" in mods


def _matrices(mods: tuple[str, ...]) -> int:
    """Registers of LDSM.16.M88.4: one for each 8x8 matrix, the last modifier (absent: one)."""
    return int(mods[-1]) if mods and mods[-1] in ("1", "2", "4") else 1


def _tensor_memory(mods: tuple[str, ...]) -> int:
    """Registers of LDTM.x4, LDTM.16dp256bit.x2: repetitions times 32-bit words a lane."""
    times = next((int(m[1:]) for m in mods if re.fullmatch(r"x\d{1,3}", m)), 1)
    per = 4 if any("256" in m for m in mods) else 2 if any("128" in m for m in mods) else 1
    return times * per


def _load(base: str, mods: tuple[str, ...]) -> Shape:
    width = words(mods)
    if base == "LDSM":
        return Shape(dests=(_matrices(mods),))
    if base == "LDTM":
        return Shape(dests=(_tensor_memory(mods),))
    wide = base in _GLOBAL and _extended(base, mods)
    if "ENL2" in mods:
        return Shape(dests=(width // 2, width // 2), wide=wide, predicates_first=1, register_after=True)
    return Shape(dests=(width,), wide=wide, predicates_first=1, register_after=True)


def _mma(base: str, mods: tuple[str, ...]) -> Shape:
    shape = mma_shape(base, mods)
    if shape is None:
        return Shape(dests=(4,), sources=(4, 2, 4))
    m, n, k = shape
    types = [m_ for m_ in mods if m_ in _BITS]
    bits = _MMA_BITS[base]
    if base == "HMMA" and "TF32" in mods:
        bits = 32
    a_bits, b_bits = bits, bits
    if base == "IMMA" and types:
        a_bits, b_bits = _BITS[types[0]], _BITS[types[-1]]
    result = 64 if base == "DMMA" else 16 if "F16" in mods and "F32" not in mods and base != "IMMA" else 32
    if base == "HMMA" and (m, n, k) == (8, 8, 4):  # Volta's quad-pair layout
        return Shape(dests=(8 if result == 32 else 4,), sources=(2, 2, 8 if result == 32 else 4))
    a = max(1, m * k * a_bits // 1024 // (2 if "SP" in mods else 1))
    b = max(1, n * k * b_bits // 1024)
    c = max(1, m * n * result // 1024)
    return Shape(dests=(c,), sources=(a, b, c), plain=True)


def _wgmma(base: str, mods: tuple[str, ...]) -> Shape:
    shape = mma_shape(base, mods)
    n = shape[1] if shape else 8
    c = max(1, n // 4 if "F16" in mods and "F32" not in mods else n // 2)
    # D = A x B + D. With A in shared memory one gdesc operand names both descriptors (four uniform registers) and
    # stands first; with A in registers (64 x 32 bytes over 128 lanes: four registers) gdesc comes second.
    return Shape(dests=(c,), sources=(4, c, c), source=c, address_words=(4, 4), plain=True)


def _arithmetic(base: str, mods: tuple[str, ...]) -> Shape:
    if base in _PREDICATE_ONLY or base in _PREDICATE_THEN_REGISTER:
        return _predicates(base, mods)
    if base in _DOUBLE:
        return Shape(dests=(2,), source=2, predicates_first=2 if base == "DMNMX" else 0, plain=True)
    if base in family("pair_registers"):
        return Shape(dests=(2,), source=2, plain=True)
    if base == "IMAD" and "WIDE" in mods:
        return Shape(dests=(2,), sources=(1, 1, 2))
    if base == "IMAD" and "HI" in mods:
        return Shape(sources=(1, 1, 2))
    if base in family("converts"):
        return _conversion(base, mods)
    if base in ("CS2R", "CS2UR"):
        return Shape(dests=(1 if "32" in mods else 2,))
    if base in ("LEPC", "GETLMEMBASE"):
        return Shape(dests=(2,))
    if base in ("VOTE", "VOTEU"):
        return Shape(predicates_first=1, last_is_source=True)
    wide = 2 if "64" in mods else 1
    return Shape(dests=(wide,), source=wide, plain=base in family("plain_sources"))


def _predicates(base: str, mods: tuple[str, ...]) -> Shape:
    """Of opcodes that write predicates, some of them a register behind."""
    if base == "SYNCS":
        return _syncs(mods)
    width = 1 if _PAIRS.isdisjoint(mods) else 2
    if base in _PREDICATE_ONLY:
        return Shape(source=2 if base == "DSETP" else width, predicates_first=_PREDICATE_ONLY[base])
    wide = base == "QSPC" and "E" in mods
    return Shape(dests=(width,), source=width, wide=wide, predicates_first=2, register_after=True)


def _syncs(mods: tuple[str, ...]) -> Shape:
    """mbarrier operations: EXCH.64 writes and reads 64-bit values; ARRIVE.TRANS64 returns a 64-bit state."""
    if "EXCH" in mods or "CAS" in mods:
        return Shape(dests=(2,), source=2, predicates_first=1)
    return Shape(dests=(2,) if "TRANS64" in mods else (1,), predicates_first=1)


def _conversion(base: str, mods: tuple[str, ...]) -> Shape:
    double = "F64" in mods
    if base == "F2F":
        types = [m for m in mods if m in ("F16", "BF16", "F32", "F64", "TF32")]
        return Shape(dests=(2 if types[:1] == ["F64"] else 1,), source=2 if types[-1:] == ["F64"] else 1)
    integer = "S64" in mods or "U64" in mods
    if base == "I2F":
        return Shape(dests=(2 if double else 1,), source=2 if integer else 1)
    if base == "F2I":
        return Shape(dests=(2 if integer else 1,), source=2 if double else 1)
    return Shape(dests=(2 if double else 1,), source=2 if double else 1)
