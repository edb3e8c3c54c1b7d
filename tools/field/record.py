"""What first suggestions delivered by what they promised: counts labels/told.toml for kscope/arch/record.toml.

    python tools/field/record.py            (prints the table and whether kscope's file says the same)
    python tools/field/record.py --write    (brings kscope's file up to date)

Counted is every first suggestion with `promised`: what kscope expected when it first saw the kernel, before it could
have learnt anything from it. Where other words are told since, the ratio of those that it told then counts (`earlier`).
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILE = HERE.parents[1] / "kscope" / "arch" / "record.toml"
EDGES = (1.3, 1.6, math.inf)
GAINED, SLOWER = 1.1, 0.97
HEAD = """\
# What came of the first suggestions that kscope gave when it first saw kernels of public libraries, by what they
# promised: built as told by people who saw nothing else, timed on an H200 (tools/field/record.py counts
# tools/field/labels/told.toml; gained: faster by a tenth or more; slower: by 3 % or more). The edges were chosen on
# lists nine and ten, where they part promises that mostly come to nothing from those that mostly hold.
"""


RULES = """
# By the rule that gave the suggestion, of all lists: built, gained, slower.
[rules]
"""


def count(told: dict[str, dict[str, Any]]) -> list[dict[str, float]]:
    """A row a band: least, below (none in the last), built, gained, slower."""
    pairs = [(row["promised"], row.get("earlier", row["ratio"])) for row in told.values() if "promised" in row]
    rows, least = [], 1.0
    for below in EDGES:
        ratios = [ratio for promised, ratio in pairs if least <= promised < below]
        ends = {"least": least} if math.isinf(below) else {"least": least, "below": below}
        rows.append({**ends, "built": len(ratios), "gained": sum(r >= GAINED for r in ratios),
                     "slower": sum(r <= SLOWER for r in ratios)})  # fmt: skip
        least = below
    return rows


def of_rules(told: dict[str, dict[str, Any]]) -> dict[str, list[int]]:
    """Slug of a rule -> how many of its first suggestions were built, of all lists, gained and were slower."""
    ratios: dict[str, list[float]] = {}
    for row in told.values():
        ratios.setdefault(row["causes"][0], []).append(row.get("earlier", row["ratio"]))
    rows = sorted(ratios.items())
    return {slug: [len(of), sum(r >= GAINED for r in of), sum(r <= SLOWER for r in of)] for slug, of in rows}


def page(told: dict[str, dict[str, Any]]) -> str:
    """Of kscope/arch/record.toml, as it should be."""
    bands = "".join("\n[[band]]\n" + "".join(f"{k} = {v}\n" for k, v in row.items()) for row in count(told))
    return HEAD + bands + RULES + "".join(f"{slug} = {row}\n" for slug, row in of_rules(told).items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    text = page(tomllib.loads((HERE / "labels" / "told.toml").read_text(encoding="utf-8")))
    if write:
        FILE.write_text(text, encoding="utf-8")
    print(text, end="")
    if not FILE.is_file() or FILE.read_text(encoding="utf-8") != text:
        sys.exit(f"{FILE} says something else: run it with --write")


if __name__ == "__main__":
    main()
