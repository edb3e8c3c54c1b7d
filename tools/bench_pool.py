"""Processes for the tools that prove `kscope bench`: rows as they come, and what was left out when the time is up."""

from __future__ import annotations

import faulthandler
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any


def pooled(
    work: Callable[..., dict[str, Any]], todo: Sequence[tuple[Any, ...]], jobs: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Rows of `work(*arguments)`; for those that are not done in time their arguments. Processes of their own: threads
    of one would wait for each other at every message."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(seconds + 15,))
    pending = {pool.submit(work, *one): one for one in todo}
    try:
        for done in as_completed(pending, timeout=seconds):
            yield done.result()
    except TimeoutError:
        for future, one in pending.items():
            if not future.done():
                yield {"left_out": [str(part)[:80] for part in one]}
        for one in list(pool._processes.values()):  # what is timed next is to have the machine for itself
            one.kill()
    pool.shutdown(wait=False, cancel_futures=True)


def _begin(seconds: float) -> None:
    from kscope.bench.judge import hold
    from kscope.bench.player import pages

    pages.kept()
    hold.PATIENCE = 45.0
    faulthandler.dump_traceback_later(seconds, exit=True)
