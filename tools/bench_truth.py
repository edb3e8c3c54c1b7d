"""Whether `kscope bench` is right: our own cheats and honest candidates, the same code against itself, differences that
were planted, and times beside those of nvbench (package cuda-bench, where it is installed). On a machine with a GPU:

    python tools/bench_truth.py --out truth.json [--seconds 170]

Parts come in the order of their worth and are left out when the time is up; what was left out is said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

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

LIBRARIES = "BENCH_TRUTH_LIBRARIES"  # the folder that all parts compile into
CHAIN = "chain<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, TURNS)"
COPY = "scale2<<<2048, 256, 0, stream>>>((const float4*)x, (float4*)y, n / 4)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=170.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    found: dict[str, Any] = {"machine": repr(machine.gpu() or machine.processor())}
    parts = {"planted": planted, "nvbench": nvbench, "itself": itself, "cases": cases, "timed": timed}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[LIBRARIES] = folder
        for name, part in parts.items():
            if given.only and name not in given.only.split(","):
                continue
            begun = time.monotonic()
            try:
                found[name] = part(until)
            except Exception as error:  # the other parts are worth having
                import traceback

                found[name] = {"error": repr(error), "where": traceback.format_exc()[-1500:]}
            found[f"{name}_s"] = round(time.monotonic() - begun, 1)
            given.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(name, found[f"{name}_s"], "s", json.dumps(found[name])[:300], flush=True)
    os._exit(0)  # a thread that still waits for a player is not waited for


def cases(until: float) -> list[dict[str, Any]]:
    """Checks alone, a few at once: nothing is timed. A row is printed when it is done; one that hangs costs its own
    time, not the others'."""
    hold.PATIENCE = 30.0
    todo = [(True, one) for one in [*CHEATS, *SEEN]] + [(False, one) for one in HONEST]
    todo = [(cheats, one) for cheats, one in todo if not one.here() and (not one.timed)]
    todo.sort(key=lambda row: row[1].needs not in ("cuda", "triton"))
    rows: list[dict[str, Any]] = []

    def run(row: tuple[bool, Case]) -> None:
        cheats, one = row
        late = time.monotonic() > until - 75
        rows.append(
            {"id": one.id, "left_out": True}
            if late
            else judged(cheats, one, Options(time=False, libraries=os.environ[LIBRARIES]))
        )
        print(json.dumps(rows[-1]), flush=True)

    pool = ThreadPoolExecutor(6)
    pending = [pool.submit(run, row) for row in todo]
    wait(pending, timeout=max(until - 60 - time.monotonic(), 1.0))
    pool.shutdown(wait=False, cancel_futures=True)
    return list(rows)


def judged(cheats: bool, one: Case, options: Options) -> dict[str, Any]:
    begun = time.monotonic()
    row: dict[str, Any] = {"id": one.id, "cheat": cheats}
    try:
        task = one.task()
        if one.needs == "torch" and machine.gpu() is not None:
            from kscope.bench.session.machine import placed

            task = placed(task, device="cuda")
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


def timed(until: float) -> list[dict[str, Any]]:
    """With the clock: what only it can see, and honest ones that must pass it."""
    wanted = [(True, one) for one in CHEATS if one.timed and one.here() == ""]
    wanted = [
        (False, one)
        for one in HONEST
        if one.id in ("gpu-with_triton", "gpu-graph_user", "gpu-two_streams", "cuda-warps")
    ] + wanted
    rows = []
    for cheats, one in wanted:
        if time.monotonic() > until - 12:
            rows.append({"id": one.id, "left_out": True})
        elif not one.here():
            rows.append(
                judged(
                    cheats, one, Options(seconds=0.5, caches=("cold",), generations=1, libraries=os.environ[LIBRARIES])
                )
            )
    return rows


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


def itself(until: float) -> list[dict[str, Any]]:
    """The same library twice."""
    plan = _plan(budget_s=0.5, rounds=24, fewest=8)
    rows: list[dict[str, Any]] = []
    sizes = [(20_000, 1 << 16), (2000, 1 << 16), (500, 1 << 18)]
    while len(rows) < 100 and time.monotonic() < until - 100:
        i = len(rows) // 4
        turns, n = sizes[i % 3]
        task = _chain(turns, n)
        rows += _pair(task, task, plan, "cold" if i % 2 else "hot", graph=i % 4 < 2, times=4)
    return rows


def planted(until: float) -> list[dict[str, Any]]:
    """Three percent more turns of a chain that takes about 100 us; the longer one is the baseline."""
    plan = _plan(budget_s=0.8, rounds=30, fewest=10)
    rows: list[dict[str, Any]] = []
    for i in range(10):
        if time.monotonic() < until - 140:
            rows += _pair(_chain(20_000, 1 << 16), _chain(20_600, 1 << 16), plan, "hot", graph=i % 2 == 0)
    return rows


def nvbench(until: float) -> dict[str, Any]:
    """Kernels from 2 us to 10 ms by nvbench, cold and hot, and by our clock."""
    here = machine.gpu()
    kinds: list[tuple[str, Task]] = []
    for turns in (50, 500, 2000, 10_000, 50_000, 200_000, 1_000_000):
        kinds.append((f"chain {turns}", _chain(turns, 1 << 16)))
    for power in (16, 18, 20, 22, 24):
        kinds.append(
            (
                f"copy 2^{power}",
                Task(
                    source("rms_rows.cu", HERE),
                    source("rms_rows.cu", HERE),
                    inputs=params("x[n]"),
                    outputs=params("y[n]"),
                    cases=({"n": 1 << power},),
                    framework="raw",
                    device="cuda",
                    launch=COPY,
                ),
            )
        )
    folder = Path(os.environ[LIBRARIES])
    arch = here.arch if here else ""

    def built(row: tuple[str, Task]) -> str:
        return str(library(row[1], row[1].candidate, "float32", folder, arch, row[1].keywords))

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(built, kinds))
    jobs = [[name, path, task.cases[0]["n"]] for (name, task), path in zip(kinds, paths, strict=True)]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    out = folder / "nvbench.json"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bench_nvbench.py")), str(folder / "jobs.json"), str(out)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    theirs = json.loads(out.read_text()) if out.is_file() else {"error": (done.stdout + done.stderr)[-1500:]}
    plan = Plan(budget_s=0.3, batch_s=0.01, rounds=9, fewest=5, checks=1, generations=1, most_bytes=8 << 30,
                cache_bytes=here.cache_bytes if here else 1 << 20)  # fmt: skip
    rows = []
    for name, task in kinds:
        row: dict[str, Any] = {"name": name}
        if time.monotonic() < until - 120:
            place = machine.where(task, task.candidate, folder)
            first, third = (
                Seat(task, task.candidate, place, "candidate"),
                Seat(task, task.candidate, place, "candidate"),
            )
            try:
                for cache, graph in (("hot", True), ("cold", True), ("hot", False), ("cold", False)):
                    clock = Clock(task, first, None, Referee(task, None, third), plan, Watcher("cpu"), generator())
                    found = clock.time(task.cases[0], "float32", cache, graph=graph)  # type: ignore[arg-type]
                    t = found.timing
                    row[f"{cache}{' graph' if graph else ''}"] = [
                        t.candidate_us,
                        t.noise_pct,
                        t.calls,
                        t.mode,
                        found.wrong,
                        found.notes,
                    ]
            except Exception as error:
                row["error"] = repr(error)[:300]
            finally:
                first.close()
                third.close()
        rows.append(row)
    return {"nvbench": theirs, "kscope": rows}


if __name__ == "__main__":
    main()
