"""Small integers to floating point: the bits or-ed into the mantissa of a large number, and that number taken away."""

from __future__ import annotations

import re
import struct

from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.rewrite import Call, calls_of, changed, places, replaced
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import evaluated
from kscope.model.contract.fixes import Fix, Proof

HALF, HALF_BITS = 1024, 0x6400
"""2^10 as a half: its last bit is worth 1, so that 1024 | n is 1024 + n for n below 1024 (IEEE 754)."""
FUNCTION = """__device__ __forceinline__ __half half_of(unsigned n, int less) {  // n - less, exactly, for n < 1024
  return __hsub(__ushort_as_half((unsigned short)(0x6400u | n)), __int2half_rn(1024 + less));
}"""
PAIR = """__device__ __forceinline__ __half2 halves_of(unsigned a, unsigned b, int less) {  // a - less and b - less
  unsigned both = 0x64006400u | a | b << 16;
  return __hsub2(*reinterpret_cast<const __half2*>(&both), __half2half2(__int2half_rn(1024 + less)));
}"""
_CAST = re.compile(r"^\(\s*int\s*\)\s*")
_MASKED = re.compile(r"^\((?P<inner>.*)&\s*(?P<mask>0x[0-9a-fA-F]+|\d+)\s*\)\s*(?:-\s*(?P<less>\d+))?$")


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    found = code.ran(code.where(lambda ins, op: ins.opcode in ("I2F", "I2FP", "I2HP", "I2F16", "I2H")))
    made: list[tuple[int, int]] = []

    def one(call: Call) -> str | None:
        small = _small(call)
        if small is None:
            return None
        made.append(small[1:])
        return f"half_of({small[0]}, {small[2]})"

    def two(call: Call) -> str | None:
        small = [_small(c) for a in call.arguments for c in calls_of(a, "__int2half_rn") if c.end - c.start == len(a)]
        if len(call.arguments) != 2 or len(small) != 2:
            return None
        first, second = small
        if first is None or second is None or first[2] != second[2]:
            return None
        made.extend((first[1:], second[1:]))
        pairs.append(1)
        return f"halves_of({first[0]}, {second[0]}, {first[2]})"

    def change(text: str) -> str:
        return replaced(replaced(text, "__halves2half2", two), "__int2half_rn", one)

    pairs: list[int] = []
    edits = changed(places(setting, found), change)
    if not edits:
        return []
    tried = sum(mask + 1 for mask, _ in made)
    right = sum(_half(n, less) == float(n - less) for mask, less in made for n in range(mask + 1))
    return [
        Fix(
            kind="math_function",
            title="integers below 1024 to half by their bits, not by the conversion unit",
            language="cuda",
            code="\n".join(([FUNCTION] if len(made) > 2 * len(pairs) else []) + ([PAIR] if pairs else [])),
            edits=edits,
            conditions=[
                reads("the integers are below 1024", f"masked by {max(m for m, _ in made)}"),
                shown(right == tried, "the results are the same", "values", tried, "every value was run"),
            ],
            proof=[
                Proof(
                    what="conversions a call, at a quarter of the rate of an addition or less", before=1, after=0,
                    unit="inst", how="an OR and an addition of halves instead (arch/opcodes.toml, family conversions)",
                ),
                Proof(what="values that come out right", before=tried, after=right, how="all that the masks leave"),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _small(call: Call) -> tuple[str, int, int] | None:
    """(the masked integer, its mask, what is taken away) of a call whose argument is small for sure."""
    argument = _CAST.sub("", call.arguments[0].strip()) if len(call.arguments) == 1 else ""
    match = _MASKED.match(argument)
    if match is None:
        return None
    mask, less = int(match["mask"], 0), evaluated(match["less"] or "0", {})
    if not 0 < mask < HALF or less is None or mask + less >= HALF:
        return None
    return f"{match['inner'].strip()} & {match['mask']}", mask, less


def _half(n: int, less: int) -> float:
    """What half_of makes of n, in the arithmetic of halves."""
    large = struct.unpack("<e", struct.pack("<H", HALF_BITS | n))[0]
    return float(struct.unpack("<e", struct.pack("<e", large - (HALF + less)))[0])
