"""The first and last step of the process. `kscope analyze report.ncu-rep` starts the reader of that report, and only
then imports the command line: NVIDIA's library takes 0.1 s to decode a kernel, about as long as all imports together.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from kscope.engine import ahead

TYPE_CHECKING = False  # the typing module itself takes 9 ms
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """The console script: kscope.cli.main with the first report opened ahead. Ends the process."""
    gc.disable()  # one command and out: what is garbage goes by its reference counts
    _open_streams()
    signal.signal(signal.SIGTERM, _end)
    argv = sys.argv[1:]
    if argv[:1] == ["analyze"]:
        report = next((a for a in argv if a.endswith(".ncu-rep")), None)
        if report is not None:
            ahead.start(report, charts=_draws(argv))
    try:
        from kscope.cli.main import main as run

        run(argv)
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:  # while the command line is imported
        status = 130
    finally:
        ahead.close()
    _leave(status)


def _end(number: int, _: object) -> NoReturn:
    """Told to end: as an exception, so that temporary files go, without the tools that threads wait for."""
    if (tools := sys.modules.get("kscope.parsers.toolchain")) is not None:
        tools.stop()
    sys.exit(128 + number)


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


def _draws(argv: list[str]) -> bool:
    """Whether the output shows charts, whose data the reader decodes only then."""
    return any(a in ("html", "--format=html", "--plot") or a.startswith("--plot=") or a.endswith(".html") for a in argv)


def _leave(status: str | int | None) -> NoReturn:
    """End without taking every object apart, which takes 10 ms, more for large reports. Nothing is left to be done:
    files and processes are closed where they are used."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # whoever read the pipe had enough
            continue
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)
