"""What terminals, pipes, CI systems and shells are given: widths, colour, whole instructions, places of a checkout,
JUnit and annotations, completion."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis
from kscope.reports import Options, render
from tests.cli.running import CONFLICTS, FIXTURES, kscope, on_terminal
from tests.reports import sample
from tests.support import sass
from tests.support.reports import fixture

ROOT = FIXTURES.parents[1]
WORKFLOW = ROOT / "guides" / "workflows" / "kernels.yml"


def test_columns_are_obeyed_in_a_pipe() -> None:
    wide = kscope("analyze", CONFLICTS, env={"COLUMNS": "150"}).stdout.splitlines()
    assert 140 < max(map(len, wide)) <= 150
    assert max(map(len, kscope("analyze", CONFLICTS, env={"COLUMNS": "60"}).stdout.splitlines())) <= 60


def test_a_pipe_cuts_no_instruction() -> None:
    piped = kscope("analyze", CONFLICTS).stdout
    assert "LDG.E.CONSTANT R6, desc[UR6][R6.64]" in piped
    assert "…" not in piped
    assert "…" in on_terminal("analyze", CONFLICTS)


def test_names_of_kernels_survive_sixty_columns() -> None:
    report = kscope("analyze", fixture("multi_kernels"), env={"COLUMNS": "60"}).stdout
    head = report[: report.index("──")]
    for name in ("linear", "softmax_rows", "bias_relu x10", "loss_sum", "embed"):
        assert re.search(rf"^  {name}$", head, re.M)
    assert "…" not in head
    assert max(map(len, head.splitlines())) <= 60


def test_colour_where_it_is_asked_for() -> None:
    assert "\x1b[" not in kscope("analyze", CONFLICTS).stdout
    assert "\x1b[" in kscope("analyze", CONFLICTS, env={"FORCE_COLOR": "1"}).stdout
    for no in ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, {"FORCE_COLOR": "0"}):
        assert "\x1b[" not in kscope("analyze", CONFLICTS, env=no).stdout
    assert "\x1b[" not in kscope("analyze", CONFLICTS, "--no-color", env={"FORCE_COLOR": "1"}).stdout


def test_places_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    shutil.copy(ROOT / "fixtures" / "kernels" / "dev_kernels.cu", tmp_path / "src" / "dev_kernels.cu")
    root = ("--source-root", tmp_path / "src")
    done = kscope("analyze", CONFLICTS, *root, "--format", "sarif")
    places = [
        place["physicalLocation"]["artifactLocation"]["uri"]
        for result in json.loads(done.stdout)["runs"][0]["results"] for place in result["locations"]
    ]  # fmt: skip
    assert set(places) == {"dev_kernels.cu"}
    assert "file=dev_kernels.cu,line=75," in kscope("analyze", CONFLICTS, *root, "--format", "github").stdout
    away = kscope("analyze", CONFLICTS, "--source-root", tmp_path, "--format", "github").stdout
    assert "file=/" in away, "what is not below the folder keeps its name"


def test_changes_to_sources_that_the_report_does_not_hold() -> None:
    """Those of a checkout are changed, and named as they are there; the report's own come first."""
    report, sources = fixture("sums.in_shared"), ROOT / "fixtures" / "kernels" / "unseen"

    def changes(*options: str | Path) -> list[dict[str, Any]]:
        found = json.loads(kscope("analyze", report, *options, "--format", "json").stdout)["kernels"][0]["findings"]
        return [x for f in found if f["code"] == "MEM114" for x in f.get("fixes", [])]

    (change,) = changes("--source-root", sources)
    assert {e["file"] for e in change["edits"]} == {"r7.cu"} and change["kind"] == "register"
    assert changes() == []


def test_nothing_outside_of_the_checkout_is_opened(tmp_path: Path) -> None:
    from kscope.engine.sources import relocated

    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "secret.cu").write_text("secret\n" * 100)
    (root / "link.cu").symlink_to(tmp_path / "secret.cu")
    analysis = analyze_paths([CONFLICTS])
    kernel = analysis.kernels[0]
    for name in ("../secret.cu", str(tmp_path / "secret.cu"), "link.cu", "a\0b"):
        hot = [msgspec.structs.replace(h, file=name, source=None) for h in kernel.hot]
        moved = relocated(msgspec.structs.replace(analysis, kernels=[msgspec.structs.replace(kernel, hot=hot)]), root)
        assert [(h.file, h.source) for h in moved.kernels[0].hot] == [(name, None)] * len(hot)


def test_junit_counts_what_the_report_says() -> None:
    analysis = analyze_paths([CONFLICTS])
    suites = ElementTree.fromstring(render("junit", analysis))
    kernel = analysis.kernels[0]
    (suite,) = suites
    grave = [f for f in kernel.findings if f.severity in ("critical", "major")]
    assert int(suites.attrib["failures"]) == len(suite.findall("testcase/failure")) == len(grave) >= 1
    assert int(suites.attrib["tests"]) == len(kernel.findings) + len(kernel.passed) + len(kernel.not_applicable)
    failure = suite.find("testcase[@name='MEM103 shared-bank-conflicts']/failure")
    assert failure is not None and failure.text is not None
    assert "dev_kernels.cu:75  LDS R11, [R14]" in failure.text


@pytest.mark.parametrize("form", ["junit", "github"])
def test_hostile_names_stay_names(form: str) -> None:
    hostile: Analysis = sample.hostile()
    text = render(form, hostile, Options())
    if form == "junit":
        assert ElementTree.fromstring(text).tag == "testsuites"
    assert all(line.startswith(("::", "kscope: ")) for line in text.splitlines()) or form == "junit"
    name = "x\n::error title=owned::message\r::set-env name=A::b"
    kernel = msgspec.structs.replace(hostile.kernels[0], name=name, demangled=name)
    lines = render("github", msgspec.structs.replace(hostile, kernels=[kernel]), Options()).splitlines()
    assert not [line for line in lines if line.startswith("::set-env")]
    assert sum(line.startswith("::") for line in lines) == len(lines)


def test_formats_by_suffix_are_alike_everywhere(tmp_path: Path) -> None:
    cubin = sass.path("memory.cu", "sm_90a")
    trace = next((ROOT / "fixtures" / "traces_kernel").iterdir())
    for at, (command, path) in enumerate((("trace", trace), ("sass", cubin), ("analyze", CONFLICTS))):
        out = tmp_path / f"{at}.json"
        done = kscope(command, path, "-o", out)
        assert done.returncode == 0, done.stderr
        assert json.loads(out.read_text())
        assert kscope(command, path, "-o", tmp_path / "x.unknown").returncode == 2
    xml = tmp_path / "x.xml"
    assert kscope("sass", cubin, "-o", xml).returncode == 0
    assert ElementTree.parse(xml).getroot().tag == "testsuites"


def test_completion_of_rules_and_files() -> None:
    def completed(words: str) -> list[str]:
        count = len(words.split()) - (not words.endswith(" "))
        variables = {"COMP_WORDS": words, "COMP_CWORD": str(count), "_KSCOPE_COMPLETE": "bash_complete"}
        return kscope(env=variables).stdout.split()

    assert "plain,MEM103" in completed("kscope explain MEM1")
    assert "plain,shared-bank-conflicts" in completed("kscope explain shared-b")
    assert "plain,MEM103,LAT304" in completed("kscope analyze x --select MEM103,LAT30")
    assert "plain,major" in completed("kscope analyze x --fail-on maj")
    assert completed("kscope analyze rep") == ["file,rep"]


def test_the_example_workflow_calls_what_there_is() -> None:
    """Every kscope command of the workflow is one that the command line takes."""
    import importlib

    import click

    from kscope.cli.main import module_of

    found = re.findall(r"^\s*(?:- run: |run: )?kscope (\w+) (.*)$", WORKFLOW.read_text(encoding="utf-8"), re.M)
    assert {name for name, _ in found} >= {"sass", "analyze", "diff", "run"}
    for name, rest in found:
        command = getattr(importlib.import_module(module_of(name)), name)
        assert isinstance(command, click.Command)
        command.make_context(name, shlex.split(rest))
