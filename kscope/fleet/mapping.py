"""The same function over inputs: here, by processes of this machine, or by an engine that runs already (Dask, Ray). No
more than a window of inputs is under way, results come as they are done, and an input that ends the process which works
on it is a result too: a KscopeError."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from kscope.fleet.missing import needed
from kscope.fleet.one import Outcome, look
from kscope.fleet.sources import Source
from kscope.model.errors import EXIT_USAGE, KscopeError

AHEAD = 3  # inputs under way for each process: one it works on, and no waiting for the next
TRIES = 2  # processes that an input may end before it is refused
FRESH = 400  # inputs a process, after which all are replaced: what native libraries never give back goes with them
CONNECT = 30.0  # seconds to reach a cluster
# Seconds in which a cluster may be without any worker, longer than most take to start some; judged. A cluster of Dask's
# gives a worker up that is away at a certain time after it lost one, and a task without a worker waits for ever.
WORKERLESS = 300.0
PULSE = 2.0  # seconds between two questions whether there are workers

Result = tuple[int, "Outcome | KscopeError"]
Numbered = Sequence[tuple[int, Source]]
Look = Callable[[Source], Outcome]


def here(tasks: Numbered, function: Look = look) -> Iterator[Result]:
    """One after the other, in this process."""
    for number, source in tasks:
        yield number, function(source)


def by_processes(tasks: Numbered, jobs: int, function: Look = look) -> Iterator[Result]:
    """By `jobs` processes of this machine."""
    waiting = list(reversed(tasks))
    while waiting:
        running: dict[Future[Outcome], tuple[int, Source]] = {}
        suspects: list[tuple[int, Source]] = []
        left = FRESH * jobs  # not by max_tasks_per_child: with it the pool hangs in its last tasks (CPython gh-115634)
        with _pool(jobs) as pool:
            try:
                while running or (waiting and left):
                    while waiting and left and len(running) < AHEAD * jobs:
                        running[pool.submit(function, waiting[-1][1])] = waiting[-1]
                        waiting.pop()
                        left -= 1
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in sorted(done, key=lambda f: running[f][0]):
                        result = future.result()
                        yield running.pop(future)[0], result
            except BrokenProcessPool:
                suspects = sorted(running.values(), key=lambda task: task[0])
        for task in suspects:  # one of those under way ended its process: which one is seen alone
            yield task[0], _alone(task[1], function)


def _pool(jobs: int) -> ProcessPoolExecutor:
    import multiprocessing

    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_ready)


def _ready() -> None:
    """A process that serves: what is imported before its first input is imported once."""
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import kscope.engine.kernels.kernel
    import kscope.engine.run  # noqa: F401


def _end_with_parent() -> None:
    """A parent that was killed says nothing: without this its processes would wait for the next input for ever."""
    import multiprocessing
    import os

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _alone(source: Source, function: Look) -> Outcome | KscopeError:
    for _ in range(TRIES):
        with _pool(1) as pool, contextlib.suppress(BrokenProcessPool):
            return pool.submit(function, source).result()
    return died(source)


def died(source: Source) -> KscopeError:
    return KscopeError("crashed", f"{source.url}: the process that analysed it ended {TRIES} times (out of memory?)",
                       "analyse it alone: kscope analyze")  # fmt: skip


def by_cluster(tasks: Numbered, address: str, function: Look = look) -> Iterator[Result]:
    """By an engine that runs: dask://HOST:PORT or ray://HOST:PORT (also dask+tls://..., ray://auto on a machine of the
    cluster). Inputs and kscope must be within its workers' reach. Raises KscopeError where it cannot be reached."""
    kind, _, rest = address.partition("://")
    if kind in ("dask", "dask+tls"):
        return _by_dask(tasks, f"{'tls' if kind.endswith('tls') else 'tcp'}://{rest}", address, function)
    if kind == "ray":
        return _by_ray(tasks, rest, function)
    hint = "dask://HOST:PORT or ray://HOST:PORT"
    raise KscopeError("usage", f"{address}: no cluster that kscope knows", hint, EXIT_USAGE)


def _by_dask(tasks: Numbered, address: str, named: str, function: Look) -> Iterator[Result]:
    distributed = needed("distributed")
    try:
        client = distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise _unreachable(address, error) from None

    def submit(task: tuple[int, Source]) -> Any:
        return client.submit(function, task[1], pure=False, key=f"kscope-{task[0]}-{time.time_ns()}")

    with client:
        waiting = list(reversed(tasks))
        suspects: list[tuple[int, Source]] = []
        under_way: dict[Any, tuple[int, Source]] = {}
        done = distributed.as_completed(loop=client.loop)
        window = AHEAD * max(1, sum(client.nthreads().values()))
        while waiting or under_way:
            while waiting and len(under_way) < window:
                task = waiting.pop()
                future = submit(task)
                under_way[future] = task
                done.add(future)
            _until(done.has_ready, client.nthreads, named)
            future = next(done)
            task = under_way.pop(future)
            try:
                yield task[0], _dask_result(future, named)
            except distributed.KilledWorker:  # the scheduler blames all that a worker had before it when it ended
                suspects.append(task)
            future.release()
        for task in suspects:  # with nothing beside it: which one ends its worker is seen alone
            future = submit(task)
            _until(future.done, client.nthreads, named)
            try:
                yield task[0], _dask_result(future, named)
            except distributed.KilledWorker:
                yield task[0], died(task[1])
            future.release()


def _dask_result(future: Any, named: str) -> Outcome:
    """Raises KscopeError where the connection is lost, and KilledWorker."""
    try:
        result: Outcome = future.result()
    except CancelledError as error:  # what is under way when the scheduler ends
        raise _lost(named, error) from None
    return result


def _until(ready: Callable[[], bool], workers: Callable[[], Any], named: str) -> None:
    """Wait, as long as there is a worker. Raises KscopeError where there is none for too long, or nobody to ask."""
    asked = seen = time.monotonic()
    try:
        while not ready():
            time.sleep(0.01)
            now = time.monotonic()
            if now - asked < PULSE:
                continue
            asked = now
            seen = now if workers() else seen
            if now - seen > WORKERLESS:
                raise KscopeError("no-workers", f"{named}: the cluster has had no worker for {now - seen:.0f} s",
                                  "start workers, and give the same command again: what is done is kept")  # fmt: skip
    except (OSError, TimeoutError, ValueError, CancelledError) as error:
        raise _lost(named, error) from None


def _by_ray(tasks: Numbered, address: str, function: Look) -> Iterator[Result]:
    ray = needed("ray")
    started = False
    if not ray.is_initialized():
        try:
            ray.init(address="auto" if address == "auto" else f"ray://{address}", log_to_driver=False)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise _unreachable(f"ray://{address}", error) from None
        started = True
    try:
        remote = ray.remote(max_retries=TRIES, num_cpus=1)(lambda source: function(source))
        waiting = list(reversed(tasks))
        under_way: dict[Any, tuple[int, Source]] = {}
        window = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))

        def done(seconds: float | None) -> list[Any]:
            found: list[Any] = ray.wait(list(under_way), num_returns=1, timeout=seconds)[0]
            return found

        while waiting or under_way:
            while waiting and len(under_way) < window:
                task = waiting.pop()
                under_way[remote.remote(task[1])] = task
            _until(lambda: bool(done(0.1)), lambda: ray.cluster_resources().get("CPU"), f"ray://{address}")
            ready = done(None)[0]
            number, source = under_way.pop(ready)
            try:
                yield number, ray.get(ready)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
                yield number, died(source)
    finally:
        if started:
            ray.shutdown()


def _lost(named: str, error: BaseException) -> KscopeError:
    return KscopeError("no-cluster", f"{named}: the connection is lost ({type(error).__name__})",
                       "start it, and give the same command again: what is done is kept")  # fmt: skip


def _unreachable(address: str, error: BaseException) -> KscopeError:
    return KscopeError("no-cluster", f"{address}: cannot be reached ({type(error).__name__})",
                       "start it first: dask scheduler, ray start --head")  # fmt: skip
