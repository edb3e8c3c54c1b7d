"""Where a report goes: standard output or a file that is not overwritten without being asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from kscope.model.errors import EXIT_USAGE, KscopeError, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

NARROW, PIPE, WIDE, WIDEST = 40, 80, 100, 400  # columns


def say(text: str) -> None:
    """One line on standard error: nothing in it moves a cursor, and what the stream cannot encode is replaced. The one
    way to standard error: messages hold names of files and of what is in them."""
    encoding = sys.stderr.encoding or "utf-8"
    print(one_line(text).encode(encoding, "replace").decode(encoding), file=sys.stderr)


def redraw(text: str) -> None:
    """The last line of a terminal on standard error in place of what stands there; an empty one leaves nothing."""
    import shutil

    encoding = sys.stderr.encoding or "utf-8"
    room = shutil.get_terminal_size((PIPE, 24)).columns - 1  # in the last column a terminal would wrap
    shown = one_line(text)[:room].encode(encoding, "replace").decode(encoding)
    print(f"\r\x1b[K{shown}", end="", flush=True, file=sys.stderr)


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
    """Write UTF-8 and say so on standard error. A file that is there is replaced once the new one is complete; of a new
    one nothing is left where the disk is full. Raises KscopeError (status 2) where that cannot be done."""
    data = text.encode("utf-8", "replace")
    try:
        if path.is_file() and force:
            _replace(path.resolve(), data)
        elif path.exists() and not path.is_file():  # a device
            path.write_bytes(data)
        else:
            _create(path, data)  # fails where another process was first
    except FileExistsError:
        raise KscopeError("exists", f"{path}: exists already", "pass --force to overwrite it", EXIT_USAGE) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise KscopeError("unwritable", f"{path}: {reason}", "choose another place for -o", EXIT_USAGE) from None
    say(f"Wrote {path}")


def _create(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            path.unlink()
            raise


def _replace(path: Path, data: bytes) -> None:
    """Write beside a file, then take its place, with its permissions."""
    beside = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    try:
        _create(beside, data)
    except PermissionError:  # a folder in which files may be changed, not made
        path.write_bytes(data)
        return
    try:
        beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path)
    except OSError:
        beside.unlink()
        raise


def write_stdout(text: str, stream: TextIO | None = None) -> None:
    """Write to standard output, or another stream; a reader that leaves early (`| head`) is no fault and changes no
    exit status. Raises OSError where the stream cannot be written: a full disk, a closed descriptor."""
    out = stream or sys.stdout
    encoding = out.encoding or "utf-8"
    try:
        out.write(text.encode(encoding, "replace").decode(encoding))
        out.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def put(text: str, output: Path | None, *, force: bool) -> None:
    """Text that took no time to make: into the file that -o names, or to standard output (also for `-`). Raises
    KscopeError (status 2) where the file cannot be written."""
    if output is None or str(output) == "-":
        return write_stdout(text)
    check_target(output, [], force=force)
    return write_file(output, text, force=force)


class Look(TypedDict):
    """What the text of a report asks of where it goes."""

    width: int
    color: bool
    unicode: bool


def look(no_color: bool, *, to_file: bool = False, in_file: int = WIDE) -> Look:
    """Of a file: so many columns, no colour. Of standard output: what it can show."""
    if to_file:
        return Look(width=in_file, color=False, unicode=True)
    return Look(width=stdout_width(), color=stdout_color(no_color), unicode=stdout_unicode())


def stdout_width(stream: TextIO | None = None) -> int:
    """Columns for the report: COLUMNS where that is set, else the terminal's, else 80 (in a pipe)."""
    return columns(PIPE, stream)


def columns(in_pipe: int, stream: TextIO | None = None) -> int:
    """The same with another width for pipes. Of standard output, or of another stream."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit() and int(asked) > 0:
        return min(max(int(asked), NARROW), WIDEST)
    out = stream or sys.stdout
    if not out.isatty():
        return in_pipe
    try:
        found = os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        found = 0
    return min(max(found, NARROW), WIDEST) if found else in_pipe


def stdout_cuts(stream: TextIO | None = None) -> bool:
    """Whether lines are cut at the width: on a terminal, which would wrap them, and where COLUMNS asks for one. What
    goes through a pipe keeps its instructions whole."""
    return (stream or sys.stdout).isatty() or bool(os.environ.get("COLUMNS"))


def stdout_color(no_color: bool, stream: TextIO | None = None) -> bool:
    """Colour on a terminal that wants it, or where FORCE_COLOR (https://force-color.org) asks for it; NO_COLOR
    (https://no-color.org) and --no-color are stronger."""
    if no_color or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and (stream or sys.stdout).isatty()


def stdout_unicode(stream: TextIO | None = None) -> bool:
    return ((stream or sys.stdout).encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")
