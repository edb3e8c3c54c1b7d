"""What the pages for readers name is in the tree: files, rooms, and a code that a new rule can have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kscope.rules.registry import all_rules

ROOT = Path(__file__).resolve().parents[1]
PAGES = [path for pattern in ("*.md", "docs/*.md", "guides/*.md", "parsers/*.md", "fixtures/**/*.md", "tools/**/*.md")
         for path in sorted(ROOT.glob(pattern)) if path.name != "CHANGELOG.md"]  # fmt: skip
NAMED = re.compile(r"`([a-z_0-9][a-z_0-9.-]*(?:/[a-z_0-9.-]+)+)/?`")
ELSEWHERE = {"kscope.fleet/1", "refs/notes/kscope", "kscope/rules/memory/streaming_stores.py"}
"""Names with a slash that are no paths of the tree, or not yet: what the example of a new rule writes."""
ROOMS = ("kscope", "tests", "tools", "fixtures", "reports", "rules", "parsers", "guides", "docs")


def in_the_tree() -> set[str]:
    """Files and folders, modules without their suffix too."""
    found = {path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*")}
    return found | {name.removesuffix(".py") for name in found} | {path.name for path in ROOT.iterdir()}


@pytest.fixture(scope="module")
def tree() -> set[str]:
    """Every ending of a path: pages name rooms as `profile/blame`."""
    return {"/".join(parts[i:]) for name in in_the_tree() if (parts := name.split("/")) for i in range(len(parts))}


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_files_that_are_named_are_there(page: Path, tree: set[str]) -> None:
    """A module, or an attribute of one; what a command writes (build/, .kscope/) is not in the tree."""
    named = {one for one in NAMED.findall(page.read_text("utf-8")) if not one.startswith("build/")} - ELSEWHERE
    assert not {one for one in named if not {one, one.rpartition(".")[0]} & tree}


def test_the_example_of_a_new_rule_has_a_free_code() -> None:
    """The first command of the walk through."""
    (code,) = re.findall(r"kscope dev new-rule ([A-Z]+\d+)", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert code not in {rule.code for rule in all_rules()}
