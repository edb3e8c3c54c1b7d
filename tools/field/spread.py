"""How wide promises should be: `rise` of kscope/arch/estimates.toml on steps that were measured on public programs.

    python tools/field/spread.py REPORTS=HALF ...         (.field/j7=judged7 .field/j8=judged8; needs no GPU)

For each value of `rise` the share of promises that hold the measured gain, how wide they are (logarithm of high over
low), and both in one: the interval score (Gneiting and Raftery, JASA 2007), width + 2 / alpha x what the truth lies
beyond an end, smaller is better; 1 - alpha is the share that should be inside. Then each half with the value that is
best on all others. Ends that something else bounds are moved as well, so figures of other values than the one that
stands in the table are a little too good: set the value and run it again. Halves must be learned from already: a judged
half is judged with what stands there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import log
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from judge import load  # noqa: E402 - tools/ is no package

from kscope.arch.estimates import constants  # noqa: E402

VALUES = (1.0, 1.2, 1.35, 1.5, 1.6, 1.7, 1.8, 2.0, 2.2, 2.5, 3.0)
ALPHAS = (0.2, 0.1)


class Held(msgspec.Struct, frozen=True):
    """A promise with the `rise` that it was made with, and what the step brought."""

    half: str
    gain: float
    low: float
    high: float
    truth: float

    def top(self, made: float, rise: float) -> float:
        """Its upper end with another `rise`; made: the one it was made with."""
        gain = max(self.gain, 1.0)
        return self.high * min(rise, gain) / min(made, gain)


def promises(reports: Path, half: str) -> list[Held]:
    found = []
    for row in load(reports, half)[0]:
        for step in row.steps or [row.measured]:
            p = row.promise(step)
            if p is not None and p.low is not None and p.high is not None and step.get("ratio"):
                found.append(Held(half, p.gain, p.low, p.high, step["ratio"]))
    return found


def scored(rows: Sequence[Held], made: float, rise: float, alpha: float) -> tuple[float, float, float]:
    """Interval score, share inside, width; means."""
    score = inside = width = 0.0
    for row in rows:
        low, high, truth = log(row.low), log(row.top(made, rise)), log(row.truth)
        width += high - low
        inside += low <= truth <= high
        score += high - low + 2 / alpha * (max(0.0, low - truth) + max(0.0, truth - high))
    return score / len(rows), inside / len(rows), width / len(rows)


def main(arguments: Sequence[str]) -> int:
    pairs = [argument.rpartition("=") for argument in arguments]
    if not pairs or not all(folder and half for folder, _, half in pairs):
        sys.exit(__doc__)
    made = constants().rise
    rows = [row for folder, _, half in pairs for row in promises(Path(folder), half)]
    print(f"{len(rows)} steps with a promise, made with rise {made}")
    print("| rise | inside | width | " + " | ".join(f"score, {1 - a:.0%} wanted" for a in ALPHAS) + " |")
    print("|---|---|---|" + "---|" * len(ALPHAS))
    for rise in VALUES:
        of = [scored(rows, made, rise, alpha) for alpha in ALPHAS]
        print(f"| {rise} | {of[0][1]:.2f} | {of[0][2]:.2f} | " + " | ".join(f"{one[0]:.2f}" for one in of) + " |")
    for half in sorted({row.half for row in rows}):
        own, others = ([row for row in rows if (row.half == half) == mine] for mine in (True, False))
        if not others:
            continue
        best = min(VALUES, key=lambda rise: scored(others, made, rise, ALPHAS[0])[0])
        was, now = scored(own, made, made, ALPHAS[0]), scored(own, made, best, ALPHAS[0])
        print(f"{half}: best on the others {best}: inside {was[1]:.2f} -> {now[1]:.2f} of {len(own)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
