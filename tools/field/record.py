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


def count(told: dict[str, dict[str, float]]) -> list[dict[str, float]]:
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


def page(rows: list[dict[str, float]]) -> str:
    return HEAD + "".join("\n[[band]]\n" + "".join(f"{key} = {value}\n" for key, value in row.items()) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    text = page(count(tomllib.loads((HERE / "labels" / "told.toml").read_text(encoding="utf-8"))))
    if write:
        FILE.write_text(text, encoding="utf-8")
    print(text, end="")
    if not FILE.is_file() or FILE.read_text(encoding="utf-8") != text:
        sys.exit(f"{FILE} says something else: run it with --write")


if __name__ == "__main__":
    main()
