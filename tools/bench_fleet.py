"""Throughput of `kscope fleet ingest` with one process and with two, in turn, on a synthetic fleet.

    python tools/bench_fleet.py [--reports N] [--rounds N] [--strict]

The ratio is of the medians of wall times, of processes that start from nothing; processor time is told beside it, so
that a machine that had other work shows (it must be about the same on both sides). --strict exits 1 where two processes
are less than 1.8 times one, where a second ingest takes more than two seconds, or where the datasets differ.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools import make_fleet  # noqa: E402

LEAST, AGAIN_S = 1.8, 2.0


def ingest(fleet: Path, data: Path, jobs: int) -> tuple[float, float, float]:
    """(wall, processor seconds, megabytes of the largest process that took part)."""
    command = [sys.executable, "-m", "kscope", "fleet", "ingest", str(fleet), "--into", str(data), "--jobs", str(jobs)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=fleet, env=environment, stdout=subprocess.DEVNULL) as run:
        _, status, used = os.wait4(run.pid, 0)  # of this run alone: RUSAGE_CHILDREN keeps the largest of all before
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit(f"kscope fleet ingest ended with status {run.returncode}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def contents(data: Path) -> str:
    """A hash over all files of a dataset but its lock."""
    whole = hashlib.sha256()
    for file in sorted(p for p in data.rglob("*") if p.is_file() and p.name != ".lock"):
        whole.update(f"{file.relative_to(data)}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kscope-fleet-") as folder:
        fleet = Path(folder, "reports")
        make_fleet.make(fleet, reports=given.reports, nights=max(5, given.reports // 60), seed=1, pack=True)
        times: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
        made = set()
        for number in range(given.rounds):
            for jobs, rows in times.items():
                data = Path(folder, f"data-{number}-{jobs}")
                rows.append(ingest(fleet, data, jobs))
                made.add(contents(data))
                wall, spent, peak = rows[-1]
                print(f"{jobs} process{'es' if jobs > 1 else ''}: {wall:6.1f} s, {spent:6.1f} s of processors, "
                      f"{given.reports / wall * 3600:8,.0f} reports an hour, {peak:.0f} MB", flush=True)  # fmt: skip
        again = ingest(fleet, data, 2)[0]
    one, two = (statistics.median(wall for wall, _, _ in times[jobs]) for jobs in (1, 2))
    print(f"two processes against one: {one / two:.2f}x (>= {LEAST}x); second ingest: {again:.1f} s (<= {AGAIN_S} s); "
          f"datasets {'equal' if len(made) == 1 else 'DIFFER'}")  # fmt: skip
    return int(given.strict and (one / two < LEAST or again > AGAIN_S or len(made) != 1))


if __name__ == "__main__":
    sys.exit(main())
