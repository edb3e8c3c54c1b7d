"""What is imported when: start-up stays fast, and optional libraries stay optional."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "matplotlib", "torch", "mcp", "rich", "ncu_report", "zstandard", "jinja2", "sqlite3",
         "pyarrow")  # fmt: skip
COMMANDS = ("analyze", "arch", "checklist", "doctor", "explain", "log", "mcp", "napkin", "rules", "run", "sass",
            "skill")  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Heavy top-level packages in sys.modules after `code` ran in a fresh interpreter."""
    script = f"""
import atexit, sys
atexit.register(lambda: print("\\nLOADED", *sorted({{m.partition(".")[0] for m in sys.modules}}), file=sys.__stdout__))
{code}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split()) & set(HEAVY)


def command(*args: str) -> str:
    return f"from kscope.cli.main import main\nmain({list(args)!r})"


def test_import_is_light() -> None:
    assert loaded_after("import kscope, kscope.model.errors") == set()


def test_help_is_light() -> None:
    assert loaded_after(command("--help")) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_commands_is_light(name: str) -> None:
    assert loaded_after(command(name, "--help")) == set()


def test_model_needs_no_other_layer() -> None:
    code = "import kscope.model.contract.analysis, kscope.model.kernel, kscope.model.program, sys\n"
    code += "layers = {m.split('.')[1] for m in sys.modules if m.startswith('kscope.')}\n"
    code += "assert layers == {'_presenters', '_version', 'model'}, layers"
    assert loaded_after(code) <= {"numpy"}
