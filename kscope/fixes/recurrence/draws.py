"""Numbers that a kernel is played with to tell what it makes of its arrays: all kinds of those that it may be given, so
that nothing is taken for a sum that bounds them, drops their signs or what is behind their points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kscope.model.lazily import np

CELLS = 1 << 15
SIZES = ((1, 0), (2, 0), (3, 0), (2, 5))  # times the block's threads, and more, that the length is played as
FEW = SIZES[-2:]  # of other numbers than those near 0
WRAPS = ("unsigned", "unsigned int", "uint", "uint32_t")
WORD = 32  # bits, after which those begin again
BITS = 40  # of the widest: no 32-bit number is as large, and sums of them all are whole (derived: 2^40 * 2^15 < 2^62)
NONE = 8  # one of so many is 0 (judged)


def drawn(name: str, size: int) -> Any:
    """Above 0, and near it."""
    return _made(name, size).integers(1, 1000, CELLS)


def wide(name: str, kind: str, size: int) -> Any:
    """Of any size and sign, or 0."""
    made = _made(name, size)
    bits = WORD if kind.rstrip("234") in WRAPS else BITS
    out = (2.0 ** made.uniform(0, bits, CELLS)).astype(np.int64) * (made.integers(0, NONE, CELLS) > 0)
    return out if kind.startswith("u") else out * made.choice((-1, 1), CELLS)


def parts(name: str, size: int) -> Any:
    """Eighths, whose sums have no rounding."""
    return _made(name, size).integers(-8000, 8000, CELLS) / 8.0


def tried(kinds: set[str]) -> list[tuple[str, int, int]]:
    """(what is drawn, times the block's threads, and more) of plays that a kernel of such arrays has to stand."""
    near = [("near", *size) for size in SIZES]
    more = ["wide", *(["parts"] if any(k.startswith(("float", "double")) for k in kinds) else [])]
    return [*near, *((way, *size) for way in more for size in FEW)]


def arrays(way: str, kinds: Mapping[str, str], size: int) -> dict[str, Any]:
    """What arrays hold at first. kinds: their types."""
    return {name: _array(way, name, kind, size) for name, kind in kinds.items()}


def held(kind: str, cells: Any) -> Any:
    """Whole numbers as arrays of a type hold them."""
    return cells & (1 << WORD) - 1 if kind.rstrip("234") in WRAPS else cells


def _array(way: str, name: str, kind: str, size: int) -> Any:
    if way == "wide":
        return wide(name, kind, size)
    return parts(name, size) if way == "parts" and kind.startswith(("float", "double")) else drawn(name, size)


def _made(name: str, size: int) -> Any:
    return np.random.default_rng([size, *map(ord, name)])
