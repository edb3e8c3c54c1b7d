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

import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
from types import ModuleType, TracebackType
from typing import Any

SAFE = bool(getattr(sys.flags, "safe_path", sys.flags.isolated))
if not SAFE:
    del sys.path[0]  # the folder of this file: its modules must not shadow the program's
BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_recorder.py")
_spec: Any = importlib.util.spec_from_file_location("_kscope_recorder", BESIDE)
_recorder: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_recorder)


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls back once when the program has imported torch."""

    def __init__(self, recorder: Any) -> None:
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
    recorder = _recorder.Recorder(json.loads(sys.argv[1]))
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
