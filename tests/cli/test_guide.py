"""What the guides show of the terminal is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kscope.napkin.operations import OPERATIONS
from tests.cli.running import kscope

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "guides" / "napkin.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```\n\$ kscope (.+)\n\n((?:.*\n)*?)```", GUIDE)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command.split()[1] for command, _ in SHOWN])
def test_excerpt(command: str, shown: str) -> None:
    """Every line shown stands in the output, in that order; `...` stands for what was left out."""
    done = kscope(*shlex.split(command), env={"KSCOPE_STATE_DIR": ""}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    printed = iter([line.rstrip() for line in done.stdout.splitlines()])
    for line in shown.splitlines():
        if line.strip() and line.strip() != "...":
            assert line.rstrip() in printed, f"`kscope {command}` no longer prints: {line}"


def test_every_operation_and_link_is_there() -> None:
    assert len(SHOWN) == 3
    for name, spec in OPERATIONS.items():
        (row,) = [line for line in GUIDE.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1]]
        assert " ".join(spec.sizes) in row
        for option in spec.options:
            assert option in row, (name, option)
    for link in re.findall(r"\]\(\.\./([^)]+)\)", GUIDE):
        assert (ROOT / link).is_file(), link
