"""Speed and memory of `kscope analyze --format json` against a bare script that reads every metric value once.

    python tools/bench.py [--rounds N] [--strict] [--instances] [--only kernels|big|timelines|sass] [--cubin FILE]

Both sides run alternately as fresh processes; times are medians, memory is the sum over the process tree. "cold" gives
kscope an empty cache each run, "warm" the cache of an earlier run. --instances lets the bare script read every
instance (per instruction, per sample) of every metric too. --strict exits 1 when a target is missed. The rows "HTML
against JSON" hold kscope's own two formats against each other. Timelines are large recordings (bench_timelines.py),
against HolisticTraceAnalysis and against SQLite itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.parsers.files.ncu_images import embedded_images  # noqa: E402
from tests.support import captures  # noqa: E402
from tests.support.reports import FIXTURES, fixture, join_reports, plain  # noqa: E402
from tools import bench_sass, bench_timelines  # noqa: E402

CASES = ("bank_conflict.slow", "spill.slow", "sgemm.blocktile2d")
BIG_KERNELS, BIG_BYTES = 28, 140e6
RATIO, MEMORY_RATIO, HELP_MS, HTML_RATIO = 1.5, 1.0, 150.0, 1.25
BIG_RATIO = {"cold": 3.0, "warm": 2.0}
SPEED_OF_HTA, MEMORY_OF_HTA, UNION_TIMES = 1 / 8, 1 / 4, 1.5
NVTX_TIMES, EPOCH_TIMES, EPOCH_BYTES = 2.0, 1.15, 150e6  # measured: 1.9 times the query, 1.0

JOB_TIMES = 1.3

BARE = """
import sys, ncu_report
report = ncu_report.load_report(sys.argv[1])
for r in range(report.num_ranges()):
    for a in range(report.range_by_idx(r).num_actions()):
        action = report.range_by_idx(r).action_by_idx(a)
        for name in action.metric_names():
            metric = action.metric_by_name(name)
            metric.value()
            if len(sys.argv) > 2:
                for i in range(metric.num_instances()):
                    metric.value(i)
"""


class Failed(Exception):
    """The measured program did not succeed."""


@dataclass
class Bench:
    """Rows of the table, and how to run the two sides."""

    rounds: int
    instances: bool
    folder: Path
    missed: int = 0

    def bare(self, report: Path) -> list[str]:
        return [sys.executable, "-c", BARE, str(report), *(["instances"] if self.instances else [])]

    def row(self, what: str, ours: str, bare: str, value: str, target: str, ok: bool) -> None:
        self.missed += not ok
        print(f"{what:42} {ours:>9} {bare:>9} {value:>7}  {target:9} {'ok' if ok else 'MISS'}", flush=True)

    def speed(self, what: str, report: Path, rounds: int, most: Mapping[str, float]) -> None:
        """Rows "cold" and "warm": the bare script, cold and warm kscope in turn. most: the targets."""
        ours: dict[str, list[float]] = {"cold": [], "warm": []}
        bare: list[float] = []
        cache = self.folder / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        run(kscope(report), cache)  # fills the warm cache and the page cache
        for number in range(rounds):
            bare.append(run(self.bare(report), cache))
            ours["cold"].append(run(kscope(report), self.folder / f"cold-{number}"))
            shutil.rmtree(self.folder / f"cold-{number}", ignore_errors=True)
            bare.append(run(self.bare(report), cache))
            ours["warm"].append(run(kscope(report), cache))
        base = statistics.median(bare)
        for state, times in ours.items():
            median = statistics.median(times)
            ratio = median / base
            limit = most[state]
            self.row(f"{what}, {state}", ms(median), ms(base), f"{ratio:.2f}x", f"<= {limit}x", ratio <= limit)

    def memory(self, what: str, report: Path, rounds: int) -> None:
        """Rows of the process trees' peaks: summed proportional set sizes, and the largest single process."""
        ours, bare = [], []
        for number in range(rounds):
            bare.append(peak(self.bare(report), self.folder / "cache"))
            ours.append(peak(kscope(report), self.folder / f"peak-{number}"))
        for index, name in enumerate(("memory of the tree (PSS)", "largest process (RSS)")):
            a, b = (statistics.median(side[index] for side in sides) for sides in (ours, bare))
            self.row(f"{what}, {name}", mb(a), mb(b), f"{a / b:.2f}x", f"< {MEMORY_RATIO}x", a < b * MEMORY_RATIO)

    def html(self, what: str, report: Path, rounds: int) -> None:
        """The HTML report against JSON of the same report, in turn, with a warm cache."""
        cache = self.folder / "cache"
        times: dict[str, list[float]] = {"html": [], "json": []}
        for _ in range(rounds):
            for format_, column in times.items():
                column.append(run([*command(), "analyze", str(report), "--format", format_], cache))
        page, data = (statistics.median(times[f]) for f in ("html", "json"))
        ratio = page / data
        self.row(f"{what}, HTML against JSON", ms(page), ms(data), f"{ratio:.2f}x", f"<= {HTML_RATIO}x",
                 ratio <= HTML_RATIO)  # fmt: skip

    def timelines(self) -> None:
        """A trace against HolisticTraceAnalysis's parser, an export against the idle-union query inside SQLite."""
        trace, export, cache = self.folder / "big.json", self.folder / "big.sqlite", self.folder / "cache"
        what = f"torch trace, {bench_timelines.big_trace(trace) / 1e6:.0f} MB"
        python = bench_timelines.hta()
        if python is None:
            print(f"{what}: HolisticTraceAnalysis cannot be installed here, not compared", flush=True)
        else:
            theirs = [python, "-c", bench_timelines.HTA, str(trace)]
            self.compare(what, "HTA", kscope(trace), theirs, cache, SPEED_OF_HTA, MEMORY_OF_HTA)
        trace.unlink()
        what = f"nsys export, {bench_timelines.big_export(export) / 1e6:.0f} MB"
        union = [sys.executable, "-c", bench_timelines.UNION, str(export)]
        run(union, cache)  # the file is in memory for both
        self.compare(what, "SQL", kscope(export), union, cache, UNION_TIMES, None, max(3, self.rounds))
        export.unlink()
        what = f"nsys export, {bench_timelines.big_nvtx_export(export) / 1e6:.0f} MB, 3 million NVTX ranges"
        run(union, cache)
        self.compare(what, "SQL", kscope(export), union, cache, NVTX_TIMES, None, max(3, self.rounds))
        export.unlink()
        bench_timelines.big_trace(trace, EPOCH_BYTES)
        epoch = self.folder / "epoch.json"
        what = f"torch trace, {bench_timelines.epoch_trace(trace, epoch) / 1e6:.0f} MB, absolute times"
        self.compare(what, "relative times", kscope(epoch), kscope(trace), cache, EPOCH_TIMES, None)
        trace.unlink()
        epoch.unlink()
        self.job()

    def job(self) -> None:
        """All ranks of a job in one report, against its largest rank alone as often as there are ranks, shared by the
        cores: by the clock, and of the processors."""
        files = bench_timelines.job_of_ranks(self.folder)
        cache, cores = self.folder / "cache", os.cpu_count() or 1
        what = f"{len(files)} ranks of {files[0].stat().st_size / 1e6:.0f} MB as one job"
        largest = max(files, key=lambda f: f.stat().st_size)
        rounds = [timed(kscope(largest), cache) for _ in range(3)]
        alone = [statistics.median(values) for values in zip(*rounds, strict=True)]
        job = timed([*command(), "analyze", *map(str, files), "--format", "json"], cache)
        turns = len(files) / min(cores, len(files))
        for name, mine, other in (("time", job[0], alone[0] * turns), ("CPU time", job[1], alone[1] * len(files))):
            self.row(f"{what}, {name}", ms(mine), ms(other), f"{mine / other:.2f}x", f"<= {JOB_TIMES}x",
                     mine <= JOB_TIMES * other)  # fmt: skip
        for one in files:
            one.unlink()

    def compare(
        self, what: str, who: str, ours: list[str], theirs: list[str], cache: Path, times: float, memory: float | None,
        rounds: int = 1,
    ) -> None:
        """Rows of the time, by the clock and of the processors, and of the largest process where `memory` is a target;
        all as ratios of the medians, both sides in turn."""
        both = [(timed(theirs, cache), timed(ours, cache)) for _ in range(rounds)]
        target = f"<= {times:.3g}x"
        for index, name in enumerate((f"time ({who})", f"CPU time ({who})")):
            other, mine = (statistics.median(r[side][index] for r in both) for side in (0, 1))
            self.row(f"{what}, {name}", ms(mine), ms(other), f"{mine / other:.2f}x", target, mine <= times * other)
        b, a = (statistics.median(r[side][2] for r in both) for side in (0, 1))
        if memory is not None:
            self.row(f"{what}, memory", mb(a), mb(b), f"{a / b:.2f}x", f"<= {memory:.3g}x", a <= b * memory)
        else:
            self.row(f"{what}, memory", mb(a), mb(b), f"{a / b:.2f}x", "", True)

    def help(self) -> None:
        times = [run([*command(), "--help"], self.folder / "cache") for _ in range(max(7, self.rounds))]
        value = statistics.median(times) * 1e3
        self.row("kscope --help", f"{value:.0f} ms", "", "", f"<= {HELP_MS:.0f} ms", value <= HELP_MS)


def command() -> list[str]:
    script = Path(sys.executable).with_name("kscope")
    return [str(script)] if script.exists() else [sys.executable, "-m", "kscope"]


def kscope(report: Path) -> list[str]:
    return [*command(), "analyze", str(report), "--format", "json"]


def start(args: list[str], cache: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "KSCOPE_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled once, as what is installed is
    return subprocess.Popen(args, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def run(args: list[str], cache: Path) -> float:
    """Wall time in seconds. Raises Failed."""
    begin = time.perf_counter()
    process = start(args, cache)
    _, errors = process.communicate()
    if process.returncode:
        raise Failed(errors.decode(errors="replace").strip()[-300:])
    return time.perf_counter() - begin


def timed(args: list[str], cache: Path) -> tuple[float, float, float]:
    """Wall time, processor time, both in seconds, and the largest resident set of the process, bytes. Raises Failed."""
    begin = time.perf_counter()
    process = start(args, cache)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    with process.stderr as errors:
        message = errors.read()
    if process.returncode:
        raise Failed(message.decode(errors="replace").strip()[-300:])
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024.0


def peak(args: list[str], cache: Path) -> tuple[float, float]:
    """Peak bytes: proportional set sizes summed over the process tree (each 10 ms), largest resident set of one."""
    process = start(args, cache)
    highest = 0
    done = threading.Event()

    def sample() -> None:
        nonlocal highest
        while not done.wait(0.01):
            highest = max(highest, sum(map(pss, tree(process.pid))))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        done.set()
        sampler.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    with process.stderr as errors:
        message = errors.read()
    if process.returncode:
        raise Failed(message.decode(errors="replace").strip()[-300:])
    return float(highest), usage.ru_maxrss * 1024.0


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        try:
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                found += map(int, children.read_text().split())
        except OSError:
            continue  # gone meanwhile
    return found


def pss(pid: int) -> int:
    """Bytes of a process, pages shared by n processes counted as 1/n."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def big_report(out: Path) -> int:
    """A report of 28 kernels and about 140 MB from the largest captures of one build of one program; returns its
    bytes. (Two builds would have one number for their images, which no profiler writes, and the cache refuses.)"""
    program = [case for case, table in captures.tables(FIXTURES).items() if "/dev_kernels.cu" in str(table["kernel"])]
    images = {case: frozenset(embedded_images(str(fixture(case)))) for case in program}
    usual, _ = Counter(images.values()).most_common(1)[0]
    sizes = {case: len(plain(case)) for case in program if images[case] == usual}
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))
    chosen = min(
        ([largest[i % width] for i in range(BIG_KERNELS)] for width in range(4, len(largest) + 1)),
        key=lambda names: abs(sum(sizes[n] for n in names) - BIG_BYTES),
    )
    return join_reports([fixture(name) for name in chosen], out)


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def mb(size: float) -> str:
    return f"{size / 1e6:.0f} MB"


def kernels(bench: Bench, rounds: int) -> None:
    """The rows of kernel reports."""
    bench.help()
    for case in CASES:
        report = bench.folder / f"{case}.ncu-rep"
        report.write_bytes(plain(case))
        bench.speed(case, report, rounds, {"cold": RATIO, "warm": RATIO})
        bench.html(case, report, rounds)
    big(bench, rounds)


def big(bench: Bench, rounds: int) -> None:
    """The rows of a report of many kernels."""
    report = bench.folder / "big.ncu-rep"
    what = f"{BIG_KERNELS} kernels, {big_report(report) / 1e6:.0f} MB"
    bench.speed(what, report, max(2, rounds // 3), BIG_RATIO)
    bench.html(what, report, max(2, rounds // 3))
    if os.path.exists("/proc/self/smaps_rollup"):
        bench.memory(what, report, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each side on one kernel (default 7)")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--instances", action="store_true", help="the bare script reads all instances too")
    parser.add_argument("--only", choices=("kernels", "big", "timelines", "sass"), help="only these rows")
    parser.add_argument("--cubin", type=Path, help="a large cubin for the rows about machine code")
    args = parser.parse_args()
    print(f"{'':42} {'kscope':>9} {'bare':>9} {'ratio':>7}  target")
    with tempfile.TemporaryDirectory(prefix="kscope-bench-") as folder:
        bench = Bench(args.rounds, args.instances, Path(folder))
        try:
            if args.only in (None, "kernels"):
                kernels(bench, args.rounds)
            if args.only == "big":
                big(bench, args.rounds)
            if args.only in (None, "timelines"):
                bench.timelines()
            if args.only in (None, "sass"):
                print(f"{'':42} {'kscope':>9} {'nvdisasm':>9} {'ratio':>7}  target")
                bench_sass.rows(bench.row, args.cubin.resolve() if args.cubin else None, 3, Path(folder))
        except Failed as e:
            print(f"the measured command failed: {e}", file=sys.stderr)
            return 1
    return int(args.strict and bench.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
