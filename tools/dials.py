"""What each role of the kernels in fixtures/dials did with its time, from their own records.

    python tools/dials.py [FOLDER]

Writes FOLDER/truth.csv (default: fixtures/dials): a row a case and role, percent of the role's time: mean over the
recorded warps, smallest and largest, without the time that went into records (`recording`, percent of time_us); then
the tensor pipe of the recorded SMs. How it is counted: kscope/features/trace_roles.py.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.features import trace_roles  # noqa: E402
from kscope.parsers import warp_traces  # noqa: E402

PARTS = ("priming", "issued", "covered", "exposed", "drain")
UNIT = ("busy", "fill", "drain", "gaps", "gap_share")


def table(folder: Path) -> str:
    """The CSV of all traces in a folder."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    parts = [f"{part}{suffix}" for part in PARTS for suffix in ("", "_low", "_high")]
    rows.writerow(["case", "role", "warps", "time_us", "recording", *parts, *(f"tensor_{name}" for name in UNIT)])
    for path in sorted(folder.glob("*/trace.ktrace.xz")):
        (trace,) = warp_traces.read(path)
        unit = trace_roles.unit_share(trace)
        pipe = [f"{getattr(unit, name):.2f}" if unit else "" for name in UNIT]
        for role in trace_roles.roles(trace):
            shares = [getattr(role, part) for part in PARTS]
            cells = [f"{v:.2f}" if s else "" for s in shares for v in ((s.mean, s.low, s.high) if s else (0, 0, 0))]
            head = [path.parent.name, role.role, role.warps, f"{role.time_us:.2f}", f"{role.recording:.2f}"]
            rows.writerow([*head, *cells, *pipe])
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "fixtures" / "dials")
    folder = parser.parse_args().folder
    (folder / "truth.csv").write_text(table(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
