"""Dask and Ray give the dataset that one process gives, also where a worker is killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kscope.fleet import mapping
from kscope.fleet.one import Outcome, look
from kscope.fleet.sources import Source
from kscope.model.errors import KscopeError
from tests.fleet.test_ingest import contents, put, rows
from tests.support.thorough import ALL

pytestmark = pytest.mark.slow


def deadly(source: Source, victim: str, mark: str) -> Outcome:
    """look, which kills its process at one input: once, or always where there is no mark."""
    if victim in source.url and (not mark or not os.path.exists(mark)):
        if mark:
            Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return look(source)


@pytest.fixture
def some(fleet: Path) -> list[str]:
    return [str(fleet / f"date=2026-06-0{night}") for night in (1, 2, 3)]


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """Dask's local cluster gives up the worker that is away 15 s after it lost one; here they are lost in a row."""
    if find_spec("distributed") is None:
        yield
        return
    import dask
    import distributed  # noqa: F401  # its own settings come first

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}):
        yield


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_clusters(kind: str, some: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from functools import partial

    alone, mark = tmp_path / "alone", tmp_path / "mark"
    put(some, alone)
    once, always = partial(deadly, victim="c1/gather", mark=str(mark)), partial(deadly, victim="c0/tile", mark="")
    root = str(Path(__file__).resolve().parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    if kind == "dask" and not ALL and find_spec("ray"):
        pytest.skip("as ray's: make test-all")
    if kind == "dask":
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        )
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        ended = cluster.close
    else:
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        address, ended = "ray://here", ray.shutdown
        cluster = None
    try:
        put(some, tmp_path / "same", lambda tasks: mapping.by_cluster(tasks, address))
        put(some, tmp_path / "killed", lambda tasks: mapping.by_cluster(tasks, address, once))
        if cluster is not None:
            cluster.scale(1)  # all that is under way waits for the worker that dies
        put(some, tmp_path / "poison", lambda tasks: mapping.by_cluster(tasks, address, always))
    finally:
        ended()
    assert contents(tmp_path / "same") == contents(alone)
    assert mark.exists() and contents(tmp_path / "killed") == contents(alone)
    refused = rows(tmp_path / "poison", "SELECT url FROM refused WHERE code = 'crashed'")
    assert ["c0/tile" in row["url"] for row in refused] == [True]  # and none of those that waited beside it
    assert len(rows(tmp_path / "poison", "SELECT * FROM kernels")) == len(rows(alone, "SELECT * FROM kernels")) - 1


def test_no_such_cluster() -> None:
    with pytest.raises(KscopeError, match="no cluster that kscope knows"):
        mapping.by_cluster([], "spark://here")


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(mapping, "CONNECT", 1.0)
    with pytest.raises(KscopeError, match="cannot be reached"):
        list(mapping.by_cluster([(0, Source("a", "a", "", 0))], "dask://127.0.0.1:1"))


def slow(source: Source) -> Outcome:
    time.sleep(4.0 if source.url == "last" else 0.0)
    return look(source)


@pytest.mark.parametrize("left_by", ["workers", "scheduler"])
def test_a_cluster_that_is_left(left_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error after what was done, and no waiting for ever."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    for name, seconds in (("WORKERLESS", 1.0), ("PULSE", 0.1), ("CONNECT", 1.0)):
        monkeypatch.setattr(mapping, name, seconds)
    tasks = [(number, Source(name, name, "", 0)) for number, name in enumerate(("one", "two", "last"))]
    quick = dask.config.set({"distributed.comm.timeouts.connect": "1s"})  # its own close asks the scheduler, too
    with quick, distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None, memory_limit=0
    ) as cluster:
        found = mapping.by_cluster(tasks, cluster.scheduler_address.replace("tcp://", "dask://"), slow)
        assert sorted([next(found)[0], next(found)[0]]) == [0, 1]
        if left_by == "workers":
            cluster.scale(0)
        else:
            cluster.sync(cluster.scheduler.close)
        with pytest.raises(KscopeError, match="has had no worker" if left_by == "workers" else "connection is lost"):
            list(found)
