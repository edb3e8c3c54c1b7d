"""What the benchmark runs on: the device, its caches, its name; how each source of a task runs there."""

from __future__ import annotations

import ast
import ctypes
import os
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from kscope.bench.judge.seat import Where
from kscope.bench.task.spec import Source, Task


class Machine(Struct, frozen=True):
    """device: cpu or cuda; name; cache_bytes: of the last level; arch: `sm_90` of a GPU."""

    device: str
    name: str
    cache_bytes: int
    arch: str = ""


@cache
def gpu() -> Machine | None:
    """The first GPU, by the driver; None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        device, count = ctypes.c_int(), ctypes.c_int()
        if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
            return None
        if driver.cuDeviceGet(ctypes.byref(device), 0):
            return None
        name = ctypes.create_string_buffer(128)
        driver.cuDeviceGetName(name, 128, device)
    except (OSError, AttributeError):
        return None

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    major, minor, cached = attribute(75), attribute(76), attribute(38)  # CUdevice_attribute: capability, L2
    suffix = "a" if major >= 9 else ""
    return Machine("cuda", name.value.decode("utf-8", "replace"), cached or 64 << 20, f"sm_{major}{minor}{suffix}")


@cache
def processor() -> Machine:
    from kscope.bench.judge.clocks import Watcher

    found = 32 << 20
    try:
        for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
            if (index / "type").read_text().strip() != "Instruction":
                text = (index / "size").read_text().strip()
                found = max(found, int(text[:-1]) << {"K": 10, "M": 20}.get(text[-1], 0))
    except (OSError, ValueError):
        pass
    return Machine("cpu", Watcher("cpu").name, min(found, 64 << 20))  # judged: more takes longer than it tells


def placed(task: Task, framework: str = "", device: str = "") -> Task:
    """The task with its framework and device settled: from what its sources import, and what is here."""
    framework = framework or (task.framework if task.file and task.framework != "numpy" else "") or of(task.candidate)
    if not device:
        device = task.device if task.device == "cuda" else ""
    if not device:
        wants = framework == "torch" or task.candidate.path.endswith(".cu")
        device = "cuda" if wants and gpu() is not None else "cpu"
    return replace(task, framework=framework, device=device)


def where(task: Task, source: Source, libraries: Path) -> Where:
    """The candidate as the task says; others by their own imports, on the task's device where they can."""
    framework = task.framework if source is task.candidate else of(source)
    able = framework == "torch" or source.path.endswith(".cu")
    device = task.device if able or source is task.candidate else "cpu"
    found = gpu()
    return Where(framework, device, libraries, found.arch if device == "cuda" and found is not None else "")


def of(source: Source) -> str:
    """raw for libraries; torch where its file imports torch or triton; else numpy."""
    if source.language == "native":
        return "raw"
    path = source.path or _found(source.module)
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return "numpy"
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(name.partition(".")[0] in ("torch", "triton") for name in names):
            return "torch"
    return "numpy"


def _found(module: str) -> str:
    """The file of a module in the folder of work, without importing anything."""
    base = os.path.join(os.getcwd(), *module.split("."))
    return next((one for one in (f"{base}.py", os.path.join(base, "__init__.py")) if os.path.isfile(one)), "")
