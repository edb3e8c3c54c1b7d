"""What a condition may call proved: only what was run, or read in machine code or launch, and how much of it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import kscope.fixes
from kscope.features.sass.listing import Listing
from kscope.fixes.given.conditions import not_written, proved, reads, shown
from kscope.fixes.propose import MAKERS
from kscope.model.contract.fixes import Fix
from kscope.model.kernel import Kernel
from tests.support import captures, reports
from tests.support.thorough import often, some
from tests.support.with_sources import diagnosed

ROOM = Path(kscope.fixes.__file__).parent
DOOR = ROOM / "given" / "conditions.py"
MODULES = sorted({name.partition(":")[0] for names in MAKERS.values() for name in names})
TABLES = captures.tables(reports.FIXTURES)
LABELS, TIMES = captures.labels(TABLES), captures.times(TABLES)
CASES = [c for c, x in LABELS.items() if c in TIMES and (x.get("fixed") or x.get("next")) in TIMES]


def calls(path: Path, name: str) -> list[ast.Call]:
    tree = ast.parse(path.read_text("utf-8"))
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name]


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda p: p.relative_to(ROOM).as_posix())
def test_no_maker_calls_a_condition_proved_by_itself(path: Path) -> None:
    """All of them go through the door that asks what was run; a state is a word that stands in the code."""
    if path == DOOR:
        return
    for call in calls(path, "Condition"):
        (state,) = [k.value for k in call.keywords if k.arg == "state"]
        words = {n.value for n in ast.walk(state) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        assert words, f"{path.name}:{call.lineno}: a state that nobody can read"
        assert "proved" not in words, f"{path.name}:{call.lineno}"
    for call in [*calls(path, "proved"), *calls(path, "shown")]:
        assert not any(isinstance(a, ast.Constant) and isinstance(a.value, int) for a in call.args), (
            f"{path.name}:{call.lineno}: how much was run is counted, not written"
        )


@pytest.mark.parametrize("module", MODULES)
def test_every_maker_names_conditions_or_refuses(module: str) -> None:
    path = ROOM / f"{module.replace('.', '/')}.py"
    text = path.read_text("utf-8")
    named = [c for name in ("Condition", "proved", "reads", "shown", "not_written") for c in calls(path, name)]
    assert named or "refused=" in text


def test_nothing_that_was_not_run_is_proved() -> None:
    assert proved("x", "lanes", 0, "y").state == "check"
    assert proved("x", "code", [], "y").state == "check"
    assert shown(False, "x", "code", 3, "y").state == "check"
    assert reads("x", "y").state == "assumed" and not reads("x", "y").by


def test_every_proved_condition_of_every_capture_says_by_what() -> None:
    states: Counter[str] = Counter()
    grounds: Counter[str] = Counter()
    for case in dict.fromkeys((*some(CASES, 12), "lines.each", "narrow_loads.slow")):
        for fix in all_of(case):
            for c in fix.conditions:
                states[c.state] += 1
                grounds[c.by] += c.state == "proved"
                assert (c.state == "proved") == bool(c.by) == (c.ran > 0), (case, c.holds)
                assert "text" not in c.why or c.state != "proved", (case, c.holds)
            assert fix.refused or fix.proof, (case, fix.title)
    assert states["proved"] >= often(50, 3) and states["assumed"] >= often(20, 1) and states["check"] >= often(40, 2)
    assert {"lanes", "code", "launch", "values"} <= grounds.keys()


def all_of(case: str) -> list[Fix]:
    return [fix for finding in diagnosed(case).findings for fix in finding.fixes]


@pytest.mark.parametrize(("case", "state"), [("attn.global", "proved"), ("adam.step", "check")])
def test_other_parameters_may_still_point_into_one_array(
    case: str, state: str, kernel: Callable[[str], Kernel]
) -> None:
    """Code shows through which parameters a kernel stores (one works in place); that the arrays do not overlap, no code
    shows."""
    program = kernel(case).program
    assert program is not None
    code = Listing(program)
    loads = code.where(lambda ins, op: op.space == "global" and op.access == "load")
    through, overlap = not_written(code, loads)
    assert through.state == state
    assert overlap.state == "check" and "overlap" in overlap.holds
