"""Runs a Python program unchanged with torch.profiler around a part of it: `kscope run --tool torch`.

    python _launcher.py CONFIG script PATH ARGS... | module NAME ARGS... | code TEXT ARGS...

Runs in the program's own interpreter, where kscope is not installed: the standard library alone, and torch once the
program has imported it. CONFIG is JSON: out, steps, warmup, after, seconds, whole, stop, cuda. Beside `out`, the trace,
`out`.state says in JSON what was recorded.

What is recorded: with an optimizer, `steps` steps after `warmup`, each in a range "kscope step N"; without one,
`seconds` of it `after` the first use of the GPU, and again each time that the program has run three times as long, so
that the last recording is of its steady state; in programs shorter than that, all of it.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.util
import json
import os
import runpy
import signal
import sys
import threading
import time
from types import ModuleType, TracebackType
from typing import Any

AGAIN = 3.0  # each timed recording starts this many times later than the one before
RETRY_S = 0.05
SAFE = bool(getattr(sys.flags, "safe_path", sys.flags.isolated))
if not SAFE:
    del sys.path[0]  # the folder of this file: its modules must not shadow the program's


class Recorder:
    """The profiler and what it recorded last. Nothing that goes wrong here reaches the program."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.pid = os.getpid()
        self.torch: Any = None
        self.profiler: Any = None
        self.range: Any = None
        self.optimizer: int | None = None
        self.count = 0  # optimizer steps
        self.begun = self.first = 0.0
        self.recorded = ""
        self.fault = ""
        self.finished = False
        self.calls: list[object] = []
        self.kept: list[object] = []  # torch 2.13 crashes at exit if a profiler goes that was stopped inside a range

    # --- when

    def imported(self, torch: ModuleType) -> None:
        """torch is there: wait for the GPU's first use, or begin at once where there is none."""
        self.torch = torch
        from torch.optim import optimizer

        register = getattr(optimizer, "register_optimizer_step_post_hook", None)
        if register is not None and not self.config["whole"]:
            register(self.quiet(self.stepped))
        if self.config["cuda"] and torch.version.cuda is not None and hasattr(torch.cuda, "_lazy_call"):
            torch.cuda._lazy_call(self.first_use)
        else:
            self.first_use()

    def first_use(self) -> None:
        self.start()
        if not self.config["whole"]:
            self.later(self.config["after"], self.timed_start)

    def timed_start(self) -> None:
        if not self.count and not self.finished:
            self.start()
            self.later(self.config["seconds"], self.timed_stop)

    def timed_stop(self) -> None:
        if self.count or self.finished:
            return
        after = self.begun - self.first
        self.save(f"{self.config['seconds']:g} s, {after:.0f} s after the first use of the GPU")
        if self.config["stop"]:
            self.end()
        else:
            self.later(max(after * (AGAIN - 1), 1.0), self.timed_start)

    def stepped(self, optimizer: Any, args: object, kwargs: object) -> None:
        """After each step of the first optimizer that is seen."""
        if self.finished or os.getpid() != self.pid or self.optimizer not in (None, id(optimizer)):
            return
        self.optimizer = id(optimizer)
        self.count += 1
        done = self.count - self.config["warmup"]
        if done < 0 or (done == 0 and not self.start()):
            return
        self.close_range()
        if done == self.config["steps"]:
            self.save(f"{done} steps after {self.config['warmup']}")
            self.finished = True
            if self.config["stop"]:
                self.end()
        else:
            self.range = self.torch.autograd.profiler.record_function(f"kscope step {done}")
            self.range.__enter__()

    def finish(self) -> None:
        """At the end of the program: keep what runs."""
        if os.getpid() != self.pid:
            return  # a forked worker
        self.close_range()
        if self.profiler is not None and not self.finished:
            done = self.count - self.config["warmup"]
            if self.count and done > 0:
                self.save(f"{done} steps after {self.config['warmup']}; the program ended there")
            elif not self.recorded or self.count:
                after = self.begun - self.first
                self.save(f"from {after:.0f} s after the first use of the GPU to the end" if after else "all of it")
        state = {
            "recorded": self.recorded, "fault": self.fault, "steps": self.count,
            "torch": getattr(self.torch, "__version__", None),
        }  # fmt: skip
        with open(f"{self.config['out']}.state", "w", encoding="utf-8") as file:
            json.dump(state, file)

    # --- how

    def start(self) -> bool:
        """Begin a recording; one that runs is thrown away. False where it could not begin."""
        torch = self.torch
        try:
            if self.profiler is not None:
                self.drop()
            kinds = torch.profiler.ProfilerActivity
            kinds = [kinds.CPU, kinds.CUDA] if self.config["cuda"] else [kinds.CPU]
            self.profiler = torch.profiler.profile(activities=kinds, record_shapes=self.config["shapes"])
            self.profiler.start()
            self.begun = time.monotonic()
            self.first = self.first or self.begun
            return True
        except Exception as e:
            self.profiler = None
            self.fault = f"the profiler did not start: {type(e).__name__}: {e}"
            return False

    def drop(self) -> None:
        profiler, self.profiler = self.profiler, None
        self.kept.append(profiler)
        profiler.stop()

    def save(self, what: str) -> None:
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        self.kept.append(profiler)
        try:
            profiler.stop()
            folder, name = os.path.split(self.config["out"])
            part = os.path.join(folder, f".part-{name}")  # so that a kill never leaves half a trace
            profiler.export_chrome_trace(part)
            os.replace(part, self.config["out"])
            self.recorded, self.fault = what, ""
        except Exception as e:
            self.fault = f"the trace was not written: {type(e).__name__}: {e}"

    def close_range(self) -> None:
        if self.range is not None:
            self.range.__exit__(None, None, None)
            self.range = None

    def quiet(self, what: Any) -> Any:
        """A function that torch.compile does not look into."""

        def function(*args: Any) -> Any:
            return what(*args)

        disable = getattr(self.torch, "_disable_dynamo", None)
        return disable(function) if disable else function

    def end(self) -> None:
        """Interrupt the program, from a thread: inside a call from C the interrupt would be lost."""
        timer = threading.Timer(RETRY_S, os.kill, (self.pid, signal.SIGINT))
        timer.daemon = True
        timer.start()

    def later(self, seconds: float, what: Any) -> None:
        """Call it in the main thread, between two of its bytecodes: the profiler follows the thread that starts it."""

        def call(_: object) -> int:
            try:
                if self.torch.cuda.is_initialized() and self.torch.cuda.is_current_stream_capturing():
                    self.later(RETRY_S, what)
                else:
                    (self.quiet(what) if "torch._dynamo" in sys.modules else what)()
            except Exception as e:
                self.fault = self.fault or f"{type(e).__name__}: {e}"
            return 0

        pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(call)
        self.calls = [*self.calls[-4:], pending]  # must outlive the call
        timer = threading.Timer(seconds, lambda: ctypes.pythonapi.Py_AddPendingCall(pending, None))
        timer.daemon = True
        timer.start()


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls back once when the program has imported torch."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run, recorder = spec.loader.exec_module, self.recorder

        def exec_module(module: ModuleType) -> None:
            run(module)
            try:
                recorder.imported(module)
            except Exception as e:
                recorder.fault = f"{type(e).__name__}: {e}"

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def run(kind: str, target: str, args: list[str]) -> None:
    """As `python script.py`, `python -m module` or `python -c code` would."""
    sys.argv = ["-c" if kind == "code" else target, *args]
    if kind == "module":
        if not SAFE:
            sys.path.insert(0, os.getcwd())
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    elif os.path.isdir(target) or target.endswith((".pyz", ".zip")):
        runpy.run_path(target, run_name="__main__")
    else:
        main = sys.modules["__main__"] = ModuleType("__main__")
        where = "<string>"
        source: str | bytes = target
        if kind == "script":
            with open(target, "rb") as file:
                source = file.read()
            where = main.__file__ = os.path.abspath(target)
        if not SAFE:
            sys.path.insert(0, os.path.dirname(os.path.realpath(target)) if kind == "script" else "")
        exec(compile(source, where, "exec", dont_inherit=True), vars(main))


def own(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this file and of runpy."""
    while trace is not None and os.path.basename(trace.tb_frame.f_code.co_filename) in (
        os.path.basename(__file__), "runpy.py", "<frozen runpy>",
    ):  # fmt: skip
        trace = trace.tb_next
    return trace


def main() -> None:
    recorder = Recorder(json.loads(sys.argv[1]))
    sys.meta_path.insert(0, AfterImport(recorder))
    try:
        run(sys.argv[2], sys.argv[3], sys.argv[4:])
    except SystemExit:
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except BaseException as e:
        e = e.with_traceback(own(e.__traceback__))
        sys.excepthook(type(e), e, e.__traceback__)
        sys.exit(1)
    finally:
        recorder.finish()


if __name__ == "__main__":
    main()
