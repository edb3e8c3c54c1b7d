"""Whether `kscope bench` is right: our own cheats and honest candidates, the same code against itself, differences that
were planted, and times beside those of nvbench (package cuda-bench, where it is installed). On a machine with a GPU:

    python tools/bench_truth.py --out truth.json [--seconds 60] [--only planted,cases]

Rows are written as they come; what was left out when the time of a part was up is said.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from msgspec.structs import replace  # noqa: E402

from kscope.bench.judge import hold  # noqa: E402
from kscope.bench.judge.clocks import Watcher  # noqa: E402
from kscope.bench.judge.inputs import generator  # noqa: E402
from kscope.bench.judge.referee import Referee  # noqa: E402
from kscope.bench.judge.seat import Seat  # noqa: E402
from kscope.bench.judge.side import Plan  # noqa: E402
from kscope.bench.judge.timed import Clock  # noqa: E402
from kscope.bench.session import machine  # noqa: E402
from kscope.bench.session.run import bench  # noqa: E402
from kscope.bench.session.state import Options  # noqa: E402
from kscope.bench.task.build import library  # noqa: E402
from kscope.bench.task.spec import Task, params, source  # noqa: E402
from tests.bench.catalogue import CHEATS, HERE, HONEST, SEEN, Case  # noqa: E402
from tools.bench_pool import pooled  # noqa: E402

LIBRARIES = "BENCH_TRUTH_LIBRARIES"  # the folder that all parts compile into
CHAIN = "chain<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, TURNS)"
ROWS = "rms_warps<<<(n / 1024 + 7) / 8, 256, 0, stream>>>(x, x, y, n / 1024, 1024)"
DONE: set[str] = set()
COPY = "scale2<<<2048, 256, 0, stream>>>((const float4*)x, (float4*)y, n / 4)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="one JSON file; written after every row")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each part")
    parser.add_argument("--only", default="", help="parts, by comma: planted, itself, nvbench, timed, proved, cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at a time")
    parser.add_argument("--needs", help="cases that need these alone: cuda,triton,torch,cpp; - for nothing")
    parser.add_argument("--after", type=Path, help="an earlier file: cases that are right there are not run again")
    given = parser.parse_args()
    if given.after:
        known = json.loads(given.after.read_text(encoding="utf-8")).get("cases", [])
        DONE.update(row["id"] for row in known if row.get("ok"))
    if given.needs:
        wanted = {one.replace("-", "") for one in given.needs.split(",")}
        DONE.update(one.id for one in [*CHEATS, *SEEN, *HONEST] if one.needs not in wanted)
    parts = {"planted": planted, "itself": itself, "nvbench": nvbench, "timed": timed, "proved": proved, "cases": cases}
    chosen = given.only.split(",") if given.only else list(parts)
    faulthandler.dump_traceback_later(given.seconds * len(chosen) + 20, exit=True)
    hold.PATIENCE = 30.0
    found: dict[str, Any] = {"machine": repr(machine.gpu() or machine.processor())}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault(LIBRARIES, folder)
        if "compile" in chosen:
            list(nvbench(0.0, given.jobs))
            os._exit(0)
        for name in chosen:
            begun = time.monotonic()
            rows = found[name] = list[dict[str, Any]]()
            try:
                for row in parts[name](begun + given.seconds, given.jobs):
                    rows.append({**row, "at_s": round(time.monotonic() - begun, 1)})
                    given.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
                    print(name, json.dumps(rows[-1])[:400], flush=True)
            except Exception as error:  # the other parts are worth having
                rows.append({"error": repr(error), "where": traceback.format_exc()[-1500:]})
            given.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(f"{name}: {len(rows)} rows, {time.monotonic() - begun:.1f} s", flush=True)
    os._exit(0)  # a thread that still waits for a player is not waited for


def cases(until: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Checks alone, many at once: nothing is timed."""
    todo = [(True, one) for one in [*CHEATS, *SEEN]] + [(False, one) for one in HONEST]
    todo = [(cheats, one) for cheats, one in todo if not one.here() and not one.timed and one.id not in DONE]
    todo.sort(key=lambda row: ("cuda", "triton", "torch", "cpp", "").index(row[1].needs))
    options = Options(time=False, check_seconds=30.0, libraries=os.environ[LIBRARIES])
    yield from pooled(judged, [(cheats, one, options) for cheats, one in todo], jobs, until - time.monotonic())


def judged(cheats: bool, one: Case, options: Options) -> dict[str, Any]:
    begun = time.monotonic()
    row: dict[str, Any] = {"id": one.id, "cheat": cheats}
    try:
        task = one.task()
        if one.needs == "torch" and machine.gpu() is not None:
            task = machine.placed(task, device="cuda")
        result = bench(task, options)
    except Exception as error:
        return {**row, "error": repr(error)[:300], "s": time.monotonic() - begun}
    names = {f.cheat for f in result.findings if f.cheat}
    if cheats:
        ok = result.verdict in one.verdicts and (not one.names or bool(names & set(one.names)))
    else:
        ok = result.verdict not in ("incorrect", "not comparable")
    return {
        **row,
        "ok": ok,
        "verdict": result.verdict,
        "sentence": result.sentence[:400],
        "s": round(time.monotonic() - begun, 1),
        "findings": [[f.cheat, f.standing, f.evidence[:160]] for f in result.findings],
        "notes": result.notes[:4],
        "wrong": [[c.inputs, c.dims, c.says, c.error, c.bound] for c in result.checks if not c.ok][:4],
    }


def timed(until: float, jobs: int) -> Iterator[dict[str, Any]]:
    """With the clock: what only it can see, and honest ones that must pass it."""
    honest = ("gpu-with_triton", "gpu-graph_user", "gpu-two_streams", "cuda-warps")
    todo = [(False, one) for one in HONEST if one.id in honest]
    todo += [(True, one) for one in CHEATS if one.timed and one.id not in DONE]
    options = Options(seconds=0.5, caches=("cold",), generations=1, libraries=os.environ[LIBRARIES])
    for cheats, one in todo:
        if not one.here():
            late = time.monotonic() > until - 8
            yield {"id": one.id, "left_out": True} if late else judged(cheats, one, options)


def proved(until: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Honest ones under Nsight Compute (--prove): nothing is said against them."""
    options = Options(time=False, prove=True, libraries=os.environ[LIBRARIES])
    for one in HONEST:
        if one.id in ("triton-kernel", "gpu-with_triton", "cuda-warps", "torch-plain") and not one.here():
            late = time.monotonic() > until - 20
            yield {"id": one.id, "left_out": True} if late else judged(False, one, options)


def _chain(turns: int, n: int) -> Task:
    return Task(
        source("rms_rows.cu", HERE),
        source("rms_rows.cu", HERE),
        inputs=params("x[n]"),
        outputs=params("y[n]"),
        cases=({"n": n},),
        framework="raw",
        device="cuda",
        launch=CHAIN,
        keywords={"TURNS": str(turns)},
    )


def _pair(a: Task, b: Task, plan: Plan, cache: str, *, graph: bool = True, times: int = 1) -> list[dict[str, Any]]:
    """Two libraries on the clock, without any checks; `times` without new processes, with new memory."""
    place = machine.where(a, a.candidate, Path(os.environ[LIBRARIES]))
    seats = [Seat(task, task.candidate, place, "candidate") for task in (a, b, a)]
    rows = []
    try:
        for _ in range(times):
            clock = Clock(a, seats[0], seats[1], Referee(a, None, seats[2]), plan, Watcher("cuda"), generator())
            found = clock.time(a.cases[0], "float32", cache, graph=graph)  # type: ignore[arg-type]
            t = found.timing
            rows.append(
                {
                    "us": t.candidate_us,
                    "baseline_us": t.baseline_us,
                    "ratio": t.ratio,
                    "low": t.low,
                    "high": t.high,
                    "mode": t.mode,
                    "cache": cache,
                    "verdict": t.verdict,
                    "rounds": t.rounds,
                    "calls": t.calls,
                    "wrong": found.wrong,
                    "notes": found.notes,
                    "found": [f.evidence for f in found.findings],
                    "generations": [round(one, 5) for one in clock.generations],
                }
            )
        return rows
    finally:
        for one in seats:
            one.close()


def _plan(*, budget_s: float, rounds: int, fewest: int) -> Plan:
    """Timing alone: what is right was checked by other parts."""
    here = machine.gpu()
    cache = here.cache_bytes if here else 1 << 20
    return Plan(
        budget_s=budget_s, batch_s=0.01, rounds=rounds, fewest=fewest, checks=1, generations=1, cache_bytes=cache
    )


def itself(until: float, jobs: int) -> Iterator[dict[str, Any]]:
    """The same library twice."""
    plan = replace(_plan(budget_s=0.4, rounds=24, fewest=8), generations=2)
    sizes = [(20_000, 1 << 16), (2000, 1 << 16), (500, 1 << 18)]
    for i in range(25):
        if time.monotonic() < until - 5:
            turns, n = sizes[i % 3]
            task = _chain(turns, n)
            for _ in range(4):
                yield from _pair(task, task, plan, "cold" if i % 2 else "hot", graph=i % 4 < 2)


def planted(until: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Three percent more turns of a chain that takes about 100 us; the longer one is the baseline."""
    plan = _plan(budget_s=0.8, rounds=30, fewest=10)
    for i in range(10):
        if time.monotonic() < until - 2:
            yield from _pair(_chain(20_000, 1 << 16), _chain(20_600, 1 << 16), plan, "hot", graph=i % 2 == 0)


SHORT = ("chain 100", "chain 400", "chain 1000", "chain 2500", "copy 2^16", "copy 2^19", "copy 2^21", "rows 2^17",
         "rows 2^20", "rows 2^22")  # fmt: skip
NODES = 400  # kernels of a graph: its launch, and the gap before the next, shared among them


def kernels() -> list[tuple[str, Task]]:
    """Twenty, from 2 us to 10 ms: of arithmetic, of bytes, of rows."""
    found = [
        (f"chain {turns}", _chain(turns, 1 << 16))
        for turns in (100, 400, 1000, 2500, 6000, 15_000, 40_000, 200_000, 1_000_000, 4_000_000)
    ]
    for launch, name, powers in ((COPY, "copy", (16, 19, 21, 23, 25)), (ROWS, "rows", (17, 20, 22, 24, 25))):
        plain = replace(_chain(1, 1), launch=launch, keywords={})
        found += [(f"{name} 2^{power}", replace(plain, cases=({"n": 1 << power},))) for power in powers]
    return found


def nvbench(until: float, jobs: int) -> Iterator[dict[str, Any]]:
    """Kernels from 2 us to 10 ms by nvbench, cold and hot, and by our clock."""
    here = machine.gpu()
    kinds = kernels()
    folder = Path(os.environ[LIBRARIES])
    arch = here.arch if here else ""

    def built(row: tuple[str, Task]) -> str:
        return str(library(row[1], row[1].candidate, "float32", folder, arch, row[1].keywords))

    with ThreadPoolExecutor(jobs) as pool:
        paths = list(pool.map(built, kinds))
    rows = [[name, path, task.cases[0]["n"], 1] for (name, task), path in zip(kinds, paths, strict=True)]
    if not until:
        return
    theirs = _by_nvbench(rows, folder)
    if not theirs:
        yield {"error": "nvbench gave nothing: is cuda-bench installed?"}
    plan = replace(_plan(budget_s=0.3, rounds=9, fewest=5), most_bytes=8 << 30, batch_s=Plan().batch_s)
    for row, (name, task) in zip(rows, kinds, strict=True):
        told = {"name": name, "nvbench": theirs.get(name)}
        if name in SHORT and time.monotonic() < until - 8:  # in a process of its own: where kernels were launched
            # singly before, a node takes a tenth longer (measured: 1.79 and 1.97 us)
            told["nvbench graph"] = _by_nvbench([[*row[:3], NODES]], folder).get(name)
        if time.monotonic() < until - 4:
            yield {**told, **_alone(task, plan, folder, graphs=name in SHORT)}
        else:
            yield {**told, "left_out": True}


def _by_nvbench(rows: list[list[Any]], folder: Path) -> dict[str, Any]:
    """What nvbench measures of [name, library, elements, nodes of a graph], by name."""
    (folder / "jobs.json").write_text(json.dumps(rows))
    out = folder / "nvbench.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("bench_nvbench.py")), str(folder / "jobs.json"), str(out)]
    subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found: dict[str, Any] = json.loads(out.read_text()) if out.is_file() else {}
    return found


def _alone(task: Task, plan: Plan, folder: Path, *, graphs: bool) -> dict[str, Any]:
    """One library by our clock: [us, noise, calls, mode, wrong, notes] by cache and mode."""
    row: dict[str, Any] = {}
    place = machine.where(task, task.candidate, folder)
    seats = [Seat(task, task.candidate, place, "candidate") for _ in range(2)]
    try:
        ways = [("hot", False), ("cold", False), *([("hot", True), ("cold", True)] if graphs else [])]
        for cache, graph in ways:
            clock = Clock(task, seats[0], None, Referee(task, None, seats[1]), plan, Watcher("cpu"), generator())
            found = clock.time(task.cases[0], "float32", cache, graph=graph)  # type: ignore[arg-type]
            t = found.timing
            told = [t.candidate_us, t.noise_pct, t.calls, t.mode, found.wrong, found.notes]
            row[f"{cache}{' graph' if graph else ''}"] = told
    except Exception as error:
        row["error"] = repr(error)[:300]
    finally:
        for one in seats:
            one.close()
    return row


if __name__ == "__main__":
    main()
