"""The console script's way in: what it imports, and the reader that it starts ahead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kscope.engine.inputs import ahead
from tests.support import traces

HEAVY = ("numpy", "rich", "json", "subprocess", "tempfile", "importlib.resources")
OF_KERNELS = ("numpy.ma", "kscope.features.facts", "kscope.rules.memory.register_spills", "kscope.parsers.ncu.kernels")
SHOW = """
import os, sys
watched = sys.argv.pop(1).split()
def leave(status):
    if "threads" in watched and os.path.isdir("/proc/self/task"):
        print(len(os.listdir("/proc/self/task")), "thread", file=sys.stderr)
    print([m for m in watched if m in sys.modules], file=sys.stderr)
    sys.stderr.flush()
    end(status)
end, os._exit = os._exit, leave
from kscope.cli.start import main
main()
"""


def start(*arguments: str | Path, watched: Sequence[str] = HEAVY) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SHOW, " ".join(watched), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def conflicts(report: Callable[[str], Path]) -> Path:
    return report("bank_conflict.slow")


def test_analyze_imports_nothing_heavy(conflicts: Path) -> None:
    """Each of these takes longer to import than most kernels to analyse."""
    done = start("analyze", conflicts, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"schema":') and done.stderr.splitlines()[-1] == "[]"


def test_recordings_do_without_what_kernels_need(tmp_path: Path) -> None:
    """Nor does numpy start threads, which spin for a tenth of a second of processor time each."""
    recording = tmp_path / "launch.sqlite"
    recording.write_bytes(traces.plain("launch"))
    done = start("analyze", recording, "--format", "json", watched=(*OF_KERNELS, "numpy", "threads"))
    assert done.returncode == 0, done.stderr
    *threads, imported = done.stderr.splitlines()
    assert imported == "['numpy']" and threads in ([], ["1 thread"])


@pytest.mark.parametrize("arguments", [("--bogus",), ("--kernel", "(")])
def test_usage_error_with_a_report(conflicts: Path, arguments: tuple[str, ...]) -> None:
    """The reader that was started ahead is stopped, and the fault is the command line's."""
    done = start("analyze", conflicts, *arguments)
    assert done.returncode == 2 and not done.stdout


def test_not_a_report(tmp_path: Path) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"\x00" * 999)
    done = start("analyze", path)
    assert done.returncode == 3 and "not an Nsight Compute report" in done.stderr


def test_start_never_raises(tmp_path: Path) -> None:
    for path in ("", "a\0b", str(tmp_path / "missing.ncu-rep")):
        ahead.start(path)
    assert not ahead._started


def test_taken_once(conflicts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found under another spelling of the path; what is not taken is closed."""
    monkeypatch.chdir(conflicts.parent)
    ahead.start(f"./{conflicts.name}")
    reader = ahead.take(str(conflicts))
    assert reader is not None and ahead.take(str(conflicts)) is None
    reader.close()
    ahead.start(str(conflicts))
    ahead.close()
    assert not ahead._started and ahead.take(str(conflicts)) is None
