"""`kscope analyze` on real captures."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from kscope.model.contract.analysis import Analysis, from_json, json_schema
from tests.cli.running import CONFLICTS, TRIAD, kscope, on_terminal
from tests.support import thorough
from tests.support.reports import fixture

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def conflicts() -> Analysis:
    done = kscope("analyze", "--format", "json", CONFLICTS)
    assert (done.returncode, done.stderr) == (0, "")
    jsonschema.validate(json.loads(done.stdout), json_schema())
    return from_json(done.stdout)


def test_text_leads_with_the_verdict_and_the_first_finding(conflicts: Analysis) -> None:
    done = kscope("analyze", CONFLICTS)
    assert (done.returncode, done.stderr) == (0, "")
    kernel = conflicts.kernels[0]
    shown = " ".join(done.stdout.split())
    assert "MEMORY-BOUND on shared memory" in shown
    assert f"1 {kernel.findings[0].rule} {kernel.findings[0].code} expect " in shown
    assert "MEM103" in shown
    assert "dev_kernels.cu:75" in shown
    narrow = kscope("analyze", CONFLICTS, env={"COLUMNS": "80"})
    assert max(map(len, narrow.stdout.splitlines())) <= 80


def test_schema_needs_no_path() -> None:
    done = kscope("analyze", "--schema")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json_schema()
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_colour_only_on_a_terminal_and_the_same_words() -> None:
    piped = kscope("analyze", CONFLICTS, env={"COLUMNS": "80"}).stdout
    shown = on_terminal("analyze", CONFLICTS)
    assert "\x1b" not in piped
    assert shown.count("\x1b[") > 10
    assert SGR.sub("", shown) == piped
    assert on_terminal("analyze", CONFLICTS, env={"NO_COLOR": "1"}) == piped
    assert on_terminal("analyze", "--no-color", CONFLICTS) == piped
    assert on_terminal("analyze", CONFLICTS, env={"TERM": "dumb"}) == piped


def test_ascii_stream_gets_ascii() -> None:
    done = kscope("analyze", CONFLICTS, env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert re.search(r"#{4,}", done.stdout)


@pytest.mark.parametrize(
    ("name", "start"), [("r.json", '{"schema"'), ("r.md", "# kscope report"), ("r.txt", "transpose_tile")]
)
def test_output_file_picks_the_format_by_suffix(tmp_path: Path, name: str, start: str) -> None:
    target = tmp_path / name
    done = kscope("analyze", CONFLICTS, "-o", target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Wrote {target}\n")
    assert target.read_text("utf-8").startswith(start)


def test_format_beats_the_suffix(tmp_path: Path) -> None:
    target = tmp_path / "r.md"
    assert kscope("analyze", CONFLICTS, "-o", target, "--format", "llm", "--budget", "500").returncode == 0
    assert target.read_text("utf-8").startswith("# kscope diagnosis")
    assert len(target.read_text("utf-8")) <= 2000


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    target.write_text("precious")
    done = kscope("analyze", CONFLICTS, "-o", target)
    assert done.returncode == 2
    assert done.stderr == f"kscope: {target}: exists already; pass --force to overwrite it\n"
    assert target.read_text() == "precious"
    assert kscope("analyze", CONFLICTS, "-o", target, "--force").returncode == 0
    assert json.loads(target.read_text())["schema"] == "kscope.analysis/1"


def test_an_input_is_never_the_output(tmp_path: Path) -> None:
    report = tmp_path / "report.ncu-rep.xz"
    shutil.copy(CONFLICTS, report)
    done = kscope("analyze", report, "-o", report, "--force", "--format", "json")
    assert done.returncode == 2
    assert "is one of the inputs" in done.stderr
    assert report.read_bytes() == CONFLICTS.read_bytes()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--kernel", "("], "is no regular expression"),
        (["-o", "report.pdf"], "Cannot tell the format"),
        (["-o", "no/such/folder/r.json"], "its folder does not exist"),
        (["--format", "xml"], "'xml'"),
        (["--top", "0"], "--top"),
        (["--select", "shared-bank-conflict"], "shared-bank-conflicts"),
        (["--ignore", "MEM13"], "MEM103"),
        (["--fail-on", "majr"], "majr"),
        (["--budget", "5"], "--budget"),
    ],
)
def test_wrong_usage_is_status_2_and_says_why(args: list[str], said: str, tmp_path: Path) -> None:
    done = kscope("analyze", CONFLICTS, *args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("threshold", "status"),
    [
        ("MEM103", 1), ("shared-bank-conflicts", 1), ("mem", 1), ("critical", 1), ("minor", 1), ("MEM104,major", 1),
        ("MEM104", 0), ("MEM104,MEM105", 0),
    ],
)  # fmt: skip
def test_fail_on(threshold: str, status: int) -> None:
    done = kscope("analyze", CONFLICTS, "--fail-on", threshold)
    assert done.returncode == status
    assert "MEM103" in done.stdout
    lines = done.stderr.splitlines()
    assert all(line.startswith("FAIL ") for line in lines) and bool(lines) == (status == 1)
    if status:
        assert lines[0] == "FAIL MEM103 transpose_tile<0> dev_kernels.cu:75 0x0290"


def test_fail_on_severity_means_at_least() -> None:
    done = kscope("analyze", CONFLICTS, "--ignore", "MEM103", "--format", "json", "--fail-on", "critical")
    severities = [f.severity for f in from_json(done.stdout).kernels[0].findings]
    assert "critical" not in severities
    assert done.returncode == 0


def test_select_and_ignore_take_codes_slugs_prefixes_and_commas(conflicts: Analysis) -> None:
    def ran(*args: str) -> set[str]:
        kernel = from_json(kscope("analyze", CONFLICTS, "--format", "json", *args).stdout).kernels[0]
        return {f.code for f in kernel.findings} | set(kernel.passed) | {n.code for n in kernel.not_applicable}

    assert ran("--select", "shared-bank-conflicts,mem104", "--select", "MEM101") == {"MEM101", "MEM103", "MEM104"}
    assert ran("--select", "MEM", "--ignore", "MEM10") == {f"MEM{code}" for code in range(110, 119)}


def test_several_inputs_start_with_a_table_by_time() -> None:
    done = kscope("analyze", TRIAD, CONFLICTS)
    assert done.returncode == 0
    assert done.stdout.startswith("2 kernels, ")
    assert f"from{TRIAD}" in "".join(done.stdout.split())
    one = kscope("analyze", TRIAD, CONFLICTS, "--kernel", "transpose", "--format", "json")
    assert [k.name for k in from_json(one.stdout).kernels] == ["transpose_tile"]


def test_one_bad_input_beside_a_good_one_is_named_and_not_fatal(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ncu-rep"
    bad.write_bytes(lzma.decompress(CONFLICTS.read_bytes())[:5000])
    done = kscope("analyze", CONFLICTS, bad)
    assert done.returncode == 0
    assert "skipped" in done.stdout
    assert "bad.ncu-rep" in "".join(done.stdout.split())


@thorough.only
def test_progress_only_on_a_terminal_and_only_where_there_is_much() -> None:
    many = [fixture(name).parent for name in ("spill.fast", "sgemm.naive", "sgemm.tiled", "spill.slow", "atomics.fast")]
    assert on_terminal("analyze", CONFLICTS, stream="stderr") == ""
    assert "/5" in on_terminal("analyze", *many, "--jobs", "2", stream="stderr")
    bar = on_terminal("analyze", *many, "--jobs", "1", stream="stderr")
    assert "4/5" in bar, "the reports of a folder are known"
    assert "atomics.fast/report.ncu-rep" in bar, "as much of the path as fits: its end"
    assert kscope("analyze", *many).stderr == ""


def test_dash_is_standard_output() -> None:
    assert kscope("analyze", CONFLICTS, "-o", "-").stdout == kscope("analyze", CONFLICTS).stdout


@pytest.mark.parametrize("packed", [True, False])
def test_dash_reads_standard_input(packed: bool) -> None:
    data = CONFLICTS.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "kscope", "analyze", "-", "--format", "json"],
        input=data if packed else lzma.decompress(data), capture_output=True, check=True,
    )  # fmt: skip
    analysis = from_json(done.stdout)
    assert [i.path for i in analysis.inputs] == ["-"]
    assert analysis.kernels[0].verdict.limiter == "shared_memory"


def test_dash_without_input_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "kscope", "analyze", "-"], input=b"", capture_output=True, check=False)
    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1 and b"-: the file is empty" in done.stderr
