"""Variants of a sweep beside each other: which one is the fastest of its shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kscope.bench.values.result import Variant, Word
from kscope.bench.values.words import dims_of


def timed(variants: Sequence[Variant]) -> list[tuple[Variant, float]]:
    """Those with a time that counts, and it: what is wrong or not comparable is fast for nothing."""
    return [
        (one, one.candidate_us)
        for one in variants
        if one.candidate_us is not None and one.verdict not in ("incorrect", "not comparable")
    ]


def label(one: Variant) -> str:
    """`BLOCK=128 n=4096`."""
    return " ".join(f"{key}={value}" for key, value in one.values.items())


def choice(one: Variant) -> str:
    """What was chosen, without the sizes: `BLOCK=128`; empty where only sizes vary."""
    return " ".join(f"{key}={value}" for key, value in one.values.items() if key not in one.dims)


def fastest(variants: Sequence[Variant]) -> list[Variant]:
    """The fastest of each shape, in the order of the sweep."""
    shapes: dict[str, list[tuple[Variant, float]]] = {}
    for one, us in timed(variants):
        shapes.setdefault(dims_of(one.dims), []).append((one, us))
    return [min(found, key=lambda pair: pair[1])[0] for found in shapes.values()]


def decide(variants: Sequence[Variant]) -> tuple[Word, str]:
    """Verdict and sentence of a sweep: times of one shape are compared with each other, never those of two."""
    count = f"{len(variants)} variants"
    best = fastest(variants)
    if not best:
        right = sum(one.verdict == "correct" for one in variants)
        if right:
            return "correct" if right == len(variants) else "incorrect", f"correct: {right} of {count}; none was timed"
        return "incorrect", f"incorrect: none of {count} is right"
    if len(best) == 1:
        where = f"{best[0].candidate_us:.4g} us, {dims_of(best[0].dims)}"
        return _word(best), f"{_word(best)}: {label(best[0])} is the fastest of {count} ({where})"
    won = Counter(choice(one) for one in best)
    told = ", ".join(f"{name} at {n}" for name, n in won.most_common(3)) if any(won) else ""
    faster = sum(one.verdict == "faster" for one in best)
    said = f"faster at {faster} of {len(best)} shapes" if _word(best) != "correct" else f"{len(best)} shapes timed"
    return _word(best), f"{said}, {count}" + (f"; fastest: {told}" if told else "")


def _word(best: Sequence[Variant]) -> Word:
    """The least good verdict of the best of each shape."""
    words: tuple[Word, ...] = ("slower", "inconclusive", "correct", "faster")
    return next((word for word in words if any(one.verdict == word for one in best)), "inconclusive")
