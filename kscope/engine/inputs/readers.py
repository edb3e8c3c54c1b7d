"""Readers of the input reports, started one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kscope.engine.inputs import ahead
from kscope.model.errors import KscopeError
from kscope.model.faults import fault
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.turns import turns
from kscope.parsers.ncu.worker import Reader, Want

if TYPE_CHECKING:
    from kscope.engine.inputs.kernel_reports import Part
    from kscope.engine.inputs.request import Request

Found = "tuple[str, Part | KscopeError]"


def started(
    inputs: Sequence[tuple[Path, str]], *, charts: bool, jobs: int = 1
) -> Generator[tuple[str, Reader | KscopeError], None, None]:
    """A started reader for each input in turn; the input stays open, and unpacked, until the next one is asked for.
    jobs: readers that will share one report, where it is large."""
    for path, _ in inputs:
        state = "opening"
        try:
            with open_input(path) as real:
                reader = ahead.take(real, charts=charts) if real == str(path) else None
                reader = reader or Reader(real, Want(charts=charts), str(path), turns(real, jobs))
                with contextlib.closing(reader):
                    state = "handed on"
                    yield str(path), reader
                    state = "read"
        except Exception as e:
            if state == "opening":
                yield str(path), fault(path, e)
            elif state == "handed on":  # the caller ends early: a fault of closing must not ask it to go on
                return


def part_of(path: str, number: int, reader: Reader | KscopeError, request: Request) -> Part | KscopeError:
    """What the kernels of an input come to, or why there are none."""
    from kscope.engine.inputs.kernel_reports import analyze_report

    try:
        return reader if isinstance(reader, KscopeError) else analyze_report(path, number, reader, request)
    except Exception as e:
        return fault(path, e)
