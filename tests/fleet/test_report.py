"""What a fleet's report says, and how it is drawn."""

from __future__ import annotations

import base64
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kscope.fleet import page, text
from kscope.fleet.change_points import changes, student
from kscope.fleet.movements import renamed
from kscope.fleet.schema import TABLES
from kscope.fleet.store import Dataset
from kscope.fleet.summary import report
from kscope.fleet.view import FleetReport
from kscope.reports.jsonv1 import encode
from tests.cli import running
from tests.fleet.test_ingest import put

DAY = datetime(2026, 6, 1)


def kernel(n: int, day: int, us: float, **fields: Any) -> dict[str, Any]:
    """A row of the table."""
    row = dict.fromkeys(c.name for c in TABLES["kernels"])
    return {
        **row, "input": f"{n:020}{day:020}", "recorded_at": DAY + timedelta(days=day), "kernel": "0.0", "name": f"k{n}",
        "demangled": f"k{n}(float*)", "code": f"{n:032x}", "chip": "NVIDIA H200", "cc": "9.0", "sms": 132,
        "grid": "264x1x1", "block": "256x1x1", "launches": 1, "duration_us": us, "total_us": us, "regime": "memory",
        "limiter": "dram_bandwidth", "confidence": 0.9, "sentence": "Memory-bound.", "gain": 1.0, **fields,
    }  # fmt: skip


def finding(n: int, day: int, code: str, speedup: float) -> dict[str, Any]:
    return {"input": f"{n:020}{day:020}", "kernel": "0.0", "code": code, "rule": f"rule-{code}", "severity": "major",
            "rank": 0, "speedup": speedup, "low": speedup - 0.2, "high": speedup + 0.2}  # fmt: skip


def dataset(folder: Path, rows: dict[str, list[dict[str, Any]]]) -> Path:
    data = Dataset.made(folder)
    (data.plans / "made").mkdir()
    (data.plans / "made" / "plan.json").write_text('{"number": 0}')
    data.write_batch("made", 0, rows)
    return folder


@pytest.fixture(scope="module")
def said(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> FleetReport:
    data = tmp_path_factory.mktemp("said") / "data"
    put([str(fleet)], data)
    return report(data)


def test_what_got_slower_and_what_came_with_it(said: FleetReport) -> None:
    (moved,) = said.slower
    assert (moved.name, moved.since[:10], moved.until[:10]) == ("matmul_tiles", "2026-06-05", "2026-06-04")
    assert (moved.commit_before, moved.commit) == ("c3", "c4") and 1.5 < moved.ratio < 1.7 and moved.lasts
    assert moved.code_before != moved.code_after and "LAT307" in moved.findings_new
    assert "other machine code" in moved.cause and "LAT307 appeared" in moved.cause
    assert said.faster == [] and said.coverage.series == 3 and said.coverage.short_series == 2


def test_time_goes_by_cause_once(said: FleetReport) -> None:
    assert sum(c.kernels for c in said.causes) == 3
    assert math.isclose(sum(c.gpu_us for c in said.causes), said.totals.gpu_us)
    for one in said.kernels:
        assert math.isclose(one.saved_us, one.gpu_us * (1 - 1 / one.gain), rel_tol=1e-9)
    assert said.totals.saved_us < said.totals.gpu_us
    assert said.totals.refused == 2 and [r.code for r in said.coverage.refusals] == ["truncated"]


def test_only_the_last_day_counts(tmp_path: Path) -> None:
    rows = [kernel(1, day, 100.0, cause="MEM101", gain=2.0) for day in range(5)]
    rows += [kernel(1, 4, 100.0, cause="MEM101", gain=2.0, kernel="0.1")]
    found = report(dataset(tmp_path / "d", {"kernels": rows}))
    assert (found.totals.gpu_us, found.totals.saved_us) == (200.0, 100.0)


def test_promises_of_what_went(tmp_path: Path) -> None:
    rows = [kernel(1, day, 100.0 if day < 5 else 50.0) for day in range(10)]
    rows += [kernel(2, day, 100.0 if day < 5 else 80.0) for day in range(10)]
    found = [finding(1, day, "MEM103", 1.9) for day in range(5)]
    found += [finding(2, day, code, 2.0 - n) for day in range(10) for n, code in enumerate(["MEM101", "LAT301"])
              if day < 5 or code == "LAT301"]  # fmt: skip
    said = report(dataset(tmp_path / "d", {"kernels": rows, "findings": found}))
    held = {d.name[:2]: (d.code, round(d.got, 2), d.held) for d in said.delivered}
    assert held == {"k1": ("MEM103", 2.0, True), "k2": ("MEM101", 1.25, False)}


def test_a_new_name_of_the_same_code_goes_on(tmp_path: Path) -> None:
    rows = [kernel(1, day, 100.0 if day < 6 else 130.0, demangled="old(int)" if day < 4 else "new(int)", code="c" * 32)
            for day in range(12)]  # fmt: skip
    said = report(dataset(tmp_path / "d", {"kernels": rows}))
    assert said.coverage.series == 1 and [m.since[:10] for m in said.slower] == ["2026-06-07"]
    assert [r.names for r in said.renamed] == [["new(int)", "old(int)"]]


def test_two_names_at_the_same_time_are_two() -> None:
    def seen(name: str, code: str, first: int, last: int) -> dict[str, Any]:
        return {"name": name, "code": code, "chip": "c", "grid": "1", "block": "1", "first": first, "last": last}

    assert renamed([seen("a", "x", 0, 9), seen("b", "x", 3, 9)]) == {}
    assert renamed([seen("a", "x", 0, 2), seen("b", "x", 3, 9)]) == {("b", "c", "1", "1"): "a"}
    chain = renamed([seen("a", "x", 0, 2), seen("b", "x", 3, 5), seen("c", "x", 6, 9)])
    assert set(chain.values()) == {"a"} and len(chain) == 2


def test_a_clock_that_fell_is_named(tmp_path: Path) -> None:
    rows = [kernel(1, day, 100.0 if day < 5 else 120.0, sm_clock_hz=1.98e9 if day < 5 else 1.65e9) for day in range(10)]
    (moved,) = report(dataset(tmp_path / "d", {"kernels": rows})).slower
    assert "the clock fell to 83 %, which explains it" in moved.cause


def test_changes_are_found_where_they_are_and_nowhere_else() -> None:
    """Steps of 12 % in noise of 1 %: each at its run. In noise alone less than one series in a hundred."""
    chance = random.Random(7)
    right = 0
    for _ in range(200):
        at, factor = chance.randrange(3, 27), chance.choice([1.12, 1.3, 0.85])
        times = [100 * math.exp(chance.gauss(0, 0.01)) * (factor if i >= at else 1) for i in range(30)]
        right += [c.at for c in changes(times)] == [at]
    assert right >= 196
    noise = sum(bool(changes([100 * math.exp(chance.gauss(0, 0.03)) for _ in range(30)])) for _ in range(500))
    assert noise <= 5
    assert changes([100.0] * 20) == [] and changes([1.0]) == [] and changes([]) == []
    assert changes([100.0, 101, 99, 250, 100, 101, 99, 100, 101]) == [], "one slow night is none"
    two = changes([100.0, 101, 99, 100, 150, 151, 149, 150, 80, 81, 79, 80])
    assert [c.at for c in two] == [4, 8] and [round(c.ratio, 2) for c in two] == [1.5, 0.53]


def test_chance_is_students() -> None:
    """t of these two samples by hand: 4.899, 4 degrees of freedom, two-sided p = 0.00805."""
    assert math.isclose(student([1.0, 2.0, 3.0], [5.0, 6.0, 7.0], 1.0, 4), 0.00805, rel_tol=1e-2)


# --- how it is drawn


def data_of(html: str) -> list[dict[str, Any]]:
    found = re.search(r'id="fleet-data">([^<]*)<', html)
    assert found is not None
    return list(json.loads(zlib.decompress(base64.b64decode(found[1]))))


def test_formats_say_the_same(said: FleetReport) -> None:
    shown = text.render(said, width=100, color=False, unicode=True)
    assert "matmul_tiles" in shown and "2 refused" in shown and "2026-06-05" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())
    assert json.loads(encode(said))["schema"] == "kscope.fleet-report/1"
    html = page.render(said)
    tables = {t["id"]: t for t in data_of(html)}
    assert len(tables["kernels"]["rows"]) == 3 and tables["moved"]["rows"][0][0].startswith("2026-06-05")


def test_hostile_names(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>\x1b[2J`'\";--"
    rows = [kernel(1, day, 100.0 if day < 5 else 200.0, demangled=evil, chip=evil, job=evil, limiter="atomics",
                   sentence=evil, next_words=evil, cause="MEM101", gain=2.0) for day in range(10)]  # fmt: skip
    refused = [{"url": evil, "what": "input", "code": "x", "message": evil, "hint": ""}]
    said = report(dataset(tmp_path / "d", {"kernels": rows, "refused": refused}))
    html = page.render(said)
    assert html.count("<script") == 2 and "alert(1)</script>" not in html
    assert "http:" not in html and "https:" not in html and " src=" not in html and " href=" not in html
    assert "\x1b" not in text.render(said, width=100, color=False, unicode=True)


def test_ten_thousand_kernels_fit(tmp_path: Path) -> None:
    chance = random.Random(3)
    names = [f"void ns{i % 97}::kernel_{chance.getrandbits(64):x}<(int){i}>(T1 const*, T1*)" for i in range(10_000)]
    rows = [
        kernel(i, 0, chance.uniform(1, 1e4), demangled=name, cause=f"MEM10{i % 10}", gain=1 + i % 7 / 5,
               sentence=f"Memory-bound on {chance.getrandbits(80):x}: {i} of 4.81 TB/s, DRAM at {i % 100} %.",
               next_words=f"go on: {1 + i % 7 / 5:.2f}x, MEM10{i % 10}")
        for i, name in enumerate(names)
    ]  # fmt: skip
    html = page.render(report(dataset(tmp_path / "d", {"kernels": rows})))
    assert len(html) < 5_000_000
    assert len(next(t for t in data_of(html) if t["id"] == "kernels")["rows"]) == 10_000


def test_an_empty_dataset(tmp_path: Path) -> None:
    Dataset.made(tmp_path / "d")
    said = report(tmp_path / "d")
    assert said.totals.kernels == 0
    assert "no profiled kernel" in text.render(said, width=80, color=False, unicode=True)
    assert "<h1>" in page.render(said)


# --- the command


def kscope(*args: str | Path) -> running.Done:
    """With the libraries that this process has, wherever they are."""
    root = str(Path(__file__).resolve().parents[2])
    return running.kscope(*args, env={"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])})


@pytest.fixture(scope="module")
def commanded(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("commanded") / "data"
    done = kscope("fleet", "ingest", fleet, "--into", data, "--label", "model=m", "--jobs", "2")
    assert done.returncode == 0 and done.stdout == f"12 ingested, 2 refused: {data}\n", done.stderr
    return data


def test_commands(fleet: Path, commanded: Path, tmp_path: Path) -> None:
    again = kscope("fleet", "ingest", fleet, "--into", commanded, "--format", "json")
    assert json.loads(again.stdout)["known"] == 14
    out = tmp_path / "fleet.html"
    assert kscope("fleet", "report", commanded, "-o", out).returncode == 0 and out.stat().st_size > 5_000
    assert kscope("fleet", "report", commanded, "-o", out).returncode == 2, "not overwritten"
    assert "What got slower" in kscope("fleet", "report", commanded).stdout
    assert json.loads(kscope("fleet", "report", commanded, "--format", "json").stdout)["totals"]["inputs"] == 12


def test_sql(commanded: Path, tmp_path: Path) -> None:
    asked = "select name, count(*) as n from kernels group by name order by name"
    shown = kscope("fleet", "sql", commanded, asked)
    assert shown.stdout.splitlines()[0].split() == ["name", "n"] and "matmul_tiles" in shown.stdout
    lines = kscope("fleet", "sql", commanded, asked, "--format", "json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert {"name": "matmul_tiles", "n": 8} in rows
    assert "matmul_tiles,8" in kscope("fleet", "sql", commanded, asked, "--format", "csv").stdout
    out = tmp_path / "rows.csv"
    assert kscope("fleet", "sql", commanded, asked, "--format", "csv", "-o", out).returncode == 0
    assert "matmul_tiles,8" in out.read_text()
    copied = f"copy kernels to '{tmp_path}/x.csv'"
    for wrong in ("select nothing from nowhere", copied, "select * from read_text('/etc/passwd')"):
        done = kscope("fleet", "sql", commanded, wrong)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("nothing", ["", " ", ";", "/* a comment */"])
def test_sql_without_a_question(commanded: Path, nothing: str) -> None:
    done = kscope("fleet", "sql", commanded, nothing)
    assert done.returncode == 2 and "no question" in done.stderr and done.stderr.count("\n") == 1


def _heeds() -> None:
    """Ctrl-C as a terminal's program has it: what runs in a shell's background is born deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_query_without_end_is_interrupted(commanded: Path) -> None:
    endless = "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t"
    process = subprocess.Popen([sys.executable, "-m", "kscope", "fleet", "sql", commanded, endless],
                               stderr=subprocess.PIPE, text=True, preexec_fn=_heeds)  # fmt: skip
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
    finally:
        process.kill()
    assert "internal error" not in errors and process.returncode in (130, -signal.SIGINT)


def test_damaged_tables_are_named(commanded: Path, tmp_path: Path) -> None:
    """Values that are no longer what the footer of a Parquet file says of them."""
    shutil.copytree(commanded, tmp_path / "data")
    for table in (tmp_path / "data" / "kernels").rglob("*.parquet"):
        data = bytearray(table.read_bytes())
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        data[4:footer] = bytes(byte ^ 0x55 for byte in data[4:footer])
        table.write_bytes(data)
    done = kscope("fleet", "report", tmp_path / "data")
    assert done.returncode == 3 and "the dataset cannot be read" in done.stderr and done.stderr.count("\n") == 1


def test_wrong_usage(tmp_path: Path) -> None:
    missing = kscope("fleet", "report", tmp_path / "nobody")
    assert missing.returncode == 3 and missing.stderr.count("\n") == 1 and "kscope fleet ingest" in missing.stderr
    assert kscope("fleet", "ingest", tmp_path, "--into", tmp_path / "d", "--label", "no").returncode == 2
    assert kscope("fleet", "ingest", tmp_path / "none", "--into", tmp_path / "d").returncode == 3
