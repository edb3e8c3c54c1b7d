"""Build public CUDA programs, run them under their own checkers, time their hot kernels and profile one launch of each.

    python tools/field/capture.py REPORTS [--hecbench CHECKOUT] [--rodinia CHECKOUT] [--half learn] [--first 56]
    python tools/field/capture.py REPORTS --variants FOLDER [FOLDER] ...     (time versions beside the originals)
    python tools/field/capture.py REPORTS --variants FOLDER ... --profile    (a report of each: NAME.FOLDER.ncu-rep)
    python tools/field/capture.py REPORTS --built FOLDER --build-only sm_90 [--variants ...]        (without a GPU)

Needs nvcc, ncu and a GPU whose counters may be read; imports the standard library alone. CHECKOUT is the user's copy of
zjin-lcf/HeCBench or Jokeren/GPA-Benchmark, or with --checkout SUITE=PATH of another suite of programs.toml (llmc:
karpathy/llm.c, samples: NVIDIA/cuda-samples), read only: a program is built in a copy of its folder. What --built names
keeps the built programs for later calls, which need no compiler then. REPORTS receives
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
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from program import Changed, Program, suite_of
from split import HALVES

HERE = Path(__file__).resolve().parent
SIDES = ("learn", "judged")  # of split.toml; judged2, judged3: what labels/<it>.toml lists, later programs


def device_arch(built: bool) -> tuple[str, str]:
    try:
        command = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]
        asked = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        sys.exit("no GPU answers nvidia-smi: captures need a machine with one (judging stored reports does not)")
    for tool in ("ncu",) if built else ("nvcc", "ncu"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not on the PATH: install the CUDA toolkit and Nsight Compute, or set the PATH")
    name, _, capability = asked.rpartition(",")
    return name.strip(), "sm_" + capability.strip().replace(".", "")


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
    program.copy()
    return program.build()


def time_variants(originals: list[Program], args: argparse.Namespace, make: Any, device: str) -> None:
    """Originals and their optimised versions: built and checked side by side, timed one after another. An original that
    several folders have a version of is timed once for each command."""
    known = {r["program"]: r for r in json.loads((args.reports / "manifest.json").read_text())["rows"]}
    changed = versions(originals, args, make)
    alone = [one for one in changed if args.cold and "run" not in one.spec]
    with concurrent.futures.ThreadPoolExecutor(args.jobs * 2) as pool:
        needed = {one.original.name: one.original for one in changed if one not in alone}
        built = [p for p, ok in zip(needed.values(), pool.map(prepare, needed.values()), strict=True) if ok]
        list(pool.map(lambda one: one.build(), changed))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda one: one.check(args.limit), [*built, *changed]))
    rows, times = [], dict[Any, float | None]()
    for one in changed:
        p, v, spec, old = one.original, one.version, one.spec, known[one.original.name]
        row = {"program": p.name, "version": one.folder.name, "kernel": old["function"], "change": spec["change"]}
        row |= {"causes": spec.get("causes", []), "check": one.verdict()}
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


def profile_variants(originals: list[Program], args: argparse.Namespace, make: Any) -> None:
    """A report of each optimised version, to lay beside the original's: what a step changed, why it brought nothing."""
    known = {r["program"]: r for r in json.loads((args.reports / "manifest.json").read_text())["rows"]}
    changed = versions(originals, args, make)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        built = [one for one, ok in zip(changed, pool.map(Changed.build, changed), strict=True) if ok]
    for one in built:
        spec, old = one.spec, known[one.original.name]
        one.version.row |= {"function": spec.get("kernel", old["function"]), "skip": spec.get("skip", old["skip"])}
        one.version.capture(args.reports / f"{one.original.slug}.{one.folder.name}", args.limit)
    for one in changed:
        print(one.original.name, one.folder.name, one.version.row.get("fault", "profiled")[-160:], flush=True)


def versions(originals: list[Program], args: argparse.Namespace, make: Any) -> list[Changed]:
    return [
        Changed(p, make(p.name, folder.name), folder)
        for folder in args.variants or () for p in originals if (folder / p.slug).is_dir()
    ]  # fmt: skip


def build_alone(originals: list[Program], args: argparse.Namespace, make: Any) -> None:
    """Nothing is run: what --built names then holds the programs and their versions."""
    changed = versions(originals, args, make)
    needed = originals if not changed else [p for p in originals if any(one.original is p for one in changed)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        built = list(pool.map(prepare, needed)) + list(pool.map(lambda one: one.build(), changed))
    for p, ok in zip([*needed, *(one.version for one in changed)], built, strict=True):
        if not ok:
            print(p.name, p.root.parent.name, p.row["fault"], flush=True)
    print(f"built {sum(built)} of {len(built)}", flush=True)


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
    parser.add_argument("--profile", action="store_true", help="profile the variants in place of timing them")
    parser.add_argument("--cold", action="store_true", help="time variants alone, as the originals' reports were")
    parser.add_argument("--checkout", action="append", default=[], metavar="SUITE=PATH", help="of another suite")
    parser.add_argument("--built", type=Path, help="keep built programs in this folder, use those that it holds")
    parser.add_argument("--build-only", metavar="ARCH", help="build for this architecture, run nothing (with --built)")
    args = parser.parse_args()
    others = {suite: Path(path) for suite, _, path in (one.partition("=") for one in args.checkout)}
    named = {"hecbench": args.hecbench, "rodinia": args.rodinia, **others}
    checkouts = {suite: path.resolve() for suite, path in named.items() if path is not None}
    for suite, path in checkouts.items():
        if not path.is_dir():
            sys.exit(f"{path}: no folder; it should be a checkout of {suite}")
    if not checkouts:
        sys.exit("name a checkout: --hecbench (zjin-lcf/HeCBench), --rodinia (Jokeren/GPA-Benchmark) or both")
    if args.build_only and args.built is None:
        sys.exit("--build-only keeps what it builds in a folder: name it with --built")
    device, arch = ("", args.build_only) if args.build_only else device_arch(bool(args.built))
    args.reports = args.reports.resolve()
    args.reports.mkdir(parents=True, exist_ok=True)
    plans = tomllib.loads((HERE / "programs.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="field-") as work:

        def make(name: str, under: str = "original") -> Program:
            kept = args.built.resolve() / under if args.built else None
            return Program(name, checkouts, plans, arch, Path(work) / under, kept)

        args.variants = [folder.resolve() for folder in args.variants or ()]
        if args.build_only:
            build_alone([make(n) for n in chosen(args.half, args.first, args.only, checkouts)], args, make)
        elif args.variants:
            originals = [make(n) for n in chosen(args.half, 10_000, args.only, checkouts)]
            known = json.loads((args.reports / "manifest.json").read_text())["rows"]
            named = {r["program"] for r in known if "report" in r}
            measured = [p for p in originals if p.name in named]
            if args.profile:
                profile_variants(measured, args, make)
            else:
                time_variants(measured, args, make, device)
        else:
            capture_all([make(n) for n in chosen(args.half, args.first, args.only, checkouts)], args, device)


if __name__ == "__main__":
    main()
