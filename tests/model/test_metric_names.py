"""What is read from a report is what kscope asks for, no name is dropped by its looks."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.facts import Facts
from kscope.model.kernel import Metrics
from kscope.model.metric_names import is_read
from kscope.parsers.ncu.worker import Reader, Skipped, Want
from kscope.rules.base import CounterRule, Passed
from kscope.rules.registry import all_rules
from tests.support.reports import fixture, plain

ROOT = Path(__file__).resolve().parents[2]


def test_the_list_is_current() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "metric_names.py"), "--check"], check=False)
    assert done.returncode == 0, "run `make names`"


def test_every_need_of_a_rule_is_read() -> None:
    needs = {name for rule in all_rules() for need in getattr(rule, "needs", ()) for name in need.split("|")}
    assert needs and all(map(is_read, needs))


def test_a_need_that_is_not_read_is_a_fault_of_the_rule(facts: Callable[[str], Facts]) -> None:
    """It must not tell the user that the report lacks what it holds."""

    class Stranger(CounterRule):
        code, slug, title = "XXX001", "stranger", "x"
        needs = ("lts__t_requests_srcunit_ltcfabric.sum",)

        def check(self, facts: Facts) -> Passed:
            return Passed()

    with pytest.raises(LookupError, match="make names"):
        Stranger().run(facts("bank_conflict.slow"))


def test_what_is_read_is_in_the_report_as_a_whole(tmp_path: Path) -> None:
    """The part that is read equals the same names of everything."""

    report = tmp_path / "report.ncu-rep"
    report.write_bytes(plain("bank_conflict.slow"))

    def numbers(want: Want) -> dict[str, float]:
        with contextlib.closing(Reader(str(report), want)) as reader:
            (raw,) = (r for r in reader.kernels() if not isinstance(r, Skipped))
        return dict(raw["metrics"][0])

    some, every = numbers(Want()), numbers(Want(metrics=True))
    assert some == {name: value for name, value in every.items() if is_read(name)}
    assert 100 < len(some) < len(every) / 3


@pytest.mark.parametrize("case", ["bank_conflict.slow", "ws_gemm.stages3", "tma_scale.stages2", "atomics.slow"])
def test_every_name_asked_for_while_diagnosing_is_read(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that the code puts together in a way that the generator does not see would show here."""
    asked: set[str] = set()
    for method in ("get", "first", "total"):
        original = getattr(Metrics, method)

        def spy(self: Metrics, *names: Any, original: Any = original, **rest: Any) -> Any:
            asked.update(n for n in names if isinstance(n, str))
            return original(self, *names, **rest)

        monkeypatch.setattr(Metrics, method, spy)
    analyze_paths([fixture(case)])
    assert len(asked) > 100 and {name for name in asked if not is_read(name)} == set()
