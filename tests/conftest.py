"""Fixtures of the captures, computed once a run: unpacked reports and analyses are shared by all xdist workers through
files, kernels are read once a worker. The disassembly cache is the run's own, so that no test depends on the user's."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kscope.engine.run import analyze_paths
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Analysis, KernelAnalysis, from_json, to_json
from kscope.model.kernel import Kernel
from kscope.parsers.files import forked
from kscope.parsers.ncu.kernels import read_kernels
from tests.support import browser as browsing
from tests.support import reports
from tests.support.once_a_run import SHARED
from tests.support.thorough import often

# The same examples each time, whatever the machine's load: a run of the tests says something about the code alone.
# `make fuzz` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=often(150, 60))
settings.register_profile("search", deadline=None, max_examples=5000)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same one for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def cache_folder(shared: Path) -> Iterator[Path]:
    """The run's own disassembly cache, also for the commands that tests start."""
    folder = shared / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSCOPE_CACHE_DIR", str(folder))
        patch.setenv(SHARED, str(shared))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def forks(report: Callable[[str], Path]) -> Iterator[None]:
    """Readers are forks of this process whatever threads other libraries have left in it: NVIDIA's never disassembles
    here (tests.support.apart), and many tests patch what the fork then does. It has opened a kernel here, for its first
    one takes it 0.2 s, which no fork then needs again."""
    import ncu_report

    ncu_report.load_report(str(report("bank_conflict.slow")))[0][0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked, "possible", lambda: hasattr(os, "fork"))
        yield


@contextmanager
def once(path: Path) -> Iterator[bool]:
    """True for the one worker that has to make `path`; the others wait until it is there."""
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not path.exists()


@pytest.fixture(scope="session")
def report(shared: Path) -> Callable[[str], Path]:
    """case -> its unpacked report. Read only: it is everyone's."""

    @cache
    def unpacked(case: str) -> Path:
        path = shared / f"{case}.ncu-rep"
        with once(path) as missing:
            if missing:
                path.write_bytes(reports.plain(case))
        return path

    return unpacked


@pytest.fixture(scope="session")
def kernel(report: Callable[[str], Path]) -> Callable[[str], Kernel]:
    """case -> its one kernel."""

    @cache
    def read(case: str) -> Kernel:
        (only,) = read_kernels(str(report(case)))
        return only

    return read


@pytest.fixture(scope="session")
def facts(kernel: Callable[[str], Kernel]) -> Callable[[str], Facts]:
    """case -> the features of its kernel, memoised."""
    return cache(lambda case: Facts(kernel(case)))


@pytest.fixture(scope="session")
def analysis(shared: Path) -> Callable[[str], Analysis]:
    """case -> its Analysis, of the packed report, by the path that `git ls-files` gives."""

    @cache
    def analyzed(case: str) -> Analysis:
        path = shared / f"{case}.json"
        with once(path) as missing:
            if missing:
                path.write_bytes(to_json(analyze_paths([reports.fixture(case)])))
        return from_json(path.read_bytes())

    return analyzed


@pytest.fixture(scope="session")
def diagnosis(analysis: Callable[[str], Analysis]) -> Callable[[str], KernelAnalysis]:
    """case -> the diagnosis of its one kernel."""

    def only(case: str) -> KernelAnalysis:
        (one,) = analysis(case).kernels
        return one

    return only


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One a worker: Playwright cannot be started twice in a process."""
    executable = browsing.chromium()
    if executable is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install -e '.[dev]'")
    with sync.sync_playwright() as play:
        running = play.chromium.launch(executable_path=executable, args=list(browsing.FLAGS))
        yield running
        running.close()
