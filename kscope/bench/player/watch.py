"""What a candidate does beside computing: Python's audit events, functions it replaced, settings it changed.

An audit hook cannot be removed from Python, and it is there before the candidate is. It sees what the interpreter does
on behalf of the candidate's own files; native code it does not see. Nothing that decides a verdict of time or
correctness rests on it: it gives names to what was tried.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

WATCHED = frozenset(
    {
        "open",
        "sys._getframe",
        "gc.get_objects",
        "gc.get_referrers",
        "gc.get_referents",
        "exec",
        "compile",
        "marshal.loads",
        "subprocess.Popen",
        "os.system",
        "os.fork",
        "os.posix_spawn",
        "socket.connect",
        "ctypes.dlopen",
        "ctypes.string_at",
        "sys.settrace",
        "sys.setprofile",
        "os.remove",
        "os.rename",
        "code.__new__",
        "function.__new__",
    }
)
MOST = 200  # events that are kept; the first ones tell
_HERE = os.path.dirname(os.path.abspath(__file__))
_STANDARD = (sysconfig.get_paths()["stdlib"], "<frozen", "<string>")
_LIBRARY = sysconfig.get_paths()["stdlib"]
THROUGH: dict[str, tuple[str, ...]] = {
    "sys._getframe": (os.path.join(_LIBRARY, "inspect.py"), os.path.join(_LIBRARY, "traceback.py")),
    "compile": ("<string>",), "exec": ("<string>",), "marshal.loads": ("<string>",), "code.__new__": ("<string>",),
}  # fmt: skip
"""Event -> files that may lie between it and the candidate. A dataclass runs code that the standard library writes; a
logger looks at frames: neither is the candidate's doing."""
COMPILERS = ("/triton/", "/_inductor/", "/_dynamo/", "cpp_extension", "importlib", "/numba/", "/cupy/", "linecache")


class Watch:
    """Events of the candidate's files: (phase, event, detail)."""

    def __init__(self, folders: Iterable[str]) -> None:
        self.folders = tuple(os.path.join(os.path.abspath(one), "") for one in folders)
        self.phase = ""
        self.events: dict[tuple[str, str, str], int] = {}
        self._inside = False
        self._getframe = sys._getframe
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.phase or event not in WATCHED or self._inside or len(self.events) >= MOST:
            return
        self._inside = True
        try:
            if self._whose(event, self._getframe(1)):
                key = (self.phase, event, _detail(event, arguments))
                self.events[key] = self.events.get(key, 0) + 1
        finally:
            self._inside = False

    def _whose(self, event: str, frame: FrameType | None) -> bool:
        """Whether the candidate asked for it. Code it runs, frames it looks at: itself. Files: also through a library
        that saves arrays, not through one that compiles."""
        through = THROUGH.get(event, _STANDARD)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(_HERE):
                return False
            if self.own(name):
                return True
            if event == "open":
                if any(part in name for part in COMPILERS):
                    return False
            elif not name.startswith(through):
                return False
            frame = frame.f_back
        return False

    def own(self, name: str) -> bool:
        """Names such as `<frozen importlib>` are no files, whatever the folder of work is."""
        if name.startswith("<") or "site-packages" in name:
            return False
        return os.path.abspath(name).startswith(self.folders)

    def found(self) -> list[list[Any]]:
        return [[*key, count] for key, count in self.events.items()]


def _detail(event: str, arguments: tuple[Any, ...]) -> str:
    if event == "open":
        path, mode = str(arguments[0])[:300], arguments[1]
        flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
        writes = any(c in (mode or "") for c in "wax+") or bool(flags & (os.O_WRONLY | os.O_RDWR))
        return f"{'write' if writes else 'read'} {path}"
    if event == "compile":
        text = arguments[0]
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        return text[:4000] if isinstance(text, str) else "syntax tree"
    if event == "exec":
        code = arguments[0]
        return code.co_filename[:300] if isinstance(code, CodeType) else ""
    return " ".join(str(one)[:200] for one in arguments if isinstance(one, str | int | bytes))[:300]


CLOCKS = (
    "time",
    "statistics",
    "torch.cuda",
    "torch.cuda.Event",
    "torch.cuda.streams.Event",
    "torch.Event",
    "triton.testing",
    "timeit",
)
CHECKERS = ("numpy", "numpy.linalg", "numpy.testing", "torch", "torch.testing", "torch.nn.functional", "torch.Tensor",
            "gc", "builtins", "math", "kscope.bench.player.worker", "kscope.bench.player.wire",
            "kscope.bench.player.arrays")  # fmt: skip


def functions() -> dict[str, Any]:
    """Every function of the modules that a harness relies on."""
    found = {}
    for place in (*CLOCKS, *CHECKERS):
        for name, value in _members(place):
            if callable(value):
                found[f"{place}.{name}"] = value
    return found


def replaced(before: Mapping[str, Any]) -> list[str]:
    """Names whose functions are others than before, and come from elsewhere: frameworks wrap their own. What was not
    there is new, not replaced."""
    now = functions()
    return sorted(name for name, one in before.items() if now.get(name, one) is not one and _foreign(name, now[name]))


def _foreign(name: str, value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] != name.partition(".")[0]


def _members(place: str) -> Iterable[tuple[str, Any]]:
    owner: Any = sys.modules.get(place)
    if owner is None:
        parent, _, name = place.rpartition(".")
        owner = getattr(sys.modules.get(parent), name, None) if parent in sys.modules else None
    return list(vars(owner).items()) if owner is not None and hasattr(owner, "__dict__") else []


def settings() -> dict[str, str]:
    """Global settings that change what other code computes, or how fast."""
    found: dict[str, str] = {}
    torch = sys.modules.get("torch")
    if torch is not None:
        asked: dict[str, Callable[[], Any]] = {
            "float32 matmul precision": torch.get_float32_matmul_precision,
            "TF32 in matmul": lambda: torch.backends.cuda.matmul.allow_tf32,
            "TF32 in cuDNN": lambda: torch.backends.cudnn.allow_tf32,
            "reduced precision in fp16 sums": lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
            "reduced precision in bf16 sums": lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
            "default data type": torch.get_default_dtype, "threads": torch.get_num_threads,
            "flushes denormals": lambda: bool((torch.tensor(1e-310, dtype=torch.float64) * 1.0) == 0.0),
        }  # fmt: skip
        for name, ask in asked.items():
            try:
                found[name] = str(ask())
            except Exception:  # a build without it
                continue
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy's errors"] = str(sorted(numpy.geterr().items()))
    return found


def caught_inside(watch: Watch, call: Callable[[], Any]) -> list[str]:
    """Exceptions that are raised below the candidate's own frames in one call that ends well, as `TypeError at
    file:line`. Slow: never while anything is timed."""
    found: list[str] = []

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception" and watch.own(frame.f_code.co_filename):
            kind, value, _ = argument
            if kind not in (StopIteration, GeneratorExit):
                where = os.path.basename(frame.f_code.co_filename)
                found.append(f"{kind.__name__} at {where}:{frame.f_lineno}: {str(value)[:120]}")
        return local

    phase, watch.phase = watch.phase, ""
    before = sys.gettrace()
    sys.settrace(local)
    try:
        call()
    finally:
        sys.settrace(before)
        watch.phase = phase
    return found
