"""NVIDIA's binary tools: where nvdisasm and cuobjdump are, what they can read, and how they are run.

Looked for in this order: the environment (KSCOPE_NVDISASM, NVDISASM_PATH and so on), PATH, CUDA_HOME and CUDA_PATH,
/usr/local/cuda, NVIDIA's Python wheels (dependencies of kscope where they exist), Triton's copies. Never in the current
folder, which has what others put there: empty and relative entries of PATH are passed over. Programs are run without a
shell, with a time limit, in an empty temporary folder.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from kscope.arch import table
from kscope.model.errors import EXIT_TOOL, KscopeError
from kscope.parsers import scratch

SECONDS = 600
"""Time that a tool may take; the environment variable KSCOPE_TOOL_TIMEOUT (seconds) overrides it."""
_AT_LEAST, _BYTES_A_SECOND = 20.0, 10_000
"""Time for an input of so many bytes: nvdisasm takes 0.4 s to start and reads more than 200,000 bytes a second, and on
damaged code it can run for ever (judged: a machine with other work)."""
INSTALL = {
    "nvdisasm": "pip install nvidia-cuda-nvdisasm",
    "cuobjdump": "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm",
    "ptxas": "pip install nvidia-cuda-nvcc",
    "nvcc": "install the CUDA toolkit",
}
_VERSION = re.compile(r"\bV(\d+)\.(\d+)\.(\d+)")


class Tool(Struct, frozen=True):
    """A program found. `version` is (13, 5, 37), () where it does not tell."""

    name: str
    path: Path
    version: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}".strip()


class Output(Struct, frozen=True):
    """What a program left: exit status (negative: the signal that ended it), standard output, last line of errors."""

    status: int
    stdout: bytes
    fault: str


def candidates(name: str) -> Iterator[Path]:
    """Every copy of a program, the preferred one first. A copy named by the environment is believed to be there."""
    for variable in (f"KSCOPE_{name.upper()}", f"{name.upper()}_PATH"):
        if named := os.environ.get(variable):
            given = Path(named).absolute()  # tools run in a folder of their own
            yield given / name if given.is_dir() else given
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        # not which(name): that reads an empty entry as the current folder, and on Windows looks there first
        if os.path.isabs(entry) and (found := shutil.which(os.path.join(entry, name))):
            yield Path(found)
    for folder in _folders():
        for file in (folder / name, folder / f"{name}.exe"):
            if file.is_file() and os.access(file, os.X_OK):
                yield file


def _folders() -> Iterator[Path]:
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    yield from (Path(root) / "bin" for root in roots if root and os.path.isabs(root))
    yield from sorted(Path("/opt/nvidia").glob("nsight-*/*/"), reverse=True)
    for package, pattern in (("nvidia", "*/bin"), ("triton", "backends/nvidia/bin")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            if _installed(Path(place)):
                yield from sorted(Path(place).glob(pattern), reverse=True)


def _installed(package: Path) -> bool:
    """Whether a package is an installed one, not a folder of that name in the current one: notebooks import from
    there."""
    if not package.is_absolute():
        return False
    installed = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    return package.parent != _current() or str(package.parent) in installed


def _current() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # removed
        return None


def locate(name: str) -> Path | None:
    """The preferred copy of a program; None where there is none."""
    return next(candidates(name), None)


def find(name: str, sm: int | None = None) -> Tool:
    """A program that reads code for `sm` (90 for sm_90), the first copy that does.

    Raises KscopeError (status 4) where there is none, naming the command that installs it.
    """
    newest: Tool | None = None
    for path in candidates(name):
        tool = _versioned(name, path)
        if sm is None or reads(tool, sm):
            return tool
        newest = max(newest or tool, tool, key=lambda t: t.version)
    install = INSTALL.get(name, "")
    if newest is None or sm is None:
        message = f"reading machine code needs NVIDIA's {name}, which is not here"
        raise KscopeError("no-tool", message, install, EXIT_TOOL)
    raise KscopeError("old-tool", f"{newest} does not read sm_{sm} ({span(sm)})", _remedy(name, sm), EXIT_TOOL)


@lru_cache(maxsize=16)
def _versioned(name: str, path: Path) -> Tool:
    done = run(Tool(name, path), ["--version"], seconds=10)
    match = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return Tool(name, path, tuple(map(int, match.groups())) if match else ())


def reads(tool: Tool, sm: int) -> bool:
    """Whether a tool's version knows a target; a version that does not tell is given a try."""
    first, last = limits(sm)
    known = tool.version[:2]
    return not known or ((not first or first <= known) and (not last or known <= last))


def limits(sm: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First and last toolkit that reads a target, () where unknown or unlimited."""
    bounds = table("toolkits")
    first, last = (bounds[end].get(str(sm), "") for end in ("first", "last"))
    return _numbers(first), _numbers(last)


def span(sm: int) -> str:
    first, last = (".".join(map(str, end)) for end in limits(sm))
    return f"CUDA {first} and later do" if first else f"CUDA {last} and earlier do" if last else "an unknown target"


def span_of(version: str) -> str:
    """The targets that the tools of a toolkit read: "reads sm_75 to sm_121"; "" where the version is not known."""
    known = _numbers(".".join(version.split(".")[:2])) if version.replace(".", "").isdigit() else ()
    if not known:
        return ""
    targets = sorted({int(sm) for end in ("first", "last") for sm in table("toolkits")[end]})
    inside = [sm for sm in targets if reads(Tool("", Path(), known), sm)]
    return f"reads sm_{inside[0]} to sm_{inside[-1]}" if inside else ""


def _remedy(name: str, sm: int) -> str:
    _, last = limits(sm)
    if not last:
        return f"{INSTALL.get(name, '')} --upgrade"
    return f"set KSCOPE_{name.upper()} to the {name} of a CUDA {'.'.join(map(str, last))} toolkit"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if text else ()


_running: set[subprocess.Popen[bytes]] = set()
_starting: list[bool] = []
"""Not empty while the main thread starts a tool that is not among those that run yet."""
_ending: list[int] = []
"""The exit status once the process was told to end: a tool that is started at that moment ends as well."""


class Patience:
    """The time that tools may take over one input, by its bytes and all together: `left` is what remains of it."""

    def __init__(self, size: int) -> None:
        self.left = _AT_LEAST + size / _BYTES_A_SECOND


def run(
    tool: Tool, arguments: Sequence[str], *, seconds: float | None = None, patience: Patience | None = None,
    folder: Path | None = None,
) -> Output:  # fmt: skip
    """Run a tool to its end. Raises KscopeError where it cannot be started (status 4) or takes too long (status 3):
    longer than `seconds`, else KSCOPE_TOOL_TIMEOUT, else what is left of `patience`, which its time is taken from, else
    SECONDS."""
    limit = os.environ.get("KSCOPE_TOOL_TIMEOUT", "")
    if seconds is None:
        granted = SECONDS if patience is None else min(SECONDS, max(patience.left, 0.1))
        seconds = int(limit) if limit.isdecimal() and int(limit) else granted
    begun = time.monotonic()
    try:
        return _run(tool, arguments, seconds, folder)
    finally:
        if patience is not None:
            patience.left -= time.monotonic() - begun


def _run(tool: Tool, arguments: Sequence[str], seconds: float, folder: Path | None) -> Output:
    with scratch.folder() as empty:
        try:
            process = _start([str(tool.path), *arguments], folder or Path(empty))
            try:
                out, errors = process.communicate(timeout=seconds)
            finally:
                _running.discard(process)
                process.kill()
                process.wait()
        except subprocess.TimeoutExpired:
            message = f"{tool.name} took more than {seconds:.3g} s"
            hint = "limit the work with --function, or raise KSCOPE_TOOL_TIMEOUT (seconds)"
            raise KscopeError("tool-timeout", message, hint) from None
        except OSError as error:
            message = f"{tool.path} cannot be run ({error.strerror})"
            raise KscopeError("no-tool", message, INSTALL.get(tool.name, ""), EXIT_TOOL) from None
    return Output(process.returncode, out, last_line(errors))


def _start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A program, known to `stop` from its first moment on."""
    variables = environment()
    main = threading.current_thread() is threading.main_thread()
    if main:
        _starting.append(True)
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=variables
        )
        _running.add(process)
    finally:
        if main:
            _starting.clear()
        if _ending:
            for one in list(_running):
                one.kill()
                one.wait()
            if main:  # the handler of the signal left it to us
                sys.exit(_ending[0])
    return process


def stop(status: int) -> bool:
    """End the tools that run, in whatever thread: the process is told to end, with this exit status. False while the
    main thread is about to start one, which ends the process itself as soon as it has."""
    _ending.append(status)
    for process in list(_running):
        process.kill()
    return not _starting


def environment() -> dict[str, str]:
    """The environment of the tools: cuobjdump finds nvdisasm through it."""
    disassembler = locate("nvdisasm")
    folder = {"NVDISASM_PATH": str(disassembler.parent)} if disassembler else {}
    return {**os.environ, **folder, "LC_ALL": "C"}


def last_line(stderr: bytes) -> str:
    """What a tool complained about: its last line that is not a warning."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    faults = [line for line in lines if "warning" not in line.lower()]
    return re.sub(r"^\w+ (?:error|fatal)\s*:\s*", "", (faults or [""])[-1])
