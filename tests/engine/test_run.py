"""Inputs to one Analysis: files, folders, bad ones among them, filters, and rules that fail."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kscope
from kscope.engine.inputs.readers import started
from kscope.engine.kernels import kernel as engine_kernel
from kscope.engine.run import analyze_paths
from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.errors import KscopeError
from kscope.parsers.ncu.worker import Reader
from kscope.rules import registry
from kscope.rules.base import PASSED, CounterRule, Outcome, Rule
from tests.support import reports

CASES = ("launch_bound.tiny", "uncoalesced.slow", "bank_conflict.fast", "bank_conflict.slow")


@pytest.fixture
def folder(report: Callable[[str], Path], tmp_path: Path) -> Path:
    """A folder with three reports, one of them below, and a file that is none."""
    out = tmp_path / "captures"
    (out / "below").mkdir(parents=True)
    shutil.copy(report("launch_bound.tiny"), out / "a.ncu-rep")
    (out / "b.ncu-rep.xz").write_bytes(lzma.compress(reports.plain("uncoalesced.slow"), preset=0))
    shutil.copy(report("bank_conflict.fast"), out / "below" / "c.ncu-rep")
    (out / "README.txt").write_text("notes")
    return out


def test_folder(folder: Path) -> None:
    a = analyze_paths([folder])
    assert [Path(i.path).name for i in a.inputs] == ["a.ncu-rep", "b.ncu-rep.xz", "c.ncu-rep"]
    assert {(i.kind, i.tool_version) for i in a.inputs} == {("ncu", "2025.3.1.0")}
    assert a.skipped == [] and a.kscope == kscope.__version__ and a.schema == "kscope.analysis/1"
    times = [k.duration_us or 0 for k in a.kernels]
    assert len(times) == 3 and times == sorted(times, reverse=True), "longest first"
    assert {k.input for k in a.kernels} == {i.path for i in a.inputs}
    assert len({k.id for k in a.kernels}) == 3


def test_same_answer_from_a_folder_and_alone(folder: Path, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    k = next(k for k in analyze_paths([folder]).kernels if k.name == "rowsum_thread_per_row")
    alone = diagnosis("uncoalesced.slow")
    assert (k.verdict, k.findings, k.passed, k.stalls) == (alone.verdict, alone.findings, alone.passed, alone.stalls)


def test_public_function(report: Callable[[str], Path]) -> None:
    a = kscope.analyze(report("launch_bound.tiny"), str(report("bank_conflict.fast")))
    assert [k.name for k in a.kernels] == ["transpose_tile", "tiny"]


def test_bad_inputs_are_skipped(folder: Path) -> None:
    cut, none = folder / "z-cut.ncu-rep", folder / "none.ncu-rep"
    cut.write_bytes((folder / "a.ncu-rep").read_bytes()[:-9])
    a = analyze_paths([cut, folder / "a.ncu-rep", none])
    assert [k.name for k in a.kernels] == ["tiny"]
    assert len(a.inputs) == 1
    assert {s.input for s in a.skipped} == {str(cut), str(none)}
    assert all(s.what == "report" and s.message for s in a.skipped)


@pytest.mark.parametrize("names", [["none.ncu-rep"], ["none.ncu-rep", "empty.ncu-rep"]])
def test_only_bad_inputs(names: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty.ncu-rep").write_bytes(b"")
    with pytest.raises(KscopeError) as e:
        analyze_paths([tmp_path / name for name in names])
    assert e.value.status == 3 and "none.ncu-rep" in e.value.message


def test_no_input() -> None:
    with pytest.raises(KscopeError) as e:
        analyze_paths([])
    assert e.value.status == 2


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("tiny", ["tiny"]),
        ("^tiny$", ["tiny"]),  # the bare name
        (r"^tiny\(float \*\)$", ["tiny"]),  # the name with its arguments
        (r"rowsum_\w+_row|tiny", ["rowsum_thread_per_row", "tiny"]),
        ("TINY", None),
        ("(?i)TINY", ["tiny"]),
        (r"transpose_tile<\(int\)1>", ["transpose_tile"]),  # the fixed version's template argument
        ("", ["rowsum_thread_per_row", "transpose_tile", "tiny"]),
    ],
)
def test_kernel_filter(pattern: str, names: list[str] | None, folder: Path) -> None:
    """A regular expression that is searched in the name with its arguments, and in the bare name."""
    if names is None:
        with pytest.raises(KscopeError):
            analyze_paths([folder], kernel=pattern)
    else:
        assert [k.name for k in analyze_paths([folder], kernel=pattern).kernels] == names


def test_kernel_filter_without_a_match(folder: Path) -> None:
    with pytest.raises(KscopeError, match="no kernel matches 'nothing'") as e:
        analyze_paths([folder], kernel="nothing")
    assert e.value.status == 2 and e.value.code == "no-match"


@pytest.mark.parametrize("top", [1, 2, 3, 99])
def test_top(top: int, folder: Path) -> None:
    names = ["rowsum_thread_per_row", "transpose_tile", "tiny"]
    assert [k.name for k in analyze_paths([folder], top=top).kernels] == names[:top]


def said(path: Path, **options: list[str]) -> set[str]:
    """Codes of all rules that said anything."""
    (k,) = analyze_paths([path], **options).kernels  # type: ignore[arg-type]
    return (
        {f.code for f in k.findings} | set(k.passed) | {n.code for n in k.not_applicable} | {e.code for e in k.errors}
    )


def test_select_and_ignore(report: Callable[[str], Path]) -> None:
    path = report("bank_conflict.slow")
    every = {r.code for r in registry.all_rules() if issubclass(r, Rule)}
    memory = {c for c in every if c.startswith("MEM")}
    assert said(path) == every
    assert said(path, select=["MEM103"]) == said(path, select=["shared-bank-conflicts"]) == {"MEM103"}
    assert said(path, select=["mem"]) == memory
    assert said(path, select=["MEM10", "LAT302"]) == {c for c in every if c.startswith("MEM10")} | {"LAT302"}
    assert said(path, ignore=["MEM"]) == every - memory
    assert said(path, select=["MEM"], ignore=["MEM103"]) == memory - {"MEM103"}
    assert said(path, select=["MEM103"], ignore=["MEM"]) == set()
    for option in ("select", "ignore"):
        with pytest.raises(KscopeError) as e:
            said(path, **{option: ["MEM999"]})
        assert e.value.status == 2 and "MEM999" in e.value.message


def test_selection_does_not_change_the_verdict(report: Callable[[str], Path]) -> None:
    path = report("bank_conflict.slow")
    (every,), (none,) = (analyze_paths([path], **o).kernels for o in ({}, {"select": ["GRD404"]}))  # type: ignore[arg-type]
    assert every.verdict.regime == none.verdict.regime and every.verdict.limiter == none.verdict.limiter
    assert every.stalls == none.stalls


class Broken(CounterRule):
    code, slug, title, regime = "MEM199", "broken-rule", "Broken", "memory"

    def check(self, facts: Facts) -> Outcome:
        raise ZeroDivisionError("on\npurpose\x1b[31m")


class Content(CounterRule):
    code, slug, title, regime = "MEM198", "content-rule", "Content", "memory"

    def check(self, facts: Facts) -> Outcome:
        return PASSED


def test_broken_rule_costs_only_itself(report: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = report("bank_conflict.slow")
    (before,) = analyze_paths([path]).kernels
    more = (*registry.all_rules(), Broken, Content)
    for module in (registry, engine_kernel):
        monkeypatch.setattr(module, "all_rules", lambda: more)
    (k,) = analyze_paths([path]).kernels
    assert [e.code for e in k.errors] == ["MEM199"]
    assert "ZeroDivisionError" in k.errors[0].message and k.errors[0].message.isprintable()
    assert k.findings == before.findings and k.passed == [*before.passed, "MEM198"]


def test_progress(report: Callable[[str], Path], tmp_path: Path) -> None:
    """Called after each kernel: of one report with how many it holds, of several with how many are read. A filter does
    not hide the work."""
    joined = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(case) for case in CASES[:3]], joined)
    calls: list[tuple[str, int, int | None]] = []
    other = report("bank_conflict.slow")
    analyze_paths([joined, other], kernel="tiny", progress=lambda *call: calls.append(call))
    assert calls == [(str(joined), 0, 2)] * 3 + [(str(other), 1, 2)]
    calls.clear()
    analyze_paths([joined], kernel="tiny", progress=lambda *call: calls.append(call))
    assert calls == [(str(joined), i, 3) for i in (1, 2, 3)]


def test_a_fault_of_closing_does_not_ask_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops early closes the readers: what fails then is no reader of another input."""
    readers = started([(reports.fixture("bank_conflict.slow"), "ncu")], charts=False)
    _, reader = next(readers)
    close = reader.close

    def failing(self: Reader) -> None:
        close()
        raise OSError("gone")

    monkeypatch.setattr(Reader, "close", failing)
    readers.close()
