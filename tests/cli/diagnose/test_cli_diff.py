"""`kscope diff` on real captures."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from kscope.model.contract.comparison import comparison_schema
from tests.cli.running import CONFLICTS, kscope
from tests.support.reports import fixture

PADDED = fixture("bank_conflict.fast")


def test_text_says_what_happened_and_whether_the_promise_held() -> None:
    done = kscope("diff", CONFLICTS, PADDED)
    assert (done.returncode, done.stderr) == (0, "")
    shown = " ".join(done.stdout.split())
    assert "2.28x faster, from memory-bound on shared memory" in shown
    assert "fixed MEM103 shared-bank-conflicts promised" in shown and "measured 2.28x" in shown
    assert "shared memory a block 4 KiB -> 4.12 KiB" in shown
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_is_valid_against_its_schema() -> None:
    done = kscope("diff", CONFLICTS, PADDED, "--format", "json")
    data = json.loads(done.stdout)
    jsonschema.validate(data, comparison_schema())
    assert data["schema"] == "kscope.diff/1"
    assert json.loads(kscope("diff", "--schema").stdout) == comparison_schema()


def test_markdown_has_a_row_a_pair() -> None:
    done = kscope("diff", CONFLICTS, PADDED, "--format", "md")
    assert "| 327.7 us | 143.6 us | 2.28x |" in done.stdout


def test_slower_fails_only_where_a_threshold_was_given() -> None:
    assert kscope("diff", PADDED, CONFLICTS).returncode == 0
    assert kscope("diff", PADDED, CONFLICTS, "--fail-if-slower", "5").returncode == 1
    assert kscope("diff", PADDED, CONFLICTS, "--fail-if-slower", "200").returncode == 0
    assert kscope("diff", CONFLICTS, PADDED, "--fail-if-slower", "5").returncode == 0
    assert kscope("diff", CONFLICTS, CONFLICTS, "--fail-if-slower", "0").returncode == 0
    assert kscope("diff", PADDED, CONFLICTS, "--fail-if-slower", "0").returncode == 1


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "broken.ncu-rep"
    bad.write_bytes(b"NVR\0")
    done = kscope("diff", CONFLICTS, bad)
    assert done.returncode == 3 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "broken.ncu-rep" in done.stderr


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "diff.md"
    out.write_text("mine")
    assert kscope("diff", CONFLICTS, PADDED, "-o", out).returncode == 2
    assert out.read_text() == "mine"
    assert kscope("diff", CONFLICTS, PADDED, "-o", out, "--force").returncode == 0
    assert out.read_text().startswith("# kscope diff")


def test_a_suffix_of_another_command_is_refused(tmp_path: Path) -> None:
    """`analyze` writes .sarif; a comparison has none, and text under that name would mislead whoever reads it."""
    out = tmp_path / "d.sarif"
    done = kscope("diff", CONFLICTS, PADDED, "-o", out)
    assert done.returncode == 2 and "Cannot tell the format" in done.stderr and not out.exists()
