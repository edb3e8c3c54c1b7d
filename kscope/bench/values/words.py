"""The sentence of a result. The words of a verdict are made here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kscope.bench.values.result import Check, Finding, Timing, Word


def dims_of(dims: dict[str, int]) -> str:
    return " ".join(f"{key}={value}" for key, value in dims.items()) or "the task's shape"


def decide(
    checks: Sequence[Check], findings: Sequence[Finding], timings: Sequence[Timing], wrong: str = ""
) -> tuple[Word, str]:
    """Verdict and sentence: right first, then comparable, then fast."""
    caught = [one for one in findings if one.standing == "caught"]
    failed = [one for one in checks if not one.ok]
    if failed or wrong:
        sentence = f"incorrect: {_failure(failed[0]) if failed else wrong}"
        if len(failed) > 1:
            sentence += f"; {len(failed)} of {len(checks)} checks fail"
        if caught:
            sentence += f". It looks like {_cheat(caught[0])}"
        return "incorrect", sentence
    if caught:
        more = f" (and {len(caught) - 1} more)" if len(caught) > 1 else ""
        return "not comparable", f"not comparable: {_cheat(caught[0])}{more}"
    told = [one for one in timings if one.cache == "cold"] or list(timings)
    if not told:
        return "correct", f"correct: {len(checks)} checks"
    if any(one.ratio is None for one in told):
        return "correct", f"correct: {len(checks)} checks; {told[0].candidate_us:.4g} us; nothing to compare with"
    return _by_time(told)


def geomean(timings: Sequence[Timing]) -> float | None:
    """Of shapes that are right and have a ratio; None where one is not: a mean hides it."""
    told = [one for one in timings if one.cache == "cold"] or list(timings)
    ratios = [one.ratio for one in told if one.ratio is not None]
    if not ratios or len(ratios) < len(told) or any(one.verdict == "incorrect" for one in told):
        return None
    return math.exp(sum(math.log(one) for one in ratios) / len(ratios))


def _by_time(told: Sequence[Timing]) -> tuple[Word, str]:
    words = [one.verdict for one in told]
    if len(told) == 1:
        one = told[0]
        if one.verdict in ("faster", "slower"):
            return one.verdict, f"{one.verdict} {one.ratio:.3g}x ({one.low:.3g}-{one.high:.3g})"
        noise = one.noise_pct or 0.0
        return "inconclusive", f"inconclusive ({one.ratio:.3g}x, noise {noise:.2g} %)"
    mean = geomean(told) or 0.0
    ratios = [one.ratio for one in told if one.ratio is not None]
    span = f"{mean:.3g}x over {len(told)} shapes ({min(ratios):.3g}-{max(ratios):.3g})"
    for word in ("faster", "slower"):
        if all(one == word for one in words):
            return word, f"{word} {span}"
    counts = [f"{word} on {words.count(word)}" for word in ("faster", "inconclusive", "slower") if words.count(word)]
    return "inconclusive", f"inconclusive: {', '.join(counts)} of {len(told)} shapes; {span}"


def _failure(one: Check) -> str:
    where = f"{dims_of(one.dims)} {one.dtype}, {one.inputs}"
    if one.error is not None and one.bound is not None and not one.says:
        return f"{where}: error {one.error:.2g} at {one.index}, bound {one.bound:.2g}"
    return f"{where}: {one.says or 'wrong'}"


def _cheat(one: Finding) -> str:
    return f"cheat {one.cheat}, {one.name}: {one.evidence}" if one.cheat else f"{one.name}: {one.evidence}"
