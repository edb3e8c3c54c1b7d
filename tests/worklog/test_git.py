"""What git says of the code, with the real git: facts of a version, a worklog that branches and merges with its
repository, entries as notes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kscope.worklog import git, notes
from kscope.worklog.entries import Git
from kscope.worklog.store import Worklog
from tests.cli.running import environment, kscope
from tests.worklog.samples import after, entry

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


def run(folder: Path, *arguments: str) -> str:
    env = environment({"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"})
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    run(folder, "config", "user.name", "somebody")
    run(folder, "config", "user.email", "somebody@example.com")
    (folder / "gemm.cu").write_text("one\n")
    run(folder, "add", "gemm.cu")
    run(folder, "commit", "-qm", "one")
    return folder


def test_a_clean_repository(repository: Path) -> None:
    found = git.state(repository)
    assert found is not None
    assert (found.branch, found.patch, found.left_out) == ("main", "", ())
    assert found.commit == run(repository, "rev-parse", "HEAD").strip()


def test_the_patch_makes_the_code_again(repository: Path, tmp_path: Path) -> None:
    """Changed, staged and new files; what is ignored, large or kscope's own stays out."""
    (repository / "gemm.cu").write_text("one\ntwo\n")
    (repository / "staged.cu").write_text("staged\n")
    run(repository, "add", "staged.cu")
    (repository / "häder.cuh").write_text("new\n")
    (repository / ".gitignore").write_text("*.o\n")
    (repository / "gemm.o").write_text("object\n")
    (repository / "trace.json").write_text("x" * (git.LARGEST_FILE + 1))
    (repository / ".kscope").mkdir()
    (repository / ".kscope" / "worklog.db").write_text("mine\n")
    index = (repository / ".git" / "index").read_bytes()
    found = git.state(repository)
    assert found is not None
    assert found.left_out == ("trace.json",)
    assert (repository / ".git" / "index").read_bytes() == index  # the user's own is as it was
    again = tmp_path / "again"
    run(tmp_path, "clone", "-q", str(repository), str(again))
    subprocess.run(["git", "-C", str(again), "apply"], input=found.patch, text=True, check=True)
    for name in ("gemm.cu", "staged.cu", "häder.cuh"):
        assert (again / name).read_text() == (repository / name).read_text()
    assert not (again / "gemm.o").exists() and not (again / ".kscope").exists()


def test_what_changed_since_a_commit(repository: Path) -> None:
    first = run(repository, "rev-parse", "HEAD").strip()
    (repository / "gemm.cu").write_text("two\n")
    run(repository, "commit", "-qam", "two")
    (repository / "gemm.cu").write_text("three\n")
    assert "-one\n+three" in (git.since(repository, first) or "")
    assert git.since(repository, "0" * 40) is None
    assert git.since(repository, "--output=stolen") is None


def test_a_repository_runs_nothing(repository: Path) -> None:
    """A configuration that came with the code names programs."""
    for name in ("diff.external", "core.fsmonitor", "diff.evil.textconv"):
        run(repository, "config", name, f"touch {repository}/ran; true")
    (repository / ".gitattributes").write_text("*.cu diff=evil\n")
    (repository / "gemm.cu").write_text("changed\n")
    found = git.state(repository)
    assert found is not None and "+changed" in found.patch
    assert not (repository / "ran").exists()


def test_without_repository_or_git(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git.state(tmp_path) is None
    run(tmp_path, "init", "-q", str(tmp_path / "empty"))
    assert git.state(tmp_path / "empty") is None  # no commit yet
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git.state(repository) is None


def test_worklogs_merge_with_their_branches(repository: Path) -> None:
    """As guides/worklog.md says: a merge driver for the database; objects are files of their own."""
    command = f"{sys.executable} -m kscope log merge %B --into %A"
    run(repository, "config", "merge.kscope.driver", command)
    (repository / ".gitattributes").write_text(".kscope/worklog.db merge=kscope\n")
    log = Worklog(repository / ".kscope" / "worklog.db")
    start = log.add(entry(message="start", report=log.objects.put(b"start", "ncu-rep")))
    run(repository, "add", "-A")
    run(repository, "commit", "-qm", "start")
    run(repository, "checkout", "-qb", "swizzle")
    log.add(after(start, 50.0, message="swizzled", report=log.objects.put(b"swizzled", "ncu-rep")))
    run(repository, "add", "-A")
    run(repository, "commit", "-qm", "swizzled")
    run(repository, "checkout", "-q", "main")
    assert [one.message for one in log.entries()] == ["start"]
    log.add(after(start, 70.0, message="vectors", report=log.objects.put(b"vectors", "ncu-rep")))
    run(repository, "add", "-A")
    run(repository, "commit", "-qm", "vectors")
    run(repository, "merge", "-q", "--no-edit", "swizzle")
    assert [(one.number, one.message) for one in log.entries()] == [(1, "start"), (2, "vectors"), (3, "swizzled")]
    assert [log.objects.get(one.report) for one in log.entries()] == [b"start", b"vectors", b"swizzled"]
    assert run(repository, "status", "--porcelain") == ""


def test_entries_as_notes(repository: Path, tmp_path: Path) -> None:
    """Another clone gets the words and figures, without the reports; writing again changes nothing."""
    commit = run(repository, "rev-parse", "HEAD").strip()
    log = Worklog(repository / ".kscope" / "worklog.db")
    first = log.add(entry(message="first", git=Git(commit=commit)))
    log.add(after(first, 50.0, message="second", git=Git(commit=commit)))
    log.add(entry(message="elsewhere"))
    done = kscope("log", "--git-notes", cwd=repository)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Wrote 1 notes to refs/notes/kscope, 1 entries have no commit here" in done.stderr
    assert notes.write(repository, log.entries()).written == 0
    clone = tmp_path / "clone"
    run(tmp_path, "clone", "-q", str(repository), str(clone))
    run(clone, "fetch", "-q", "origin", "refs/notes/kscope:refs/notes/kscope")
    done = kscope("log", "import", "--git-notes", cwd=clone)
    assert (done.returncode, done.stdout) == (0, "2 versions taken from git notes, without their reports\n")
    assert [one.message for one in Worklog(clone / ".kscope" / "worklog.db").entries()] == ["first", "second"]
    run(clone, "config", "user.name", "somebody")
    run(clone, "config", "user.email", "somebody@example.com")
    run(clone, "notes", "--ref=kscope", "append", "-m", "somebody's own words", commit)
    assert len(notes.read(clone)) == 2


def test_notes_of_two_clones_are_kept_both(repository: Path) -> None:
    commit = run(repository, "rev-parse", "HEAD").strip()
    mine, theirs = (entry(message=text, git=Git(commit=commit)) for text in ("mine", "theirs"))
    notes.write(repository, [theirs])
    notes.write(repository, [mine])
    assert [one.message for one in notes.read(repository)] == ["mine", "theirs"]


def test_notes_without_a_repository(tmp_path: Path) -> None:
    Worklog(tmp_path / ".kscope" / "worklog.db").add(entry())
    done = kscope("log", "--git-notes", cwd=tmp_path, env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    assert done.returncode == 4
    assert "no git repository, or no git" in done.stderr
