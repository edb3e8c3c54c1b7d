"""A server in a process of its own, asked by the SDK's client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from tests.cli.running import environment

Result = TypeVar("Result")


class Session:
    """A client whose loop runs in a thread, so that tests are plain functions."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self.client, self._loop = client, loop

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(240)

    def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        return self.wait(self.client.call_tool(tool, arguments))

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a call that must go well."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    def refused(self, tool: str, /, **arguments: Any) -> str:
        """The line of a call that must not go well."""
        result = self.call(tool, **arguments)
        assert result.is_error and result.structured_content is None and len(result.content) == 1
        text = result.content[0].text  # type: ignore[union-attr]
        assert text.isprintable() and 0 < len(text) <= 1000 and "Traceback" not in text, text
        return str(text)


@contextmanager
def serving(*roots: Path) -> Iterator[Session]:
    with running([sys.executable, "-m", "kscope", "mcp", *map(str, roots)]) as session:
        yield session


@contextmanager
def running(command: Sequence[str]) -> Iterator[Session]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    started: asyncio.Future[Session] = asyncio.Future(loop=loop)
    over = asyncio.Event()

    async def live() -> None:
        try:
            server = StdioServerParameters(command=command[0], args=list(command[1:]), env=environment(None))
            async with Client(server) as client:
                started.set_result(Session(client, loop))
                await over.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    async def begun() -> Session:
        return await started

    life = asyncio.run_coroutine_threadsafe(live(), loop)
    try:
        yield asyncio.run_coroutine_threadsafe(begun(), loop).result(60)
    finally:
        loop.call_soon_threadsafe(over.set)
        life.exception(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
