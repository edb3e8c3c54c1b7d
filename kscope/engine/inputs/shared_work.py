"""Reports among several processes, or the kernels of one large report: the results are those of one process, in the
order of the inputs. What a process that died had taken is done again, alone; only what ends that one too is lost."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from kscope.engine.inputs.helpers import Helpers, Put, load
from kscope.engine.inputs.kernel_reports import Part, analyze_report
from kscope.engine.inputs.readers import part_of, started
from kscope.engine.inputs.request import Request
from kscope.model.errors import KscopeError
from kscope.parsers.ncu.turns import Turns
from kscope.parsers.ncu.worker import Reader

TIDY = 64  # reports after which cycles of objects are looked for: the command line never does
KILLED = "the process that analysed it was ended from outside (out of memory?)"


def over_kernels(path: str, number: int, reader: Reader, request: Request) -> Part:
    """One report whose kernels its reader shares (`Reader.turns`), by as many processes."""
    assert reader.turns is not None

    def work(put: Put, step: Callable[[], None]) -> None:
        mine = _quiet(request, step)
        put(analyze_report(path, number, reader.again(), mine))

    with contextlib.closing(Helpers(reader.turns.readers - 1, work)) as helpers:
        seen = [0]

        def report(_: str, done: int, total: int | None) -> None:
            seen[0] = done
            if request.progress is not None:
                request.progress(path, done + helpers.steps, total)

        here = _quiet(request, lambda: None)
        here.progress = report if request.progress is not None else None
        part = analyze_report(path, number, reader, here)
        helpers.wait((lambda: report(path, seen[0], part.count)) if request.progress is not None else None)
        for other in helpers.results():
            part.add(other)
        if helpers.died and part.end is None:
            for index in sorted(set(range(part.count or 0)) - part.taken):
                part.add(_alone(path, number, index, reader, request))
    reader.turns.close()
    return part


def _alone(path: str, number: int, index: int, reader: Reader, request: Request) -> Part:
    """One kernel in a process of its own."""

    def work(put: Put, step: Callable[[], None]) -> None:
        put(analyze_report(path, number, reader.again(Turns([(index,)], 1)), _quiet(request, step)))

    with contextlib.closing(Helpers(1, work)) as helper:
        helper.wait()
        return next(helper.results(), Part(taken={index}, skipped={index: KILLED}))


def over_reports(
    first: tuple[str, Reader | KscopeError], inputs: Sequence[tuple[Path, str]], request: Request, jobs: int
) -> Generator[tuple[str, Part | KscopeError], None, None]:
    """What each input comes to, in order. `first`: the reader of the first one, which decodes already."""
    order = sorted(range(1, len(inputs)), key=lambda n: (-_size(inputs[n][0]), n))
    step = -(-len(order) // Turns.MOST) if order else 1
    queue = Turns([tuple(order[at : at + step]) for at in range(0, len(order), step)], jobs)

    def work(put: Put, step: Callable[[], None]) -> None:
        for number, found in _taken(inputs, queue, _quiet(request, lambda: None)):
            put((number, found))
            step()

    with contextlib.closing(Helpers(min(jobs, len(inputs)) - 1, work)) as helpers:
        mine: dict[int, Any] = {}

        def told(path: str = first[0]) -> None:
            if request.progress is not None:
                request.progress(path, len(mine) + helpers.steps, len(inputs))

        here = _quiet(request, lambda: None)
        mine[0] = part_of(first[0], 0, first[1], here)
        told()
        for number, found in _taken(inputs, queue, here):
            mine[number] = found
            told(str(inputs[number][0]))
        helpers.wait(told if request.progress is not None else None)
        queue.close()
        theirs: dict[int, tuple[IO[bytes], int]] = {load(*place)[0]: place for place in helpers.places()}
        for number, (path, _) in enumerate(inputs):
            if number in mine:
                yield str(path), mine.pop(number)
            elif number in theirs:
                yield str(path), load(*theirs[number])[1]
            else:
                yield str(path), _report_alone(inputs, number, request)


def _taken(inputs: Sequence[tuple[Path, str]], queue: Turns, request: Request) -> Iterator[tuple[int, Any]]:
    """(number, what it comes to) of each input that this process takes."""
    for done, (number, _) in enumerate(queue.kernels()):
        with contextlib.closing(started([inputs[number]], charts=request.draws)) as readers:
            for path, reader in readers:
                yield number, part_of(path, number, reader, request)
        if done % TIDY == TIDY - 1:
            gc.collect()


def _report_alone(inputs: Sequence[tuple[Path, str]], number: int, request: Request) -> Part | KscopeError:
    """An input whose process died, again in one of its own."""
    queue = Turns([(number,)], 1)

    def work(put: Put, step: Callable[[], None]) -> None:
        for _, found in _taken(inputs, queue, _quiet(request, step)):
            put(found)

    with contextlib.closing(Helpers(1, work)) as helper:
        helper.wait()
        queue.close()
        lost = KscopeError("crashed", f"{inputs[number][0]}: {KILLED}", "analyse it alone, with --jobs 1")
        return next(helper.results(), lost)


def _quiet(request: Request, step: Callable[[], None]) -> Request:
    """The same request, whose progress is `step`."""
    out = copy.copy(request)
    out.progress = lambda path, done, total: step()
    return out


def _size(path: Path) -> int:
    try:
        return os.path.getsize(path)
    except (OSError, ValueError):
        return 0
