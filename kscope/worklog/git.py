"""What git says of the code: commit, branch, uncommitted changes. git is called as a program, without a shell; where
it is missing, or nothing is a repository, an entry simply has no such facts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from kscope.parsers import scratch

SECONDS = 20.0  # judged: a repository whose state takes longer to ask for has no facts
LARGEST_FILE = 256 << 10  # bytes of a file that git does not know yet; larger ones are data, not code
LARGEST_PATCH = 4 << 20
_SETTINGS = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "core.quotePath=false", "color.ui=never")
_QUIET = tuple(word for setting in _SETTINGS for word in ("-c", setting))
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--unified=3")
_NOT_OURS = (":/", ":(top,exclude).kscope")


class State(Struct, frozen=True):
    """patch: changes against `commit`, new files among them; "" where there are none. left_out: new files too large to
    be code."""

    commit: str
    branch: str | None
    patch: str
    left_out: tuple[str, ...]


def state(folder: Path) -> State | None:
    """The state of the repository that `folder` is in; None where there is none, no commit, or no git."""
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return None
    branch = _git(folder, "symbolic-ref", "--short", "--quiet", "HEAD")
    patch, left_out = _changes(folder, "HEAD")
    return State(commit.strip(), branch.strip() if branch else None, patch, left_out)


def since(folder: Path, commit: str) -> str | None:
    """What changed from a commit to the files as they are; None where it cannot be told."""
    if not _is_commit(commit) or _git(folder, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return None
    return _changes(folder, commit)[0]


def add_note(folder: Path, ref: str, commit: str, text: str) -> str:
    """Replace the note of a commit. Returns what went wrong, "" for nothing."""
    if not _is_commit(commit) or _git(folder, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        return "no such commit here"
    done = _run(folder, ("notes", f"--ref={ref}", "add", "-f", "-F", "-", commit), text)
    return "" if done is not None and done[0] == 0 else "git notes failed: is user.name set?"


def note(folder: Path, ref: str, commit: str) -> str:
    """The note of a commit, "" for none."""
    return (_git(folder, "notes", f"--ref={ref}", "show", commit) if _is_commit(commit) else None) or ""


def noted(folder: Path, ref: str) -> list[str] | None:
    """The commits that have a note; None where there is no repository or no git."""
    if _git(folder, "rev-parse", "--git-dir") is None:
        return None
    listed = _git(folder, "notes", f"--ref={ref}", "list") or ""
    return [line.split()[1] for line in listed.splitlines() if len(line.split()) == 2]


def _changes(folder: Path, commit: str) -> tuple[str, tuple[str, ...]]:
    """A patch against `commit` that has new files too: they are announced to a copy of the index, which is thrown
    away."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    index = _git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index")
    if top is None or index is None:
        return "", ()
    root = Path(top.rstrip("\n"))
    new, left_out = _new_files(root)
    with scratch.folder() as temporary:
        copy = Path(temporary) / "index"
        if Path(index.rstrip("\n")).is_file():
            shutil.copyfile(index.rstrip("\n"), copy)
        env = {"GIT_INDEX_FILE": str(copy)}
        if new:
            _run(root, ("add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"),
                 "\0".join(f":(top,literal){name}" for name in new), env)  # fmt: skip
        done = _run(root, (*_DIFF, commit, "--", *_NOT_OURS), env=env)
    text = done[1] if done is not None and done[0] == 0 else ""
    if len(text) > LARGEST_PATCH:
        return "", (*left_out, "the patch: too large")
    return text, left_out


def _new_files(root: Path) -> tuple[list[str], tuple[str, ...]]:
    """Files that git neither knows nor ignores: (small ones, names of the others)."""
    listed = _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *_NOT_OURS) or ""
    small: list[str] = []
    large: list[str] = []
    for name in filter(None, listed.split("\0")):
        path = root / name
        try:
            about = path.lstat()
        except (OSError, ValueError):
            continue
        if path.is_symlink() or path.is_file():
            (small if about.st_size <= LARGEST_FILE else large).append(name)
    return small, tuple(large)


def _is_commit(text: str) -> bool:
    """A full hash: nothing else from a worklog is passed to git."""
    return len(text) in (40, 64) and set(text) <= set("0123456789abcdef")


def _git(folder: Path, *arguments: str) -> str | None:
    done = _run(folder, arguments)
    return done[1] if done is not None and done[0] == 0 else None


def _run(
    folder: Path, arguments: tuple[str, ...], text: str = "", env: dict[str, str] | None = None
) -> tuple[int, str] | None:
    program = shutil.which("git")
    if program is None:
        return None
    variables = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", **(env or {})}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_EXTERNAL_DIFF"):  # as a hook or merge driver is called
        variables.pop(name, None)
    if env is None:
        variables.pop("GIT_INDEX_FILE", None)
    try:
        done = subprocess.run(
            [program, "-C", str(folder), *_QUIET, *arguments], input=text.encode("utf-8", "surrogateescape"),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS, env=variables, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape")
