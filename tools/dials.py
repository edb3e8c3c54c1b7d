"""What each role of the kernels in fixtures/dials did with its time, from their own records.

    python tools/dials.py [FOLDER]

Writes FOLDER/truth.csv (default: fixtures/dials): a row a case and role, percent of the role's time: mean over the
recorded warps, smallest and largest. It is the time of the program that ran, the one with the recorder in it: what went
into records (`recording`, percent of time_us) is among what the role issued. `cycles`: life of a block in SM cycles, of
which the role's warps miss the first `late`. Then the tensor pipe of the recorded SMs. How it is counted:
kscope/features/specialized/recorded_roles.py.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.features.specialized import recorded_roles  # noqa: E402
from kscope.model.trace import KernelTrace  # noqa: E402
from kscope.parsers.warp_trace import files  # noqa: E402
from tests.support import dials  # noqa: E402

PARTS = ("priming", "issued", "covered", "exposed", "drain")
UNIT = ("busy", "fill", "drain", "gaps", "gap_share")


def table(folder: Path) -> str:
    """The CSV of all traces in a folder."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    parts = [f"{part}{suffix}" for part in PARTS for suffix in ("", "_low", "_high")]
    head = ["case", "role", "warps", "time_us", "cycles", "late", "recording"]
    rows.writerow([*head, *parts, *(f"tensor_{name}" for name in UNIT)])
    found = {path.parent.name: path for path in folder.glob("*/trace.ktrace.xz")}
    if folder.resolve() == dials.DIALS:  # most of ours are in an archive
        found |= {case: dials.dump(case) for case in dials.TRACED}
    for case, path in sorted(found.items()):
        (trace,) = files.read(path)
        unit = recorded_roles.unit_share(trace)
        pipe = [f"{getattr(unit, name):.2f}" if unit else "" for name in UNIT]
        less = {role.role: role.recording for role in recorded_roles.roles(trace)}
        for role in recorded_roles.roles(trace, records=True):
            shares = [getattr(role, part) for part in PARTS]
            cells = [f"{v:.2f}" if s else "" for s in shares for v in ((s.mean, s.low, s.high) if s else (0, 0, 0))]
            cycles = 1e3 * role.time_us * (trace.clock_ghz or 0.0)
            times = [f"{role.time_us:.2f}", f"{cycles:.0f}", f"{late(trace, role.role):.0f}"]
            rows.writerow([case, role.role, role.warps, *times, f"{less[role.role]:.2f}", *cells, *pipe])
    return out.getvalue()


def late(trace: KernelTrace, role: str) -> float:
    """SM cycles from the first record of a block's warps to the begin of a role's, their mean."""
    begins: dict[int, float] = {}
    for warp in trace.warps:
        begins[warp.block] = min(begins.get(warp.block, warp.begin), warp.begin)
    waits = [warp.begin - begins[warp.block] for warp in trace.warps if warp.role == role]
    return sum(waits) / len(waits) * (trace.clock_ghz or 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "fixtures" / "dials")
    folder = parser.parse_args().folder
    (folder / "truth.csv").write_text(table(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
