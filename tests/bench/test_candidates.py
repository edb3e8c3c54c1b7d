"""Our own cheats are caught and named, our honest candidates are not accused: on this machine, with what is here. The
same candidates on a GPU: tools/bench_truth.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kscope.bench.judge.timed import Clock
from kscope.bench.session.run import bench
from kscope.bench.session.state import Options
from kscope.bench.values.cheats import catalogue
from tests.support import thorough
from tests.support.thorough import some


def _catalogue() -> ModuleType:
    path = Path(__file__).with_name("catalogue.py")
    spec = importlib.util.spec_from_file_location("bench_catalogue", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES = _catalogue()
GPU = ("cuda", "triton")


def _on_cpu(cases):
    return [pytest.param(one, id=one.id) for one in cases if one.needs not in GPU]


@pytest.mark.parametrize("case", some(_on_cpu(CASES.CHEATS), 9))
def test_a_cheat_is_caught_and_named(case) -> None:
    if why := case.here():
        pytest.skip(why)
    result = bench(case.task(), Options(seconds=0.3, time=case.timed, caches=("cold",), generations=1))
    found = {one.cheat for one in result.findings}
    assert result.verdict in case.verdicts, result.sentence
    assert not case.names or found & set(case.names), (found, result.sentence)


@pytest.mark.parametrize("case", some(_on_cpu(CASES.HONEST), 5))
def test_an_honest_candidate_is_not_accused(case) -> None:
    if why := case.here():
        pytest.skip(why)
    result = bench(case.task(), Options(time=False))
    assert result.verdict == "correct", result.sentence
    assert [one for one in result.findings if one.standing == "caught"] == []


@thorough.only
def test_honest_candidates_pass_the_clock_unaccused() -> None:
    """Outputs of timed calls, late outputs, lazy ones: none is seen where there is none, on a busy machine too."""
    for name in ("numpy-plain", "numpy-threads", "numpy-tuner", "numpy-slower"):
        case = next(one for one in CASES.HONEST if one.id == name)
        result = bench(case.task(), Options(seconds=0.3, caches=("cold",), generations=2))
        assert [one for one in result.findings if one.standing == "caught"] == [], name
        assert result.verdict in ("faster", "slower", "inconclusive"), result.sentence
        assert result.timings and all(one.candidate_us > 0 for one in result.timings)


def test_the_last_timed_round_is_looked_at(monkeypatch) -> None:
    """A cheat that begins in the middle of the rounds (on a slow machine, after so many calls) is still caught."""
    looks: list[bool] = []
    whole = Clock._both
    monkeypatch.setattr(Clock, "_both", lambda self, *args: (looks.append(args[-1] is not None), whole(self, *args))[1])
    case = next(one for one in CASES.HONEST if one.id == "numpy-plain")
    result = bench(case.task(), Options(seconds=0.1, caches=("hot",), generations=1))
    assert result.timings
    assert looks[-1] and looks[0] and not all(looks)


def test_every_cheat_of_the_catalogue_has_a_candidate_or_a_reason() -> None:
    named = {number for one in [*CASES.CHEATS, *CASES.SEEN] for number in one.names}
    table = catalogue()
    assert sorted(table) == sorted(set(range(1, 53)) & table.keys())
    without = {n for n, one in table.items() if n not in named and one.here in ("caught", "seen")}
    # 40: tests/bench/test_session.py; 50, 52: tests/bench/test_judge.py, from times and rates
    assert without == {40, 50, 52}
    assert set(range(1, 53)) == table.keys()


def test_there_are_forty_honest_candidates() -> None:
    assert len(CASES.HONEST) >= 40


def test_the_page_lists_the_catalogue() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")
    for one in catalogue().values():
        assert f"| {one.number} | {one.name} | {one.here} | {one.how} |" in page
