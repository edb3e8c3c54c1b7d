"""What the README shows of the terminal is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.running import kscope

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.findall(
    r"```\n\$ kscope ((?:analyze|trace|sass) .+)\n\n((?:.*\n)*?)```", (ROOT / "README.md").read_text("utf-8")
)


def test_the_readme_shows_commands() -> None:
    assert len(SHOWN) >= 5


@pytest.mark.parametrize(
    ("command", "shown"), SHOWN, ids=[command.split()[0] + str(n) for n, (command, _) in enumerate(SHOWN)]
)
def test_excerpt(command: str, shown: str) -> None:
    """Every line shown stands in the output, in that order; `...` stands for what was left out."""
    done = kscope(*shlex.split(command), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    printed = iter([" ".join(line.split()) for line in done.stdout.splitlines()])
    for line in (" ".join(line.split()) for line in shown.splitlines()):
        if line and line != "...":
            assert line in printed, f"`kscope {command}` no longer prints: {line}"
