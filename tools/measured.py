"""Run a command and say on standard error how long it took and how much memory it and its processes had at most, all
together: `python tools/measured.py COMMAND...`. Memory is what is theirs, pages that they share counted once (PSS);
looked at every few seconds, on Linux alone: each look goes through them all. The exit status is the command's."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

INTERVAL = 4.0  # seconds; twice a second took 6 % of two processors from the tests


def main() -> int:
    begun = time.monotonic()
    with subprocess.Popen(sys.argv[1:]) as process:
        done, most = threading.Event(), [0]
        watcher = threading.Thread(target=_watch, args=(process.pid, done, most))
        watcher.start()
        try:
            status = process.wait()
        except KeyboardInterrupt:  # the command got it, too
            status = process.wait()
        finally:
            done.set()
            watcher.join()
    seconds = time.monotonic() - begun
    memory = f", at most {most[0] / 1e6:.1f} GB of memory" if most[0] else ""
    print(f"{seconds // 60:.0f} min {seconds % 60:02.0f} s on {os.cpu_count()} cores{memory}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _watch(pid: int, done: threading.Event, most: list[int]) -> None:
    while Path("/proc/self/smaps_rollup").exists():
        most[0] = max(most[0], sum(map(_kilobytes, _tree(pid))))
        if done.wait(INTERVAL):
            return


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:  # it has ended
            continue
    return found


def _kilobytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    sys.exit(main())
