"""Small integers to floating point: the bits or-ed into the mantissa of a large number, and that number taken away."""

from __future__ import annotations

import re
import struct

from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.rewrite import Call, calls_of, changed, places, replaced
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import closing
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
TOGETHER = """__device__ __forceinline__ __half2 halves_in(unsigned word, unsigned less) {  // both halves, less
  unsigned both = 0x64006400u | word, large = 0x64006400u + less * 0x10001u;
  return __hsub2(*reinterpret_cast<const __half2*>(&both), *reinterpret_cast<const __half2*>(&large));
}"""
APART = 16  # bits: as far as two halves of a pair
WORDS = (0, 0xFFFFFFFF, 0x12345678, 0x9ABCDEF0, 0xF0E1D2C3, 0x7FFF8000)
_CAST = re.compile(r"^\(\s*int\s*\)\s*")
_SHIFTED = re.compile(r"^(?P<word>[\w.\[\]&* +()]*?[\w\])])\s*(?:>>(?P<by>[\w\s+*/%()-]+))?$", re.ASCII)
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
        word = _together(first, second)
        if word is not None:
            words.append(first[1])
            return f"halves_in({word} & {first[1] * 0x10001:#010x}u, {first[2]})"
        pairs.append(1)
        return f"halves_of({first[0]}, {second[0]}, {first[2]})"

    def change(text: str) -> str:
        return replaced(replaced(text, "__halves2half2", two), "__int2half_rn", one)

    pairs: list[int] = []
    words: list[int] = []
    edits = changed(places(setting, found), change)
    if not edits:
        return []
    tried = sum(mask + 1 for mask, _ in made)
    right = sum(_half(n, less) == float(n - less) for mask, less in made for n in range(mask + 1))
    alone, masked = len(made) - 2 * len(pairs) - 2 * len(words), sum(map(_masked_at_once, words))
    return [
        Fix(
            kind="math_function",
            title="integers below 1024 to half by their bits, not by the conversion unit",
            language="cuda",
            code="\n".join([FUNCTION] * (alone > 0) + [PAIR] * bool(pairs) + [TOGETHER] * bool(words)),
            edits=edits,
            conditions=[
                reads("the integers are below 1024", f"masked by {max(m for m, _ in made)}"),
                shown(right == tried, "the results are the same", "values", tried, "every value was run"),
                *([shown(masked > 0, f"one mask takes two integers {APART} bits apart out of a word", "values", masked,
                         "both ways were run on words, for every shift")] if words else []),
            ],
            proof=[
                Proof(what="conversions a call, at a quarter of the rate of an addition or less", before=1, after=0,
                      unit="inst",
                      how="an OR and an addition of halves instead (arch/opcodes.toml, family conversions)"),
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
    if not 0 < mask < HALF or less is None or mask + less >= HALF or _bound(match["inner"]):
        return None
    return f"{match['inner'].strip()} & {match['mask']}", mask, less


def _bound(text: str) -> bool:
    """Whether a mask behind a text is not of all of it: brackets that close what stands in front of it, or what binds
    less."""
    depth, bare = 0, ""
    for c in re.sub(r"<<|>>", "+", text):
        depth += (c in "([") - (c in ")]")
        bare += c if depth == 0 else " "
        if depth < 0:
            return True
    return depth != 0 or re.search(r"[|^?:,=<>]|&&|!=", bare) is not None


def _together(first: tuple[str, int, int], second: tuple[str, int, int]) -> str | None:
    """The word, shifted for the first, of two integers that stand in it as far apart as the halves of a pair; None for
    any others."""
    one, other = (_SHIFTED.match(_bare(text.rpartition("&")[0].strip())) for text in (first[0], second[0]))
    if one is None or other is None or first[1] != second[1] or _bare(one["word"]) != _bare(other["word"]):
        return None
    word, *shifts = one["word"], *((m["by"] or "0").strip() for m in (one, other))
    if re.search(r"\w\s*\(|\+\+|(?<!\()&", word):  # called or changed twice; a mask that the shift stands behind
        return None
    names = sorted({name for text in shifts for name in re.findall(r"[A-Za-z_]\w*", text)})
    for known in ({name: 3 * n + times for n, name in enumerate(names, 1)} for times in (0, 1, 5)):
        near, far = (evaluated(text, known) for text in shifts)
        if near is None or far is None or far - near != APART:
            return None
    return word if one["by"] is None else f"({word} >> {shifts[0]})"


def _bare(text: str) -> str:
    """Without brackets around it."""
    while text.startswith("(") and closing(text, 1) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _masked_at_once(mask: int) -> int:
    """How many words and shifts were run, if one mask leaves both integers where the pair has them; 0 otherwise."""
    played = [(word, by) for word in WORDS for by in range(APART)]
    same = all(
        (word >> by) & mask * 0x10001 == (word >> by) & mask | ((word >> (by + APART)) & mask) << APART
        for word, by in played
    )  # fmt: skip
    return len(played) if same else 0


def _half(n: int, less: int) -> float:
    """What half_of makes of n, in the arithmetic of halves."""
    large = struct.unpack("<e", struct.pack("<H", HALF_BITS | n))[0]
    return float(struct.unpack("<e", struct.pack("<e", large - (HALF + less)))[0])
