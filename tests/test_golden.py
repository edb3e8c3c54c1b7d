"""The committed outputs of the captures are what kscope says today; `make golden` rewrites them."""

from __future__ import annotations

import difflib
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Analysis, NotApplicable, RuleError
from kscope.rules.base import PASSED, CounterRule, Outcome, Rule
from kscope.rules.registry import all_rules
from tests.support import reports

ROOT = Path(__file__).resolve().parents[1]
BYTES = 2 << 20  # of all goldens together


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden"] = module
    spec.loader.exec_module(module)
    return module


golden = load()


def show(path: Path, before: str, now: str) -> None:
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), str(path), "now", lineterm="", n=1)
    shown = "\n".join([line for line, _ in zip(lines, range(40), strict=False)])
    pytest.fail(f"{path.relative_to(ROOT)} has changed: run `make golden` and review\n{shown}", pytrace=False)


@cache
def committed() -> dict[str, dict[str, list[str]]]:
    """Case -> code -> the lines of rules/FAMILY.txt on it."""
    out: dict[str, dict[str, list[str]]] = {}
    for path in (golden.FOLDER / "rules").iterdir():
        for row in path.read_text(encoding="utf-8").splitlines():
            code, _, line = row.partition(" ")
            if line != golden.NOWHERE:
                case = (line.split()[2 if line.startswith("fires") else 1]).partition("#")[0]
                out.setdefault(case, {}).setdefault(code, []).append(line)
    return out


@cache
def kept() -> dict[str, str]:
    """Name -> text of each: those of a program's captures by case."""
    out: dict[str, str] = {}
    for path in golden.FOLDER.iterdir():
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            out |= golden.by_case(text) if path.suffix == ".json" else {path.name: text}
    return out


@pytest.mark.parametrize("case", reports.said_of())
def test_unchanged(case: str, analysis: Callable[[str], Analysis]) -> None:
    for name, now in golden.golden(case, analysis(case)).items():
        before = kept().get(name, "")
        if before != now:
            show(golden.FOLDER / name, before, now)
    rules = {code: lines for code, lines in golden.said(case, analysis(case)).items() if lines}
    assert committed().get(case, {}) == rules, "reports/h200/rules has changed: run `make golden` and review"


def test_nothing_is_left_over() -> None:
    cases = reports.every_case()
    expected = {f"{program}.json" for program in reports.programs().values()}
    expected |= {f"{case}.txt" for case in golden.LAYOUTS}
    expected |= {f"rules/{rule.code[:3]}.txt" for rule in all_rules() if issubclass(rule, Rule)}
    files = [path for path in golden.FOLDER.rglob("*") if path.is_file()]
    assert {f.relative_to(golden.FOLDER).as_posix() for f in files} == expected, "run `make golden`"
    assert {name for name in kept() if name.endswith(".json")} == {f"{case}.json" for case in cases}
    assert set(committed()) <= set(cases) and set(golden.LAYOUTS) <= set(cases)
    assert sum(f.stat().st_size for f in files) < BYTES


class Widest(CounterRule):
    """A rule that nobody needs: blocks of 1024 threads."""

    code, slug, title, regime = "MEM999", "widest-block", "Blocks have 1024 threads", "overhead"

    def check(self, facts: Facts) -> Outcome:
        if facts.kernel.launch.threads < 1024:
            return PASSED
        return self.finding(
            title=self.title, why="That is as many as there can be.", fix="fewer", evidence=[], confidence=0.5
        )


def test_a_new_rule_touches_its_own_lines_and_the_captures_where_it_fires(
    analysis: Callable[[str], Analysis], report: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = ("calibrate.block1024", "small_grid.slow", "bank_conflict.slow")

    def files(analyses: dict[str, Analysis]) -> dict[str, str]:
        contents: dict[str, str] = {}
        for case, one in analyses.items():
            contents |= golden.golden(case, one)
        return contents | golden.rule_files({case: golden.said(case, one) for case, one in analyses.items()})

    before = files({case: golden.analyze(case) for case in cases})
    more = (*all_rules(), Widest)
    monkeypatch.setattr("kscope.engine.kernels.kernel.all_rules", lambda: more)
    after = files({case: golden.analyze(case) for case in cases})
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {"rules/MEM.txt", "calibrate.block1024.json", "calibrate.block1024.txt"}
    assert after["rules/MEM.txt"] == before["rules/MEM.txt"] + "MEM999 fires      - calibrate.block1024 info\n"


def test_what_a_rule_says_is_a_line(analysis: Callable[[str], Analysis]) -> None:
    """Findings, what could not be checked, and what failed; of a report with several kernels each by its id."""
    one = analysis("bank_conflict.slow")
    (kernel,) = one.kernels
    first = kernel.findings[0]
    lines = golden.said("bank_conflict.slow", one)
    assert first.estimate is not None
    assert lines[first.code] == [f"fires  {first.estimate.speedup:.2f}x bank_conflict.slow critical"]
    assert all(lines[code] == [] for code in kernel.passed) and kernel.passed
    bare = msgspec.structs.replace(
        kernel, passed=[], findings=[], not_applicable=[NotApplicable(code="MEM101", why="no SASS")],
        errors=[RuleError(code="MEM102", message="KeyError: 1")],
    )  # fmt: skip
    two = msgspec.structs.replace(one, kernels=[bare, msgspec.structs.replace(kernel, id="0.1")])
    assert golden.said("x", two)["MEM101"] == ["n/a x#0.0 no SASS"]
    assert golden.said("x", two)["MEM102"][0] == "error x#0.0 KeyError: 1"
    assert golden.rule_files({"x": {"A1": []}}) == {"rules/A.txt": f"A1 {golden.NOWHERE}\n"}


def test_no_path_of_this_machine(analysis: Callable[[str], Analysis]) -> None:
    files = golden.golden("bank_conflict.slow", analysis("bank_conflict.slow"))
    assert not any(str(ROOT) in text for text in files.values())
    assert '"fixtures/h200/bank_conflict.slow/report.ncu-rep.xz"' in files["bank_conflict.slow.json"]


def test_json_is_still_an_analysis(analysis: Callable[[str], Analysis]) -> None:
    """Shortened, not reshaped: it reads back, and the diagnosis is the same."""
    whole = analysis("bank_conflict.slow").kernels[0]
    text = golden.golden("bank_conflict.slow", analysis("bank_conflict.slow"))["bank_conflict.slow.json"]
    value = json.loads(text)
    value["kernels"][0]["input"] = value["inputs"][0]["path"]  # said once where there is one
    (k,) = msgspec.convert(value, Analysis).kernels
    assert k.verdict.regime == whole.verdict.regime and [f.code for f in k.findings] == [f.code for f in whole.findings]
    assert len(k.hot) == golden.FIRST["hot"] and all(len(n.message) <= golden.MESSAGE + 1 for n in k.nvidia)


def test_lines_are_as_long_as_a_review_reads() -> None:
    value = {"a": [1] * 3, "b": [{"unit": "tensor pipe", "pct": 1.0}] * 3, "c": "x" * 200, "d": {}}
    text = golden.lines_of(value)
    assert json.loads(text) == value
    assert text.splitlines()[1] == ' "a": [1, 1, 1],' and max(len(t) for t in text.splitlines() if "xx" not in t) <= 120


def test_rounding() -> None:
    given = {"a": [1.23456, 123456.0, 0.000123456], "b": 7, "c": None, "d": f"{ROOT}/fixtures/x", "hot": list(range(9))}
    expected = {"a": [1.23, 123000.0, 0.000123], "b": 7, "d": "fixtures/x", "hot": [0]}
    assert golden.shortened(given) == expected


def test_cases_of_a_program_stand_in_one_file() -> None:
    """And come out of it as they went in."""
    cases = [case for case, program in reports.programs().items() if program == "r3"]
    files = {f"{case}.json": golden.lines_of({"a": ["x" * 90, {"b": "}"}], "c": case}) + "\n" for case in cases}
    both = golden.together({**files, "x.txt": "text\n"})
    assert sorted(both) == ["r3.json", "x.txt"] and len(cases) > 3
    assert golden.by_case(both["r3.json"]) == files
    assert [one["c"] for one in json.loads(both["r3.json"]).values()] == sorted(cases)


def test_the_tool_finds_drift(tmp_path: Path) -> None:
    files = {"a.json": json.dumps({"a": 1}), "a.txt": "text\n", "rules/MEM101.txt": "fires\n"}
    golden.write(tmp_path, files)
    assert golden.drift(tmp_path, files) == []
    (tmp_path / "a.txt").write_text("changed")
    (tmp_path / "gone.json").write_text("{}")
    (tmp_path / "rules" / "MEM100.txt").write_text("gone")
    assert golden.drift(tmp_path, {**files, "b.txt": "new"}) == ["a.txt", "b.txt", "gone.json", "rules/MEM100.txt"]
    golden.write(tmp_path, files)
    assert golden.drift(tmp_path, files) == [] and not (tmp_path / "gone.json").exists()
