"""Products of bytes that were made floats one by one: four of them by one integer instruction."""

from __future__ import annotations

import itertools
import re
import struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import shown
from kscope.fixes.given.rewrite import changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import kernel_text
from kscope.fixes.packed import integer_sums
from kscope.model.contract.fixes import Condition, Fix, Proof

FUNCTION = """__device__ __forceinline__ float dot4(char4 a, char4 b) {  // exact: at most 4 * 2^14
  return (float)__dp4a(*reinterpret_cast<const int*>(&a), *reinterpret_cast<const int*>(&b), 0);
}"""
_PART = r"\(float\)\s*{a}\.{f}\s*\*\s*\(float\)\s*{b}\.{f}"
_EXTREMES = (-128, -127, -1, 0, 1, 127)


def fixes(asked: Asked) -> list[Fix]:
    if kept := integer_sums.fixes(asked):
        return kept
    setting, code = asked.setting, asked.setting.code
    found = code.ran(code.where(lambda ins, op: ins.opcode in ("I2F", "I2FP")))
    text = kernel_text(setting)
    if text is None or not found:
        return []
    bytes_ = set(re.findall(r"\bchar4\s+(\w+)\s*=", text.code))
    bytes_ -= {n for kind, n in re.findall(r"\b(\w+)\s+(\w+)\s*[=;,)]", text.code) if kind != "char4"}
    lines = setting.lines(text.file)
    if FUNCTION.partition("\n")[0] not in lines and any(re.search(r"\bdot4\b", line) for line in lines):
        return []  # another function by this name
    edits = changed(places(setting, found), lambda line: _dots(line, bytes_))
    if not edits:
        return []
    where = {e.line for e in edits}
    mine = [i for i in found if code[i].line in where]
    before = total(code.executed, mine)
    sums = [4 * a * b for a, b in itertools.product(_EXTREMES, repeat=2)]
    exact = [struct.unpack("<f", struct.pack("<f", n))[0] == n for n in sums]
    return [
        Fix(
            kind="math_function",
            title="four products of bytes by one __dp4a",
            language="cuda",
            code=FUNCTION,
            edits=edits,
            conditions=[
                shown(all(exact), "each sum of four products is exact as a float", "values", exact, "below 2^24"),
                Condition(holds="the order of the sums does not matter", state="check", why="four at a time"),
            ],
            proof=[
                Proof(what="conversions that warps execute", before=before, after=before / 8, unit="inst",
                      how=f"{len(mine)} of bytes; one of each four products' sum"),
                Proof(what="extreme products that come out exact", before=len(exact), after=sum(exact)),
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _dots(line: str, known: set[str]) -> str:
    for a, b in itertools.permutations(sorted(known), 2):
        parts = r"\s*\+\s*".join(_PART.format(a=a, b=b, f=f) for f in "xyzw")
        for match in reversed(list(re.finditer(parts + r"(?!\w)", line))):
            before, after = line[: match.start()].rstrip(), line[match.end() :].lstrip()
            if not before.endswith(("*", "/", "-", "%", "!", "~")) and not after.startswith(("*", "/", "%", "[", ".")):
                line = f"{line[: match.start()]}dot4({a}, {b}){line[match.end() :]}"
    return line
