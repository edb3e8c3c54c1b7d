"""Recording a program for `kscope run`: the command line of each profiler, what it needs, and what it said.

The program keeps its standard input, output and error; what the profilers say goes to a file and is read from there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from kscope.cli.machine import _probe
from kscope.cli.shared._output import say
from kscope.model.errors import EXIT_INPUT, EXIT_TOOL, EXIT_USAGE, KscopeError, one_line
from kscope.parsers import toolchain

SUFFIXES = {"torch": (".json", ".json.gz"), "nsys": (".nsys-rep",), "ncu": (".ncu-rep",)}
SECTIONS = "PmSampling_WarpStates"
"""Beyond --set full: warp states over time. Not in every version of ncu."""
_PYTHON = re.compile(r"(python|pypy)[\d.]*(t|\.exe)?$")
_VALUED = ("-W", "-X", "--check-hash-based-pycs")  # options of the interpreter that take a value
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch")
_TO_STDOUT = "import os, sys; os.dup2(int(sys.argv[1]), 1); os.execvp(sys.argv[2], sys.argv[2:])"
_GET_GPU = "use a machine with an NVIDIA GPU and its driver (kscope doctor shows what is here)"


class Plan(Struct, frozen=True):
    """What the user asked for beyond the program. launches, skip, kernel: of ncu; the rest but extra: of torch."""

    out: Path
    force: bool = False
    extra: tuple[str, ...] = ()
    kernel: str | None = None
    launches: int = 50
    skip: int = 0
    warmup: int = 3
    steps: int = 5
    after: float = 3.0
    seconds: float = 2.0
    whole: bool = False
    stop: bool = False


class Recorded(Struct, frozen=True):
    """What there is after the run. status: of the program, negative for a signal; what: the part that was recorded."""

    path: Path
    status: int
    what: str


def default_tool(command: list[str]) -> str:
    """torch for a Python program that it can wrap, else nsys where it is installed, else ncu."""
    if _python(command) is not None:
        return "torch"
    return "nsys" if toolchain.locate("nsys") else "ncu"


def record(tool: str, command: list[str], plan: Plan) -> Recorded:
    """Run the program under a profiler. Raises KscopeError: status 2 for a program that cannot be wrapped, 4 for what
    is missing here, 3 where nothing was recorded."""
    if shutil.which(command[0]) is None:
        message = f"{command[0]}: no such program, or not executable"
        raise KscopeError("no-program", message, "kscope run [options] -- program arguments", EXIT_USAGE)
    if plan.force:
        plan.out.unlink(missing_ok=True)
    return {"torch": _torch, "nsys": _nsys, "ncu": _ncu}[tool](command, plan)


def _torch(command: list[str], plan: Plan) -> Recorded:
    parts = _python(command)
    if parts is None:
        message = f"{command[0]}: --tool torch wraps python script.py, python -m module and python -c code"
        hint = "--tool nsys records other programs, --tool ncu their kernels"
        raise KscopeError("not-python", message, hint, EXIT_USAGE)
    interpreter, kind, target, args = parts
    if target in _LAUNCHERS or any(Path(word).name in _LAUNCHERS for word in (command[0], target)):
        message = f"{target}: starts processes of its own, which --tool torch does not follow"
        raise KscopeError("launcher", message, "put kscope run around the command of one rank", EXIT_USAGE)
    cuda = gpu_here()
    if not cuda:
        say(f"kscope: no NVIDIA GPU here: only the host's part is recorded ({_GET_GPU})")
    config = {
        "out": str(plan.out.absolute()), "steps": plan.steps, "warmup": plan.warmup, "after": plan.after,
        "seconds": plan.seconds, "whole": plan.whole, "stop": plan.stop, "cuda": cuda, "shapes": True,
    }  # fmt: skip
    launcher = Path(__file__).with_name("_launcher.py")
    status = run([*interpreter, str(launcher), json.dumps(config), kind, target, *args])
    state = _state(Path(f"{plan.out}.state"))
    if not plan.out.is_file():
        raise _nothing(state, status)
    if plan.stop and state.get("recorded"):
        status = 0  # it ended because it was asked to
    return Recorded(plan.out, status, str(state.get("recorded") or "as far as it went"))


def _nothing(state: dict[str, object], status: int) -> KscopeError:
    """Why the launcher left no trace, and what to do."""
    if fault := state.get("fault"):
        hint = "a program that uses torch.profiler itself has its own trace: kscope analyze that"
        return KscopeError("no-recording", f"nothing was recorded: {fault}", hint)
    if status:
        message = f"nothing was recorded: the program ended with {ending(status)}"
        return KscopeError("no-recording", message, "run it alone first")
    if state.get("torch") is None:
        message = "nothing was recorded: the program did not import torch"
        return KscopeError("no-recording", message, "--tool nsys records any CUDA program, --tool ncu its kernels")
    return KscopeError("no-recording", "nothing was recorded: the program did not use the GPU", "move its work there")


def _state(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text("utf-8"))
        path.unlink()
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _nsys(command: list[str], plan: Plan) -> Recorded:
    nsys = _tool("nsys", "records timelines of any CUDA program; --tool torch needs none for torch programs")
    _needs_gpu()
    flags = [
        "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node", "--stats=false",
        f"--force-overwrite={str(plan.force).lower()}", f"--output={plan.out.absolute().with_suffix('')}", *plan.extra,
    ]  # fmt: skip
    # nsys writes to standard output too: the program alone gets ours, by another number
    own = os.dup(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    through = [sys.executable, "-I", "-S", "-c", _TO_STDOUT, str(own)]
    log = plan.out.with_name(f"{plan.out.stem}.nsys.log")
    try:
        with log.open("wb") as file:
            status = run([nsys, *flags, *through, *command], stdout=file.fileno(), keep=(own,))
        said = log.read_text("utf-8", "replace")
    finally:
        os.close(own)
        log.unlink(missing_ok=True)
    if not plan.out.is_file():
        last = next((line for line in reversed(said.splitlines()) if line.strip()), f"it ended with {ending(status)}")
        raise KscopeError("no-recording", f"nsys wrote no report: {last}", "run nsys status --environment")
    return Recorded(plan.out, status, "the whole program")


def _ncu(command: list[str], plan: Plan) -> Recorded:
    ncu = ncu_here()
    _needs_gpu()
    who = _probe._permission(_probe.DRIVER / "params", os.geteuid() if hasattr(os, "geteuid") else 0)
    if who.detail == "restricted to root":
        raise _no_counters()
    log = _log(plan)
    try:
        status = run(ncu_command(ncu, command, plan))
        said = log.read_text("utf-8", "replace") if log.is_file() else ""
    finally:
        log.unlink(missing_ok=True)
    if "ERR_NVGPUCTRPERM" in said:
        raise _no_counters()
    if not plan.out.is_file():
        faults = [line for line in said.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]
        why = faults[0].partition("== ")[2] if faults else f"it ended with {ending(status)}"
        hint = "--kernel, --skip and --launches say which launches" if "No kernels" in why else "run ncu by hand"
        raise KscopeError("no-recording", f"ncu wrote no report: {one_line(why)}", hint)
    code = re.search(r"application returned an error code \((-?\d+)\)", said)
    limit = f"at most {plan.launches} launches" + (f" after {plan.skip}" if plan.skip else "")
    return Recorded(plan.out, int(code[1]) if code else status, limit)


def _log(plan: Plan) -> Path:
    return plan.out.with_name(f"{plan.out.stem}.ncu.log")


def ncu_here() -> str:
    """The path of ncu. Raises KscopeError (4)."""
    return _tool("ncu", "reads the counters of single kernels")


def ncu_command(ncu: str, command: list[str], plan: Plan) -> list[str]:
    """The command line that profiles what a plan asks for. Launches are counted among those of its kernel."""
    listed, _ = _probe._ask(ncu, "--list-sections")
    return [
        ncu, "--set", "full", *(["--section", SECTIONS] if SECTIONS in listed else []), "--import-source", "yes",
        "--target-processes", "all", "--launch-skip", str(plan.skip), "--launch-count", str(plan.launches),
        *(["--kernel-name", f"regex:{plan.kernel}"] if plan.kernel else []),
        "--log-file", str(_log(plan).absolute()), "-o", str(plan.out.absolute().with_suffix("")), *plan.extra, *command,
    ]  # fmt: skip


def _tool(name: str, does: str) -> str:
    path = toolchain.locate(name)
    if path is None:
        install = next(t.install for t in _probe.TOOLS if t.name == name)
        raise KscopeError(f"no-{name}", f"{name} is not installed here; it {does}", f"get it: {install}", EXIT_TOOL)
    return str(path)


def _needs_gpu() -> None:
    if not gpu_here():
        raise KscopeError("no-gpu", "no NVIDIA GPU here: there is nothing to record", _GET_GPU, EXIT_TOOL)


def _no_counters() -> KscopeError:
    who = _probe._permission(Path("/nonexistent"), 1)
    message = "the driver lets only root read the GPU's performance counters (ERR_NVGPUCTRPERM)"
    return KscopeError("no-counters", message, who.install, EXIT_TOOL)


def gpu_here() -> bool:
    """Whether the driver's device is there; Windows and others are asked through nvidia-smi."""
    if any(Path(p).exists() for p in ("/dev/nvidiactl", "/dev/dxg")):
        return True
    smi = toolchain.locate("nvidia-smi")
    return smi is not None and not _probe._ask(str(smi), "-L")[1]


def _python(command: list[str]) -> tuple[list[str], str, str, list[str]] | None:
    """(interpreter with its options, "script" | "module" | "code", target, arguments); None for another program."""
    found = shutil.which(command[0])
    if not _PYTHON.match(Path(command[0]).name):
        shebang = _shebang(found)
        return (shebang, "script", str(found), command[1:]) if shebang and found else None
    at = 1
    while at < len(command):
        word = command[at]
        if word in ("-m", "-c"):
            if at + 1 == len(command):
                return None
            return command[:at], "module" if word == "-m" else "code", command[at + 1], command[at + 2 :]
        if word == "-" or not word.startswith("-"):
            return (command[:at], "script", word, command[at + 1 :]) if word != "-" else None
        at += 2 if word in _VALUED else 1
    return None


def _shebang(path: str | None) -> list[str]:
    """The interpreter of a Python script that is called by its own name, such as a console script."""
    try:
        with open(path or "", "rb") as file:
            first = file.readline(512)
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    words = [w for w in os.fsdecode(first[2:]).split() if w not in ("/usr/bin/env", "-S")]
    return words if words and _PYTHON.match(Path(words[0]).name) else []


def run(command: list[str], stdout: int | None = None, keep: tuple[int, ...] = ()) -> int:
    """Exit status of a program that has the terminal to itself: an interrupt is its business, not ours."""
    sys.stdout.flush()
    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which the program would inherit
    try:
        return subprocess.call(command, stdout=stdout, pass_fds=keep)
    except OSError as e:
        message = f"{command[0]}: cannot be run ({e.strerror})"
        raise KscopeError("no-program", message, "check that it is executable", EXIT_INPUT) from None
    finally:
        signal.signal(signal.SIGINT, before)


def ending(status: int) -> str:
    """How a program ended, in words."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
