"""tools/field: the split holds to its rule, labels and measurements name what exists, logs of ncu are read, and a
stored report is judged by its label and its measured step."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.arch.estimates import constants
from kscope.arch.record import fared
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from kscope.rules.registry import all_rules, page, rule
from tests.support.reports import FIXTURES

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools" / "field"))

import capture
import changes
import judge
import launches
import program
import record
import split
import spread

FIELD = Path(split.__file__).parent
LATER = split.HALVES[2:]  # what was labelled after the first two halves
LIBRARIES = [half for half in LATER if half.startswith("library")]
LOG = """==PROF== Connected to process 1 (main)
"ID","Process ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum"
"","","","","","us"
"0","1","void fill<float>(T1 *, int)","(256, 1, 1)","(4, 1, 1)","3.5"
"1","1","ns::step<4>(ns::A<int>, float *)","(64, 1, 1)","(8, 1, 1)","2.0"
"2","1","ns::step<4>(ns::A<int>, float *)","(64, 1, 1)","(8, 1, 1)","2.4"
"3","1","ns::step<8>(ns::A<int>, float *)","(64, 1, 1)","(8, 1, 1)","9.0"
"4","1","ns::step<4>(ns::A<int>, float *)","(64, 1, 1)","(8, 1, 1)","1,002.0"
"""


def read(name: str) -> dict[str, dict[str, object]]:
    return tomllib.loads((FIELD / "labels" / name).read_text(encoding="utf-8"))


def test_the_split_follows_the_names_alone() -> None:
    sides = tomllib.loads((FIELD / "split.toml").read_text(encoding="utf-8"))
    assert set(sides) == {"learn", "judged", "later"}
    for side, names in sides.items():
        assert side == "later" or [split.half(n) for n in names] == [side] * len(names)
        assert names == sorted(set(names), key=split.order)
        assert not set(names) & {*split.UNFIT, *split.NEEDS_FILES}
    assert not set(sides["later"]) & {*sides["learn"], *sides["judged"], *split.LATER_UNFIT}


def test_labels_and_measurements_name_what_exists() -> None:
    sides = tomllib.loads((FIELD / "split.toml").read_text(encoding="utf-8"))
    slugs = {rule.slug for rule in all_rules()}
    of, measured = {half: read(f"{half}.toml") for half in ("learn", "judged", *LATER)}, read("measured.toml")
    assert all(set(of[side]) <= set(sides[side]) for side in ("learn", "judged"))
    suites = [*split.others(), *sorted(split.books(), key=split.order), *sorted(split.REST, key=split.order)]
    taken = [name for half in LIBRARIES for name in tomllib.loads((FIELD / f"{half}.toml").read_text(encoding="utf-8"))]
    both, seen = [*sides["judged"], *sides["learn"], *sides["later"], *suites, *taken], {*of["learn"], *of["judged"]}
    for half in LATER:
        names = list(of[half])
        side = sides["judged"] if half == "judged2" else both
        assert names == [n for n in side if n in names], "further programs of that side, in its order"
        assert not seen & set(names)
        seen |= set(names)
    labels = {name: label for rows in of.values() for name, label in rows.items()}
    assert set(measured) <= set(labels)
    for label in [*labels.values(), *(other for x in labels.values() for other in x.get("instead", {}).values())]:
        assert label["next"] and set(label["accept"]) <= slugs
    assert all(label["kernel"] for label in labels.values())
    told = read("told.toml")
    assert set(told) <= set(labels)
    assert all(set(row["causes"]) <= slugs and row["ratio"] > 0 for row in told.values())
    steps = read("steps.toml")
    assert set(steps) <= {name for half in LATER[2:] for name in of[half]}
    for row in [*measured.values(), *(step for rows in steps.values() for step in rows.values())]:
        assert set(row["causes"]) <= slugs
        gain = row["before_us"] / row["after_us"]
        assert gain == pytest.approx(row.get("ratio", row.get("at_least")), abs=0.001 * max(1.0, gain))


@pytest.mark.parametrize("half", LIBRARIES)
def test_kernels_of_libraries_have_a_harness_of_our_own(half: str) -> None:
    """It takes the kernel from the checkout when it is built: no code of a library is here."""
    plans = tomllib.loads((FIELD / "programs.toml").read_text(encoding="utf-8"))
    known = tomllib.loads((FIELD / f"{half}.toml").read_text(encoding="utf-8"))
    labels = read(f"{half}.toml")
    assert set(labels) <= set(known)
    assert set(labels) <= set(plans)
    for name in labels:
        files = program.harnesses()[name.partition("/")[2]]
        assert "int main(" in files["main.cu"] and plans[name]["run"], name
        folder = known[name].get("folder", known[name]["repository"].rpartition("/")[2])
        assert f"{{checkout}}/{folder}" in plans[name]["build"], name
        assert known[name]["kernel"] == labels[name]["kernel"], name
        assert known[name]["file"].rpartition("/")[2] not in {f.rpartition("/")[2] for f in files}
        made = re.compile(rf"__global__[^;{{]*\b{labels[name]['kernel']}\s*\([^;{{]*\)\s*{{")
        assert not made.search("".join(files.values())), name


def test_a_harness_is_built_with_what_it_takes_from_a_checkout(tmp_path: Path) -> None:
    """A checkout whose kernel is another one of that name: the program of ours takes it, and a step's instead of it."""
    suite = {"folder": "harness/{name}", "harness": True, "build": "cat {checkout}/k.cu main.cu > all.cu"}
    plan: dict[str, object] = {"suite": {"library": suite}}
    name = next(iter(program.harnesses()))
    (tmp_path / "k.cu").write_text("// taken\n", encoding="utf-8")
    plan[f"library/{name}"] = {"run": "true"}
    one = program.Program(f"library/{name}", {"library": tmp_path}, plan, "sm_90", tmp_path / "work", None)
    one.copy()
    assert one.build(), one.row
    text = (one.folder / "all.cu").read_text(encoding="utf-8")
    assert text.startswith("// taken") and program.harnesses()[name]["main.cu"] in text
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "main.cu").write_text("// of the step\n", encoding="utf-8")
    one.copy(tmp_path / "step")
    assert (one.folder / "main.cu").read_text(encoding="utf-8") == "// of the step\n"


def test_labels_of_published_reports_name_what_exists() -> None:
    known = tomllib.loads((FIELD / "strangers.toml").read_text(encoding="utf-8"))
    labels, steps = read("strangers.toml"), read("strangers_steps.toml")
    slugs = {rule.slug for rule in all_rules()}
    assert set(steps) <= set(labels) <= set(known)
    reports = [row["report"] for row in judge.published()]
    assert all(r.count("/") == 1 and r.endswith(".ncu-rep") and " " not in r for r in reports)
    for name, label in labels.items():
        assert label["kernel"] == known[name]["kernel"] and label["next"] and set(label["accept"]) <= slugs
    for row in (step for rows in steps.values() for step in rows.values()):
        assert set(row["causes"]) <= slugs
        assert row["before_us"] / row["after_us"] == pytest.approx(row["ratio"], rel=0.001)


def test_published_reports_are_judged_by_their_launch(
    tmp_path: Path, report: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One report of several kernels: the label speaks of one of them; of the others' labels there is no report."""
    name, label = next(iter(read("strangers.toml").items()))
    place = tmp_path / "owner+name"
    place.mkdir()
    (place / "many@1234567.ncu-rep").write_bytes(report("multi_kernels").read_bytes())
    names = [kernel.name for kernel in read_kernels(report("multi_kernels"))]
    launch = len(names) - 1
    row = {"program": name, "report": "owner+name/many@1234567.ncu-rep", "function": label["kernel"], "launch": launch}
    monkeypatch.setattr(judge, "published", lambda: [row])
    seen = list[str]()
    analyzed = judge.analyze_kernel
    monkeypatch.setattr(judge, "analyze_kernel", lambda k, path: (seen.append(k.name), analyzed(k, path))[1])
    rows, missing = judge.load(tmp_path, "strangers")
    assert [r.program for r in rows] == [name] and seen == [names[launch]]
    assert len(missing) == len(read("strangers.toml")) - 1


def test_the_hot_kernel_is_the_shape_that_takes_most(tmp_path: Path) -> None:
    log = tmp_path / "scan.csv"
    log.write_text(LOG, encoding="utf-8")
    found = launches.hot(launches.read_launches(log))
    assert (found["function"], found["name"]) == ("step", "ns::step<4>(ns::A<int>, float *)")
    assert (found["launches"], found["us"]) == (3, 2.4)
    assert found["skip"] == 1, "launches of that function before the middle one, other shapes counted"
    assert launches.read_launches(tmp_path / "none.csv") == []


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("void ns::k<float, 4>(int *)", "k"),
        ("k(const A<B<int>> *)", "k"),
        ("void (anonymous namespace)::work<(Kind)2>(int)", "work"),
        ("plain", "plain"),
    ],
)
def test_function_of_a_kernel(name: str, function: str) -> None:
    assert launches.function_of(name) == function


@pytest.mark.parametrize(
    ("status", "said", "check"),
    [
        (0, "PASS 0 of 4320000 wrong, 1875 places", "passed"),
        (0, "12 of 4320000 wrong", "failed"),
        (0, "PASS\n", "passed"),
        (0, "FAIL\n", "failed"),
        (3, "", "failed"),
        (124, "", "ran too long"),
        (0, "1.2 ms", "says nothing"),
    ],
)
def test_what_a_checker_said(status: int, said: str, check: str) -> None:
    assert launches.outcome(subprocess.CompletedProcess("x", status, said, ""))["check"] == check


@pytest.mark.parametrize(
    ("now", "verdict"), [("sum 4.5\ntime 3 ms", "as before"), ("sum 4.6\ntime 2 ms", "prints otherwise")]
)
def test_what_a_program_without_a_check_prints_is_compared(tmp_path: Path, now: str, verdict: str) -> None:
    plans = {"suite": {"hecbench": {"folder": "{name}", "build": "true"}}}

    def ran(said: str) -> program.Program:
        one = program.Program("one", {"hecbench": tmp_path}, plans, "sm_90", tmp_path / "work", None)
        one.folder.mkdir(parents=True, exist_ok=True)
        one.run_command = f"printf '{said}'"
        one.check(5)
        return one

    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "variant.json").write_text('{"change": "nothing"}', encoding="utf-8")
    assert program.Changed(ran("sum 4.5\ntime 2 ms"), ran(now), tmp_path).verdict() == verdict


def test_a_program_is_built_beside_its_neighbours_and_leaves_the_checkout_alone(tmp_path: Path) -> None:
    source = tmp_path / "suite" / "src" / "one-cuda"
    source.mkdir(parents=True)
    (source.parent / "two-cuda").mkdir()
    (source.parent / "two-cuda" / "shared.h").write_text("4", encoding="utf-8")
    (source / "Makefile").write_text("main:\n\tcp ../two-cuda/shared.h main\nrun: main\n\t./main 7\n", encoding="utf-8")
    plans = {"suite": {"hecbench": {"folder": "src/{name}-cuda", "build": "make -s ARCH={arch}"}}}
    one = capture.Program("one", {"hecbench": tmp_path / "suite"}, plans, "sm_90", tmp_path / "work", None)
    assert capture.prepare(one), one.row
    assert one.row["command"] == "./main 7"
    assert (one.folder / "main").read_text(encoding="utf-8") == "4"
    assert [f.name for f in source.iterdir()] == ["Makefile"]


def test_a_program_that_was_built_once_is_not_built_again(tmp_path: Path) -> None:
    """Built where a compiler is, run where a GPU is: without the checkout, without its sources."""
    source = tmp_path / "suite" / "src" / "one-cuda"
    source.mkdir(parents=True)
    (source / "main.cu").write_text("4", encoding="utf-8")
    plans = {"suite": {"hecbench": {"folder": "src/{name}-cuda", "build": "cp main.cu main"}}, "one": {"run": "./main"}}
    one = capture.Program("one", {"hecbench": tmp_path / "suite"}, plans, "sm_90", tmp_path / "a", tmp_path / "built")
    assert capture.prepare(one), one.row
    shutil.rmtree(source)
    again = capture.Program("one", {"hecbench": tmp_path / "suite"}, plans, "sm_90", tmp_path / "b", tmp_path / "built")
    assert capture.prepare(again), again.row
    assert [f.name for f in again.folder.iterdir()] == ["main"]
    lost = capture.Program("one", {"hecbench": tmp_path / "suite"}, plans, "sm_90", tmp_path / "c", None)
    assert not capture.prepare(lost) and lost.row["fault"] == "not in the checkout"


def test_sizes_that_the_source_fixes_are_edited_in_the_copy(tmp_path: Path) -> None:
    source = tmp_path / "suite" / "src" / "one-cuda"
    source.mkdir(parents=True)
    (source / "main.cu").write_text("int n = 1 << 27;", encoding="utf-8")
    plans = {
        "suite": {"hecbench": {"folder": "src/{name}-cuda", "build": "make"}},
        "one": {"edits": [["main.cu", "1 << 27", "1 << 25"]], "skip": 3},
    }
    one = capture.Program("one", {"hecbench": tmp_path / "suite"}, plans, "sm_90", tmp_path / "work", None)
    one.copy()
    assert (one.folder / "main.cu").read_text(encoding="utf-8") == "int n = 1 << 25;"
    assert (source / "main.cu").read_text(encoding="utf-8") == "int n = 1 << 27;"
    assert one.skip == 3


def test_a_later_half_is_what_its_labels_list() -> None:
    assert capture.chosen("judged2", 3, [], {"hecbench"}) == list(read("judged2.toml"))[:3]
    assert not capture.chosen("judged2", 3, [], {"rodinia"})


def test_suites_of_names() -> None:
    assert [program.suite_of(n) for n in ("adv", "rodinia/nw", "llmc/adamw")] == ["hecbench", "rodinia", "llmc"]
    assert split.others() == sorted(split.others(), key=split.order) and len(split.others()) == 34
    assert {program.suite_of(n) for n in split.books()} == {"polybench", "learn", "book", "blog", "tutorial"}
    assert len(split.books()) == 48 and all(f.endswith(".cu") for f in split.books().values() if "CUDA/" not in f)


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as capture.py leaves it with one report of ours, and labels for it."""
    with open_input(FIXTURES / "bank_conflict.slow" / "report.ncu-rep.xz") as path:
        shutil.copy(path, tmp_path / "mine.ncu-rep")
    mine = {"program": "mine", "function": "k", "report": "mine.ncu-rep"}
    rows = [mine, {"program": "lost", "fault": "no time left"}]
    (tmp_path / "manifest.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    (tmp_path / "labels").mkdir()
    label = 'kernel = "k"\naccept = ["shared-bank-conflicts"]\nnext = "pad"\n'
    (tmp_path / "labels" / "learn.toml").write_text(f"[mine]\n{label}[lost]\n{label}", encoding="utf-8")
    monkeypatch.setattr(judge, "HERE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(("ratio", "kept"), [(2.2, "1.00 (1 of 1)"), (50.0, "0.00 (0 of 1)")])
def test_a_stored_report_is_judged(stored: Path, ratio: float, kept: str) -> None:
    step = f'[mine]\ncauses = ["shared-bank-conflicts"]\nratio = {ratio}\n'
    (stored / "labels" / "measured.toml").write_text(step, encoding="utf-8")
    rows, missing = judge.load(stored, "learn")
    assert missing == ["lost: no report (no time left)"]
    assert f"| kscope | 1.00 (1 of 1) | 1.00 (1 of 1) | {kept} |" in judge.table(rows, "learn")[2]
    assert "shared-bank-conflicts" in judge.cases(rows)[2]


def test_a_promise_for_another_cause_is_not_judged(stored: Path) -> None:
    step = '[mine]\ncauses = ["tail-effect"]\nratio = 1.0\n'
    (stored / "labels" / "measured.toml").write_text(step, encoding="utf-8")
    (row,), _ = judge.load(stored, "learn")
    assert row.kept() is None


@pytest.mark.parametrize(("ratio", "said"), [(1.3, "before: none"), (0.9, "before: mine (0.90x)")])
def test_first_suggestions_that_were_built_are_counted(stored: Path, ratio: float, said: str) -> None:
    step = '[mine]\ncauses = ["shared-bank-conflicts"]\nratio = 2.2\n'
    (stored / "labels" / "measured.toml").write_text(step, encoding="utf-8")
    (stored / "labels" / "told.toml").write_text(step.replace("2.2", str(ratio)), encoding="utf-8")
    rows, _ = judge.load(stored, "learn")
    assert judge.first_steps(rows)[1] == (
        f"First suggestions built: 1; slower than {said}. As told: 1, of which {ratio >= 1.1:d} gain a tenth or more."
    )
    (stored / "labels" / "told.toml").write_text(step.replace("shared-bank-conflicts", "tail-effect"), encoding="utf-8")
    rows, _ = judge.load(stored, "learn")
    assert rows[0].built() == 2.2, "another suggestion was built: the measured step removes the cause named first"


def test_a_half_without_labels_is_not_analysed(stored: Path) -> None:
    with pytest.raises(SystemExit, match=r"no labels/judged\.toml"):
        judge.load(stored, "judged")


def test_wider_promises_hold_more_and_cost_their_width() -> None:
    """The interval score: width, and 2 / alpha times what the truth lies beyond an end, in logarithms."""
    made = msgspec.structs.replace(constants(), low=0.4, cost=0.05, rise=1.35)
    kept, missed = (spread.Held("a", 4.0, 2.0, 8.0, truth) for truth in (4.0, 10.0))
    assert spread.scored([kept], made, 0.4, 0.05, 1.35) == pytest.approx((math.log(4), 1, math.log(4)))
    beyond = math.log(10 / 8)
    assert spread.scored([missed], made, 0.4, 0.05, 1.35) == pytest.approx((math.log(4) + 20 * beyond, 0, math.log(4)))
    wider = spread.scored([kept, missed], made, 0.4, 0.05, 1.8)
    assert missed.most(made, 1.8) == pytest.approx(8 * 1.8 / 1.35) and wider[1] == 1
    small = spread.Held("a", 1.2, 1.0, 1.4, 1.1)
    assert small.most(made, 1.8) == pytest.approx(1.4), "a small promise is bounded by itself"
    assert kept.least(made, 0.4, 0.05) == pytest.approx(2.0)
    assert 1 < kept.least(made, 0.2, 0.05) < kept.least(made, 0.3, 0.05) < 2.0 > kept.least(made, 0.4, 0.1)
    assert small.least(made, 0.0, 0.05) < 1, "what a rewrite costs where nothing comes of it"


def test_the_record_of_promises_is_what_was_built() -> None:
    told = read("told.toml")
    assert record.FILE.read_text(encoding="utf-8") == record.page(told)
    counted = {name: row for name, row in told.items() if "promised" in row}
    assert {name.split("/")[0] for name in counted} >= {"library9", "library10"}
    assert sum(row["built"] for row in record.count(told)) == len(counted)
    assert record.count({"a": {"promised": 1.4, "ratio": 1.2, "earlier": 0.9}, "b": {"ratio": 0.5}})[1] == {
        "least": 1.3, "below": 1.6, "built": 1, "gained": 0, "slower": 1,
    }  # fmt: skip
    rules = record.of_rules(told)
    assert sum(row[0] for row in rules.values()) == len(told) and set(rules) <= {r.slug for r in all_rules()}
    for slug, row in rules.items():
        known = fared(slug)
        assert known is not None and [known.built, known.gained, known.slower] == row
        assert f"{row[0]} built, {row[1]} gained" in " ".join(page(rule(slug)).split())
    assert fared("debug-build") is None and "How it fared" not in page(rule("debug-build"))


def test_the_page_of_changes_is_what_was_timed() -> None:
    read = tomllib.loads((FIELD / "labels" / "changes.toml").read_text("utf-8"))
    assert (FIELD.parents[1] / "reports" / "public_changes.md").read_text("utf-8") == changes.page(read)
    assert read["printed_first"] < read["printed"] < read["kernels"]
    lists = ("library13", "library14", "library15", "library16", "library17")
    assert all(r["program"].split("/")[0] in lists for r in read["changes"])
    assert {r["rule"] for r in read["changes"]} <= {one.code for one in all_rules()}
