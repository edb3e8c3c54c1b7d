"""When and how `kscope run --tool torch` records: the profiler around a part of the program.

Runs in the program's own interpreter as part of _launcher.py, which says what is recorded: the standard library alone,
and the torch that the program has imported.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from types import ModuleType
from typing import Any

AGAIN = 3.0  # each timed recording starts this many times later than the one before
RETRY_S = 0.05


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
