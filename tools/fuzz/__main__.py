"""`python -m tools.fuzz`: see the package."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tools.fuzz import campaign
from tools.fuzz.inputs import PARSERS, SHARES

COUNT = 20_000


def main() -> int:
    args = _arguments()
    plan = _plan(args.parser or PARSERS, args.count, args.only, args.start)
    begun = time.monotonic()
    tallies, found = campaign.run(
        plan, args.seed, jobs=args.jobs, keep=args.keep, more=args.corpus, show=sys.stderr
    )
    print(table(tallies))
    done = sum(t.inputs for t in tallies.values())
    print(f"{done} inputs, seed {args.seed}, {time.monotonic() - begun:.0f} s with {args.jobs} processes, "
          f"{len(found)} findings" + (f" in {args.keep}" if found else ""))  # fmt: skip
    return 1 if found else 0


def table(tallies: dict[str, campaign.Tally]) -> str:
    """The figures by parser, a line each."""
    rows = ["parser   inputs exit 0     1     2     3   4 other findings   CPU s longest s    MiB  kept by fences"]
    for parser, t in sorted(tallies.items()):
        known = [t.statuses[str(n)] for n in range(5)]
        fenced = ", ".join(f"{name} {count}" for name, count in t.contained.most_common())
        rows.append(
            f"{parser:8} {t.inputs:6} {known[0]:6} {known[1]:5} {known[2]:5} {known[3]:5} {known[4]:3} "
            f"{t.inputs - sum(known):5} {t.findings.total():8} {t.cpu:7.0f} {t.slowest:9.1f} {t.memory >> 10:6}  "
            f"{fenced}"
        )
    return "\n".join(rows)


def _plan(parsers: list[str] | tuple[str, ...], count: int, only: int | None, start: int) -> list[tuple[str, int]]:
    """The parsers take turns, so that a run that is ended early has seen all of them."""
    if only is not None:
        return [(parser, only) for parser in parsers]
    whole = sum(SHARES[parser] for parser in parsers)
    turns = [
        ((number + 0.5) / max(1, round(count * SHARES[parser] / whole)), parser, start + number)
        for parser in parsers for number in range(max(1, round(count * SHARES[parser] / whole)))
    ]  # fmt: skip
    return [(parser, number) for _, parser, number in sorted(turns)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tools.fuzz", description="Mutated inputs through the command line.")
    parser.add_argument("--count", type=int, default=COUNT, help="how many inputs, over all parsers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the first number of each parser")
    parser.add_argument("--only", type=int, help="this number alone")
    parser.add_argument("--parser", action="append", choices=PARSERS, help="repeatable; default: all")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--corpus", type=Path, help="a folder of further inputs to mutate, told by their suffixes")
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"), help="where findings go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
