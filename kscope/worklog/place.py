"""Where worklogs are: the one of this repository, and those that the user listed in the folder of state."""

from __future__ import annotations

import os
from pathlib import Path

from kscope.arch.user import state_folder
from kscope.model.errors import EXIT_USAGE, KscopeError

FOLDER, NAME = ".kscope", "worklog.db"
LISTED = "worklogs.txt"


def default(start: Path | None = None) -> Path:
    """KSCOPE_WORKLOG, or the nearest `.kscope/worklog.db` at or above `start`; where there is none, the one that would
    be made: beside `.git`, else in `start` itself. Raises KscopeError for one of another user."""
    if named := os.environ.get("KSCOPE_WORKLOG"):
        return Path(named)
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FOLDER / NAME).is_file():
            return _ours(folder / FOLDER / NAME)
        if (folder / ".git").exists():
            return folder / FOLDER / NAME
    return here / FOLDER / NAME


def _ours(path: Path) -> Path:
    """A worklog that was found, not named: of a folder above that is anybody's, it may be anybody's. Raises KscopeError
    (status 2)."""
    if hasattr(os, "geteuid") and path.stat().st_uid not in (os.geteuid(), 0):
        raise KscopeError("not-ours", f"{path}: belongs to another user", "name it with --worklog", EXIT_USAGE)
    return path


def listed() -> list[Path]:
    """The worklogs of `worklogs.txt`, in its order, whether or not they are there. One path a line, # for a comment."""
    where = state_folder()
    if where is None:
        return []
    try:
        text = (where / LISTED).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    return [Path(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def remember(path: Path, *, forget: bool = False) -> None:
    """Put a worklog on the list, or take it off. Raises KscopeError (status 2) where the list cannot be written."""
    where = state_folder()
    if where is None:
        hint = "set KSCOPE_STATE_DIR to a folder"
        raise KscopeError("no-state", "the folder of state is turned off (KSCOPE_STATE_DIR=)", hint, EXIT_USAGE)
    mine = path.absolute()
    kept = [one for one in listed() if one != mine] + ([] if forget else [mine])
    try:
        where.mkdir(parents=True, exist_ok=True)
        temporary = where / f".{LISTED}.{os.getpid()}.tmp"
        temporary.write_text("".join(f"{one}\n" for one in kept), encoding="utf-8", errors="surrogateescape")
        temporary.replace(where / LISTED)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise KscopeError("unwritable", f"{where / LISTED}: {reason}", "set KSCOPE_STATE_DIR", EXIT_USAGE) from None
