"""The database and the objects: what is refused, what is kept, what older and newer worklogs come to."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from kscope.model.errors import KscopeError
from kscope.worklog import schema
from kscope.worklog.entries import Idea
from kscope.worklog.ladder import current, ladders
from kscope.worklog.merge import merge, named
from kscope.worklog.objects import Objects
from kscope.worklog.store import Worklog, new_uid, now
from tests.worklog.samples import after, entry


@pytest.fixture
def log(tmp_path: Path) -> Worklog:
    return Worklog(tmp_path / ".kscope" / "worklog.db")


def test_what_goes_in_comes_out(log: Worklog) -> None:
    first = log.add(entry(message="first"))
    second = log.add(after(first, 50.0))
    assert [one.number for one in log.entries()] == [1, 2]
    assert log.entries() == [first, second]
    assert (log.path.parent / ".gitignore").read_text().splitlines() == ["*.db-wal", "*.db-shm", "*.tmp"]


def test_words_are_corrected_and_numbers_are_not(log: Worklog) -> None:
    one = log.add(entry(message="swizle"))
    log.say(one, "message", "swizzle")
    log.say(one, "note", "of the rows only")
    log.say(one, "set aside", "wrong results")
    (read,) = log.entries()
    assert (read.message, read.notes, read.status, read.why) == (
        "swizzle", ["of the rows only"], "set aside", "wrong results",
    )  # fmt: skip
    assert read.time_us == one.time_us
    assert log.raw()[0].message == "swizle"  # what was said first is still there


@pytest.mark.parametrize("table", ["entry", "word", "idea"])
@pytest.mark.parametrize("verb", ["UPDATE {} SET uid = 'x'", "DELETE FROM {}"])
def test_rows_are_never_changed(log: Worklog, table: str, verb: str) -> None:
    one = log.add(entry())
    log.say(one, "note", "kept")
    log.decide(Idea(uid=new_uid(), at=now(), entry=one.uid, opportunity="tma", what="set aside", why="",
                    regime="memory", limiter="shared_memory"))  # fmt: skip
    with closing(sqlite3.connect(log.path)) as db, pytest.raises(sqlite3.IntegrityError, match="only grows"):
        db.execute(verb.format(table))


def test_an_older_schema_is_brought_up_to_date(log: Worklog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add(entry())
    step = "CREATE TABLE later (x INTEGER); INSERT INTO later VALUES (7);"
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, step))
    assert len(log.entries()) == 1  # the first who looks brings it up to date
    log.add(entry())
    with closing(sqlite3.connect(log.path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT x FROM later").fetchall() == [(7,)]
    assert [one.number for one in log.entries()] == [1, 2]


@pytest.mark.parametrize("switched", [False, True])
def test_a_maker_that_was_killed_leaves_no_worklog(log: Worklog, switched: bool) -> None:
    """Before its tables were there: the next one makes it."""
    log.path.parent.mkdir()
    with closing(sqlite3.connect(log.path)) as db:
        db.execute(f"PRAGMA journal_mode={'WAL' if switched else 'DELETE'}")
    log.path.touch()
    assert not log.exists
    with pytest.raises(KscopeError, match="no worklog yet"):
        log.entries()
    log.add(entry())
    assert log.exists and len(log.entries()) == 1


def test_a_step_that_fails_leaves_the_worklog_as_it_was(log: Worklog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add(entry())
    with monkeypatch.context() as patch:
        step = "CREATE TABLE later (x INTEGER); INSERT INTO nowhere VALUES (7);"
        patch.setattr(schema, "STEPS", (*schema.STEPS, step))
        with pytest.raises(KscopeError, match="no such table"):
            log.add(entry())
    assert len(log.entries()) == 1
    log.add(entry())


def test_a_later_schema_is_refused(log: Worklog) -> None:
    log.add(entry())
    with closing(sqlite3.connect(log.path)) as db:
        db.execute("PRAGMA user_version=99")
    for call in (log.entries, lambda: log.add(entry())):
        with pytest.raises(KscopeError, match="schema 99 of a later kscope") as error:
            call()
        assert error.value.status == 3


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"", b"SQLite format 3\0" + bytes(2000)])
def test_what_is_no_worklog(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "worklog.db"
    path.write_bytes(content)
    with pytest.raises(KscopeError) as error:
        Worklog(path).entries()
    assert error.value.status == 3
    assert str(path) in str(error.value)
    assert path.read_bytes() == content


def test_a_damaged_worklog_is_one_line(log: Worklog, tmp_path: Path) -> None:
    """Bits turned over anywhere behind the header: read, or refused by name. SQLite quotes what it fell over, which
    need not be text."""
    for number in range(3):
        log.add(entry(time_us=100.0 + number, message="\u00e4" * 200))
    whole, refused = log.path.read_bytes(), 0
    damaged = Worklog(tmp_path / "damaged.db")
    for seed in range(150):
        rng, data = random.Random(seed), bytearray(whole)
        for _ in range(10 ** rng.randrange(1, 4)):
            data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
        damaged.path.write_bytes(data)
        try:
            assert damaged.exists
            damaged.entries(), damaged.ideas(), damaged.words()
        except KscopeError as error:
            refused += 1
            assert error.status == 3 and str(damaged.path) in error.message
    assert refused > 50


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_no_file_is_no_worklog(tmp_path: Path, what: str) -> None:
    path = tmp_path / "log.db"
    path.mkdir() if what == "folder" else os.mkfifo(path)
    for done in (Worklog(path).entries, lambda: Worklog(path).add(entry())):
        with pytest.raises(KscopeError, match="not a file"):
            done()
    assert Worklog(path).exists, "and is not said to be missing"


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "worklog.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")
        db.commit()
    before = path.read_bytes()
    for call in (Worklog(path).entries, lambda: Worklog(path).add(entry())):
        with pytest.raises(KscopeError, match="not a worklog of kscope"):
            call()
    assert path.read_bytes() == before


def test_a_row_that_is_none_is_one_line(log: Worklog) -> None:
    log.add(entry())
    with closing(sqlite3.connect(log.path)) as db:
        db.execute("INSERT INTO entry VALUES (9, 'x', NULL, '', '', 1.0, '{\"uid\": 3}')")
        db.commit()
    with pytest.raises(KscopeError, match="a row that is none of a worklog"):
        log.entries()


def test_a_folder_that_cannot_be_written_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        log = Worklog(Path(name) / ".kscope" / "worklog.db")
        log.add(entry())
        for path in (Path(name), log.path.parent):
            path.chmod(0o555)
        log.path.chmod(0o444)
        child = os.fork()
        if child == 0:
            if os.geteuid() == 0:  # who may write anywhere
                os.setgid(65534)
                os.setuid(65534)
            os._exit(_read_only(log))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        log.path.parent.chmod(0o755)
        Path(name).chmod(0o755)


def _read_only(log: Worklog) -> int:
    if len(log.entries()) != 1:
        return 1
    try:
        log.add(entry())
    except KscopeError as error:
        return 0 if "readonly" in str(error) else 2
    return 3


def test_objects_are_what_their_name_says(tmp_path: Path) -> None:
    objects = Objects(tmp_path)
    name = objects.put(b"report" * 1000, "ncu-rep")
    assert name == hashlib.sha256(b"report" * 1000).hexdigest() + ".ncu-rep"
    assert objects.get(name) == b"report" * 1000
    other = objects.path(objects.put(b"other", "ncu-rep"))
    objects.path(name).write_bytes(other.read_bytes())
    with pytest.raises(KscopeError, match="not what its name says"):
        objects.get(name)
    objects.path(name).write_bytes(other.read_bytes()[:-3])
    with pytest.raises(KscopeError, match="damaged"):
        objects.get(name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "x.json", "A" * 64 + ".json", "0" * 64 + "./../x", "0" * 64])
def test_no_other_name_is_an_object(tmp_path: Path, name: str) -> None:
    with pytest.raises(KscopeError, match="names no object"):
        Objects(tmp_path).get(name)


def test_a_parent_comes_before_what_came_from_it(log: Worklog) -> None:
    """Whatever their times: a report that was imported is older than the version it was held against."""
    first = entry(message="first")
    second = after(first, 50.0, message="second")
    third = after(second, 40.0, message="third")
    log.take([third, second, first], [], [])
    assert [one.message for one in log.entries()] == ["first", "second", "third"]
    assert [len(rungs) for rungs in ladders(log.entries())] == [3]


def test_parents_in_a_circle_are_versions_all_the_same(log: Worklog) -> None:
    one, other = entry(), entry()
    log.take([replace(one, parent=other.uid), replace(other, parent=one.uid), entry(parent="nobody")], [], [])
    found = ladders(log.entries())
    assert sorted(rung.entry.number for rungs in found for rung in rungs) == [1, 2, 3]
    assert current(log.entries()) is not None


def test_merging_takes_what_is_not_there(log: Worklog, tmp_path: Path) -> None:
    start = log.add(entry(message="start"))
    other = Worklog(tmp_path / "other" / "worklog.db")
    merge(other, log)
    mine = log.add(after(start, 80.0, message="mine"))
    report = other.objects.put(b"theirs", "ncu-rep")
    theirs = other.add(after(other.entries()[0], 60.0, message="theirs", report=report))
    other.say(theirs, "note", "said there")
    found = merge(log, other)
    assert [(one.number, one.message, one.parent) for one in log.entries()] == [
        (1, "start", None), (2, "mine", start.uid), (3, "theirs", start.uid),
    ]  # fmt: skip
    assert log.entries()[2].notes == ["said there"]
    assert (len(found.came), found.known) == (1, 1)
    assert log.objects.get(report) == b"theirs"
    assert found.missing == [name for name in named(theirs) if name != report]
    again = merge(log, other)
    assert (again.came, again.known) == ([], 2)
    merge(other, log)  # and the other way round
    assert {one.uid for one in other.entries()} == {one.uid for one in log.entries()}
    assert mine.uid in {one.uid for one in other.entries()}
