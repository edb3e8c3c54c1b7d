"""A comparison in words: figures, promises, how a pair was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import span
from kscope.reports import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.comparison import Change, KernelPair, Promise

CHANGES_SHOWN = 8
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def name_of(pair: KernelPair, room: int) -> str:
    return words.shorten(words.without_parameters(pair.after.demangled or pair.after.name), room)


def most_moved(changes: Sequence[Change]) -> list[Change]:
    """The first rows, and of the percentages those that moved most, in the order of the table."""
    shares = sorted((c for c in changes if c.unit == "%"), key=lambda c: -abs((c.after or 0) - (c.before or 0)))
    kept = {id(c) for c in changes if c.unit != "%"} | {id(c) for c in shares}
    order = [id(c) for c in changes if c.unit != "%"] + [id(c) for c in shares]
    kept &= set(order[:CHANGES_SHOWN])
    return [c for c in changes if id(c) in kept]


def kept(promise: Promise) -> str:
    """`promised 2.2x (1.8 - 2.4), measured 2.17x: inside`. Of several repairs that share one measured gain none is said
    to have kept its promise."""
    text = f"promised {words.times(promise.speedup)} ({span(promise.low, promise.high, promise.speedup)})"
    together = ", ".join(map(one_line, promise.shared_with))
    if not promise.alone:
        return f"{text}; it shares the measured {ratio(promise.measured)} with {together}"
    said = f"{text}, measured {ratio(promise.measured)}: {promise.outcome}"
    return f"{said}, as one repair with {together}" if together else said


def gone(pair: KernelPair) -> str:
    """Why findings that are no longer there are not called fixed."""
    return "(no longer found, but what was counted for it did not go: not credited)"


def paired(pair: KernelPair) -> str:
    """How a pair was found, where it was not by its name."""
    if pair.guess:
        return "by a guess: --match OLD=NEW says which became which"
    how = {"by hand": "by --match", "code": "by their code, which is alike"}
    return how.get(pair.matched_by, "")


def ratio(speedup: float | None) -> str:
    return "-" if speedup is None else f"{speedup:.2f}x"


def faster(speedup: float) -> str:
    return f"{speedup:.2f}x faster" if speedup >= 1 else f"{1 / speedup:.2f}x slower"


def value(figure: float | None, row: Change) -> str:
    """A figure in its unit; `-` where the report has none."""
    if figure is None:
        return "-"
    if row.unit == "us":
        return words.time(figure)
    if row.unit == "%":
        return f"{figure:.0f} %"
    if row.unit == "B":
        for scale, unit in _BYTES:
            if figure >= scale:
                return f"{figure / scale:.3g} {unit}"
        return f"{figure:.0f} B"
    return words.number(figure) if abs(figure) < 1e6 else words.si(figure, "").strip()
