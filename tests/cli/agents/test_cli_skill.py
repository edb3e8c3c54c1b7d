"""`kscope skill`: agent tools take it, and every command, option and rule that it names is there."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import get_args

import click
import pytest

from kscope.cli.main import COMMANDS, module_of
from kscope.mcp.asking import SECONDS
from kscope.mcp.catalogue import TOOLS
from kscope.mcp.pages import BUDGET, LARGEST, TEXT
from kscope.model.contract.next_step import Action
from kscope.napkin.asked import build
from kscope.rules.registry import rule
from kscope.skill import text
from tests.cli.running import kscope

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "guides" / "agents.md").read_text(encoding="utf-8")
PAGES = {"skill": text(), "guide": GUIDE}


def commands(page: str) -> list[list[str]]:
    """Every `kscope ...` of a page: lines of code blocks, and code spans."""
    blocks = re.findall(r"```\w*\n(.*?)```", page, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    return [shlex.split(one)[1:] for one in [*lines, *spans] if one.startswith("kscope ")]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_there(page: str) -> None:
    named = commands(PAGES[page])
    assert len(named) > 5
    for words in named:
        assert words[0] in COMMANDS, words
        command = getattr(importlib.import_module(module_of(words[0])), words[0])
        assert isinstance(command, click.Command)
        options = {name for p in command.params for name in p.opts}
        ours = words[: words.index("--")] if "--" in words else words
        assert {w for w in ours if w.startswith("-")} <= options, words
        if "--problem" in ours:
            build(ours[ours.index("--problem") + 1])
        if words[0] == "explain" and words[1].isupper() and words[1] != "CODE":
            rule(words[1])


@pytest.mark.parametrize("page", PAGES)
def test_every_next_step_is_explained(page: str) -> None:
    assert all(f"`{action}`" in PAGES[page] for action in get_args(Action))


def test_the_guide_lists_the_tools() -> None:
    assert re.findall(r"^\| `(\w+)` \|", GUIDE.partition("Stop or go on")[0], re.MULTILINE) == [t.name for t in TOOLS]
    for number in (BUDGET, TEXT, LARGEST, int(SECONDS)):
        assert f"{number:,}" in GUIDE


def test_agent_tools_take_its_front_matter() -> None:
    """SKILL.md of agentskills.io: name of lower-case letters and dashes, description of at most 1,024 characters."""
    match = re.match(r"---\nname: (\S+)\ndescription: (.+)\n---\n\n# ", text())
    assert match is not None
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,63}", match[1]) and match[1] == "kscope"
    assert len(match[2]) <= 1024 and ": " not in match[2] and "#" not in match[2], "plain YAML without quotes"
    assert len(text()) < 8000, "an agent reads it whole"


def test_the_command_prints_the_page(tmp_path: Path) -> None:
    done = kscope("skill")
    assert done.returncode == 0 and done.stdout == text() and done.stderr == ""
    out = tmp_path / "SKILL.md"
    assert kscope("skill", "-o", out).returncode == 0 and out.read_text() == text()
    again = kscope("skill", "-o", out)
    assert again.returncode == 2 and "--force" in again.stderr


def test_links_of_the_guide_lead_somewhere() -> None:
    links = re.findall(r"\]\(\.\./([^)#]+)\)", GUIDE)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
