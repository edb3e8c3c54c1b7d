"""How much the confidence of a finding weighs beside its gain, where the order of two decides which is worked on first.

    python tools/ordering.py [FIELD ...]

FIELD are folders that tools/field/capture.py filled, each named as its half of tools/field/split.toml (learn, judged,
judged2). Of each labelled kernel, every pair of counted findings of which one names a labelled cause and the other does
not is a comparison; those of one kernel together weigh one. A logistic function of the differences of log(log gain) and
log confidence is fitted to them, for fixtures/h200 and each half by itself and with each one left out: the ratio of
its two factors is what WEIGHT of kscope/engine/findings/rank.py stands for. Beside it, per power, how many kernels
have a labelled cause first.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "field")]

import eval as own  # noqa: E402 - tools/ is no package
import judge as field  # noqa: E402

from kscope.engine.findings.rank import WEIGHT, worth  # noqa: E402
from kscope.engine.kernels.kernel import analyze_kernel  # noqa: E402
from kscope.model.contract.analysis import Finding  # noqa: E402
from kscope.parsers.ncu.kernels import read_kernels  # noqa: E402

POWERS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
STEPS, RATE, SHRINK = 4000, 0.05, 0.02  # of the ascent; SHRINK keeps factors of few comparisons finite


class Pair(msgspec.Struct, frozen=True):
    """A finding that names a labelled cause less one that does not. weight: one over the comparisons of the kernel."""

    gain: float
    confidence: float
    weight: float


class Labelled(msgspec.Struct, frozen=True):
    """Counted findings of one kernel, and the causes that an expert would accept."""

    findings: list[Finding]
    accept: frozenset[str]

    def pairs(self) -> list[Pair]:
        told = [f for f in self.findings if f.estimate is not None]
        good = [f for f in told if f.rule in self.accept]
        bad = [f for f in told if f.rule not in self.accept]
        every = [(features(g), features(b)) for g in good for b in bad]
        return [Pair(g[0] - b[0], g[1] - b[1], 1 / len(every)) for g, b in every]

    def first(self, power: float) -> bool:
        """Whether a labelled cause comes first by worth with another power; one without a figure comes as it did."""
        if not self.findings or self.findings[0].estimate is None:
            return bool(self.findings) and self.findings[0].rule in self.accept
        best = max(self.findings, key=lambda f: worth(f) * f.confidence ** (power - WEIGHT))
        return best.rule in self.accept


def features(finding: Finding) -> tuple[float, float]:
    assert finding.estimate is not None
    gain = math.log(max(finding.estimate.speedup, 1.0)) + math.log(max(finding.estimate.low, 1.0))
    return math.log(gain / 2 + 1e-4), math.log(finding.confidence)


def fit(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Factors of gain and confidence, by gradient ascent of the likelihood."""
    a = b = 0.5
    for _ in range(STEPS):
        wrong = [p.weight / (1 + math.exp(min(50.0, a * p.gain + b * p.confidence))) for p in pairs]
        a += RATE * (sum(w * p.gain for w, p in zip(wrong, pairs, strict=True)) - SHRINK * a)
        b += RATE * (sum(w * p.confidence for w, p in zip(wrong, pairs, strict=True)) - SHRINK * b)
    return a, b


def labelled(folders: Sequence[Path]) -> dict[str, list[Labelled]]:
    sets = {"fixtures": [
        Labelled(counted(analyze_kernel(c.kernel, c.name).findings), frozenset(c.label["accept"]))
        for c in own.load(own.ROOT / "fixtures" / "h200") if c.label is not None
    ]}  # fmt: skip
    for folder in folders:
        rows, _ = field.load(folder, folder.name)
        sets[folder.name] = []
        for row in rows:
            kernel = next(iter(read_kernels(str(folder / f"{row.program.replace('/', '_')}.ncu-rep"))))
            found = counted(analyze_kernel(kernel, row.program).findings)
            sets[folder.name].append(Labelled(found, frozenset(row.label["accept"])))
    return sets


def counted(findings: Sequence[Finding]) -> list[Finding]:
    return [f for f in findings if f.severity != "info"]


def report(sets: Mapping[str, Sequence[Labelled]]) -> list[str]:
    parts = {**{n: [n] for n in sets}, **{f"all but {n}": [m for m in sets if m != n] for n in sets if len(sets) > 2}}
    lines = ["| fitted on | comparisons | gain | confidence | ratio |", "|---|---:|---:|---:|---:|"]
    for name, chosen in parts.items():
        pairs = [p for n in chosen for k in sets[n] for p in k.pairs()]
        a, b = fit(pairs)
        lines.append(f"| {name} | {len(pairs)} | {a:.2f} | {b:.2f} | {b / a:.1f} |")
    lines += ["", "| power | " + " | ".join(sets) + " |", "|---:|" + "---:|" * len(sets)]
    for power in POWERS:
        right = (f"{sum(k.first(power) for k in kernels)} of {len(kernels)}" for kernels in sets.values())
        lines.append(f"| {power:g} | " + " | ".join(right) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("field", type=Path, nargs="*")
    print("\n".join(report(labelled(parser.parse_args().field))))


if __name__ == "__main__":
    main()
