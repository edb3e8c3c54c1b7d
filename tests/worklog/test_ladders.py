"""The FP32 and the tensor-core ladder, rung by rung, through the commands: what the checklist says, what promises came
to, and the worklog that comes out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kscope.worklog.metrics import UNITS
from tests.cli.running import kscope
from tests.support import reports
from tests.support.tools import load

golden = load("golden_worklog")


def _kscope(folder: Path, *arguments: str) -> str:
    """As golden_worklog.kscope, in a fork of a process that has imported kscope (tests/support/warm.py)."""
    done = kscope(*arguments, env={"KSCOPE_STATE_DIR": str(folder / "state"), "NO_COLOR": "1"}, cwd=folder)
    assert done.returncode == 0, f"kscope {' '.join(arguments)}: {done.stderr}"
    return done.stdout


golden.kscope = _kscope
Walked = list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Walked]]:
    """ladder -> (folder of its worklog, each step with the checklist after it)."""

    @cache
    def walked(name: str) -> tuple[Path, Walked]:
        folder = tmp_path_factory.mktemp(name)
        (folder / ".git").mkdir()
        found = []
        for step in golden.WALKS[name]:
            golden.take(folder, step)
            found.append((step[1], json.loads(golden.kscope(folder, "checklist", "--format", "json"))))
        return folder, found

    return walked


def states(checklist: dict[str, Any]) -> dict[str, str]:
    return {item["opportunity"]: item["state"] for item in checklist["items"]}


def item(checklist: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in checklist["items"] if one["opportunity"] == name)


def exported(folder: Path) -> list[dict[str, Any]]:
    return json.loads(golden.kscope(folder, "log", "export", "--format", "json"))["entries"]


@pytest.mark.parametrize("name", golden.WALKS)
def test_golden(walk: Callable[[str], tuple[Path, Walked]], name: str) -> None:
    """`python tools/golden_worklog.py` after what a worklog says was changed on purpose."""
    folder, _ = walk(name)
    for file, arguments in golden.FILES.items():
        written = (golden.FOLDER / f"{name}{file}").read_text(encoding="utf-8")
        assert golden.kscope(folder, *arguments) == written, "python tools/golden_worklog.py"


@pytest.mark.parametrize("name", golden.WALKS)
def test_nothing_disappears(walk: Callable[[str], tuple[Path, Walked]], name: str) -> None:
    _, steps = walk(name)
    assert len({frozenset(states(found)) for _, found in steps}) == 1


def test_states_change_along_the_fp32_ladder(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    _, steps = walk("gemm_f32")
    seen = [(name, states(found)) for name, found in steps]
    naive, aside, coalesced, shared, reg1d, slower, reg2d, vector, warptile = (one for _, one in seen)
    assert (naive["coalesce"], coalesced["coalesce"]) == ("applicable", "tried")
    assert (naive["shared-tiles"], coalesced["shared-tiles"], shared["shared-tiles"]) == (
        "applicable", "applicable", "tried",
    )  # fmt: skip
    assert (naive["register-tiles"], shared["register-tiles"], reg2d["register-tiles"]) == (
        "not yet", "applicable", "tried",
    )  # fmt: skip
    assert reg1d["launch-bounds"] == "not yet"
    assert slower["launch-bounds"] == "set aside"  # what was tried is known by the code, and it was slower
    assert aside["vector-access"] == coalesced["vector-access"] == "set aside"
    assert (shared["vector-access"], reg1d["vector-access"]) == ("set aside", "back")
    assert vector["vector-access"] == "tried"
    assert reg2d["bank-conflicts"] == "applicable"
    assert warptile["bank-conflicts"] == "tried"
    assert warptile["tcgen05"] == "not here"


def test_easiest_first_and_what_came_back_before_all(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    for _, found in walk("gemm_f32")[1]:
        for state in ("applicable", "not yet"):
            efforts = [one["effort"] for one in found["items"] if one["state"] == state]
            assert efforts == sorted(efforts)
        order = [one["state"] for one in found["items"]]
        assert "back" not in order or order.index("back") == 0


def test_an_idea_comes_back_with_the_limit_that_it_addresses(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    """Set aside when the issue slots were the limit; with mma.sync shared memory is."""
    _, steps = walk("gemm_bf16")
    (_, aside), (_, mma) = steps[1], steps[2]
    assert item(aside, "bank-conflicts")["why"] == (
        "set aside at version 1 (shared memory is a quarter busy); the limit is still instruction issue"
    )
    first = mma["items"][0]
    assert (first["opportunity"], first["state"], first["gain"]["code"]) == ("bank-conflicts", "back", "MEM103")
    assert first["gain"]["speedup"] == pytest.approx(5.48, abs=0.01)
    assert "when the limit was instruction issue; now it is shared memory" in first["why"]
    _, swizzled = steps[3]
    (took,) = item(swizzled, "bank-conflicts")["tried"]
    assert (took["version"], took["status"]) == (3, "kept")
    assert took["speedup"] == pytest.approx(4.96, abs=0.01)


def test_promises_against_deliveries(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    """As tools/ladder.py has them, which knows the steps from labels; here the code shows them."""
    found = {name: [(d["code"], d["outcome"], d["because"]) for e in exported(walk(name)[0])
                    for d in (e["step"]["delivered"] if e["step"] else [])] for name in golden.WALKS}  # fmt: skip
    assert found["gemm_f32"] == [
        ("MEM101", "inside", "evidence gone"), ("MEM112", "inside", "recognised"), ("MEM112", "inside", "recognised"),
        ("MEM112", "inside", "evidence gone"),
        ("LAT307", "inside", "evidence gone"), ("LAT304", "inside", "evidence gone"),
        ("MEM102", "inside", "evidence gone"), ("MEM103", "inside", "recognised"),
    ]  # fmt: skip
    assert found["gemm_bf16"] == [
        ("CMP201", "inside", "evidence gone"), ("MEM103", "inside", "evidence gone"),
        ("CMP202", "inside", "evidence gone"),
    ]  # fmt: skip


def test_the_dead_end_is_kept_and_left(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    entries = exported(walk("gemm_f32")[0])
    slower, following = entries[4], entries[5]
    assert slower["status"] == "set aside" and slower["why"].startswith("slower than version 4: ")
    assert slower["why"].endswith(slower["step"]["against"][0]) and following["why"] == ""
    assert following["parent"] == entries[3]["uid"]


def test_every_version_has_the_same_figures(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    entries = [e for name in golden.WALKS for e in exported(walk(name)[0])]
    assert len({tuple(e["metrics"]) for e in entries}) == 1
    assert not [name for e in entries for name, value in e["metrics"].items() if value is None]
    assert all(e["tools"]["sm_clock_hz"] > 1e9 and e["tools"]["dram_clock_hz"] > 1e9 for e in entries)


def test_every_row_can_be_made_again(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    folder, _ = walk("gemm_bf16")
    for entry in exported(folder):
        path = folder / ".kscope" / "objects" / entry["report"][:2] / f"{entry['report']}.zst"
        again = json.loads(golden.kscope(folder, "analyze", str(path), "--format", "json"))["kernels"][0]
        assert again["duration_us"] == entry["time_us"]
        assert again["verdict"]["limiter"] == entry["limiter"]
        assert [f["code"] for f in again["findings"]] == [c["code"] for c in entry["claims"]]


def test_the_next_promise_says_how_earlier_ones_held(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    folder, steps = walk("gemm_f32")
    reg1d = steps[4][1]
    assert item(reg1d, "register-tiles")["gain"]["held"] == "delivered 0.7 of its promise in 2 of your versions"
    rows = json.loads(golden.kscope(folder, "log", "calibrate", "--format", "json"))["rules"]
    reuse = next(row for row in rows if row["code"] == "MEM112")
    assert (reuse["versions"], reuse["alone"], reuse["inside"]) == (3, 2, 3)
    assert reuse["share"] == pytest.approx(0.73, abs=0.01)


def test_a_report_that_is_not_in_the_worklog(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    """It is judged by what the worklog knows, and is not added."""
    folder, _ = walk("gemm_bf16")
    report = reports.fixture("gemm_bf16.swizzled")
    found = json.loads(golden.kscope(folder, "checklist", str(report), "--format", "json"))
    assert found["version"] is None
    assert [one["version"] for one in item(found, "wgmma")["tried"]] == [4]
    assert len(exported(folder)) == 4


def test_versions_compare_from_their_packed_reports(walk: Callable[[str], tuple[Path, Walked]]) -> None:
    folder, _ = walk("gemm_bf16")
    (pair,) = json.loads(golden.kscope(folder, "log", "diff", "2", "3", "--format", "json"))["pairs"]
    assert (pair["matched_by"], [p["code"] for p in pair["promises"]]) == ("by hand", ["MEM103"])
    assert "+__global__ void" in golden.kscope(folder, "log", "diff", "1", "4", "--code")


def test_the_guide_shows_what_is_printed(walk: Callable[[str], tuple[Path, Walked]], tmp_path: Path) -> None:
    """Every line shown stands in the output, in that order; `...` stands for what was left out."""
    (tmp_path / ".git").mkdir()
    for step in golden.WALKS["gemm_bf16"][:3]:
        golden.take(tmp_path, step)
    folder, _ = walk("gemm_f32")
    guide = (golden.ROOT / "guides" / "worklog.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"```\n\$ kscope (.+)\n\n((?:.*\n)*?)```", guide))
    assert list(shown) == ["log show", "log calibrate", "checklist"]
    for command, lines in shown.items():
        printed = golden.kscope(tmp_path if command == "checklist" else folder, *command.split())
        left = iter([line.rstrip() for line in printed.splitlines()])
        for line in lines.splitlines():
            if line.strip() and line.strip() != "...":
                assert line.rstrip() in left, f"`kscope {command}` no longer prints: {line}"
    for link in re.findall(r"\]\(\.\./([^)]+)\)", guide):
        assert (golden.ROOT / link).is_file(), link
    assert f"the same {len(UNITS)} figures" in guide
