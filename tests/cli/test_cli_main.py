"""Help, import hygiene, faults and exit statuses."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kscope import __version__
from kscope.cli.main import COMMANDS, module_of
from tests.cli.running import CONFLICTS, kscope, python
from tests.support.sass import path

HEAVY = {"numpy", "ncu_report", "rich", "msgspec", "pandas", "matplotlib", "torch", "mcp", "jinja2"}
MODULES = """
import atexit, sys
def tell():
    imported = list(sys.modules)
    import json
    print(json.dumps(imported), file=sys.stderr)
atexit.register(tell)
from kscope.cli.main import main
main(sys.argv[1:])
"""
BOOM = """
import sys, types, click
from kscope.cli import main
module = types.ModuleType("kscope.cli.dev.boom")
def callback(format):
    raise {error}
module.boom = click.Command("boom", callback=callback, params=[click.Option(["--format"])])
sys.modules["kscope.cli.dev.boom"] = module
main.COMMANDS["boom"] = "fails"
main.ROOMS["dev"] += " boom"
main.main(["boom", *sys.argv[1:]])
"""


def modules_of(*args: str) -> tuple[int, set[str]]:
    """Exit status and the modules that the command had imported when it ended."""
    done = python("-c", MODULES, *args)
    return done.returncode, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["-h"]])
def test_help_and_version_import_nothing_heavy_and_no_command(args: list[str]) -> None:
    status, imported = modules_of(*args)
    assert status == 0
    assert {name.split(".")[0] for name in imported} & HEAVY == set()
    ours = {name for name in imported if name.startswith("kscope.")}
    assert ours == {
        "kscope._presenters", "kscope._version", "kscope.cli", "kscope.cli.main", "kscope.model", "kscope.model.errors",
    }  # fmt: skip


@pytest.mark.parametrize(
    "args", [["analyze", "--help"], ["analyze"], ["analyze", "x", "--kernel", "("], ["doctor", "--help"]]
)
def test_arguments_are_checked_before_anything_heavy_is_imported(args: list[str]) -> None:
    _, imported = modules_of(*args)
    assert module_of(args[0]) in imported
    assert {name.split(".")[0] for name in imported} & HEAVY == set()


def test_help_lists_each_command_with_the_words_of_its_own_help() -> None:
    shown = " ".join(kscope("--help").stdout.split())
    for name, short in COMMANDS.items():
        assert f"{name} {short}" in shown
        assert short in " ".join(kscope(name, "--help").stdout.split())


def test_version() -> None:
    done = kscope("--version")
    assert (done.returncode, done.stdout) == (0, f"kscope {__version__}\n")


def test_bad_input_is_one_line_that_names_the_file() -> None:
    done = kscope("analyze", "/no/such/report.ncu-rep")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("kscope: /no/such/report.ncu-rep: ")
    assert "; " in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "status", "code"),
    [
        (["analyze", "/no/such.ncu-rep", "--format", "json"], 3, None),
        (["analyze", "/no/such.ncu-rep", "--format=json"], 3, None),
        (["analyze", "--format", "json"], 2, "usage"),
        (["analyze", "--format", "json", "--bogus", "x"], 2, "usage"),
        (["analyze", "--format", "json", "--select", "MEM13", "x"], 2, "unknown-rule"),
    ],
)
def test_faults_in_json(args: list[str], status: int, code: str | None) -> None:
    done = kscope(*args)
    assert done.returncode == status
    assert done.stdout == ""
    error = json.loads(done.stderr)["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["message"]
    assert error["code"] == (code or error["code"])


def test_control_characters_of_a_file_name_stay_off_the_terminal() -> None:
    done = kscope("analyze", "a\x1b[31m\nb.ncu-rep")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_internal_error_is_one_line_and_status_70() -> None:
    done = python("-c", BOOM.format(error="ValueError('lost\\nhere')"))
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1
    said = "kscope: internal error (ValueError: lost here): please report; run with KSCOPE_DEBUG=1"
    assert done.stderr.startswith(said)
    told = python("-c", BOOM.format(error="ValueError('lost')"), env={"KSCOPE_DEBUG": "1"})
    assert told.returncode == 70
    assert "Traceback" in told.stderr


def test_internal_error_in_json() -> None:
    done = python("-c", BOOM.format(error="ValueError('lost')"), "--format", "json")
    assert done.returncode == 70
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["message"]) == ("internal", "ValueError: lost")


def test_interrupt_is_quiet_and_status_130() -> None:
    done = python("-c", BOOM.format(error="KeyboardInterrupt"))
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stderr.strip() == ""


def test_termination_leaves_no_temporary_files(tmp_path: Path) -> None:
    """While a tool works: it ends as well."""
    slow = tmp_path / "nvdisasm"
    slow.write_text('#!/bin/sh\ncase "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.39";; '
                    f'*) echo $$ > {tmp_path}/pid; exec sleep 60;; esac\n')  # fmt: skip
    slow.chmod(0o755)
    cubin = tmp_path / "tiles.cubin"
    cubin.write_bytes(lzma.decompress(path("tiles.cu", "sm_80").read_bytes()))
    folder = tmp_path / "tmp"
    folder.mkdir()
    env = {**os.environ, "KSCOPE_NVDISASM": str(slow), "TMPDIR": str(folder), "KSCOPE_CACHE_DIR": str(tmp_path / "c")}
    with subprocess.Popen([sys.executable, "-m", "kscope", "sass", str(cubin)], env=env, stderr=subprocess.PIPE) as run:
        pid = tmp_path / "pid"
        for _ in range(600):
            if pid.exists() and pid.read_text().strip():
                break
            time.sleep(0.05)
        assert list(folder.iterdir()), "it has temporary files"
        run.terminate()
        assert run.wait(30) == 143
        assert run.stderr is not None and run.stderr.read() == b""
    assert list(folder.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_reader_that_leaves_early_is_no_fault() -> None:
    code = (
        "import subprocess, sys; "
        "p = subprocess.Popen([sys.executable, '-m', 'kscope', 'analyze', '--format', 'json', sys.argv[1]], "
        "stdout=subprocess.PIPE, stderr=subprocess.PIPE); p.stdout.close(); err = p.stderr.read(); "
        "print(p.wait(), err)"
    )
    assert python("-c", code, CONFLICTS).stdout == "0 b''\n"
