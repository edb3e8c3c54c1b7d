"""The server's parts where a client cannot look: start, limits, what the reader's end leaves, texts."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kscope.mcp.asking import Asking
from kscope.mcp.pages import LIST, TEXT, page, tidy
from tests.cli.running import environment, kscope, python
from tests.support.payloads import PIECES
from tests.support.reports import fixture

SLOW = fixture("bank_conflict.slow")
START_S = 3.5


def test_start_takes_no_longer_than_a_client_waits(tmp_path: Path) -> None:
    """Seconds of processor, so that other work on the machine does not count: both processes, from nothing to the end
    of standard input."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "kscope", "mcp", str(tmp_path)], stdin=subprocess.DEVNULL,
                          capture_output=True, env=environment(None), timeout=60, check=False)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0 and done.stdout == b"", done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < START_S


def test_without_the_sdk_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from kscope.cli.main import main; main(['mcp'])"
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 4 and done.stdout == ""
    assert done.stderr == (
        "kscope: the MCP SDK (mcp 2.3 or later) is not installed; install it: pip install 'kscope-gpu[mcp]'\n"
    )


@pytest.mark.parametrize("root", ["nothing", "file", "loop"])
def test_roots_are_folders(root: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    done = kscope("mcp", tmp_path / root)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1


def asked(seconds: float, *questions: tuple[str, object], kill: bool = False) -> list[tuple[bytes | None, str]]:
    """Answers of a worker with a time limit; kill: its process ends before the second question."""

    async def every() -> list[tuple[bytes | None, str]]:
        out = []
        async with Asking([str(SLOW.parent)], seconds) as asking:
            for n, (name, arguments) in enumerate(questions):
                if kill and n == 1:
                    assert asking._process is not None
                    os.kill(asking._process.pid, 9)
                out.append(await asking.ask(name, arguments))
        return out

    with ThreadPoolExecutor(1) as apart:  # a browser of other tests may have a loop in this thread
        return apart.submit(asyncio.run, every()).result()


def test_what_takes_too_long_is_ended_and_the_next_question_answered() -> None:
    (late, why), (again, _) = asked(0.2, ("diagnose", {"path": SLOW.name}), ("diagnose", {"path": SLOW.name}))
    assert late is None and "took longer than 0.2 s" in why and again is None


def test_a_reader_that_ends_is_replaced() -> None:
    explain = ("explain", {"code": "MEM103"})
    first, second, third = asked(60, explain, explain, explain, kill=True)
    assert first[0] is not None and second == (None, second[1]) and "the reader ended" in second[1]
    assert third == first


def test_texts_are_bounded_lines() -> None:
    for piece in PIECES:
        text = tidy({"name": [piece]})["name"][0]
        assert text.isprintable() and len(text) <= TEXT
    assert tidy(float("nan")) is None and len(tidy([0] * 1000)) == LIST


def test_a_page_holds_what_fits() -> None:
    rows = ["x" * 500] * 300
    kept, after = page(rows, 0, 200)
    assert 0 < len(kept) < 200 and after == len(kept)
    assert page(["y" * 10**6], 0, 200) == (["y" * 10**6], None), "one row at least; its texts are cut later"
    assert page(rows, 300, 10) == ([], None)
