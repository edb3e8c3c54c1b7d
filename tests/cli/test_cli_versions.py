"""`kscope diff` of more than two versions, and `kscope log trend`, on real captures of a ladder."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from kscope.model.contract.versions import versions_schema
from kscope.worklog.trend import Trend
from tests.cli.running import CONFLICTS, kscope
from tests.support.reports import fixture

PADDED = fixture("bank_conflict.fast")
STEPS = ("naive", "coalesced", "shared", "reg1d")


@pytest.fixture(scope="module")
def ladder() -> list[Path]:
    return [fixture(f"gemm_f32.{step}") for step in STEPS]


@pytest.fixture(scope="module")
def worklog(tmp_path_factory: pytest.TempPathFactory, ladder: list[Path]) -> Path:
    """Four versions, the third set aside."""
    path = tmp_path_factory.mktemp("log") / "worklog.db"
    for step, report in zip(STEPS, ladder, strict=True):
        aside = ["--set-aside", "for the test"] if step == "shared" else []
        done = kscope("log", "--worklog", path, "add", report, "-m", f"step {step}", *aside)
        assert done.returncode == 0, done.stderr
    return path


def test_each_version_against_the_first_and_the_one_before(ladder: list[Path]) -> None:
    done = kscope("diff", *ladder, "--match", "gemm=gemm", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    jsonschema.validate(found, versions_schema())
    assert found["schema"] == "kscope.versions/1"
    (line,) = found["lines"]
    times = [s["time_us"] for s in line["standings"]]
    assert [s["version"] for s in line["standings"]] == [1, 2, 3, 4]
    for i, one in enumerate(line["standings"][1:], start=1):
        assert one["on_first"] == pytest.approx(times[0] / times[i])
        assert one["on_before"] == pytest.approx(times[i - 1] / times[i])
        assert not one["guess"]
    assert "MEM101" in line["standings"][1]["fixed"]
    assert found["versions"][3]["on_first"] == pytest.approx(times[0] / times[3])
    assert found["versions"][3]["on_before"] == pytest.approx(times[2] / times[3])


def test_text_markdown_and_page_say_the_same(ladder: list[Path], tmp_path: Path) -> None:
    paths = [*ladder[:3], "--match", "gemm=gemm"]
    text = kscope("diff", *paths).stdout
    shown = " ".join(text.split())
    assert shown.startswith("3 versions of 1 kernel; the last is 17.92x faster than the first, 1.42x faster than the")
    assert "2 21.9 ms 12.59x 12.59x memory, L1 throughput fixed MEM101" in shown
    assert max(map(len, text.splitlines())) <= 80
    assert "| 2 | 21.9 ms | 12.59x | 12.59x |" in kscope("diff", *paths, "--format", "md").stdout
    out = tmp_path / "versions.html"
    assert kscope("diff", *paths, "-o", out).returncode == 0
    page = out.read_text("utf-8")
    assert "12.59x" in page and "17.92x faster than the first" in page
    assert "<script" not in page and "default-src 'none'" in page


def test_many_kernels_get_a_table_and_newcomers_a_line_of_their_own() -> None:
    several = fixture("multi_kernels")
    done = kscope("diff", several, CONFLICTS, several, "--format", "json")
    found = json.loads(done.stdout)
    by_name = {line["name"].split("(")[0].split("<")[0].removeprefix("void "): line for line in found["lines"]}
    assert [s["version"] for s in by_name["transpose_tile"]["standings"]] in ([2], [1, 2], [2, 3])
    versions = [s["version"] for s in by_name["softmax_rows"]["standings"]]
    assert versions[0] == 1 and versions[-1] == 3, "what was gone for a version goes on under its name"
    text = kscope("diff", several, several, several).stdout
    assert "on first" in text and "1.00x" in text


def test_the_gate_judges_the_last_against_both(tmp_path: Path) -> None:
    slower = kscope("diff", PADDED, CONFLICTS, CONFLICTS, "--fail-if-slower", "5")
    assert slower.returncode == 1 and "SLOWER" in slower.stderr, "slower than the first, as fast as the one before"
    assert kscope("diff", CONFLICTS, PADDED, PADDED, "--fail-if-slower", "5").returncode == 0
    assert kscope("diff", CONFLICTS, PADDED, CONFLICTS, "--fail-if-slower", "5").returncode == 1


def test_wrong_usage_is_said(tmp_path: Path) -> None:
    assert kscope("diff", CONFLICTS).returncode == 2
    done = kscope("diff", CONFLICTS, PADDED, tmp_path / "none.ncu-rep")
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    rule = kscope("diff", CONFLICTS, PADDED, CONFLICTS, "--match", "nothing=nowhere")
    assert rule.returncode == 2 and "--match" in rule.stderr
    out = tmp_path / "x.json"
    out.write_text("mine")
    assert kscope("diff", CONFLICTS, PADDED, CONFLICTS, "-o", out).returncode == 2
    assert out.read_text() == "mine"


def test_trend_over_the_versions_that_work_went_through(worklog: Path) -> None:
    done = kscope("log", "--worklog", worklog, "trend")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "3 versions; the last is 33.97x faster than the first" in shown
    assert "275.9 ms" in shown and "8.12 ms" in shown and "step shared" not in shown
    whole = kscope("log", "--worklog", worklog, "trend", "--all").stdout
    assert "4 versions" in whole and "set aside: step shared" in whole


def test_trend_as_data(worklog: Path, tmp_path: Path) -> None:
    data = json.loads(kscope("log", "--worklog", worklog, "trend", "--format", "json").stdout)
    jsonschema.validate(data, msgspec.json.schema(Trend))
    figures = {f["name"]: f for f in data["figures"]}
    assert figures["time"]["values"] == sorted(figures["time"]["values"], reverse=True)
    assert figures["registers a thread"]["moved"] and len(figures["occupancy"]["values"]) == len(data["versions"]) == 3
    rows = list(csv.DictReader(io.StringIO(kscope("log", "--worklog", worklog, "trend", "--format", "csv").stdout)))
    assert [row["message"] for row in rows] == ["step naive", "step coalesced", "step reg1d"]
    assert float(rows[0]["time (us)"]) == pytest.approx(figures["time"]["values"][0])
    out = tmp_path / "trend.html"
    assert kscope("log", "--worklog", worklog, "trend", "-o", out).returncode == 0
    page = out.read_text("utf-8")
    assert page.count("<polyline") == sum(f["moved"] for f in data["figures"]) and "<script" not in page


def test_trend_of_nothing(tmp_path: Path) -> None:
    done = kscope("log", "--worklog", tmp_path / "none.db", "trend")
    assert done.returncode == 3 and "no worklog" in done.stderr
