"""Build public CUDA programs, run them under their own checkers, time their hot kernels and profile one launch of each.

    python tools/field/capture.py REPORTS --hecbench CHECKOUT --rodinia CHECKOUT [--half learn] [--first 56] [--jobs 8]
    python tools/field/capture.py REPORTS --variants FOLDER ...     (time optimised versions beside the originals)

Needs nvcc, ncu and a GPU whose counters may be read; imports the standard library alone. CHECKOUT is the user's copy of
zjin-lcf/HeCBench or Jokeren/GPA-Benchmark, read only: a program is built in a copy of its folder. REPORTS receives
<name>.ncu-rep and manifest.json: a row a program with its command, the outcome of its check, its hot kernel, that
kernel's launches and their time (`us`: the median of single-pass measurements, clocks and caches as they are).

FOLDER holds <name>/... with the files that replace those of the program of that name. Both versions are built, checked
and timed by the program's hot kernel (`kernel` of <name>/variant.json, if the variant renames it, and `launches`: how
many launches of the new kernels do the work of one old launch, 1 unless given); the rows go to REPORTS/variants.json.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BAD = re.compile(r"\bfail(ed|ure)?\b|\bmismatch|\bincorrect|\berror[:!]|\bwrong\b", re.IGNORECASE)
GOOD = re.compile(r"\bpass(ed)?\b|\bcorrect\b|\bsuccess", re.IGNORECASE)
NCU = ["ncu", "--clock-control", "none", "--kernel-name-base", "function"]
MAX_SCAN = 16  # launches looked at to find the hot kernel: each costs ncu 0.1 to 0.2 s


class Program:
    """One program of a suite: where it is copied, how it is built and run."""

    def __init__(self, name: str, checkouts: dict[str, Path], plans: dict[str, Any], arch: str, work: Path):
        suite = "rodinia" if name.startswith("rodinia/") else "hecbench"
        plan = {**plans["suite"][suite], **plans.get(name, {})}
        self.name, self.slug = name, name.replace("/", "_")
        self.source = checkouts[suite] / plan["folder"].format(name=name.rpartition("/")[2])
        self.root = work / self.slug
        self.folder = self.root / self.source.parent.name / self.source.name
        self.build_command = plan["build"].format(arch=arch)
        self.run_command: str | None = plan.get("run")
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
        options = ["-k", function, "--launch-skip", str(max(0, skip - 5)), "-c", "11", "--kill", "yes"]
        self.shell(profiled(self.run_command, log, options), limit_s)
        rows = read_launches(log)
        return hot(rows)["us"] if rows else None

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


def profiled(command: str | None, log: Path, options: list[str]) -> str:
    base = [*NCU, "--metrics", "gpu__time_duration.sum", "--cache-control", "none", "--csv", "--page", "raw"]
    return " ".join([*base, "--log-file", str(log), *options, command or ""])


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    said = done.stdout + done.stderr
    bad, good = BAD.search(said), GOOD.search(said)
    verdict = "failed" if done.returncode not in (0, 124) or bad else "passed" if good else "says nothing"
    row = {"check": "ran too long" if done.returncode == 124 else verdict}
    return row | {"said": said[-300:]} if verdict == "failed" else row


def read_launches(log: Path) -> list[dict[str, Any]]:
    """The launches of one ncu log in CSV: function, name in full, grid, block, microseconds."""
    if not log.is_file():
        return []
    text = log.read_text(errors="replace")
    start = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:]))) if start >= 0 else []
    if len(rows) < 2:
        return []
    unit = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3, "second": 1e6, "s": 1e6}
    scale = unit[rows[0]["gpu__time_duration.sum"]]
    out = []
    for row in rows[1:]:
        full = row["Kernel Name"]
        out.append({
            "function": function_of(full), "name": full, "grid": row["Grid Size"], "block": row["Block Size"],
            "us": float(row["gpu__time_duration.sum"].replace(",", "")) * scale,
        })  # fmt: skip
    return out


def function_of(name: str) -> str:
    """`void ns::kernel<float, 4>(int *)` -> `kernel`, as --kernel-name-base function matches it."""
    bare = re.sub(r"\(anonymous namespace\)|<unnamed>", "", name)
    while (shorter := re.sub(r"<[^<>]*>", "", bare)) != bare:
        bare = shorter
    return bare.partition("(")[0].split()[-1].rpartition("::")[2]


def hot(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """The kernel and launch shape that takes the most time, and the middle one of its launches."""
    total: dict[tuple[str, str, str], float] = {}
    for x in launches:
        key = (x["name"], x["grid"], x["block"])
        total[key] = total.get(key, 0.0) + x["us"]
    name, grid, block = max(total, key=lambda k: total[k])
    function = next(x["function"] for x in launches if x["name"] == name)
    same = [x for x in launches if x["function"] == function]
    mine = [i for i, x in enumerate(same) if (x["name"], x["grid"], x["block"]) == (name, grid, block)]
    return {
        "kernel": name, "name": name, "function": function, "grid": grid, "block": block, "skip": mine[len(mine) // 2],
        "launches": len(mine), "us": round(statistics.median(same[i]["us"] for i in mine), 3),
        "share": round(total[name, grid, block] / sum(total.values()), 3),
        "others": [[k[0][:60], round(v, 1)] for k, v in sorted(total.items(), key=lambda kv: -kv[1])[1:5]],
    }  # fmt: skip


def device_arch() -> tuple[str, str]:
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        sys.exit("no GPU answers nvidia-smi: captures need a machine with one (judging stored reports does not)")
    for tool in ("nvcc", "ncu"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not on the PATH: install the CUDA toolkit and Nsight Compute, or set the PATH")
    name, _, capability = asked.rpartition(",")
    return name.strip(), "sm_" + capability.strip().replace(".", "")


def chosen(half: str, first: int, only: list[str]) -> list[str]:
    """The names to measure: those named, else the first of the half and every pair of Rodinia in it."""
    names = tomllib.loads((HERE / "split.toml").read_text(encoding="utf-8"))[half]
    if only:
        return [n for n in names if n in only]
    return names[:first] + [n for n in names[first:] if n.startswith("rodinia/")]


def capture_all(programs: list[Program], args: argparse.Namespace, device: str) -> None:
    """Build and check side by side, find and profile the hot kernels one after another, write the manifest.

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
    for p in built:
        if time.monotonic() > deadline:
            p.row["fault"] = "no time left"
            continue
        if "skip" not in p.row:
            p.scan(args.limit)
        if "skip" in p.row:
            p.capture(args.reports / p.slug, args.limit)
        write(manifest, {"device": device, "rows": list(rows.values())})
        row = p.row
        print(p.name, *(row.get(k) for k in ("check", "run_s", "us", "capture_s")), row.get("fault", "")[-160:], flush=True)
    write(manifest, {"device": device, "rows": list(rows.values())})


def prepare(program: Program) -> bool:
    program.copy() if program.source.is_dir() else None
    return program.build()


def time_variants(originals: list[Program], args: argparse.Namespace, make: Any, device: str) -> None:
    """Originals and their optimised versions: checked, and timed one after another."""
    rows = []
    variants = {p.name: make(p.name, "variant") for p in originals}

    def ready(p: Program) -> bool:
        v = variants[p.name]
        v.copy(args.variants / p.slug)
        return prepare(p) and v.build()

    with concurrent.futures.ThreadPoolExecutor(args.jobs * 2) as pool:
        built = list(pool.map(ready, originals))
    known = {r["program"]: r for r in json.loads((args.reports / "manifest.json").read_text())["rows"]}
    for p, ok in zip(originals, built, strict=True):
        v = variants[p.name]
        p.row = dict(known[p.name])
        row: dict[str, Any] = {"program": p.name, "kernel": p.row["kernel"]}
        if ok:
            spec_file = args.variants / p.slug / "variant.json"
            spec = json.loads(spec_file.read_text()) if spec_file.is_file() else {}
            checked = v.shell(v.run_command or "", args.limit)
            row |= outcome(checked) | {"change": spec.get("change", "")}
            function, skip = p.row["function"], p.row["skip"]
            before = p.time(args.limit, function, skip)
            after = v.time(args.limit, spec.get("kernel", function), spec.get("skip", skip))
            again = p.time(args.limit, function, skip)
            if before and after and again:
                row |= {"before_us": before, "again_us": again, "after_us": after * spec.get("launches", 1)}
                row["ratio"] = round((before + again) / 2 / row["after_us"], 3)
        else:
            row["fault"] = p.row.get("fault") or v.row.get("fault")
        rows.append(row)
        print(row, flush=True)
        write(args.reports / "variants.json", {"device": device, "rows": rows})


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--hecbench", type=Path, required=True, help="a checkout of zjin-lcf/HeCBench")
    parser.add_argument("--rodinia", type=Path, required=True, help="a checkout of Jokeren/GPA-Benchmark")
    parser.add_argument("--half", choices=("learn", "judged"), default="learn")
    parser.add_argument("--first", type=int, default=56, help="programs of the half, in the order of the split")
    parser.add_argument("--only", nargs="*", default=[], help="these programs of the half alone")
    parser.add_argument("--jobs", type=int, default=4, help="programs checked side by side")
    parser.add_argument("--limit", type=float, default=60, help="seconds one run may take")
    parser.add_argument("--deadline", type=float, default=3600, help="seconds after which no capture starts")
    parser.add_argument("--variants", type=Path, help="folder of optimised versions to time")
    args = parser.parse_args()
    device, arch = device_arch()
    args.reports = args.reports.resolve()
    args.reports.mkdir(parents=True, exist_ok=True)
    checkouts = {"hecbench": args.hecbench.resolve(), "rodinia": args.rodinia.resolve()}
    plans = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="field-") as work:

        def make(name: str, under: str = "original") -> Program:
            return Program(name, checkouts, plans, arch, Path(work) / under)

        if args.variants:
            args.variants = args.variants.resolve()
            names = chosen(args.half, 10_000, args.only)
            time_variants([make(n) for n in names if (args.variants / n.replace("/", "_")).is_dir()], args, make, device)
        else:
            capture_all([make(n) for n in chosen(args.half, args.first, args.only)], args, device)


if __name__ == "__main__":
    main()
