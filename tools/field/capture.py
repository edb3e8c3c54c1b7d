"""Build public CUDA programs, run them under their own checkers, time their hot kernels and profile one launch of each.

    python tools/field/capture.py REPORTS [--hecbench CHECKOUT] [--rodinia CHECKOUT] [--half learn] [--first 56]
    python tools/field/capture.py REPORTS --variants FOLDER [FOLDER] ...     (time versions beside the originals)

Needs nvcc, ncu and a GPU whose counters may be read; imports the standard library alone. CHECKOUT is the user's copy of
zjin-lcf/HeCBench or Jokeren/GPA-Benchmark, read only: a program is built in a copy of its folder. REPORTS receives
<name>.ncu-rep and manifest.json: a row a program with its command, the outcome of its check, its hot kernel, that
kernel's launches and their time (`us`: the median of single-pass measurements, clocks and caches as they are).

FOLDER holds <name>/ with the files that replace those of the program of that name, and variant.json: `change` (the step
in words), `causes` and, where they differ from the program's, `kernel` (its new function), `skip` (launches of it
before those that are timed) and `run` (the command, then of both versions). Rows go to REPORTS/variants.json.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from launches import hot, outcome, read_launches
from split import HALVES

HERE = Path(__file__).resolve().parent
NCU = ["ncu", "--clock-control", "none", "--kernel-name-base", "function"]
SIDES = ("learn", "judged")  # of split.toml; judged2, judged3: what labels/<it>.toml lists, later programs
MAX_SCAN = 16  # launches looked at to find the hot kernel: each costs ncu 0.1 to 0.2 s


class Program:
    """One program of a suite: where it is copied, how it is built and run."""

    def __init__(self, name: str, checkouts: dict[str, Path], plans: dict[str, Any], arch: str, work: Path):
        suite = suite_of(name)
        plan = {**plans["suite"][suite], **plans.get(name, {})}
        self.name, self.slug = name, name.replace("/", "_")
        self.source = checkouts[suite] / plan["folder"].format(name=name.rpartition("/")[2])
        self.root = work / self.slug
        self.folder = self.root / self.source.parent.name / self.source.name
        self.build_command = plan["build"].format(arch=arch)
        self.run_command: str | None = plan.get("run")
        self.edits: list[list[str]] = plan.get("edits", [])
        self.skip: int = plan.get("skip", 0)
        self.env = dict(os.environ, NVCC_APPEND_FLAGS=f"-lineinfo -arch={arch} {plan.get('flags', '')}")
        self.row: dict[str, Any] = {"program": name}

    def copy(self, replaced: Path | None = None) -> None:
        """The program's folder, its neighbours (for shared headers) as links, and a variant's files over it."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.source, self.folder)
        for neighbour in self.source.parent.iterdir():
            link = self.folder.parent / neighbour.name
            if not link.exists():
                link.symlink_to(neighbour)
        if replaced is not None:
            shutil.copytree(replaced, self.folder, dirs_exist_ok=True)
        for name, old, new in self.edits:
            text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
            (self.folder / name).write_text(text.replace(old, new), encoding="utf-8")

    def build(self) -> bool:
        if not self.source.is_dir():
            self.row["fault"] = "not in the checkout"
            return False
        done = self.shell(self.build_command, 300)
        if self.run_command is None:
            listed = self.shell("make -n run LAUNCHER=", 20)
            lines = [line.strip() for line in listed.stdout.splitlines() if line.strip().startswith("./")]
            self.run_command = lines[0] if lines else None
        if done.returncode or self.run_command is None:
            self.row["fault"] = "does not build: " + (done.stderr.strip() or "no run line")[-400:]
            return False
        self.row["command"] = self.run_command
        return True

    def shell(self, command: str, limit_s: float) -> subprocess.CompletedProcess[str]:
        """Run in the program's folder; a program that outlasts its limit comes back with status 124."""
        try:
            return subprocess.run(
                ["timeout", "-k", "2", str(limit_s), "bash", "-c", command], cwd=self.folder, env=self.env, text=True,
                errors="replace", capture_output=True, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except OSError as e:
            return subprocess.CompletedProcess(command, 127, "", str(e))

    def check(self, limit_s: float) -> None:
        """One run under the program's own checker."""
        begin = time.monotonic()
        self.row |= outcome(self.shell(self.run_command or "", limit_s))
        self.row["run_s"] = round(time.monotonic() - begin, 1)

    def scan(self, limit_s: float) -> None:
        """The first launches, one pass each: which kernel is hot."""
        log = self.root / "scan.csv"
        done = self.shell(profiled(self.run_command, log, ["-c", str(MAX_SCAN), "--kill", "yes"]), limit_s)
        launches = read_launches(log)
        if launches:
            self.row |= hot(launches)
        else:
            said = log.read_text(errors="replace") if log.is_file() else done.stdout + done.stderr
            self.row["fault"] = f"no launch measured: {said[-300:]}"

    def time(self, limit_s: float, function: str, skip: int) -> float | None:
        """Median microseconds of the launches of a function around its launch number `skip`, in a run of its own."""
        log = self.root / "time.csv"
        options = ["-k", function, "--launch-skip", str(max(0, skip - 2)), "-c", "5", "--kill", "yes"]
        self.shell(profiled(self.run_command, log, options), limit_s)
        rows = read_launches(log)
        return hot(rows)["us"] if rows else None

    def time_cold(self, limit_s: float, function: str, skip: int) -> float | None:
        """Microseconds of that launch alone, with caches flushed before it: as a report holds the original's time."""
        log = self.root / "time.csv"
        options = ["-k", function, "--launch-skip", str(skip), "-c", "1", "--kill", "yes"]
        self.shell(profiled(self.run_command, log, options, "all"), limit_s)
        rows = read_launches(log)
        return rows[0]["us"] if rows else None

    def capture(self, report: Path, limit_s: float) -> None:
        options = ["--set", "full", "--import-source", "no", "-k", self.row["function"]]
        options += ["--launch-skip", str(self.row["skip"]), "-c", "1", "--kill", "yes", "-f", "-o", str(report)]
        begin = time.monotonic()
        done = self.shell(" ".join([*NCU, *options, self.run_command or ""]), limit_s)
        self.row["capture_s"] = round(time.monotonic() - begin, 1)
        if report.with_suffix(".ncu-rep").is_file():
            self.row["report"] = report.with_suffix(".ncu-rep").name
        else:
            self.row["fault"] = f"no report: {(done.stdout + done.stderr)[-300:]}"


def profiled(command: str | None, log: Path, options: list[str], caches: str = "none") -> str:
    base = [*NCU, "--metrics", "gpu__time_duration.sum", "--cache-control", caches, "--csv", "--page", "raw"]
    return " ".join([*base, "--log-file", str(log), *options, command or ""])


def device_arch() -> tuple[str, str]:
    try:
        command = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]
        asked = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        sys.exit("no GPU answers nvidia-smi: captures need a machine with one (judging stored reports does not)")
    for tool in ("nvcc", "ncu"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not on the PATH: install the CUDA toolkit and Nsight Compute, or set the PATH")
    name, _, capability = asked.rpartition(",")
    return name.strip(), "sm_" + capability.strip().replace(".", "")


def suite_of(name: str) -> str:
    return "rodinia" if name.startswith("rodinia/") else "hecbench"


def chosen(half: str, first: int, only: list[str], suites: Collection[str]) -> list[str]:
    """The names of these suites to measure: those named, else the first of the half and every pair of Rodinia in it."""
    sides = tomllib.loads((HERE / "split.toml").read_text(encoding="utf-8"))
    names = [n for n in sides.get(half) or list(labels_of(half)) if suite_of(n) in suites]
    if only:
        return [n for n in names if n in only]
    return names[:first] + [n for n in names[first:] if n.startswith("rodinia/")]


def labels_of(half: str) -> dict[str, Any]:
    return tomllib.loads((HERE / "labels" / f"{half}.toml").read_text(encoding="utf-8"))


def capture_all(programs: list[Program], args: argparse.Namespace, device: str) -> None:
    """Build and check side by side, find the hot kernels, profile them one after another, write the manifest.

    What an earlier run left in REPORTS is kept: its captures are not repeated, its hot kernels not looked for again.
    """
    deadline = time.monotonic() + args.deadline
    manifest = args.reports / "manifest.json"
    known = {r["program"]: r for r in json.loads(manifest.read_text())["rows"]} if manifest.is_file() else {}
    for p in programs:
        p.row = {k: v for k, v in known.get(p.name, p.row).items() if k != "fault"}
    rows = known | {p.name: p.row for p in programs}
    todo = [p for p in programs if "report" not in p.row]
    with concurrent.futures.ThreadPoolExecutor(args.jobs * 2) as pool:
        built = [p for p, ok in zip(todo, pool.map(prepare, todo), strict=True) if ok]
    print(f"built {len(built)} of {len(todo)}, {deadline - time.monotonic():.0f} s left", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda p: "check" in p.row or p.check(args.limit), built))
    print(f"checked, {deadline - time.monotonic():.0f} s left", flush=True)
    labels = labels_of(args.half) if args.labelled or args.half not in SIDES else {}
    for p in built:
        if time.monotonic() > deadline:
            p.row["fault"] = "no time left"
            continue
        if p.name in labels:
            p.row |= {"function": labels[p.name]["kernel"], "skip": p.skip}
        elif "skip" not in p.row:
            p.scan(args.limit)
        if "skip" in p.row:
            p.capture(args.reports / p.slug, args.limit)
        write(manifest, {"device": device, "rows": list(rows.values())})
        row = p.row
        print(p.name, row.get("check"), row.get("us"), row.get("capture_s"), row.get("fault", "")[-160:], flush=True)
    write(manifest, {"device": device, "rows": list(rows.values())})


def prepare(program: Program) -> bool:
    program.copy() if program.source.is_dir() else None
    return program.build()


def time_variants(originals: list[Program], args: argparse.Namespace, make: Any, device: str) -> None:
    """Originals and their optimised versions: built and checked side by side, timed one after another. An original that
    several folders have a version of is timed once for each command."""
    known = {r["program"]: r for r in json.loads((args.reports / "manifest.json").read_text())["rows"]}
    changed = [
        Changed(p, make(p.name, folder.name), folder)
        for folder in args.variants for p in originals if (folder / p.slug).is_dir()
    ]  # fmt: skip
    alone = [one for one in changed if args.cold and "run" not in one.spec]
    with concurrent.futures.ThreadPoolExecutor(args.jobs * 2) as pool:
        needed = {one.original.name: one.original for one in changed if one not in alone}
        list(pool.map(prepare, needed.values()))
        list(pool.map(lambda one: one.build(), changed))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda one: one.check(args.limit), changed))
    rows, times = [], dict[Any, float | None]()
    for one in changed:
        p, v, spec, old = one.original, one.version, one.spec, known[one.original.name]
        row = {"program": p.name, "version": one.folder.name, "kernel": old["function"], "change": spec["change"]}
        row |= {"causes": spec.get("causes", []), "check": v.row.get("check")}
        faults = p.row.get("fault") or v.row.get("fault")
        if faults:
            row["fault"] = faults
        else:
            skip, cold = spec.get("skip", old["skip"]), one in alone
            asked = (p.name, v.run_command, skip)
            if not cold and asked not in times:
                p.run_command = v.run_command
                times[asked] = p.time(args.limit, old["function"], skip)
            after = (v.time_cold if cold else v.time)(args.limit, spec.get("kernel", old["function"]), skip)
            row |= {"before_us": None if cold else times[asked], "after_us": after, "cold": cold}
            row |= {"said": v.row.get("said", "")}
            if row["before_us"] and after:
                row["ratio"] = round(row["before_us"] / after, 3)
        rows.append(row)
        print(row, flush=True)
        write(args.reports / "variants.json", {"device": device, "rows": rows})


class Changed:
    """One optimised version of a program: its files, and what variant.json says of them."""

    def __init__(self, original: Program, version: Program, folder: Path) -> None:
        self.original, self.version, self.folder = original, version, folder
        self.spec: dict[str, Any] = json.loads((folder / original.slug / "variant.json").read_text())

    def build(self) -> None:
        self.version.copy(self.folder / self.version.slug)
        if self.version.build():
            self.version.run_command = self.spec.get("run", self.version.run_command)

    def check(self, limit_s: float) -> None:
        if "fault" not in self.version.row:
            self.version.row |= outcome(self.version.shell(self.version.run_command or "", limit_s))


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--hecbench", type=Path, help="a checkout of zjin-lcf/HeCBench")
    parser.add_argument("--rodinia", type=Path, help="a checkout of Jokeren/GPA-Benchmark")
    parser.add_argument("--half", choices=HALVES, default="learn")
    parser.add_argument("--first", type=int, default=56, help="programs of the half, in the order of the split")
    parser.add_argument("--only", nargs="*", default=[], help="these programs of the half alone")
    parser.add_argument("--jobs", type=int, default=4, help="programs checked side by side")
    parser.add_argument("--labelled", action="store_true", help="profile the first launch of the labels' kernels")
    parser.add_argument("--limit", type=float, default=60, help="seconds one run may take")
    parser.add_argument("--deadline", type=float, default=3600, help="seconds after which no capture starts")
    parser.add_argument("--variants", type=Path, nargs="+", help="folders of optimised versions to time")
    parser.add_argument("--cold", action="store_true", help="time variants alone, as the originals' reports were")
    args = parser.parse_args()
    named = {"hecbench": args.hecbench, "rodinia": args.rodinia}
    checkouts = {suite: path.resolve() for suite, path in named.items() if path is not None}
    for suite, path in checkouts.items():
        if not path.is_dir():
            sys.exit(f"{path}: no folder; --{suite} names a checkout")
    if not checkouts:
        sys.exit("name a checkout: --hecbench (zjin-lcf/HeCBench), --rodinia (Jokeren/GPA-Benchmark) or both")
    device, arch = device_arch()
    args.reports = args.reports.resolve()
    args.reports.mkdir(parents=True, exist_ok=True)
    plans = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="field-") as work:

        def make(name: str, under: str = "original") -> Program:
            return Program(name, checkouts, plans, arch, Path(work) / under)

        if args.variants:
            args.variants = [folder.resolve() for folder in args.variants]
            originals = [make(n) for n in chosen(args.half, 10_000, args.only, checkouts)]
            known = json.loads((args.reports / "manifest.json").read_text())["rows"]
            named = {r["program"] for r in known if "report" in r}
            time_variants([p for p in originals if p.name in named], args, make, device)
        else:
            capture_all([make(n) for n in chosen(args.half, args.first, args.only, checkouts)], args, device)


if __name__ == "__main__":
    main()
