"""`kscope sass` on a report: the listing joined with the profile, its options, files and faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kscope.model.contract.analysis import from_json
from tests.cli.running import CONFLICTS, TRIAD, kscope, on_terminal
from tests.support.reports import fixture


def test_the_hot_lines_of_a_report_come_without_asking() -> None:
    done = kscope("sass", CONFLICTS)
    assert done.returncode == 0, done.stderr
    assert "MEMORY-BOUND" in done.stdout and "hottest" in done.stdout
    assert re.search(r"\d+\.\d % +barrier .*BAR\.SYNC", done.stdout)
    assert "if this were the only limit" not in done.stdout, "notes only with --annotate"


def test_annotated_report() -> None:
    done = kscope("sass", CONFLICTS, "--annotate", "--width", "140", "--top", "3")
    assert done.returncode == 0, done.stderr
    assert "32 wavefronts a request where 1 would do (32x)" in " ".join(done.stdout.split())
    assert "MEM103 shared-bank-conflicts" in done.stdout and "__syncthreads" in done.stdout
    assert "dev_kernels.cu:" in done.stdout, "source lines of the report"
    assert max(map(len, done.stdout.splitlines())) <= 140
    hottest = done.stdout.partition("hottest")[2].partition("\n\n")[0]
    assert len(hottest.splitlines()) == 4


def test_narrow_and_plain_text() -> None:
    done = kscope("sass", CONFLICTS, "--annotate", "--width", "80", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stdout.isascii() and "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_colour_on_a_terminal_that_wants_it() -> None:
    assert "\x1b[" in on_terminal("sass", CONFLICTS, "--annotate")
    assert "\x1b[" not in on_terminal("sass", CONFLICTS, "--annotate", env={"NO_COLOR": "1"})
    assert "\x1b[" not in on_terminal("sass", CONFLICTS, "--annotate", "--no-color")


def test_json_of_a_report_holds_the_annotations(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = kscope("sass", TRIAD, "--annotate", "-o", out)
    assert done.returncode == 0, done.stderr
    analysis = from_json(out.read_bytes())
    (function,) = analysis.programs[0].functions
    assert function.kernel == analysis.kernels[0].id and function.findings == analysis.kernels[0].findings
    assert len(function.listing) == function.instructions and function.samples
    load = next(one for one in function.listing if one.access.startswith("LDG"))
    assert load.measured is not None and load.measured.executed and load.bytes and load.control is not None
    raw = json.loads(out.read_text())["programs"][0]["functions"][0]
    assert {"name", "registers", "stack", "shared", "spill_stores", "spill_loads", "instructions", "loops",
            "findings"} <= set(raw)  # fmt: skip


def test_no_overwriting_and_no_unknown_suffix(tmp_path: Path) -> None:
    out = tmp_path / "listing.txt"
    assert kscope("sass", TRIAD, "-o", out).returncode == 0
    again = kscope("sass", TRIAD, "-o", out)
    assert again.returncode == 2 and "--force" in again.stderr
    assert kscope("sass", TRIAD, "-o", out, "--force").returncode == 0
    assert kscope("sass", TRIAD, "-o", tmp_path / "x.pdf").returncode == 2


def test_no_kernel_matches() -> None:
    done = kscope("sass", TRIAD, "--function", "nothing_like_it", "--format", "json")
    assert done.returncode == 2 and json.loads(done.stderr)["error"]["code"] == "no-match"
    assert kscope("sass", TRIAD, "--function", "(").returncode == 2


def test_source_text_from_a_folder_and_nothing_outside_it(tmp_path: Path) -> None:
    """The report names /corpus/dev_kernels.cu; only a file of that name below the folder given is read."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "dev_kernels.cu").write_text("\n".join(f"line number {n}" for n in range(1, 400)))
    done = kscope("sass", CONFLICTS, "--annotate", "--source-root", tmp_path / "inside")
    assert done.returncode == 0 and re.search(r"dev_kernels\.cu:75 +line number 75", done.stdout)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "dev_kernels.cu").symlink_to(tmp_path / "inside" / "dev_kernels.cu")
    outside = kscope("sass", CONFLICTS, "--annotate", "--source-root", tmp_path / "other")
    assert outside.returncode == 0 and "line number 75" not in outside.stdout


def test_a_branch_says_how_often_its_lanes_part() -> None:
    """divergence.slow: an if/else that splits every warp, and a switch with three ways."""
    done = kscope("sass", fixture("divergence.slow"), "--annotate", "--width", "200")
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if " BRA " in line or " BRX " in line}
    assert "lanes go both ways in 100 % of its runs" in rows["0190"]
    assert "lanes go 3 ways on average" in rows["01f0"] and "switch to" in rows["01f0"]
