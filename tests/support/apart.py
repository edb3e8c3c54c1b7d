"""Runs a function in a process of its own: NVIDIA's library must not be at work in the process that runs the tests, for
kscope's readers are forks of that."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn"))


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the function, of a module, returns or raises there; the process is kept, with what it has read."""
    return _pool().submit(function, *args, **kwargs).result(timeout=120)
