"""The labelled captures as one flat folder: CASE.ncu-rep, and labels.toml and times.txt generated from captures/*.toml.

    python tools/unpack_fixtures.py OUT [CASE ...]      (default: all of fixtures/h200, 460 MB)

It is what tools/pack_fixtures.py takes, and what scripts read that know nothing of the archives.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from pack_fixtures import toml  # noqa: E402

from tests.support import captures, reports  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", help="these only")
    args = parser.parse_args()
    known = captures.tables(reports.FIXTURES)
    if unknown := sorted(set(args.cases) - set(known)):
        parser.error(f"no such case: {', '.join(unknown)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for case in args.cases or known:
        (args.out / f"{case}.ncu-rep").write_bytes(reports.plain(case))
    (args.out / "labels.toml").write_text(labels_text(captures.labels(known)), encoding="utf-8")
    (args.out / "times.txt").write_text(times_text(captures.times(known)), encoding="utf-8")


def labels_text(labels: Mapping[str, dict[str, Any]]) -> str:
    """A table a case."""
    tables = [[f'["{case}"]', *(f"{key} = {toml(v)}" for key, v in label.items())] for case, label in labels.items()]
    return "\n".join(line for table in tables for line in table) + "\n"


def times_text(times: Mapping[str, float]) -> str:
    """Lines `TIME name variant 12.3 us`."""
    return "".join(f"TIME {case.replace('.', ' ', 1)} {us} us\n" for case, us in sorted(times.items()) if "." in case)


if __name__ == "__main__":
    main()
