"""Runs the native .ncu-rep reader in a process of its own and hands its values over a pipe.

Three reasons: a fault of native code on a damaged file must not take the analysis down (it becomes one line about
one kernel); the native library never frees a decoded kernel, so a reader that has grown past a bound is replaced by
a fresh one and long reports stay within it; and while it decodes, the parent imports the rules.

What the frames on the pipe are: kscope.parsers.ncu.frames.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from kscope.model.errors import EXIT_TOOL, KscopeError, one_line
from kscope.parsers.files import forked
from kscope.parsers.ncu.frames import LateSources, Skipped, Want, received, sent, widened

TYPE_CHECKING = False  # everything imported here delays the reader: typing alone takes 9 ms
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from typing import IO, Any, BinaryIO

    from kscope.parsers.ncu.native import Raw
    from kscope.parsers.ncu.turns import Turns

    Row = tuple[int, str, str | None, int | None]
    """One instruction of SASS: offset from the entry, text, source file, line."""

MEMORY_BOUND = 800 << 20  # bytes that a reader grows by until it is replaced; those that share a report share it
SILENCE = 300.0  # seconds without a frame after which a reader is given up, fewer of a small report
_SILENCE_AT_LEAST, _BYTES_A_SECOND = 40.0, 20_000
"""Of a report of so many bytes. 200 KB take 0.1 s; NVIDIA's disassembler can run for ever on damaged code. Judged."""
RECOLLECT, REINSTALL = "copy or record it again", "pip install ncu-report, or read it on another machine"
__all__ = ["LateSources", "Reader", "Skipped", "Want", "extract_all", "serve"]


class Reader:
    """A started reader process of one report. Starting early lets the parent import while it decodes."""

    def __init__(self, path: str, want: Want, display: str | None = None, turns: Turns | None = None) -> None:
        """path: the plain file to read; display: its name in messages; turns: the kernels that it shares with other
        readers of the report, which it then reads in that order."""
        self._path, self._want, self._display = path, want, display or path
        self.turns = turns
        self.count: int | None = None
        self._silence = _patience(path)
        self._start(0)

    def again(self, turns: Turns | None = None) -> Reader:
        """Another reader of the same, with a share of the same turns, or others."""
        return Reader(self._path, self._want, self._display, turns or self.turns)

    def _start(self, first: int, rest: tuple[int, ...] = ()) -> None:
        """first: the kernel to go on with; rest: of shared ones, those that this reader has taken already."""
        self._next, self._rest = first, rest
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: IO[bytes]
        if forked.possible():
            read_end, write_end = os.pipe()
            widened(write_end)
            self._pid = forked.fork()
            if self._pid == 0:
                os.close(read_end)
                _child(self._path, first, self._want, os.fdopen(write_end, "wb"), self.turns, rest)
            os.close(write_end)
            self._pipe = os.fdopen(read_end, "rb")
        else:
            import json
            import subprocess

            # -P: not what a file in the current folder calls itself
            arguments = [sys.executable, "-P", "-m", "kscope.parsers.ncu.worker", self._path, str(first)]
            arguments.append(json.dumps(vars(self._want)))
            mine, _, number = self._path.rpartition("/")  # what was unpacked is a file without a name
            kept = [int(number)] if mine == "/proc/self/fd" else []
            self._process = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=kept
            )  # fmt: skip
            assert self._process.stdout is not None
            self._pid, self._pipe = self._process.pid, self._process.stdout

    @property
    def path(self) -> str:
        """The plain file that is read."""
        return self._path

    def kernels(self, expect: Callable[[str, int, list[Row]], None] | None = None) -> Iterator[Raw | Skipped]:
        """Raw kernels in file order. Raises KscopeError when the report as a whole cannot be read.

        expect: called with (mangled name, sm, rows of SASS) of a kernel that is still being decoded, where its code is
        known already. What it says is likely, not certain.
        """
        try:
            while True:
                tag, *rest = self._frame() or ("died",)
                if tag == "open":
                    self.count = rest[0]
                elif tag == "begin":
                    self._next, self._rest = rest
                elif tag == "code":
                    if expect is not None:
                        expect(*rest)
                elif tag == "kernel":
                    with LateSources(self._sources) as sources:
                        yield {**rest[0], "sources": sources}
                elif tag == "skip":
                    yield Skipped(rest[0], rest[1])
                elif tag == "fault":
                    raise KscopeError("unreadable", f"{self._display}: {rest[0]}", *rest[1:])
                elif tag == "pause":
                    self._reap()
                    self._start(*rest)
                elif tag == "done":
                    return
                else:
                    how = self._reap()
                    if self.count is None:
                        message = f"{self._display}: NVIDIA's report reader {how}: the file is damaged"
                        raise KscopeError("reader-crash", message, RECOLLECT)
                    yield Skipped(self._next, f"NVIDIA's report reader {how} on kernel {self._next}")
                    if self.turns is None and self._next + 1 >= self.count:
                        return
                    self._start(self._next + 1, self._rest)
        finally:
            self.close()

    def _sources(self) -> dict[str, str]:
        frame = self._frame() if self._pid >= 0 else ("sources", {})  # {} once it is closed
        if frame is None:  # the library fell over them: go on behind this kernel, and ask for no more
            self.close()
            self._want = Want(**{**vars(self._want), "sources": False})
            self._start(self._next + 1, self._rest)
        return dict(frame[1]) if frame is not None else {}

    def _frame(self) -> tuple[Any, ...] | None:
        return received(self._read)

    def _read(self, size: int) -> bytes:
        """Exactly `size` bytes, fewer at the end of the stream or after a silence that is too long."""
        parts: list[bytes] = []
        while size:
            if os.name == "posix":  # select works on pipes only there
                import select

                ready, _, _ = select.select([self._pipe], [], [], self._silence)
                if not ready:
                    self._kill()
                    break
            part = os.read(self._pipe.fileno(), min(size, 1 << 20))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _kill(self) -> None:
        import signal

        try:
            os.kill(self._pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
        except OSError:  # gone already
            return

    def _reap(self) -> str:
        """Wait for the reader and say in words how it ended."""
        if self._pid < 0:
            return "stopped"
        if self._process is not None:
            code = self._process.wait()
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            forked.reaped(self._pid)
        self._pid = -1
        self._pipe.close()
        if code < 0:
            import signal

            return f"crashed ({signal.Signals(-code).name})"
        return f"ended early (status {code})"

    def close(self) -> None:
        if self._pid >= 0:
            self._kill()
            self._reap()


def _patience(path: str) -> float:
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return min(SILENCE, _SILENCE_AT_LEAST + size / _BYTES_A_SECOND)


def extract_all(path: str, want: Want, display: str | None = None) -> Iterator[Raw]:
    """Every readable kernel of one report."""
    for item in Reader(path, want, display).kernels():
        if not isinstance(item, Skipped):
            yield item


def _child(
    path: str, first: int, want: Want, pipe: BinaryIO, turns: Turns | None = None, rest: tuple[int, ...] = ()
) -> None:
    """Body of the reader: never returns, so that after a fork no handler or buffer of the parent runs twice. Standard
    output becomes silent, so `pipe` has to be another descriptor."""
    status = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)  # the native library prints to both streams
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        serve(path, first, want, pipe, turns, rest)
        status = 0
    except BaseException:  # reported by the exit status; the parent words it
        status = 1
    finally:
        os._exit(status)


def serve(
    path: str, first: int, want: Want, pipe: BinaryIO, turns: Turns | None = None, rest: tuple[int, ...] = ()
) -> None:
    """Decode kernels from `first` on, or of those that are shared out `rest` and what is taken, and write frames until
    the end or until memory has grown past the bound."""
    begun = _resident()  # of the process that this is a fork of, which may be a large notebook

    send = partial(sent, pipe)
    try:
        from kscope.parsers.ncu import session

        actions = _open(path)
        version, recorded = session.version(path), session.recorded(path)
    except Exception as e:  # ncu_report raises bare RuntimeError, ValueError, ... of its own making
        lacks = isinstance(e, ImportError)  # there are platforms that NVIDIA publishes none for
        what = "NVIDIA's report reader is not here" if lacks else "not a readable Nsight Compute report"
        send("fault", one_line(f"{what} ({e})"), *((REINSTALL, EXIT_TOOL) if lacks else (RECOLLECT,)))
        return
    from kscope.parsers.files.ncu_images import UNNUMBERED
    from kscope.parsers.ncu.native import Sources, extract
    from kscope.parsers.ncu.sass_cache import SassCache

    cache = SassCache(path)
    sources = Sources(cache)
    send("open", len(actions))
    bound = begun + (MEMORY_BOUND // turns.readers if turns else MEMORY_BOUND)
    before, expected, numbers = session.order(path, len(actions), code=want.sass)
    for index, behind in turns.kernels(rest) if turns else ((i, ()) for i in range(first, len(actions))):
        send("begin", index, behind)
        cache.source = numbers.get(index, UNNUMBERED)
        if index in expected and (rows := cache.load(expected[index])) is not None:
            send("code", expected[index], cache.target(expected[index]), [(at, *row) for at, row in rows.items()])
        try:
            action = actions[index]()
            raw = extract(action, index, want, cache)
            raw["tool_version"], raw["recorded"] = version, recorded
            raw["before"] = before.get(index, 0)
        except Exception as e:
            send("skip", index, str(e) if isinstance(e, KscopeError) else one_line(f"{type(e).__name__}: {e}"))
        else:
            send("kernel", raw)
            send("sources", sources.texts(action, raw) if want.sources else {})
        if (turns or index + 1 < len(actions)) and _resident() > bound:
            send("pause", index + 1, behind)
            return
    send("done")


def _open(path: str) -> list[Callable[[], Any]]:
    """One function an action, so that nothing is decoded before its turn."""
    import ncu_report

    context = ncu_report.load_report(path)
    actions: list[Callable[[], Any]] = []
    for r in range(context.num_ranges()):
        actions += [lambda r=r, a=a: context[r][a] for a in range(context[r].num_actions())]  # type: ignore[misc]
    return actions


def _resident() -> int:
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    import json

    _child(sys.argv[1], int(sys.argv[2]), Want(**json.loads(sys.argv[3])), os.fdopen(os.dup(1), "wb"))
