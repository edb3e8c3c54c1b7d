"""Streams that are closed or full, and files that cannot be written: one line, status 2, and nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import CONFLICTS, environment, python

FULL = Path("/dev/full")
COMMANDS = [["rules"], ["--help"], ["explain", "MEM103"], ["analyze", "--schema"], ["analyze", str(CONFLICTS)]]


def shell(words: list[str], redirect: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "-c", f'"$0" -m kscope "$@" {redirect}', sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(None), check=False)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_full_disk_behind_standard_output(words: list[str]) -> None:
    done = shell(words, ">/dev/full")
    assert done.returncode == 2
    assert done.stderr == (
        "kscope: standard output cannot be written: No space left on device; write to a file elsewhere with -o\n"
    )


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_full_disk_in_json() -> None:
    done = shell(["analyze", str(CONFLICTS), "--format", "json"], ">/dev/full")
    assert done.returncode == 2 and json.loads(done.stderr)["error"]["code"] == "unwritable"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_closed_standard_output(words: list[str]) -> None:
    done = shell(words, ">&-")
    assert done.returncode == 2
    assert done.stderr == (
        "kscope: standard output cannot be written: Bad file descriptor; write to a file elsewhere with -o\n"
    )


def test_closed_input_and_error_streams(tmp_path: Path) -> None:
    """Nothing is written into a file that got the number of a closed stream."""
    page = tmp_path / "page.md"
    done = shell(["analyze", str(CONFLICTS), "-o", str(page)], "<&- >&- 2>&-")
    assert done.returncode == 0
    assert page.read_text("utf-8").startswith("# ") and "Wrote" not in page.read_text("utf-8")
    plain = shell(["rules"], "<&- 2>&-")
    assert plain.returncode == 0 and "MEM103" in plain.stdout


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
os.execv(sys.executable, [sys.executable, "-m", "kscope", *sys.argv[1:]])
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["analyze", "--schema"], ["rules"]], ids=" ".join)
def test_a_disk_that_is_full_after_a_part(unbuffered: str, words: list[str], tmp_path: Path) -> None:
    """Half a report with exit status 0 would pass for a whole one. Without buffers Python does not look how much of a
    write found room."""
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, *words], stdout=out, stderr=subprocess.PIPE, text=True, timeout=120,
            env=environment({"PYTHONUNBUFFERED": unbuffered}), check=False,
        )  # fmt: skip
    assert done.returncode == 2 and (tmp_path / "out").stat().st_size == 4096
    assert done.stderr == (
        "kscope: standard output cannot be written: File too large; write to a file elsewhere with -o\n"
    )


WRITE = """
import resource, sys
from pathlib import Path
from kscope.cli.shared._output import write_file
from kscope.model.errors import KscopeError
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write_file(Path(sys.argv[1]), "x" * 50_000, force=True)
except KscopeError as error:
    print(error.status, error)
"""


@pytest.mark.parametrize("before", [None, "the report of last week\n"])
def test_no_room_for_the_file(tmp_path: Path, before: str | None) -> None:
    page = tmp_path / "page.html"
    if before is not None:
        page.write_text(before)
    done = python("-c", WRITE, page)
    assert done.stdout == f"2 {page}: File too large; choose another place for -o\n", done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ([] if before is None else ["page.html"])
    assert before is None or page.read_text() == before


def test_a_link_and_its_permissions_stay(tmp_path: Path) -> None:
    page, link = tmp_path / "page.md", tmp_path / "link.md"
    page.write_text("old")
    page.chmod(0o640)
    link.symlink_to(page)
    done = shell(["analyze", str(CONFLICTS), "-o", str(link), "--force"], "")
    assert done.returncode == 0, done.stderr
    assert link.is_symlink() and page.read_text("utf-8").startswith("# ")
    assert page.stat().st_mode & 0o777 == 0o640


def test_what_was_left_out_is_said_where_the_report_goes_elsewhere(tmp_path: Path) -> None:
    page, missing = tmp_path / "page.md", tmp_path / "none.ncu-rep"
    done = shell(["analyze", str(CONFLICTS), str(missing), "-o", str(page)], "")
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert first == f"kscope: skipped {missing}: no such file or folder; check the path"
    assert second == f"Wrote {page}"
    shown = shell(["analyze", str(CONFLICTS), str(missing)], "")
    assert shown.stderr == "" and "skipped" in shown.stdout


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_code_of_a_report_for_another_target(form: str) -> None:
    done = shell(["sass", str(CONFLICTS), "--arch", "sm_80", "--format", form], "")
    assert done.returncode == 3 and done.stdout == ""
    assert "no code for sm_80" in done.stderr and "it has sm_90" in done.stderr
    assert shell(["sass", str(CONFLICTS), "--arch", "90a", "--format", form], ">/dev/null").returncode == 0
    assert shell(["sass", str(CONFLICTS), "--arch", "hopper", "--format", form], "").returncode == 2
