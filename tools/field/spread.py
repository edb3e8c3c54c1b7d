"""How wide promises should be: `low`, `cost` and `rise` of kscope/arch/estimates.toml on steps of public programs.

    python tools/field/spread.py REPORTS=HALF ...         (.field/j8=judged8 .field/j9=judged9; needs no GPU)

For each value of the upper end, and each pair of the lower: the interval score (Gneiting and Raftery, JASA 2007), width
+ 2 / alpha x what the truth lies beyond an end, smaller is better, with 1 - alpha the share that should be inside, nine
in ten; the share that is; how wide promises are (logarithm of high over low). Then each half with the lower end that is
best on all others. Steps are those of single causes and those built as told. Ends that something else
bounds are moved as well, so figures of other values than those that stand in the table are a little too good: set the
values and run it again. Halves must be learned from already: a judged half is judged with what stands there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from math import log
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from judge import load  # noqa: E402 - tools/ is no package

from kscope.arch.estimates import Constants, constants  # noqa: E402

LOWS = (0.1, 0.2, 0.3, 0.4, 0.5)
COSTS = (0.03, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2)
RISES = (1.35, 1.6, 1.8, 2.0, 2.2, 2.6)
ALPHA = 0.1


class Held(msgspec.Struct, frozen=True):
    """A promise and what the step brought."""

    half: str
    gain: float
    low: float
    high: float
    truth: float

    def least(self, made: Constants, low: float, cost: float) -> float:
        """Its lower end with another `low` and `cost`: the share of the saving that comes true at least, less what a
        queue takes of it, and what a rewrite costs."""
        after = 1 / max(self.gain, 1.0)
        if after > 0.995:
            return 1 / (1 + cost * after) if self.low < 1 else self.low
        share = (1 + made.cost * after - 1 / self.low) / (1 - after) * low / made.low
        return 1 / (1 - share * (1 - after) + cost * after)

    def most(self, made: Constants, rise: float) -> float:
        """Its upper end with another `rise`."""
        gain = max(self.gain, 1.0)
        beside = gain**made.steep
        return self.high * min(rise, beside) / min(made.rise, beside)


def promises(reports: Path, half: str) -> list[Held]:
    found = []
    for row in load(reports, half)[0]:
        for step in [*(row.steps or [row.measured]), row.told]:
            p = row.promise(step)
            if p is not None and p.low is not None and p.high is not None and step.get("ratio"):
                found.append(Held(half, p.gain, p.low, p.high, step["ratio"]))
    return found


def scored(rows: Sequence[Held], made: Constants, low: float, cost: float, rise: float) -> tuple[float, float, float]:
    """Interval score, share inside, width; means."""
    score = inside = width = 0.0
    for row in rows:
        least, truth = log(row.least(made, low, cost)), log(row.truth)
        most = max(least, log(row.most(made, rise)))
        width += most - least
        inside += least <= truth <= most
        score += most - least + 2 / ALPHA * (max(0.0, least - truth) + max(0.0, truth - most))
    return score / len(rows), inside / len(rows), width / len(rows)


def line(name: str, cells: Sequence[tuple[float, float, float]]) -> str:
    return f"| {name} | " + " | ".join(f"{one[0]:.3f} ({one[1]:.2f}, {one[2]:.2f})" for one in cells) + " |"


def main(arguments: Sequence[str]) -> int:
    pairs = [argument.rpartition("=") for argument in arguments]
    if not pairs or not all(folder and half for folder, _, half in pairs):
        sys.exit(__doc__)
    made = constants()
    rows = [row for folder, _, half in pairs for row in promises(Path(folder), half)]
    below, above = sum(row.truth < row.low for row in rows), sum(row.truth > row.high for row in rows)
    ends = f"low {made.low}, cost {made.cost}, rise {made.rise}"
    print(f"{len(rows)} steps, promised with {ends}: {below} below, {above} above")
    print("| low | " + " | ".join(f"cost {cost}" for cost in COSTS) + " |\n|---|" + "---|" * len(COSTS))
    for low in LOWS:
        print(line(str(low), [scored(rows, made, low, cost, made.rise) for cost in COSTS]))
    print("| | " + " | ".join(f"rise {rise}" for rise in RISES) + " |\n|---|" + "---|" * len(RISES))
    print(line("", [scored(rows, made, made.low, made.cost, rise) for rise in RISES]))
    for half in sorted({row.half for row in rows}):
        own, others = ([row for row in rows if (row.half == half) == mine] for mine in (True, False))
        if not others:
            continue
        best = min(product(LOWS, COSTS), key=lambda ends: scored(others, made, *ends, made.rise)[0])
        was, now = scored(own, made, made.low, made.cost, made.rise), scored(own, made, *best, made.rise)
        print(f"{half}: best on the others low {best[0]}, cost {best[1]}: {was[1]:.2f} -> {now[1]:.2f} of {len(own)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
