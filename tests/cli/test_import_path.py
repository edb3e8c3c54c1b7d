"""Modules of the current folder are not ours to run: reports are analysed in folders that others fill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import environment

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("click", "msgspec", "numpy", "rich", "elftools", "ncu_report", "json", "signal", "struct", "tempfile")
"""Of what kscope imports sooner or later, installed and standard."""
SCRIPT = "import sys; from kscope.cli.start import main; main()"
"""What the console script does."""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text("open('RUN', 'a').write(__name__); raise SystemExit('taken over')\n")
    return folder


def run(hostile: Path, *command: str, path: str = str(ROOT), **extra: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=hostile, env={**environment(None), "PYTHONPATH": path, **extra},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert not (hostile / "RUN").exists(), (hostile / "RUN").read_text()
    return done


@pytest.mark.parametrize(
    "words", [("rules",), ("doctor",), ("analyze", "click.py"), ("sass", "click.py")], ids=" ".join
)
def test_python_m_in_a_hostile_folder(words: tuple[str, ...], hostile: Path) -> None:
    done = run(hostile, "-m", "kscope", *words)
    assert done.returncode == (3 if "click.py" in words else 0), done.stderr
    assert "taken over" not in done.stdout + done.stderr


@pytest.mark.parametrize("way", [("-m", "kscope"), ("-c", SCRIPT)], ids=["-m", "script"])
@pytest.mark.parametrize("path", [f":{ROOT}", f"{ROOT}:", f"{ROOT}:."], ids=["first", "last", "dot"])
def test_an_empty_entry_of_pythonpath(path: str, way: tuple[str, ...], hostile: Path) -> None:
    """`PYTHONPATH=$PYTHONPATH:/x` makes one where it was not set. `python -c` looks in the current folder itself,
    before anything of ours runs, so it is told not to."""
    safe = ("-P",) if way[0] == "-c" else ()
    done = run(hostile, *safe, *way, "rules", path=path)
    assert done.returncode == 0 and "MEM103" in done.stdout, done.stderr


def test_a_safe_path_is_left_as_it_is(hostile: Path) -> None:
    """With -P or PYTHONSAFEPATH the first folder is not the current one, and must stay."""
    for more in ({"PYTHONSAFEPATH": "1"}, {}):
        flags = () if more else ("-P",)
        assert run(hostile, *flags, "-m", "kscope", "rules", **more).returncode == 0


def test_a_folder_that_pythonpath_names_stays(tmp_path: Path) -> None:
    """Also where it is the current one: whoever names it means it."""
    (tmp_path / "kscope_extra.py").write_text("")
    show = "from kscope.cli import start; import kscope_extra; print('found')"
    done = run(tmp_path, "-P", "-c", show, path=f"{ROOT}:{tmp_path}")
    assert done.stdout == "found\n", done.stderr


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    leave = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, '-m', 'kscope', 'rules'])"
    (tmp_path / "gone").mkdir()
    done = run(tmp_path / "gone", "-c", leave)
    assert done.returncode == 0 and "MEM103" in done.stdout, done.stderr
