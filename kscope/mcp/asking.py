"""The worker process from the server's side: questions one after the other, each with a time limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from kscope.mcp.pages import LARGEST

SECONDS = 300.0
"""Of one question. Judged: a report of a thousand kernels takes about that long; a client gives up earlier."""
WAITING = 256  # questions at once, beyond which a client is told to come back
COMMAND = (sys.executable, "-P", "-m", "kscope.mcp.worker")


class Asking:
    """Use as an async context manager: the process ends with it."""

    def __init__(self, folders: Sequence[str], seconds: float = SECONDS) -> None:
        self._command, self._seconds = [*COMMAND, *folders], seconds
        self._one_at_a_time = anyio.Lock()
        self._waiting = 0
        self._process: anyio.abc.Process | None = None
        self._answers: BufferedByteReceiveStream | None = None

    async def __aenter__(self) -> Asking:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _start(self) -> None:
        self._process = await anyio.open_process(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                 stderr=None)  # fmt: skip
        assert self._process.stdout is not None
        self._answers = BufferedByteReceiveStream(self._process.stdout)

    async def _end(self) -> None:
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                if self._process.returncode is None:
                    self._process.kill()
                await self._process.aclose()
        self._process = None

    async def ask(self, name: str, arguments: object) -> tuple[bytes | None, str]:
        """(the answer as JSON, "") or (None, what went wrong, as one line)."""
        if self._waiting >= WAITING:
            return None, f"{WAITING} questions are waiting already: ask again later"
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                return await self._asked(msgspec.json.encode([name, arguments]) + b"\n")
        finally:
            self._waiting -= 1

    async def _asked(self, question: bytes) -> tuple[bytes | None, str]:
        whole = False
        try:
            with anyio.fail_after(self._seconds):
                if self._process is None:
                    await self._start()
                assert self._process is not None and self._process.stdin is not None and self._answers is not None
                await self._process.stdin.send(question)
                line = await self._answers.receive_until(b"\n", LARGEST + 4096)
            whole = True
        except TimeoutError:
            return None, f"took longer than {self._seconds:g} s: ask for fewer kernels (name), or record fewer"
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.DelimiterNotFound,
                anyio.EndOfStream):  # fmt: skip
            return None, "the reader ended on this input: it may be damaged, or need more memory than there is"
        finally:
            if not whole:  # also where the client gave up: what is still on its way answers another question
                await self._end()
        frame = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if "error" in frame:
            return None, msgspec.json.decode(bytes(frame["error"]), type=str)
        return bytes(frame["answer"]), ""
