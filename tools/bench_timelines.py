"""Large recordings, made from small ones by repetition, for tools/bench.py: speed and memory of `kscope analyze`.

A torch profiler trace against the parser of HolisticTraceAnalysis (installed into .bench/hta, for this alone); an
export of Nsight Systems against the query that computes the union of its GPU operations inside SQLite.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import traces  # noqa: E402

KINETO_BYTES, NSYS_BYTES = 400e6, 500e6
NVTX_RANGES, NVTX_BYTES, BYTES_A_RANGE = 3_000_000, 400e6, 75

HTA = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.common.trace import parse_trace_file
meta, df, symbols = parse_trace_file(sys.argv[1])[:3]
assert len(df) > 1000, len(df)
"""
"""The parser of one trace file, as HolisticTraceAnalysis's Trace calls it for each rank."""

UNION = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True)
db.execute("PRAGMA mmap_size=1073741824")
tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE name IN ('CUPTI_ACTIVITY_KIND_KERNEL', "
          "'CUPTI_ACTIVITY_KIND_MEMCPY', 'CUPTI_ACTIVITY_KIND_MEMSET')")]
ops = " UNION ALL ".join(f"SELECT start, end FROM {t}" for t in tables)
(busy,) = db.execute(f'''WITH ops AS ({ops}), seen AS (SELECT start, end, max(end) OVER
(ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM ops)
SELECT sum(CASE WHEN before IS NULL OR start >= before THEN end - start WHEN end > before THEN end - before ELSE 0 END)
FROM seen''').fetchone()
assert busy > 0
"""


def big_trace(out: Path, size: float = KINETO_BYTES) -> int:
    """A trace of about `size` bytes from repetitions of launch_bound, each behind the one before; returns its bytes."""
    trace = msgspec.json.decode(traces.plain("launch_bound"))
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "ts" in e]
    rest = [e for e in trace["traceEvents"] if not (e.get("ph") == "X" and "ts" in e)]
    begin = min(e["ts"] for e in events)
    length = max(e["ts"] + e["dur"] for e in events) - begin + 10
    most = max(e["args"].get("correlation", 0) for e in events if isinstance(e.get("args"), dict)) + 1
    head = {k: v for k, v in trace.items() if k != "traceEvents"}
    encode = msgspec.json.Encoder().encode
    with out.open("wb") as file:
        file.write(encode(head)[:-1] + b',"traceEvents":[' + b",".join(map(encode, rest)))
        copies = 0
        while file.tell() < size:
            part = []
            for e in events:
                one = {**e, "ts": round(e["ts"] + copies * length, 3)}
                args = e.get("args")
                if isinstance(args, dict):
                    one["args"] = {
                        k: v + copies * most if k in ("correlation", "External id") else v for k, v in args.items()
                    }
                part.append(encode(one))
            file.write((b",\n" if rest or copies else b"\n") + b",\n".join(part))
            copies += 1
        file.write(b"]}")
    return out.stat().st_size


def big_export(out: Path, size: float = NSYS_BYTES) -> int:
    """An export of about `size` bytes from repetitions of `launch`, likewise; returns its bytes."""
    data = traces.plain("launch")
    out.write_bytes(data)
    with contextlib.closing(sqlite3.connect(out, isolation_level=None)) as db:
        for pragma in ("journal_mode=OFF", "synchronous=OFF"):
            db.execute(f"PRAGMA {pragma}")
        runtime = "CUPTI_ACTIVITY_KIND_RUNTIME"
        low, high, most = db.execute(f"SELECT min(start), max(end), max(correlationId) FROM {runtime}").fetchone()
        tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        copies = 64
        _repeat(db, tables, 1, copies, high - low + 10_000, most + 1)
        first = out.stat().st_size
        _repeat(db, tables, copies, int(copies * size / first), high - low + 10_000, most + 1)
    return out.stat().st_size


OPERATORS = ("aten::addmm", "aten::layer_norm", "aten::gelu", "aten::add", "autograd::engine::evaluate_function: X")


def big_nvtx_export(out: Path, ranges: int = NVTX_RANGES, size: float = NVTX_BYTES) -> int:
    """An export with so many NVTX ranges as emit_nvtx makes them, each with an op id of its own in its text, around the
    calls of `launch`, repeated until it has about `size` bytes; returns its bytes."""
    data = traces.plain("launch")
    out.write_bytes(data)
    with contextlib.closing(sqlite3.connect(out, isolation_level=None)) as db:
        for pragma in ("journal_mode=OFF", "synchronous=OFF"):
            db.execute(f"PRAGMA {pragma}")
        runtime = "CUPTI_ACTIVITY_KIND_RUNTIME"
        low, high, most = db.execute(f"SELECT min(start), max(end), max(correlationId) FROM {runtime}").fetchone()
        tid = db.execute(f"SELECT globalTid FROM {runtime} LIMIT 1").fetchone()[0]
        tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        length = high - low + 10_000
        copies = max(int((size - ranges * BYTES_A_RANGE) / len(data)), 2)
        _repeat(db, [t for t in tables if t != "NVTX_EVENTS"], 1, copies, length, most + 1)
        each = max(length * copies // ranges, 4)
        db.execute("BEGIN")
        db.executemany(
            'INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid) VALUES (?, ?, 59, ?, ?)',
            ((low + i * each, low + i * each + each // 2,
              f"{OPERATORS[i % len(OPERATORS)]}, op_id = {i}", tid) for i in range(ranges)),
        )  # fmt: skip
        db.execute("COMMIT")
    return out.stat().st_size


RANKS, RANK_BYTES = 8, 100e6


def job_of_ranks(folder: Path, ranks: int = RANKS, size: float = RANK_BYTES) -> list[Path]:
    """A job of so many ranks, of about `size` bytes each, from the two of ddp_overlap: their steps repeated one behind
    the other, even ranks like the first and odd ones like the second, all in one group."""
    every = b"[" + b", ".join(b"%d" % r for r in range(ranks)) + b"]"
    files = []
    for source in range(2):
        trace = msgspec.json.decode(traces.plain(f"ranks/ddp_overlap.rank{source}"))
        events = trace.pop("traceEvents")
        begin = min(e["ts"] for e in events)
        length = max(e["ts"] + e["dur"] for e in events) - begin + 100
        most = max(e.get("args", {}).get("correlation", 0) for e in events) + 1
        for rank in range(source, ranks, 2):
            group = {**trace["distributedInfo"]["pg_config"][0], "pg_size": ranks, "ranks": list(range(ranks))}
            about = {**trace["distributedInfo"], "rank": rank, "world_size": ranks, "pg_config": [group]}
            files.append(folder / f"job.rank{rank}.json")
            if rank > source:  # the same events under another rank
                _under(files[-1], {**trace, "distributedInfo": about}, folder / f"job.rank{source}.json")
                continue
            with files[-1].open("wb") as file:
                file.write(msgspec.json.encode({**trace, "distributedInfo": about})[:-1] + b',"traceEvents":[\n')
                copies = 0
                while file.tell() < size:
                    shifted = (_later(e, copies * length, copies * most) for e in events)
                    part = b",\n".join(map(msgspec.json.encode, shifted)).replace(b"[0, 1]", every)
                    file.write((b",\n" if copies else b"") + part)
                    copies += 1
                file.write(b"\n]}")
    return sorted(files)


def _later(event: dict[str, Any], us: float, correlation: int) -> dict[str, Any]:
    one = {**event, "ts": round(event["ts"] + us, 3)}
    if "correlation" in event.get("args", {}):
        one["args"] = {**event["args"], "correlation": event["args"]["correlation"] + correlation}
    return one


def _under(path: Path, head: dict[str, Any], like: Path) -> None:
    """The events of a trace behind another head."""
    with like.open("rb") as source, path.open("wb") as target:
        source.readline()
        target.write(msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n')
        shutil.copyfileobj(source, target, 1 << 20)


def epoch_trace(plain: Path, out: Path) -> int:
    """The same trace with times since 1970 with decimals, which doubles cannot hold; returns its bytes."""
    begin = b"1795256191403656"
    pattern = re.compile(rb'"ts":(\d{1,15})(\.\d+)?')
    with plain.open("rb") as source, out.open("wb") as target:
        for line in source:
            target.write(pattern.sub(lambda m: b'"ts":%d%s' % (int(begin) + int(m[1]), m[2] or b".001"), line))
    return out.stat().st_size


def _repeat(db: sqlite3.Connection, tables: list[str], start: int, stop: int, length: int, most: int) -> None:
    """Copies start..stop of the first one's rows behind it. The first copy is known by its row ids."""
    for table in tables:
        columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        if "start" not in columns:
            continue
        if start == 1:
            db.execute(f'CREATE TEMP TABLE "first_{table}" AS SELECT * FROM "{table}"')
        shifted = {"start": f"+ n.k * {length}", "end": f"+ n.k * {length}", "correlationId": f"+ n.k * {most}"}
        chosen = ", ".join(f'"{c}" {shifted.get(c, "")}' for c in columns)
        db.execute(
            f"WITH RECURSIVE n(k) AS (SELECT {start} UNION ALL SELECT k + 1 FROM n WHERE k + 1 < {stop}) "
            f'INSERT INTO "{table}" SELECT {chosen} FROM n CROSS JOIN "first_{table}"'
        )


def hta() -> str | None:
    """A Python with HolisticTraceAnalysis, set up on first use; None where it cannot be installed."""
    folder = ROOT / ".bench" / "hta"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    have = subprocess.run([str(python), "-c", "import hta"], capture_output=True, check=False)
    if have.returncode:
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "HolisticTraceAnalysis"]
        if subprocess.run(install, check=False).returncode:
            return None
    return str(python)
