"""`kscope rules`, `kscope explain` and the rule book."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kscope.cli.diagnose.explain import plain
from kscope.rules.registry import all_rules
from tests.cli.running import kscope, python

ROOT = Path(__file__).resolve().parents[3]


def test_rules_as_json_and_text() -> None:
    rows = json.loads(kscope("rules", "--format", "json").stdout)
    assert [row["code"] for row in rows] == [rule.code for rule in all_rules()]
    assert all(set(row) == {"code", "slug", "title", "regime"} for row in rows)
    text = kscope("rules").stdout
    assert all(f"{row['code']}  {row['slug']}" in text for row in rows)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", ["MEM103", "mem103", "shared-bank-conflicts"])
def test_explain_prints_the_page(name: str) -> None:
    done = kscope("explain", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("MEM103 shared-bank-conflicts\n====")
    for heading in ("What it does", "Why it costs time", "Evidence", "Fix", "When it is wrong"):
        assert f"\n{heading}\n{'-' * len(heading)}\n" in done.stdout


@pytest.mark.parametrize("words", [("rules",), ("explain", "MEM103"), ("doctor",), ("skill",)])
def test_what_is_printed_can_be_written_to_a_file(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As of every command that prints a result; nothing that is there is overwritten."""
    out = tmp_path / "out.txt"
    done = kscope(*words, "-o", out)
    assert (done.returncode, done.stdout) == (0, "") and out.stat().st_size > 500
    assert kscope(*words, "-o", out).returncode == 2
    assert kscope(*words, "-o", out, "--force").returncode == 0


def test_explain_as_json_and_markdown() -> None:
    found = json.loads(kscope("explain", "MEM103", "--format", "json").stdout)
    assert (found["code"], found["slug"]) == ("MEM103", "shared-bank-conflicts") and "## Fix" in found["page"]
    assert kscope("explain", "MEM103", "--format", "md").stdout == found["page"]


def test_explain_names_near_matches() -> None:
    done = kscope("explain", "MEM13")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "MEM103" in done.stderr


def test_plain_keeps_code_and_tables_and_drops_marks() -> None:
    page = (
        "# T\n\nUse `a_b` and **c**, see [guide](https://x.y/z).\nMore.\n\n- one long item of a list\n- two\n\n"
        "    indented\n      code\n\n```\n# fenced  code\n```\n\n| a | b |\n"
    )
    assert plain(page, 20) == (
        "T\n=\n\nUse a_b and c, see\nguide\n(https://x.y/z).\nMore.\n\n- one long item of a\n  list\n- two\n\n"
        "    indented\n      code\n\n    # fenced  code\n\n| a | b |\n"
    )


def test_rulebook_is_written_checked_and_repaired(tmp_path: Path) -> None:
    book = tmp_path / "rules"
    command = (ROOT / "tools" / "rulebook.py",)
    assert python(*command, "--check", book).returncode == 1
    assert python(*command, book).returncode == 0
    assert {p.name for p in book.iterdir()} == {"README.md", *(f"{rule.code}.md" for rule in all_rules())}
    assert "What it does" in (book / "MEM103.md").read_text("utf-8")
    assert "[MEM103](MEM103.md)" in (book / "README.md").read_text("utf-8")
    assert python(*command, "--check", book).returncode == 0

    (book / "MEM103.md").write_text("edited by hand")
    (book / "MEM999.md").write_text("a rule that is gone")
    (book / "NOTES.md").write_text("somebody's notes")
    checked = python(*command, "--check", book)
    assert checked.returncode == 1
    assert "MEM103.md: differs" in checked.stderr
    assert "MEM999.md: differs" in checked.stderr
    assert (book / "MEM103.md").read_text() == "edited by hand"
    assert python(*command, book).returncode == 0
    assert not (book / "MEM999.md").exists()
    assert (book / "NOTES.md").read_text() == "somebody's notes"
    assert python(*command, "--check", book).returncode == 0


def test_rulebook_of_the_repository_is_current() -> None:
    done = python(ROOT / "tools" / "rulebook.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")
