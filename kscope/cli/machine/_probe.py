"""What `kscope doctor` looks at. Programs are run without a shell, with a time limit, and never trusted to answer."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Literal

from msgspec import Struct

from kscope._version import __version__
from kscope.parsers import toolchain

TIME_LIMIT_S = 10
DRIVER = Path("/proc/driver/nvidia")


class Check(Struct, frozen=True):
    """One thing that is or is not here. `costs` says what is lost without it, `install` how to get it;
    `limits` what this version can read."""

    name: str
    status: Literal["ok", "missing", "limited"]
    version: str = ""
    detail: str = ""
    costs: str = ""
    install: str = ""
    limits: str = ""


class Tool(Struct, frozen=True):
    """An external program: what it is for and where it comes from."""

    name: str
    costs: str
    install: str


TOOLS = (
    Tool("nvdisasm", "cubins cannot be disassembled; reports with SASS inside are not affected",
         toolchain.INSTALL["nvdisasm"]),
    Tool("cuobjdump", "device code cannot be taken out of .o, .so and executables",
         toolchain.INSTALL["cuobjdump"]),
    Tool("ncu", "kernels cannot be profiled here; reports from elsewhere can be analysed",
         "https://developer.nvidia.com/nsight-compute"),
    Tool("nsys", "timelines cannot be recorded here, and .nsys-rep cannot be exported to sqlite",
         "https://developer.nvidia.com/nsight-systems"),
    Tool("nvidia-smi", "no driver: nothing can be measured here; reports from elsewhere can be analysed",
         "install the NVIDIA driver (apt-get install nvidia-driver, or your system's package)"),
)  # fmt: skip


def checks() -> list[Check]:
    """All checks, in the order that they are shown."""
    tools = {tool.name: _tool(tool) for tool in TOOLS}
    gpu = _gpu(tools["nvidia-smi"])
    return [
        Check("kscope", "ok", __version__, str(Path(__file__).parents[2])),
        Check("Python", "ok", platform.python_version(), platform.platform()),
        _ncu_report(),
        *tools.values(),
        gpu,
        *([_permission(DRIVER / "params", os.geteuid())] if gpu.status == "ok" else []),
    ]


def _ncu_report() -> Check:
    costs, install = ".ncu-rep and .ncu-repz cannot be read: the main input", "pip install ncu-report"
    try:
        version = importlib.metadata.version("ncu-report")
    except importlib.metadata.PackageNotFoundError:
        return Check("ncu-report", "missing", costs=costs, install=install)
    try:
        module = importlib.import_module("ncu_report")
    except Exception as error:  # a native module: whatever it raises is the answer
        fault = f"does not import: {type(error).__name__}: {error}"
        return Check("ncu-report", "limited", version, fault, costs, f"{install} --force-reinstall")
    return Check("ncu-report", "ok", version, str(Path(module.__file__ or "").parent))


def _tool(tool: Tool) -> Check:
    path = toolchain.locate(tool.name)
    if path is None:
        return Check(tool.name, "missing", costs=tool.costs, install=tool.install)
    output, fault = _ask(str(path), "--version")
    if fault:
        return Check(tool.name, "limited", "", f"{path}: {fault}", tool.costs, tool.install)
    version = version_in(output)
    limits = toolchain.span_of(version) if tool.name in toolchain.INSTALL else ""
    return Check(tool.name, "ok", version, str(path), limits=limits)


def version_in(output: str) -> str:
    """The version in the output of a `--version`: a release or build number, the last one that looks like one."""
    found = re.search(r"\bV(\d+\.\d+\.\d+)", output) or re.search(r"(\d{2,4}\.\d+(?:\.\d+)*)", output)
    return found[1] if found else ""


def _ask(*command: str) -> tuple[str, str]:
    """Output of a program and what went wrong, one of them empty."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT_S, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "", f"no answer within {TIME_LIMIT_S} s"
    except OSError as error:
        return "", f"does not run: {error.strerror}"
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or [""]
        return "", f"exit status {done.returncode} {words[0][:120]}".strip()
    return done.stdout, ""


def _gpu(smi: Check) -> Check:
    costs = "nothing can be measured here; reports from elsewhere can be analysed"
    install = "use a machine with an NVIDIA GPU"
    if smi.status != "ok":
        return Check("GPU", "missing", costs=costs, install=install)
    fields = "--query-gpu=name,compute_cap,driver_version"
    output, fault = _ask(smi.detail, fields, "--format=csv,noheader")
    gpus = [line.strip() for line in output.splitlines() if line.strip()]
    if fault or not gpus:
        return Check("GPU", "missing", detail=fault or "the driver reports none", costs=costs, install=install)
    return Check("GPU", "ok", f"{len(gpus)}x", gpus[0])


def _permission(params: Path, uid: int) -> Check:
    """Whether a user may read the performance counters (the driver's RmProfilingAdminOnly)."""
    costs = "ncu ends with ERR_NVGPUCTRPERM: no counters for users other than root"
    install = (
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/ncu.conf, then reboot; "
        "or run ncu as root"
    )
    try:
        found = re.search(r"RmProfilingAdminOnly:\s*(\d+)", params.read_text("utf-8", "replace"))
    except OSError:
        found = None
    if found is None:
        return Check("GPU counters", "limited", "", f"{params} does not say who may read them", costs, install)
    if found[1] == "0":
        return Check("GPU counters", "ok", "", "open to every user")
    if uid == 0:
        return Check("GPU counters", "ok", "", "restricted to root, and this is root")
    return Check("GPU counters", "limited", "", "restricted to root", costs, install)
