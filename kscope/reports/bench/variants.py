"""The variants of a sweep: the fastest of each shape, and a chart, lines over a size or bars by shape."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from kscope.bench.values.result import Variant
from kscope.bench.values.variants import fastest, label, timed
from kscope.bench.values.words import dims_of
from kscope.reports.escape import html_text

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 320, 70, 40  # pixels of the line chart, and of its margins
ROW, LABEL = 22, 260  # pixels of a bar's row, and of its label
FEWEST = 3  # values of a size that make a line
COLORS = ("#0b63c5", "#b3541e", "#2a7d46", "#8a3ea8", "#a40000", "#4d5a66")
DASHES = ("", "6 3", "2 3")  # lines are told apart without colour too


def cells(one: Variant) -> list[str]:
    """variant, shape, time, ratio, verdict."""
    us = f"{one.candidate_us:.4g} us" if one.candidate_us is not None else ""
    ratio = f"{one.ratio:.3f}x" if one.ratio else ""
    return [label(one), dims_of(one.dims), us, ratio, f"{one.verdict} {one.says[:80]}".strip()]


def best(variants: Sequence[Variant]) -> list[Variant]:
    """The fastest of each shape that was timed with more than one variant, in the order of the sweep."""
    count = Counter(dims_of(one.dims) for one, _ in timed(variants))
    return [one for one in fastest(variants) if count[dims_of(one.dims)] > 1]


def chart(variants: Sequence[Variant]) -> str:
    """An SVG, without scripts or links; empty where fewer than two were timed."""
    found = timed(variants)
    if len(found) < 2:
        return ""
    sizes = [key for key in found[0][0].values if _is_size(found, key)]
    return _lines(found, sizes[0]) if sizes else _bars(found)


def _is_size(found: Sequence[tuple[Variant, float]], key: str) -> bool:
    values = {one.values.get(key, "") for one, _ in found}
    return len(values) >= FEWEST and all(v.isdigit() and int(v) > 0 for v in values) and key in found[0][0].dims


def _lines(found: Sequence[tuple[Variant, float]], key: str) -> str:
    lines: dict[str, list[tuple[int, float]]] = {}
    for one, us in found:
        others = " ".join(f"{k}={v}" for k, v in one.values.items() if k != key)
        lines.setdefault(others, []).append((int(one.values[key]), us))
    across = _scale([x for line in lines.values() for x, _ in line], LEFT, WIDTH - 20)
    up = _scale([y for line in lines.values() for _, y in line], HEIGHT - BOTTOM, 20)
    parts = []
    for i, (name, line) in enumerate(lines.items()):
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in sorted(line))
        color, dash = COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{color}"/>' for x, y in line]
        if name:
            parts.append(f'<text x="{LEFT + 10}" y="{20 + 16 * i}" fill="{color}">{html_text(name)}</text>')
    every_x = sorted({x for line in lines.values() for x, _ in line})
    parts += [f'<text x="{across(x):.1f}" y="{HEIGHT - 22}" text-anchor="middle">{x}</text>' for x in every_x[:16]]
    every_y = [y for line in lines.values() for _, y in line]
    ends = (min(every_y), max(every_y))
    parts += [f'<text x="{LEFT - 8}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.3g} us</text>' for y in ends]
    parts.append(f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{html_text(key)}</text>')
    return _svg(WIDTH, max(HEIGHT, 20 + 16 * len(lines)), f"time over {key}, both logarithmic", parts)


def _scale(values: Sequence[float], first: float, last: float) -> Callable[[float], float]:
    """A logarithmic axis from pixel to pixel."""
    low, high = math.log(max(min(values), 1e-9)), math.log(max(max(values), 1e-9))
    return lambda value: first + (last - first) * ((math.log(max(value, 1e-9)) - low) / ((high - low) or 1.0))


def _bars(found: Sequence[tuple[Variant, float]]) -> str:
    winners = {id(one) for one in best([one for one, _ in found])}
    slowest: dict[str, float] = {}
    for one, us in found:
        shape = dims_of(one.dims)
        slowest[shape] = max(slowest.get(shape, 0.0), us)
    parts = []
    for i, (one, us) in enumerate(found):
        y, length = ROW * i, (WIDTH - LABEL - 110) * us / (slowest[dims_of(one.dims)] or 1.0)
        color = COLORS[0] if id(one) in winners else "#9aa7b4"
        mark = ", fastest" if id(one) in winners else ""
        parts.append(f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{html_text(label(one)[:36])}</text>')
        parts.append(f'<rect x="{LABEL}" y="{y + 4}" width="{max(length, 1):.1f}" height="{ROW - 8}" fill="{color}"/>')
        parts.append(f'<text x="{LABEL + length + 6:.1f}" y="{y + 15}">{us:.4g} us{mark}</text>')
    return _svg(WIDTH, ROW * len(found), "times, by shape on a scale of its own", parts)


def _svg(width: int, height: int, says: str, parts: Sequence[str]) -> str:
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{html_text(says)}" font-size="12">'
        f"{''.join(parts)}</svg><figcaption>{html_text(says)}</figcaption></figure>"
    )
