"""Inputs get into the dataset once, whoever reads them and however often it was stopped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscope.fleet import ingest as ingesting
from kscope.fleet import mapping
from kscope.fleet.base import Base
from kscope.fleet.ingest import Ingested, ingest
from kscope.fleet.one import Outcome, look
from kscope.fleet.sources import Source, find
from kscope.fleet.store import Dataset
from kscope.model.errors import KscopeError
from tests.parsers.timeline.test_nsys_parquet import folder_of
from tests.support import patches, reports, thorough, traces

GOOD, BAD = 12, 2
BATCH = 3


def put(paths: list[str], into: Path, run: Any = mapping.here, **labels: str) -> Ingested:
    return ingest(paths, into, labels, run, lambda done, total: None)


def contents(data: Path) -> dict[str, str]:
    """Every file of a dataset but its lock, by hash."""
    files = (p for p in data.rglob("*") if p.is_file() and p.name != ".lock")
    return {p.relative_to(data).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def whole(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingesting, "BATCH", BATCH)
        done = put([str(fleet)], out)
    assert (done.new, done.refused, done.known) == (GOOD, BAD, 0)
    return out


def rows(data: Path, sql: str) -> list[dict[str, Any]]:
    return Base(Dataset.opened(data)).rows(sql)


def test_tables(whole: Path) -> None:
    (first,) = rows(whole, "SELECT * FROM kernels WHERE demangled LIKE 'void tile_sum%' ORDER BY recorded_at LIMIT 1")
    kernel = reports.fixture("tile_sum.lanes")
    assert first["regime"] and first["cause"] and first["gain"] > 1 and len(first["code"]) == 32, kernel
    assert str(first["recorded_at"]) == "2026-06-01 00:00:00" and first["job"] == "nightly"
    assert first["instructions"] == 890 and first["grid"] == "396x1x1" and first["sm_clock_hz"] > 1e9
    asked = "SELECT count(DISTINCT code) AS codes, count(*) AS n FROM kernels WHERE name = 'matmul_tiles'"
    (count,) = rows(whole, asked)
    assert count == {"codes": 2, "n": 8}
    refused = rows(whole, "SELECT url, input, what, code, hint FROM refused ORDER BY url")
    assert [r["code"] for r in refused] == ["truncated", "truncated"] and all(r["hint"] and r["input"] for r in refused)
    (found,) = rows(whole, "SELECT count(*) AS n FROM findings SEMI JOIN kernels USING (input, kernel)")
    assert found["n"] > GOOD


def test_the_report_says_when_it_was_recorded(tmp_path: Path) -> None:
    case = tmp_path / "k.ncu-rep"
    case.write_bytes(reports.plain("tile_sum.lanes"))
    put([str(case)], tmp_path / "data")
    (row,) = rows(tmp_path / "data", "SELECT recorded_at, recorded_by, labels FROM inputs")
    assert row["recorded_by"] == "report" and row["recorded_at"].year == 2026 and row["labels"] == {}


def test_nothing_is_ingested_twice(fleet: Path, whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    before = contents(data)
    begin = time.monotonic()
    assert put([str(fleet)], data).known == GOOD + BAD
    assert time.monotonic() - begin < 2
    assert contents(data) == before
    copy = tmp_path / "again.ncu-rep"
    shutil.copy(next(fleet.rglob("matmul.ncu-rep")), copy)
    done = put([str(copy)], data)
    assert (done.new, done.copies) == (0, 1)
    assert put([str(copy)], data).known == 1
    named_otherwise = os.path.relpath(fleet)
    assert not os.path.isabs(named_otherwise) and put([named_otherwise], data).known == GOOD + BAD
    assert len(rows(data, "SELECT * FROM kernels")) == GOOD


@thorough.only
def test_processes_find_the_same(fleet: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "BATCH", BATCH)
    put([str(fleet)], tmp_path / "data", lambda tasks: mapping.by_processes(tasks, 2))
    assert contents(tmp_path / "data") == contents(whole)


@pytest.mark.parametrize("stop", [0, 8])
def test_goes_on_where_it_was_stopped(
    stop: int, fleet: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "BATCH", BATCH)

    def some(tasks: mapping.Numbered) -> Iterator[mapping.Result]:
        yield from mapping.here(tasks[:stop])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put([str(fleet)], tmp_path / "data", some)
    done = put([str(fleet)], tmp_path / "data")
    assert done.again == GOOD + BAD and done.known == GOOD + BAD
    assert contents(tmp_path / "data") == contents(whole)


@pytest.mark.slow
def test_killed_in_the_middle(fleet: Path, whole: Path, tmp_path: Path) -> None:
    """SIGKILL, at whatever it does then, leaves what the next run completes to the very same dataset."""
    words = "import sys, pathlib, kscope.fleet.ingest as i, kscope.fleet.mapping as m\n"
    words += f"i.BATCH = {BATCH}\ni.ingest([sys.argv[1]], pathlib.Path(sys.argv[2]), {{}}, m.here, print)"
    data = tmp_path / "data"
    command = [sys.executable, "-c", words, str(fleet), str(data)]
    for there in ("", "ingests/*/plan.json", "ingests/*/part-*.json", "kernels/*/part-00003.parquet"):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
            until = time.monotonic() + 60
            while not (any(data.glob(there)) if there else data.exists()) and time.monotonic() < until:
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
        assert run.returncode == -signal.SIGKILL, "it was not done"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert contents(data) == contents(whole)


def test_what_a_killed_run_left_is_not_read(whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    (last,) = [b for b in Dataset.opened(data).batches() if b.stem == "part-00004"]
    last.unlink()
    assert len(rows(data, "SELECT * FROM inputs")) == GOOD + BAD - 2


class Deadly:
    """look, which kills the process at one input: always, or once."""

    def __init__(self, victim: str, mark: Path | None = None) -> None:
        self.victim, self.mark = victim, mark

    def __call__(self, source: Source) -> Outcome:
        if self.victim in source.url and (self.mark is None or not self.mark.exists()):
            if self.mark is not None:
                self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return look(source)


@thorough.only
def test_a_process_that_dies_is_made_up_for(fleet: Path, tmp_path: Path) -> None:
    some = [str(fleet / "date=2026-06-01"), str(fleet / "date=2026-06-02")]
    alone, mark = tmp_path / "alone", tmp_path / "mark"
    put(some, alone)
    deadly = Deadly("c1/gather", mark)
    put(some, tmp_path / "data", lambda tasks: mapping.by_processes(tasks, 2, deadly))
    assert mark.exists() and contents(tmp_path / "data") == contents(alone)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes there")
def test_a_parent_that_is_killed_leaves_no_processes(fleet: Path, tmp_path: Path) -> None:
    words = "import sys, pathlib, kscope.fleet.ingest as i, kscope.fleet.mapping as m\n"
    words += "if __name__ == '__main__':\n    i.ingest([sys.argv[1]], pathlib.Path(sys.argv[2]), {},"
    words += " lambda tasks: m.by_processes(tasks, 2), lambda n, total: n and print(n, flush=True))"
    script = tmp_path / "run.py"
    script.write_text(words)
    command = [sys.executable, script, str(fleet), str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(patches.ROOT)}) as run:
        assert run.stdout is not None and run.stdout.readline(), "an input is done"
        children = [int(word) for word in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
        run.send_signal(signal.SIGKILL)
    assert len(children) >= 2
    until = time.monotonic() + 30
    while (left := [pid for pid in children if _runs(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_poison_is_refused(fleet: Path, tmp_path: Path) -> None:
    some = [str(fleet / "date=2026-06-01")]
    put(some, tmp_path / "data", lambda tasks: mapping.by_processes(tasks, 2, Deadly("gather")))
    (row,) = rows(tmp_path / "data", "SELECT code, url, input FROM refused")
    assert row["code"] == "crashed" and "gather" in row["url"] and len(row["input"]) == 40
    assert put(some, tmp_path / "data").known == 3, "nor does it kill the next run"


def test_archives_and_urls(fleet: Path, tmp_path: Path) -> None:
    members = sorted((fleet / "date=2026-06-01").rglob("*.ncu-rep"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.write(members[0], "date=2026-05-01/one.ncu-rep")
        packed.writestr("readme.txt", "no report")
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as packed_tar:
        packed_tar.add(members[1], "two.ncu-rep")
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/nightly/three.ncu-rep", members[2].read_bytes())
    memory.pipe("/nightly/notes.txt", b"no report")
    done = put([str(tmp_path / "a.zip"), str(tmp_path / "b.tar.gz"), "memory://nightly"], tmp_path / "data", model="m")
    assert (done.new, done.refused) == (3, 0)
    found = rows(tmp_path / "data", "SELECT url, model, recorded_at::DATE::VARCHAR AS day FROM inputs ORDER BY url")
    assert found[0]["url"].endswith("a.zip!date=2026-05-01/one.ncu-rep") and found[0]["day"] == "2026-05-01"
    assert found[1]["url"].endswith("b.tar.gz!two.ncu-rep") and found[2]["url"] == "memory:///nightly/three.ncu-rep"
    assert {row["model"] for row in found} == {"m"}
    assert put(["memory://nightly", str(tmp_path / "a.zip")], tmp_path / "data").known == 2


def test_recordings_and_binaries(tmp_path: Path) -> None:
    inputs = tmp_path / "in"
    inputs.mkdir()
    shutil.copy(patches.FIXTURES / "traces/app.json.xz", inputs / "app.json.xz")
    import lzma

    cubin = lzma.decompress((patches.FIXTURES / "cubins/tcgen05_gemm.sm_100a.cubin.xz").read_bytes())
    (inputs / "k.cubin").write_bytes(cubin)
    assert put([str(inputs)], tmp_path / "data").new == 2
    (timeline,) = rows(tmp_path / "data", "SELECT * FROM timelines")
    assert timeline["gpu_busy_pct"] > 0 and timeline["regime"]
    assert rows(tmp_path / "data", "SELECT * FROM gaps")
    programs = rows(tmp_path / "data", "SELECT * FROM programs")
    assert programs and all(len(p["code"]) == 32 and p["arch"].startswith("sm_100") for p in programs)


@pytest.mark.parametrize("named", ["in", "in/nightly/busy_pqtdir"])
def test_a_folder_of_tables_is_one_input(named: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "nightly").mkdir(parents=True)
    plain = tmp_path / "busy.sqlite"
    plain.write_bytes(traces.plain("busy"))
    folder = folder_of(plain, tmp_path / "in" / "nightly" / "busy_pqtdir")
    data, one = tmp_path / "data", [str(tmp_path / named)]
    assert put(one, data, job="b").new == 1
    (found,) = rows(data, "SELECT kind, url, bytes FROM inputs")
    assert found["kind"] == "nsys" and found["url"] == str(folder)
    assert found["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert put([str(plain)], tmp_path / "other").new == 1
    asked = "SELECT span_us, gpu_busy_pct, regime, sentence, operations FROM timelines"
    assert rows(data, asked) == rows(tmp_path / "other", asked) != []
    assert put(one, data).known == 1
    shutil.copytree(folder, tmp_path / "copy")
    assert put([str(tmp_path / "copy")], data).copies == 1, "equal tables elsewhere"
    (folder / "NVTX_EVENTS.parquet").unlink()
    assert put(one, data).new == 1, "it is another recording now"


def test_what_cannot_be_looked_at_is_listed(fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    good = next((fleet / "date=2026-06-01").rglob("*.ncu-rep"))
    put([str(good), str(tmp_path / "broken.zip"), str(tmp_path / "nobody")], tmp_path / "data")
    found = rows(tmp_path / "data", "SELECT url, code FROM refused ORDER BY code")
    assert [row["code"] for row in found] == ["corrupt", "missing-file"]
    with pytest.raises(KscopeError, match="no such file"):
        put([str(tmp_path / "nobody")], tmp_path / "other")


def test_a_pipe_is_not_waited_for(fleet: Path, tmp_path: Path) -> None:
    """Named itself, or found in a folder under the name of a binary; what lies beside it is ingested."""
    folder = tmp_path / "some"
    folder.mkdir()
    os.mkfifo(folder / "code.cubin")
    shutil.copy(next((fleet / "date=2026-06-01").rglob("*.ncu-rep")), folder)
    into = tmp_path / "d"
    command = [sys.executable, "-m", "kscope", "fleet", "ingest", folder / "code.cubin", folder, "--into", into]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == f"1 ingested, 1 that cannot be looked at: {into}\n"
    assert done.stderr.count("\n") == 1 and "code.cubin: a pipe" in done.stderr, "said, too"
    assert [row["code"] for row in rows(into, "SELECT code FROM refused")] == ["not-a-file"]


def test_a_path_with_a_typing_error_is_said(fleet: Path, whole: Path, tmp_path: Path) -> None:
    """Also where nothing else is new, and so nothing is written."""
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    done = put([str(fleet), str(tmp_path / "nihgtly")], data)
    assert done.known and done.faults == [f"{tmp_path / 'nihgtly'}: no such file or folder; check the path"]


def test_a_loop_of_links_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(KscopeError, match="Too many levels of symbolic links"):
        put([str(tmp_path / "loop")], tmp_path / "data")


def test_one_writer_at_a_time(fleet: Path, whole: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(whole, data)
    with Dataset.opened(data).locked(), pytest.raises(KscopeError, match="another ingest"):
        put([str(fleet)], data)


@pytest.mark.parametrize(
    ("made", "code"), [(None, "no-dataset"), ("{}", "corrupt"), ('{"schema": "kscope.fleet/99"}', "newer")]
)
def test_no_dataset(made: str | None, code: str, tmp_path: Path) -> None:
    if made is not None:
        (tmp_path / "dataset.json").write_text(made)
    with pytest.raises(KscopeError) as raised:
        Dataset.opened(tmp_path)
    assert raised.value.code == code


def test_a_file_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    with pytest.raises(KscopeError, match="no dataset of kscope fleet"):
        Dataset.opened(tmp_path / "report.html")


def test_a_folder_of_something_else_is_left_alone(fleet: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(KscopeError, match="not empty"):
        put([str(fleet)], tmp_path)


def test_labels_of_folders(tmp_path: Path) -> None:
    place = tmp_path / "model=llama" / "notes" / "x=1" / "k.ncu-rep"
    place.parent.mkdir(parents=True)
    place.touch()
    (source,) = find([str(tmp_path)], {"x": "2"}, [])
    assert source.labels == {"model": "llama", "x": "2"}, "what is given on the command line counts"


def test_a_date_that_is_none(fleet: Path, tmp_path: Path) -> None:
    good = next((fleet / "date=2026-06-01").rglob("*.ncu-rep"))
    put([str(good)], tmp_path / "data", date="yesterday")
    (row,) = rows(tmp_path / "data", "SELECT code, message FROM refused")
    assert row["code"] == "label" and "yesterday" in row["message"]


def test_plans_are_readable(whole: Path) -> None:
    (plan,) = whole.glob("ingests/*/plan.json")
    assert len(json.loads(plan.read_text())["items"]) == GOOD + BAD


def who(source: Source) -> int:
    return os.getpid()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("jobs", "inputs", "processes"), [(1, 4, range(2, 3)), (2, 9, range(3, 6))])
def test_processes_are_replaced_and_the_last_inputs_are_done(
    jobs: int, inputs: int, processes: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "FRESH", 2)
    tasks = [(number, Source(str(number), "", "", 0)) for number in range(inputs)]
    found = list(mapping.by_processes(tasks, jobs, who))  # type: ignore[arg-type]
    assert sorted(number for number, _ in found) == list(range(inputs))
    assert len({pid for _, pid in found}) in processes
