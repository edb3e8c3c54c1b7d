"""The first and last step of the process. `kscope analyze report.ncu-rep` starts the reader of that report, and only
then imports the command line: NVIDIA's library takes 0.1 s to decode a kernel, about as long as all imports together.
"""

from __future__ import annotations

from kscope.cli.import_path import leave_out_current_folder

# ruff: noqa: E402
leave_out_current_folder()  # before anything is imported that the current folder may have, too

import gc
import io
import os
import signal
import sys

from kscope.engine.inputs import ahead
from kscope.parsers import scratch
from kscope.parsers.files import forked

TYPE_CHECKING = False  # the typing module itself takes 9 ms
if TYPE_CHECKING:
    from typing import NoReturn

ENDS = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""What tells the process to end: a batch system, a terminal that was closed."""
READS_ONLY = ("analyze", "diff")
"""Commands that start no program of the user's: what is set in the environment here reaches NVIDIA's tools at most."""


def main() -> NoReturn:
    """The console script: kscope.cli.main with the first report opened ahead. Ends the process."""
    gc.disable()  # one command and out: what is garbage goes by its reference counts
    _open_streams()
    status: str | int | None
    try:
        status = _run(sys.argv[1:])
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:  # while the command line is imported
        status = 130
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # clearing up is not interrupted
        forked.end_all()
        scratch.clear()
    _leave(status)


def _run(argv: list[str]) -> NoReturn:
    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    if argv and argv[0] in READS_ONLY:
        # numpy's OpenBLAS starts a thread a core, which spin for a tenth of a second; nothing here multiplies matrices
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if argv[:1] == ["analyze"]:
            report = next((a for a in argv if a.endswith(".ncu-rep")), None)
            if report is not None:
                ahead.start(report, charts=_draws(argv), jobs=_jobs(argv))
        from kscope.cli.main import main as run

        run(argv)
    finally:
        ahead.close()


def _end(number: int, _: object) -> None:
    """Told to end: as an exception, so that temporary files go, without the tools that threads wait for."""
    for other in ENDS:
        signal.signal(other, signal.SIG_IGN)  # told once: clearing up is not interrupted
    stop = getattr(sys.modules.get("kscope.parsers.toolchain"), "stop", None)  # it may be half imported
    if stop is None or stop(128 + number):
        sys.exit(128 + number)


def _interrupt(number: int, _: object) -> None:
    """Ctrl-C: KeyboardInterrupt, as ever, but not between the start of a tool and its being known."""
    stop = getattr(sys.modules.get("kscope.parsers.toolchain"), "stop", None)  # it may be half imported
    if stop is None or stop(128 + number):
        raise KeyboardInterrupt


def _open_streams() -> None:
    """A standard stream that the caller closed becomes one that fails at use: left closed, its number would go to the
    next file that is opened, and what is printed into that file. Nobody reads a closed standard error: it goes nowhere.
    """
    for number, name, modes in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, modes)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # PYTHONUNBUFFERED writes through to the file, and passes over it when only a part found room
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            whole = io.BufferedWriter(stream.buffer)
            setattr(sys, name, io.TextIOWrapper(whole, stream.encoding, stream.errors, write_through=True,
                                                line_buffering=True))  # fmt: skip


def _draws(argv: list[str]) -> bool:
    """Whether the output shows charts, whose data the reader decodes only then."""
    return any(a in ("html", "--format=html", "--plot") or a.startswith("--plot=") or a.endswith(".html") for a in argv)


def _jobs(argv: list[str]) -> int:
    """Processes that `kscope analyze` will use: --jobs, else one for each core."""
    for at, word in enumerate(argv):
        value = word.removeprefix("--jobs=") if word != "--jobs" else "".join(argv[at + 1 : at + 2])
        if word.startswith("--jobs"):
            return int(value) if value.isascii() and value.isdigit() and len(value) < 4 else 1
    return forked.cores()


def _leave(status: str | int | None) -> NoReturn:
    """End without taking every object apart, which takes 10 ms, more for large reports. Nothing is left to be done:
    files and processes are closed where they are used."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read the pipe had enough
            continue
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)
