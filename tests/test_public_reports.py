"""The judge of public reports (tools/public_reports.py), on our own captures: the reports themselves are not ours."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.kernel import Kernel
from kscope.parsers.files.inputs import open_input
from tests.support import reports

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import public_reports  # noqa: E402 - tools/ is no package

Read = Callable[[str], Kernel]
LABELS: list[dict[str, Any]] = tomllib.loads(public_reports.LABELS.read_text(encoding="utf-8"))["report"]


def test_labels_are_of_many_chips_and_name_rules() -> None:
    from kscope.rules.registry import all_rules

    codes = {r.code for r in all_rules()} | {"m", "s"}
    kernels = [k for r in LABELS for k in r["kernels"]]
    assert len(LABELS) >= 60 and len({r["chip"] for r in LABELS}) >= 6
    assert len({(r["repository"], r["path"]) for r in LABELS}) == len(LABELS)
    for k in kernels:
        assert k["regime"] and set(k["regime"]) <= {"compute", "memory", "overhead", "unknown"}
        assert k["steps"] and set(k["steps"]) <= codes
        assert set(k.get("later", {}).get("steps", [])) <= codes - set(k["steps"])


@pytest.mark.parametrize(
    ("label", "held"),
    [
        ({"regime": ["memory"], "steps": ["MEM101"]}, "right"),
        ({"regime": ["compute"], "steps": ["MEM101"]}, "wrong"),
        ({"regime": ["memory"], "steps": ["LAT302"]}, "wrong"),
    ],
)
def test_judged_by_regime_and_first_step(label: dict[str, Any], held: str, kernel: Read) -> None:
    assert public_reports.judge(label, analyze_kernel(kernel("uncoalesced.slow"), "a"))[0] == held


def test_nothing_claimed_is_silent(kernel: Read) -> None:
    """A kernel at its roof says stop: right where the label has that, silent where it names a step."""
    found = analyze_kernel(kernel("dram_bound.triad"), "a")
    assert public_reports.judge({"regime": ["memory"], "steps": ["s"]}, found)[0] == "right"
    assert public_reports.judge({"regime": ["memory"], "steps": ["LAT305"]}, found)[0] == "silent"


def test_reads_a_folder_of_repositories(tmp_path: Path) -> None:
    case = "uncoalesced.slow"
    folder = tmp_path / "someone+kernels"
    folder.mkdir()
    with open_input(reports.fixture(case)) as plain:
        (folder / "out_my_report.ncu-rep").write_bytes(Path(plain).read_bytes())
    label: dict[str, Any] = {"launch": 0, "name": case, "regime": ["compute"], "steps": ["s"]}
    label["later"] = {"regime": ["memory"], "steps": ["MEM101"]}
    entry = {"repository": "someone/kernels", "commit": "0", "path": "out/my report.ncu-rep", "chip": "sm_90",
             "collected": "full", "kernels": [label]}  # fmt: skip
    rows = list(public_reports.judged(tmp_path, [entry, {**entry, "path": "absent.ncu-rep"}]))
    assert [(r.held, r.later) for r in rows] == [("wrong", True)]
    lines = public_reports.table(rows)
    assert any(line.startswith("| sm_90 | 1 | 1 (100%) | 1 |") and line.endswith("| 0 of 1 |") for line in lines)
