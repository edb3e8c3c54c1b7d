"""`kscope metrics`: raw metrics with units and descriptions, of kernels and of single instructions."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from kscope.parsers.ncu.kernels import read_kernels
from tests.cli.running import kscope
from tests.support import reports

REPORT = reports.fixture("bank_conflict.slow")


def test_values_are_those_of_the_report_with_units_and_descriptions() -> None:
    done = kscope("metrics", str(REPORT), r"^dram__bytes_(read|write)\.sum$", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    kernel = found["kernels"][0]
    rows = {m["name"]: m for m in kernel["metrics"]}
    assert set(rows) == {"dram__bytes_read.sum", "dram__bytes_write.sum"}
    assert rows["dram__bytes_read.sum"]["value"] == 268446208
    assert rows["dram__bytes_read.sum"]["unit"] == "byte"
    assert "bytes read from DRAM" in rows["dram__bytes_read.sum"]["description"]
    assert kernel["counted"] > 2000
    text = kscope("metrics", str(REPORT), "dram__bytes_read.sum$").stdout
    assert "268,446,208 byte" in text
    assert "bytes read from DRAM" in text


def test_every_metric_is_there(tmp_path: Path) -> None:
    done = kscope("metrics", str(REPORT), "--csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    told = {row["metric"]: row["value"] for row in rows}
    path = tmp_path / "plain.ncu-rep"
    path.write_bytes(reports.plain("bank_conflict.slow"))
    kernel = next(iter(read_kernels(str(path))))
    assert len(told) > 2000
    for name, value in kernel.metrics.items():
        if ":" not in name:
            assert float(told[name]) == value, name


def test_only_what_lies_in_the_code_is_an_instruction() -> None:
    """Values that were sampled over time have instances by time."""
    rows = csv.DictReader(io.StringIO(kscope("metrics", REPORT, "-i", "--csv").stdout))
    placed = {row["metric"]: row for row in rows if row["pc"]}
    assert len(placed) > 50 and "smsp__pcsamp_sample_count" in placed
    assert not {name for name, row in placed.items() if not row["sass"] or "TriageCompute" in name}


def test_instructions_add_up_to_the_whole() -> None:
    done = kscope("metrics", str(REPORT), "^memory_l1_wavefronts_shared$", "-i", "--format", "json")
    metric = json.loads(done.stdout)["kernels"][0]["metrics"][0]
    assert sum(one["value"] for one in metric["instructions"]) == metric["value"]
    assert {"pc": 0x290, "sass": "LDS R11, [R14]", "value": 16777216} in metric["instructions"]
    text = kscope("metrics", str(REPORT), "^memory_l1_wavefronts_shared$", "-i").stdout
    assert "16,777,216  000290  LDS R11, [R14]" in text


def test_the_suffix_names_the_format(tmp_path: Path) -> None:
    for suffix, begins in ((".csv", "kernel_id,kernel,pc"), (".json", '{"schema": "kscope.metrics/1"'), (".txt", "tr")):
        out = tmp_path / f"m{suffix}"
        assert kscope("metrics", str(REPORT), "dram__bytes_read.sum$", "-o", str(out)).returncode == 0
        assert out.read_text().startswith(begins)
    assert kscope("metrics", str(REPORT), "-o", str(tmp_path / "m.bmp")).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((str(REPORT), "no_such_metric"), 2, "none of its"),
        ((str(REPORT), "("), 2, "no regular expression"),
        ((str(REPORT), "dram", "--kernel", "other"), 2, "no kernel matches 'other'"),
        ((str(REPORT), "--csv", "--format", "json"), 2, "exclude each other"),
        (("nowhere.ncu-rep",), 3, "no such file"),
        ((str(reports.FIXTURES / "first_sight.toml"),), 3, "first_sight.toml"),
    ],
)
def test_one_clear_line_where_there_is_nothing_to_show(arguments: tuple[str, ...], status: int, words: str) -> None:
    done = kscope("metrics", *arguments)
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr
