"""Where a report goes: standard output or a file that is not overwritten without being asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kscope.model.errors import EXIT_USAGE, KscopeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

NARROW, PIPE, WIDE = 60, 80, 100


def check_target(path: Path, inputs: Sequence[str], *, force: bool, option: str = "-o") -> None:
    """Refuse a target that would destroy something, before any work is done. Raises KscopeError (status 2)."""
    if any(path.exists() and Path(one).exists() and path.samefile(one) for one in inputs):
        raise KscopeError("exists", f"{path}: is one of the inputs", f"give {option} another name", EXIT_USAGE)
    if path.is_file() and not force:
        raise KscopeError("exists", f"{path}: exists already", "pass --force to overwrite it", EXIT_USAGE)
    if path.is_dir():
        raise KscopeError("unwritable", f"{path}: is a folder", f"give {option} a file name", EXIT_USAGE)
    if not path.absolute().parent.is_dir():
        raise KscopeError("unwritable", f"{path}: its folder does not exist", "create it first", EXIT_USAGE)


def write_file(path: Path, text: str, *, force: bool) -> None:
    """Write UTF-8 and say so on standard error. Raises KscopeError (status 2) where that cannot be done."""
    mode = "w" if force or (path.exists() and not path.is_file()) else "x"  # "x": another process may have been first
    try:
        with path.open(mode, encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise KscopeError("exists", f"{path}: exists already", "pass --force to overwrite it", EXIT_USAGE) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise KscopeError("unwritable", f"{path}: {reason}", "choose another place for -o", EXIT_USAGE) from None
    print(f"Wrote {path}", file=sys.stderr)


def write_stdout(text: str, stream: TextIO | None = None) -> None:
    """Write to standard output, or another stream; a reader that leaves early (`| head`) is no fault and changes no
    exit status."""
    out = stream or sys.stdout
    encoding = out.encoding or "utf-8"
    try:
        out.write(text.encode(encoding, "replace").decode(encoding))
        out.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def stdout_width(stream: TextIO | None = None) -> int:
    """Columns for the report: the terminal's, at most 100; 80 in a pipe. Of standard output, or of another stream."""
    if not (stream or sys.stdout).isatty():
        return PIPE
    import shutil

    return min(max(shutil.get_terminal_size((PIPE, 24)).columns, NARROW), WIDE)


def stdout_color(no_color: bool, stream: TextIO | None = None) -> bool:
    """Colour only on a terminal that wants it (https://no-color.org)."""
    wanted = not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and (stream or sys.stdout).isatty()


def stdout_unicode(stream: TextIO | None = None) -> bool:
    return ((stream or sys.stdout).encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")
