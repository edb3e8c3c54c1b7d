"""Numbers as people read them."""

from __future__ import annotations

import re


def percent(share: float) -> str:
    """A share (0..1) in percent: one decimal below ten, whole above."""
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"


def times(speedup: float) -> str:
    """A speed-up: 1.09x, 2.2x, 21x. The one way in which any sentence or report writes it."""
    return f"{speedup:.{digits(speedup)}f}x"


def digits(speedup: float) -> int:
    """Decimals that a speed-up is shown with; its bounds have as many."""
    return 2 if speedup < 1.95 else 1 if speedup < 9.95 else 0


def span(low: float, high: float, speedup: float) -> str:
    """Bounds of a speed-up, with its decimals: 1.3 - 2.6."""
    return f"{low:.{digits(speedup)}f} - {high:.{digits(speedup)}f}"


def figure(value: float) -> str:
    """Three significant digits, thousands to the unit, more in words: 0.0213, 12.5, 1,537, 5.99 billion."""
    for scale, word in ((1e9, "billion"), (1e6, "million")):
        if scale <= value < 1000 * scale:
            return f"{value / scale:.3g} {word}"
    rounded = f"{value:.3g}"
    return f"{value:,.0f}" if 1000 <= abs(float(rounded)) < 1e12 else rounded


MOST = 100
"""Speed-up past which a bound says nothing more than that it is far."""


def at_most(bound: float) -> str:
    """The bound of what can be gained: 2.8x, >100x."""
    return times(bound) if bound <= MOST else f">{MOST}x"


def si(value: float, unit: str) -> str:
    """1.58 TB/s from 1.58e12."""
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def precision(name: str) -> str:
    """A precision of the roofline as people write it: FP32, tensor BF16."""
    first, _, kind = name.rpartition(" ")
    return f"{first} {kind.upper()}".strip()


def with_article(number: float, noun: str) -> str:
    """`a 32-way`, `an 8-way`: the article that the number is spoken with."""
    shown = f"{number:.0f}"
    return f"{'an' if shown.startswith('8') or shown in ('11', '18') else 'a'} {shown}{noun}"


_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def spelled(number: float) -> str:
    """A small whole number in a word, others in figures."""
    return _SMALL[int(number)] if number == int(number) and 0 <= number < len(_SMALL) else f"{number:,.0f}"


def counted(number: float, noun: str, form: str = ",.0f") -> str:
    """A number with its noun: "1 block", "2,048 blocks", "4 copies"."""
    shown = format(number, form)
    if shown == "1":
        return f"1 {noun}"
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{shown} {noun}es"
    return f"{shown} {noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{shown} {noun}s"


_COUNTS = (  # what a counter's name says it counts, first match wins
    ("bytes", "byte"),
    ("time_duration", "ns"),
    ("sectors", "sector"),
    ("requests", "request"),
    ("cycles", "cycle"),
    ("thread_inst_executed_per_inst", ""),
    ("inst_executed", "inst"),
    ("inst_issued", "inst"),
    ("register_spilling", "inst"),
    ("warps_active", "warp"),
    ("warps_eligible", "warp"),
    ("registers_per_thread", "register/thread"),
    ("block_size", "thread"),
    ("occupancy_limit", "block"),
    ("grid_size", "block"),
)


def unit_of(metric: str) -> str:
    """Unit of a metric of Nsight Compute by its name: the library takes 25 ms to answer the first such question.
    "" for ratios and what the name does not tell.
    Agrees with the library on what rules quote (tests/features/test_units.py).
    """
    stem, _, rest = metric.partition(".")
    if "pct" in rest or stem.endswith("_pct"):
        return "%"
    unit = next((u for word, u in _COUNTS if word in stem), "")
    if "ratio" in rest:
        return ""
    if "per_second" in rest:
        return f"{unit}/s" if unit != "cycle" else "hz"
    if "per_cycle" in rest and unit not in ("warp",):
        return f"{unit}/cycle" if unit else ""
    return unit
