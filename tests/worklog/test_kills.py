"""Writers that are killed at any point: what was told to be added is there with its objects, what is there is whole."""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from kscope.worklog.store import Worklog
from tests.support import thorough
from tests.support.thorough import often
from tests.worklog.samples import entry

WRITERS = 2


def write(log: Worklog, channel: int, seed: int) -> None:
    """Add entries for ever, and tell of each once it is added. Never returns."""
    chance = random.Random(seed)
    while True:
        content = chance.randbytes(chance.choice((100, 20_000, 400_000)))
        analysis = chance.randbytes(1000)
        one = entry(report=log.objects.put(content, "ncu-rep"), analysis=log.objects.put(analysis, "json"))
        log.add(one)
        log.say(one, "note", "added")
        os.write(channel, f"{one.uid}\n".encode())


def started(log: Worklog, seed: int) -> tuple[int, int]:
    """(process, the channel that it tells on)."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            write(log, theirs, seed)
        except Exception as error:
            os.write(theirs, f"failed: {error!r} {error} {error.__context__!r}\n".encode())
        finally:
            os._exit(1)  # never but for that: the loop has no end
    os.close(theirs)
    return child, ours


def told(channel: int) -> list[str]:
    said = b""
    while chunk := os.read(channel, 65536):
        said += chunk
    os.close(channel)
    return said.decode().split("\n")[:-1]  # a last line may be cut


def check(log: Worklog, acknowledged: set[str], seen: set[str]) -> None:
    if not log.path.exists():
        assert not acknowledged
        return
    with closing(sqlite3.connect(log.path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if db.execute("PRAGMA user_version").fetchone() == (0,):  # killed before its tables were there
            assert not acknowledged
            return
    entries = {one.uid: one for one in log.entries()}
    assert acknowledged <= entries.keys()
    assert [one.number for one in entries.values()] == list(range(1, len(entries) + 1))
    for one in entries.values():
        if one.uid in acknowledged:
            assert one.notes == ["added"]
        if one.uid not in seen:
            seen.add(one.uid)
            assert log.objects.get(one.report)
            assert log.objects.get(one.analysis)


def kill_writers(folder: Path, points: int, seed: int) -> int:
    """Kill pairs of writers, each at a random time after its start; the number of entries that survived."""
    chance = random.Random(seed)
    survived = 0
    for block in range(0, points, 20):  # some of them while a worklog is being made
        log = Worklog(folder / str(block) / ".kscope" / "worklog.db")
        acknowledged: set[str] = set()
        seen: set[str] = set()
        for turn in range(20 // WRITERS):
            writers = [started(log, chance.randrange(1 << 30)) for _ in range(WRITERS)]
            for child, channel in writers:
                if turn % 2:  # well under way, however slow the machine is
                    assert select.select([channel], [], [], 60)[0]
                time.sleep(chance.uniform(0, 0.06))
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            said = [line for _, channel in writers for line in told(channel)]
            assert not [line for line in said if " " in line]  # none had failed before
            acknowledged.update(said)
            check(log, acknowledged, seen)
        survived += len(seen)
    return survived


def test_writers_that_are_killed(tmp_path: Path) -> None:
    assert kill_writers(tmp_path, 40, seed=17) >= 20


@thorough.only
@pytest.mark.slow
def test_writers_that_are_killed_again_and_again(tmp_path: Path) -> None:
    kills = often(200, 60)
    assert kill_writers(tmp_path, kills, seed=18) >= kills // 2


@pytest.mark.parametrize("_", range(5))
def test_writers_at_once_lose_nothing(tmp_path: Path, _: int) -> None:
    """From nothing on: all of them find no worklog and make one."""
    log = Worklog(tmp_path / ".kscope" / "worklog.db")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(10):
                    log.add(entry())
                os._exit(0)
            except Exception as error:
                os.write(2, f"{error!r} {error} {error.__context__!r}\n".encode())
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert [one.number for one in log.entries()] == list(range(1, 41))
