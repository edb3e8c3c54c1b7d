"""Whether a kernel's text makes the product of two square matrices: played on matrices drawn at random."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import constants

if TYPE_CHECKING:
    from kscope.fixes.given.text import Text
    from kscope.model.kernel import Launch

LARGEST, BLOCKS = 128, 16  # rows of the matrices that are played, and blocks: some tenths of a second
DRAWN = 100  # numbers are drawn from -DRAWN to DRAWN
_POINTER = re.compile(r"^(?P<const>const\s+)?float\s*\*\s*(?:__restrict__\s+)?(?P<name>\w+)$")

_OTHER = re.compile(r"\b(?:double|long|short|char|u?int(?:8|16|64)_t|__half\w*|half\w*|__nv_\w+)\b")
_WHOLE = re.compile(r"\b(?:unsigned\s+int|int|unsigned|u?int32_t|size_t)\s+([A-Za-z_][^;{}]*);")
_CUT = re.compile(r"\b(?:(?:ceil|floor|l?l?rint|nearbyint|l?l?round|trunc|modf)f?|__float2\w+|__double2\w+)\s*\(")
_INT = (r"\(\s*(?:unsigned\s+int|int|unsigned|u?int32_t|bool|size_t)\s*\)|\bstatic_cast\s*<[\w ]*>|"
        r"\b(?:int|unsigned|bool)\s*\(")


class Product(Struct, frozen=True):
    """Names of the factors, of what is written, of the number of rows; how many numbers came out right."""

    a: str
    b: str
    c: str
    n: str
    compared: int


def rows(setting: Setting) -> int:
    """Rows of the square matrix of elements of four bytes that a launch writes, each element once; 0 where what it
    wrote is none."""
    code, launch = setting.code, setting.launch
    threads = getattr(code, "threads", None)
    if launch is None or threads is None:
        return 0
    stores = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store"))
    words = sum(total(threads, [i]) * code.classes[i].bytes / 4 for i in stores)
    n = math.isqrt(int(words))
    return n if n * n == words and not n % launch.grid[0] and not n % launch.grid[1] else 0


def loaded(setting: Setting) -> tuple[float, float]:
    """(elements of global memory, of shared memory) that threads load for each multiplication of the product."""
    code, threads, n = setting.code, getattr(setting.code, "threads", None), rows(setting)
    if threads is None or not n:
        return 0.0, 0.0
    loads = code.where(lambda ins, op: op.access == "load")
    every = [(code.classes[i].space, threads[i] * code.classes[i].bytes / 4 / n**3) for i in loads]
    return sum(x for s, x in every if s == "global"), sum(x for s, x in every if s == "shared")


def product(setting: Setting, text: Text, parameters: str) -> Product | None:
    """The product that a kernel of three matrices makes; None where it makes anything else, or cannot be played.
    parameters: the text between the brackets of its head."""
    given = [" ".join(p.split()) for p in parameters.split(",")]
    pointers = [m for p in given if (m := _POINTER.match(p)) is not None]
    factors, out = ([m["name"] for m in pointers if bool(m["const"]) is kept] for kept in (True, False))
    n, launch = rows(setting), setting.launch
    if len(factors) != 2 or len(out) != 1 or launch is None or not n:
        return None
    name = size_named(text.code, [p for p in given if not _POINTER.match(p)], n, constants(setting.lines(text.file)))
    small = small_rows(launch, n)
    body = text.code[text.code.index("{") :]
    if name is None or not small or not plain_values(body, "float", (factors[0], factors[1])):
        return None
    shape = (small * launch.grid[0] // n, small * launch.grid[1] // n), launch.block[:2]
    for a, b in (factors, factors[::-1]):
        if _multiplies(text.code, (a, b, out[0], name), small, shape):
            return Product(a, b, out[0], name, small * small)
    return None


def small_rows(launch: Launch, n: int) -> int:
    """Rows of matrices of few blocks, two each way where that is not too many; 0 where there are none."""
    small = math.lcm(n // launch.grid[0], n // launch.grid[1])  # a block's rows and columns
    small = 2 * small if 2 * small <= LARGEST else small
    blocks = small**2 * launch.grid[0] * launch.grid[1] // n**2
    flat = launch.grid[2] == launch.block[2] == 1
    return small if flat and small <= LARGEST and not n % small and blocks <= BLOCKS else 0


def size_named(code: str, others: list[str], n: int, known: dict[str, int]) -> str | None:
    """The name of the number of rows: the one parameter that is no pointer, or a constant of the file."""
    if others:
        match = re.fullmatch(r"(?:const\s+)?int\s+(\w+)", others[0])
        return match[1] if match is not None and len(others) == 1 else None
    found = [name for name, value in known.items() if value == n and re.search(rf"\b{name}\b", code)]
    return found[0] if len(found) == 1 else None


def plain_values(body: str, kind: str, arrays: tuple[str, str]) -> bool:
    """Whether values are of the elements' type all the way: the play knows no other width, and nothing of fractions
    that are cut off where a whole number takes them."""
    outside = re.sub(r"\[[^][]*\]", "[]", body)
    if _OTHER.search(outside) or (kind != "float" and re.search(r"\bfloat\d?\b", outside)):
        return False
    if kind != "float":
        return True
    floats = {*arrays, *(m for line in re.findall(r"\bfloat\d?\s+([^;]*);", outside)
                         for m in re.findall(r"(?:^|,)[\s*]*([A-Za-z_]\w*)", line))}  # fmt: skip
    held = "|".join(re.escape(f) for f in floats)
    if _CUT.search(outside) or re.search(rf"(?:{_INT})[\s(]*(?:{held})\b", outside):
        return False
    for declared in _WHOLE.findall(outside):
        for name in re.findall(r"(?:^|,)\s*(\w+)", declared):
            changed = re.findall(rf"(?<![\w.]){name}\s*[-+*/|&^]?=(?!=)([^;{{}}]*)", outside)
            if any(re.search(rf"(?<![\w.])(?:{held})\b", value) for value in changed):
                return False
    return True


def _multiplies(
    code: str, names: tuple[str, str, str, str], n: int, shape: tuple[tuple[int, int], tuple[int, int]]
) -> bool:  # fmt: skip
    """Whether what comes out is the product."""
    import numpy as np

    from kscope.fixes.given.played import Rules, play

    a, b, c, size = names
    drawn = np.random.default_rng(n)
    left, right = (drawn.integers(-DRAWN, DRAWN, n * n) / 8 for _ in range(2))  # exact, and with fractions
    made = np.full(n * n, 2.0 * n * DRAWN**2)  # what is left out shows: no result is as large
    try:
        play(code[code.index("{") :], *shape, {a: left.copy(), b: right.copy(), c: made}, {size: n}, Rules("real"))
    except Unplayable:
        return False
    first, second, result = (x.reshape(n, n) for x in (left, right, made))
    return np.array_equal(result, first @ second)
