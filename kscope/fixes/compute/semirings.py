"""Whether a kernel's text joins each row of a square matrix with each column of another by something else than a sum of
products: shortest ways, widest ways, what can be reached, distances. Played on matrices drawn at random."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kscope.fixes.compute.multiplied import plain_values, rows, size_named, small_rows
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.source import constants

if TYPE_CHECKING:
    from kscope.fixes.given.setting import Setting
    from kscope.fixes.given.text import Text

DRAWN = 100  # numbers are drawn from -DRAWN to DRAWN, or from 0 on
EIGHTH = 8  # fractions of floats: sums and squares of them are exact
FIRST_ROWS = 4  # of the result that are compared before all are
NAMED = 4  # one row in so many at most holds a number that the text names
FAR = 2**40  # more than any word of four bytes holds
LIMITS: dict[str, Any] = {
    "INT_MAX": 2**31 - 1, "INT_MIN": -(2**31), "UINT_MAX": 2**32 - 1, "FLT_MAX": float(2**128 - 2**104),
    "INFINITY": float("inf"), "CUDART_INF_F": float("inf"), "HUGE_VALF": float("inf"),
}  # fmt: skip
_POINTER = re.compile(
    r"^(?P<const>const )?(?P<kind>float|int|int32_t|unsigned|unsigned int|uint32_t)(?P<after> const)?\s*\*\s*"
    r"(?:const )?(?:__restrict__ ?)?(?P<name>\w+)$"
)
_UNSIGNED = ("unsigned", "unsigned int", "uint32_t")
_LITERAL = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)[uUfF]?\b")


class Pair(Struct, frozen=True):
    """What is made of an element of a row, u, and one of a column, v. far: two numbers that make it as large as there
    are; `low` as small."""

    text: str
    far: tuple[float, float]
    low: tuple[float, float]


_PAIRS = {
    "u + v": Pair("u[i] + v[j]", (1, 0), (-1, 0)), "u - v": Pair("u[i] - v[j]", (1, 0), (-1, 0)),
    "v - u": Pair("v[j] - u[i]", (0, 1), (0, -1)), "u * v": Pair("u[i] * v[j]", (1, 0), (-1, 0)),
    "min": Pair("{min}(u[i], v[j])", (1, 1), (-1, -1)), "max": Pair("{max}(u[i], v[j])", (1, 1), (-1, -1)),
    "distance": Pair("{abs}(u[i] - v[j])", (1, 0), (0, 0)),
    "square": Pair("(u[i] - v[j]) * (u[i] - v[j])", (1, 0), (0, 0)),
    "u & v": Pair("u[i] & v[j]", (0, 0), (0, 0)), "u && v": Pair("(u[i] && v[j])", (0, 0), (0, 0)),
}  # fmt: skip
JOINED: dict[str, tuple[str, ...]] = {
    "min": ("u + v", "u - v", "v - u", "u * v", "max", "distance", "square"),
    "max": ("u + v", "u - v", "v - u", "u * v", "min", "distance", "square"),
    "sum": ("u * v", "distance", "square", "min", "max", "u & v", "u && v"),
    "or": ("u & v", "u && v"), "xor": ("u & v",),
}  # fmt: skip
"""Pairs that are joined by each operation. A sum of products of floats is compute.product's."""

_STEPS = {"min": "sum[i][j] = {min}(sum[i][j], {pair});", "max": "sum[i][j] = {max}(sum[i][j], {pair});",
          "sum": "sum[i][j] += {pair};", "or": "sum[i][j] |= {pair};", "xor": "sum[i][j] ^= {pair};"}  # fmt: skip


class Semiring(Struct, frozen=True):
    """Names of both factors, of what is written, of the number of rows; type of the elements; how pairs are joined;
    what the join starts from, as C has it; how many numbers came out right."""

    a: str
    b: str
    c: str
    n: str
    kind: str
    join: str
    pair: str
    first: str
    compared: int

    @property
    def step(self) -> str:
        """The step of one result, `sum[i][j]`, of `u[i]` and `v[j]`."""
        words = _words(self.kind)
        return _STEPS[self.join].format(pair=_PAIRS[self.pair].text.format(**words), **words)


class _Given(Struct, frozen=True):
    """What is played: the body, names of arrays, numbers of other names, rows, grid and block, type of elements."""

    body: str
    names: tuple[str, str, str]
    numbers: dict[str, Any]
    n: int
    shape: tuple[tuple[int, int], tuple[int, int]]
    kind: str


def semiring(setting: Setting, text: Text, parameters: str) -> Semiring | None:
    """The operations by which a kernel of three matrices joins rows with columns; None where it does anything else, or
    cannot be played. parameters: the text between the brackets of its head."""
    given = [" ".join(p.split()) for p in parameters.split(",")]
    arrays, n, launch = _arrays(given, text.code), rows(setting), setting.launch
    if arrays is None or launch is None or not n:
        return None
    known = constants(setting.lines(text.file))
    name = size_named(text.code, [p for p in given if not _POINTER.match(p)], n, known)
    small = small_rows(launch, n)
    (first, second, out), kind = arrays
    body = text.code[text.code.index("{") :]
    if name is None or not small or not plain_values(body, kind, (first, second)):
        return None
    numbers = {k: v for k, v in {**LIMITS, **known, name: small}.items() if re.search(rf"\b{k}\b", body)}
    shape = (small * launch.grid[0] // n, small * launch.grid[1] // n), launch.block[:2]
    found = _found(_Given(body, (first, second, out), numbers, small, shape, kind))
    if found is None:
        return None
    join, pair, start, turned = found
    a, b = (second, first) if turned else (first, second)
    return Semiring(a, b, out, name, kind, join, pair, start, small * small)


def _arrays(given: list[str], code: str) -> tuple[tuple[str, str, str], str] | None:
    """(both factors and what is written, type of their elements) of a kernel's parameters."""
    pointers = [m for p in given if (m := _POINTER.match(p)) is not None]
    free = [m["name"] for m in pointers if not (m["const"] or m["after"])]
    written = [c for c in free if re.search(rf"(?<![\w.]){c}\s*\[[^][]*\]\s*=(?!=)", code)]
    out = free if len(free) == 1 else written  # by a vector it may be written as *(float4*)(c + ..)
    if len(pointers) != 3 or len({m["kind"] for m in pointers}) != 1 or len(out) != 1:
        return None
    first, second = (m["name"] for m in pointers if m["name"] != out[0])
    return (first, second, out[0]), pointers[0]["kind"]


def _found(given: _Given) -> tuple[str, str, str, bool] | None:
    """(join, pair, start, whether the factors are the other way round) where just one comes out."""
    import numpy as np

    drawn = _drawn(given)
    made = _played(given, *drawn) if drawn is not None else None
    if drawn is None or made is None:
        return None
    found = []
    for turned in (False, True):
        left, right = drawn[::-1] if turned else drawn
        for join, pair in _of_type(given.kind):
            if all(np.array_equal(_ended(join, _all(join, pair, left[:r], right), made[:r]), made[:r])
                   for r in (FIRST_ROWS, given.n)):  # fmt: skip
                found.append((join, pair, turned, _all(join, pair, left, right)))
    if len(found) != 1:
        return None
    join, pair, turned, whole = found[0]
    start = _start(given, join, pair, turned)
    if start is None or not np.array_equal(_with(join, whole, start), made):
        return None
    text = _literal(start, given.kind, ends=join in ("min", "max"))
    return (join, pair, text, turned) if text else None


def _of_type(kind: str) -> list[tuple[str, str]]:
    """(join, pair) that there are of a type: of unsigned numbers no difference that may be negative."""
    without = {"float": ("u & v", "u && v"), "int": (), "int32_t": ()}.get(
        kind, ("u - v", "v - u", "distance", "square")
    )
    return [(join, pair) for join, pairs in JOINED.items() for pair in pairs if pair not in without]


def _ended(join: str, whole: Any, made: Any) -> Any:
    """With the start that the results would be right for, if there is one."""
    start = {"min": made.max, "max": made.min}.get(join)
    return _with(join, whole, start()) if start is not None else whole


def _with(join: str, whole: Any, start: float) -> Any:
    import numpy as np

    of = {"min": np.minimum, "max": np.maximum, "sum": np.add, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return of[join](whole, start)


def _all(join: str, pair: str, left: Any, right: Any) -> Any:
    """Every row of one with every column of the other."""
    import numpy as np

    u, v = left[:, :, None], right[None]
    pairs: dict[str, Any] = {
        "u + v": lambda: u + v, "u - v": lambda: u - v, "v - u": lambda: v - u, "u * v": lambda: u * v,
        "min": lambda: np.minimum(u, v), "max": lambda: np.maximum(u, v), "distance": lambda: np.abs(u - v),
        "square": lambda: (u - v) ** 2, "u & v": lambda: u & v, "u && v": lambda: ((u != 0) & (v != 0)).astype(int),
    }  # fmt: skip
    of = {"min": np.minimum, "max": np.maximum, "sum": np.add, "or": np.bitwise_or, "xor": np.bitwise_xor}
    with np.errstate(all="ignore"):
        return of[join].reduce(pairs[pair](), axis=1)


def _start(given: _Given, join: str, pair: str, turned: bool) -> float | None:
    """What is written where no pair counts: of a smallest one where all are larger than any number."""
    import numpy as np

    far = float("inf") if given.kind == "float" else 2**20 if pair == "square" else FAR
    u, v = {"min": _PAIRS[pair].far, "max": _PAIRS[pair].low}.get(join, (0, 0))
    u, v = (far * x if x else 0 for x in (u, v))
    v = 1 if pair == "u * v" and join != "sum" else v
    u, v = (max(x, 0) for x in (u, v)) if given.kind in _UNSIGNED else (u, v)
    kind = np.float64 if given.kind == "float" else np.int64
    sides = [np.full((given.n, given.n), x, dtype=kind) for x in ((v, u) if turned else (u, v))]
    made = _played(given, *sides)
    return made[0, 0].item() if made is not None and (made == made[0, 0]).all() else None


def _drawn(given: _Given) -> tuple[Any, Any] | None:
    """Both factors: rows and columns of numbers, of few bits, of many zeros, and of what the text names, as a kernel
    may leave out a number that it knows."""
    import numpy as np

    floats = given.kind == "float"
    low = 0 if given.kind in _UNSIGNED else -DRAWN
    named = {float(x.rstrip("fFuU")) if x[:2].lower() != "0x" else int(x.rstrip("uU"), 16)
             for x in _LITERAL.findall(given.body)} | set(given.numbers.values())  # fmt: skip
    named |= {-x for x in named if low and abs(x) < float("inf")}
    special = sorted(x for x in named if floats or (abs(x) <= FAR and x == int(x)))
    if len(special) * NAMED > given.n:
        return None
    chance, n, kind = np.random.default_rng(given.n), given.n, np.float64 if floats else np.int64
    out: list[Any] = []
    for _ in range(2):
        numbers = chance.integers(low, DRAWN + 1, (n, n))
        bits = np.bitwise_and.reduce([chance.integers(0, 128, (n, n)) for _ in range(3)])
        sparse = numbers * (chance.integers(0, 8, (n, n)) == 0)
        kinds = np.arange(n)[:, None] % 4
        one = np.where(kinds == 1, bits, np.where(kinds == 2, sparse, numbers)).astype(kind)
        one[:] = one / EIGHTH if floats else one
        for row, value in zip(chance.permutation(n), special, strict=False):
            one[row] = value
            one[chance.integers(0, n, n // 4), chance.integers(0, n, n // 4)] = value
        out.append(one)
    return out[0], np.ascontiguousarray(out[1].T)


def _played(given: _Given, left: Any, right: Any) -> Any:
    """What the kernel makes of two matrices; None where it cannot be played. What was there before is drawn: it shows
    where it is left, or read."""
    import numpy as np

    from kscope.fixes.given.played import Rules, play

    a, b, c = given.names
    before = np.random.default_rng(1).integers(0, DRAWN, given.n**2).astype(left.dtype)
    memory = {a: left.flatten(), b: right.flatten(), c: before}
    try:
        rules = Rules("real" if given.kind == "float" else "", endless=True)  # as what it is compared with
        play(given.body, *given.shape, memory, given.numbers, rules)
    except Unplayable:
        return None
    return memory[c].reshape(given.n, given.n)


def _words(kind: str) -> dict[str, str]:
    floats = kind == "float"
    return {"min": "fminf" if floats else "min", "max": "fmaxf" if floats else "max",
            "abs": "fabsf" if floats else "abs"}  # fmt: skip


def _literal(value: float, kind: str, *, ends: bool) -> str:
    """A number of a type as C has it; "" where the type holds no such, and its own ends would not do either."""
    import numpy as np

    if kind == "float":
        if np.isinf(value):
            return f"__int_as_float(0x{'7' if value > 0 else 'f'}f800000)"
        return "" if np.isinf(np.float32(value)) else f"{np.float32(value)!s}f"
    least, most = (0, 2**32 - 1) if kind in _UNSIGNED else (-(2**31), 2**31 - 1)
    value = min(max(value, least), most) if ends else value
    if not least <= value <= most:
        return ""
    if value == -(2**31):
        return "-2147483647 - 1"
    return f"{value}u" if kind in _UNSIGNED else f"{value}"
