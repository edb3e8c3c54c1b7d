"""When and how `kscope run --tool torch` records: the profiler around a part of the program.

Runs in the program's own interpreter as part of _launcher.py, which says what is recorded: the standard library alone,
and the torch that the program has imported.

A recording never begins while a range is open that an earlier one has seen begin: torch (to 2.13 at least) then writes
the range's end into memory that the earlier one has given back (https://github.com/pytorch/pytorch/pull/188172 mends it
for recordings of all threads), and the program dies of it some time later.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time
import weakref
from types import CellType, ModuleType
from typing import Any

AGAIN = 3.0  # each timed recording starts this many times later than the one before
RETRY_S = 0.05
TRIES = 40  # 2 s of them: calls of torch that stay open longer have the program's own loop inside
# Where torch's Python calls into C++, which opens a range and calls Python again: backward, functions and operators
# that are written in Python, compiled code.
CALLS_BACK = {
    "autograd", "_dynamo", "_functorch", "_higher_order_ops", "_inductor", "_library", "_ops.py", "_tensor.py",
}  # fmt: skip


class Recorder:
    """The profiler and what it recorded last. Nothing that goes wrong here reaches the program."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.pid = os.getpid()
        self.torch: Any = None
        self.profiler: Any = None
        self.early: Any = None  # what was stopped before what is asked for: it, its seconds, words
        self.range: Any = None
        self.optimizer: int | None = None
        self.count = 0  # optimizer steps
        self.begun = self.first = 0.0
        self.recorded = ""
        self.fault = ""
        self.finished = False
        self.calls: list[object] = []
        self.torn: list[tuple[Any, object, bool]] = []  # ranges that were open when a recording ended: by whom, which
        self.tries = 0
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
        if self.count or self.finished:
            return
        inside = self.calling_back()
        if (inside and self.tries < TRIES) or (self.profiler is None and self.still_open()):
            self.tries += inside
            self.later(RETRY_S, self.timed_start)
            return
        self.tries = 0
        if self.profiler is not None and not inside:
            self.drop(f"its first {time.monotonic() - self.begun:.3g} s")
            if self.torn:
                self.later(RETRY_S, self.timed_start)
                return
        if self.profiler is None:
            self.start()  # else what runs since the first use goes on
        self.later(self.config["seconds"], self.timed_stop)

    def timed_stop(self) -> None:
        if self.count or self.finished:
            return
        inside = self.calling_back()
        if inside and self.tries < TRIES:
            self.tries += 1
            self.later(RETRY_S, self.timed_stop)
            return
        self.tries, self.finished = 0, inside  # a range of C++ that was torn cannot be followed: the last recording
        after = self.begun - self.first
        length = f"{self.config['seconds'] if after else time.monotonic() - self.begun:.3g} s"
        self.save(f"{length}, {after:.0f} s after the first use of the GPU")
        if self.config["stop"]:
            self.end()
        else:
            self.later(max(after * (AGAIN - 1), 1.0), self.timed_start)

    def stepped(self, optimizer: Any, args: object, kwargs: object) -> None:
        """After each step of the first optimizer that is seen, still inside the step's own range."""
        if self.finished or os.getpid() != self.pid or self.optimizer not in (None, id(optimizer)):
            return
        self.optimizer = id(optimizer)
        self.count += 1
        done = self.count - self.config["warmup"]
        if done == -1 and self.profiler is not None and self.only_step_open():
            self.drop(f"its first {self.count} steps")  # else it goes on through the steps that are asked for
        if done < 0:
            return
        if self.profiler is None:
            if self.still_open():
                self.count -= 1  # after the next step, then
                return
            self.finished = not self.start()
            if self.finished:
                return
            self.count, done = self.config["warmup"], 0
        self.close_range()
        if done == self.config["steps"]:
            self.finished = True
            self.save(f"{done} steps after {self.config['warmup']}")
            if self.config["stop"]:
                self.end()
        else:
            self.range = self.torch.autograd.profiler.record_function(f"kscope step {done}")
            self.range.__enter__()

    def finish(self) -> None:
        """At the end of the program: keep what runs."""
        if os.getpid() != self.pid:
            return  # a forked worker
        finished, self.finished = self.finished, True  # what is still to be called in time finds nothing to do
        self.close_range()
        length = 0.0 if self.profiler is None else time.monotonic() - self.begun
        if self.early and not self.recorded and self.count <= self.config["warmup"] and length < self.early[1]:
            if self.profiler is not None:
                self.profiler.stop()
                self.kept.append(self.profiler)
            self.profiler = self.early[0]
            self.save(self.early[2])
        elif self.profiler is not None and not finished:
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
        """Begin a recording. False where it could not begin."""
        torch = self.torch
        try:
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

    def drop(self, what: str) -> None:
        profiler, self.profiler = self.profiler, None
        self.kept.append(profiler)
        profiler.stop()
        self.torn += self.open_ranges()
        self.early = (profiler, time.monotonic() - self.begun, what)

    def save(self, what: str) -> None:
        profiler, self.profiler = self.profiler, None
        if profiler is None:
            return
        self.kept.append(profiler)
        try:
            if not self.early or profiler is not self.early[0]:
                profiler.stop()
                self.torn += [] if self.finished else self.open_ranges()
            folder, name = os.path.split(self.config["out"])
            part = os.path.join(folder, f".part-{name}")  # so that a kill never leaves half a trace
            profiler.export_chrome_trace(part)
            os.replace(part, self.config["out"])
            self.recorded, self.fault = what, ""
        except Exception as e:
            self.fault = f"the trace was not written: {type(e).__name__}: {e}"

    def open_ranges(self) -> list[tuple[Any, object, bool]]:
        """The program's ranges that are open, or may be: one that was kept cannot be asked whether it has ended. By
        whom, which of its ranges, and whether that is a function's decorator."""
        kind, there, cells = self.torch.autograd.profiler.record_function, [], []
        for one in gc.get_objects():
            if type(one) is kind and one is not self.range:
                there.append(one)
            elif type(one) is CellType:
                cells.append(one)
        held = {id(c.cell_contents) for c in cells if c != CellType()}
        return [one for one in ((weakref.ref(o), o.record, id(o) in held) for o in there) if self.is_open(*one)]

    def still_open(self) -> bool:
        self.torn = [one for one in self.torn if self.is_open(*one)]
        return bool(self.torn)

    def is_open(self, by: Any, which: object, decorator: bool) -> bool:
        """A decorator lives as long as its function; its range is open only while that is called."""
        one = by()
        if which is None or getattr(one, "record", None) is not which:
            return False
        frame = sys._getframe() if decorator else None
        while frame is not None and not (frame.f_code.co_name == "inner" and frame.f_locals.get("self") is one):
            frame = frame.f_back
        return frame is not None or not decorator

    def only_step_open(self) -> bool:
        names = [str(getattr(r(), "name", "")) for r, *_ in self.open_ranges()]
        return all(n.startswith("Optimizer.step") for n in names) and not self.calling_back()

    def calling_back(self) -> bool:
        """The program is inside a call of torch's C++ that may have a range open."""
        folder, frame, stack = os.path.dirname(self.torch.__file__), sys._getframe(), []
        while frame is not None:
            stack.append(frame.f_code)
            frame = frame.f_back  # type: ignore[assignment]
        own = max(i for i, code in enumerate(stack) if code.co_filename == __file__)
        inside = [(c.co_name, os.path.relpath(c.co_filename, folder).split(os.sep)[0]) for c in stack[own + 1 :]]
        while inside and inside[0][1] in ("_compile.py", "_dynamo"):
            del inside[0]  # what keeps the compiler out of this file
        return any(name == "__torch_dispatch__" or part in CALLS_BACK for name, part in inside)

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
