"""Several processes find what one finds, byte for byte and in the same order, whatever becomes of one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kscope.engine.inputs import helpers, kernel_reports, shared_work
from kscope.engine.run import analyze_paths
from kscope.features.views.footprint import Footprints
from kscope.model.contract.analysis import to_json
from kscope.model.contract.detail import Detail
from kscope.model.errors import KscopeError
from kscope.parsers.files import forked
from kscope.parsers.ncu import turns
from kscope.parsers.ncu.turns import Turns
from kscope.reports import Options, render
from tests.support import reports, thorough
from tests.support.thorough import some

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forks")
CASES = (
    "bank_conflict.slow", "spill.fast", "bank_conflict.slow", "wgmma_gemm.unspecialised", "spill.fast", "atomics.slow",
)  # fmt: skip


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One report of six kernels of four functions: above what is shared out."""
    out = tmp_path_factory.mktemp("large") / "large.ncu-rep"
    assert reports.join_reports([reports.fixture(case) for case in CASES], out) > turns.LEAST_BYTES
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four reports, one of them cut."""
    for number, case in enumerate(("atomics.slow", "bank_conflict.slow", "tile_sum.lanes", "gather.records")):
        data = reports.plain(case)
        (tmp_path / f"{number}.ncu-rep").write_bytes(data[: len(data) // 2] if number == 1 else data)
    return tmp_path


@pytest.mark.parametrize("jobs", some([3, 6], 1))
def test_a_large_report_by_several(large: Path, jobs: int) -> None:
    shared = turns.turns(str(large), jobs)
    assert shared is not None and sorted(i for group in shared.groups for i in group) == list(range(len(CASES)))
    shared.close()
    one, more = Detail(), Detail()
    prints = Footprints(), Footprints()
    alone = analyze_paths([large], detail=one, footprints=prints[0])
    assert sorted(k.repeats.count if k.repeats else 1 for k in alone.kernels) == [1, 1, 2, 2]
    several = analyze_paths([large], detail=more, jobs=jobs, footprints=prints[1])
    assert to_json(several) == to_json(alone)
    assert prints[0] == prints[1]
    assert render("html", several, Options(detail=more)) == render("html", alone, Options(detail=one))


@pytest.mark.parametrize("options", some([{"top": 2}, {"kernel": "transpose"}, {"select": ["MEM"]}], 1))
def test_what_is_asked_for(large: Path, options: dict[str, object]) -> None:
    assert to_json(analyze_paths([large], jobs=3, **options)) == to_json(analyze_paths([large], **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("top", [None, 1])
def test_a_folder_in_order(folder: Path, top: int | None) -> None:
    alone = analyze_paths([folder], top=top)
    assert len(alone.skipped) == 1 and len(alone.kernels) == (top or 3)
    assert to_json(analyze_paths([folder], top=top, jobs=3)) == to_json(alone)


def test_nothing_matches(large: Path) -> None:
    with pytest.raises(KscopeError, match="no kernel matches"):
        analyze_paths([large], kernel="nobody", jobs=3)


def killed(once: Path, victim: int | None = None):  # type: ignore[no-untyped-def]
    """analyze_kernel, in whose place a helper is killed: at its first kernel, or always at one."""
    parent, real = os.getpid(), kernel_reports.analyze_kernel

    def analyze(kernel, *rest):  # type: ignore[no-untyped-def]
        if os.getpid() != parent and (kernel.index == victim if victim is not None else not once.exists()):
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return real(kernel, *rest)

    return analyze


def test_a_helper_that_dies_is_made_up_for(
    large: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, once in ((large, tmp_path / "one"), (folder, tmp_path / "two")):
        alone = to_json(analyze_paths([path]))
        monkeypatch.setattr(kernel_reports, "analyze_kernel", killed(once))
        monkeypatch.setattr(shared_work, "analyze_report", slowly)
        assert to_json(analyze_paths([path], jobs=3)) == alone
        assert once.exists(), "it was killed"
        monkeypatch.undo()


def slowly(*args):  # type: ignore[no-untyped-def]
    """The helper comes to its turn while the parent waits."""
    if not forked._parents:
        return kernel_reports.analyze_report(*args)
    time.sleep(0.5)
    return kernel_reports.analyze_report(*args)


@thorough.only
def test_what_always_kills_is_left_out(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a helper; a parent that dies has always died."""
    monkeypatch.setattr(kernel_reports, "analyze_kernel", killed(tmp_path / "once", victim=1))
    monkeypatch.setattr(Turns, "take", parent_last(Turns.take))
    result = analyze_paths([large], jobs=3)
    assert [(s.what, s.message) for s in result.skipped] == [("kernel 1", shared_work.KILLED)]
    assert sorted(k.repeats.count if k.repeats else 1 for k in result.kernels) == [1, 1, 1, 2]


def parent_last(take):  # type: ignore[no-untyped-def]
    """Readers of the helper come first."""
    parent = os.getpid()

    def later(self: Turns) -> tuple[int, ...] | None:
        if os.getppid() == parent:  # the parent's own reader
            time.sleep(1)
        group: tuple[int, ...] | None = take(self)
        return group

    return later


@thorough.only
def test_progress_counts_all(large: Path, folder: Path) -> None:
    said: list[tuple[str, int, int | None]] = []
    analyze_paths([large], jobs=3, progress=lambda *a: said.append(a))
    assert said[-1] == (str(large), 6, 6)
    said.clear()
    analyze_paths([folder], jobs=2, progress=lambda *a: said.append(a))
    assert said[-1][1:] == (4, 4) and [done for _, done, _ in said] == sorted(done for _, done, _ in said)


def test_a_result_that_was_not_written_whole_is_none(tmp_path: Path) -> None:
    def work(put: helpers.Put, step: object) -> None:
        put("first")
        put("second")

    two = helpers.Helpers(1, work)
    two.wait()
    assert list(two.results()) == ["first", "second"] and not two.died
    os.ftruncate(two._files[0].fileno(), os.fstat(two._files[0].fileno()).st_size - 1)
    assert list(two.results()) == ["first"]
    two.close()


def test_told_to_end_leaves_nobody(large: Path, tmp_path: Path) -> None:
    """SIGTERM at the command: helpers and their readers are gone with it."""
    command = [sys.executable, "-m", "kscope", "analyze", str(large), "--jobs", "5", "--format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "KSCOPE_CACHE_DIR": str(tmp_path)},
    ) as process:  # fmt: skip
        until = time.monotonic() + 20
        while members(process.pid) < 5 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        process.terminate()
        assert process.wait(20) == 143
    until = time.monotonic() + 5
    while members(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert members(process.pid) == 0


def members(session: int) -> int:
    """Processes of a session."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        count += int(fields[3]) == session and fields[0] != "Z"
    return count


def test_small_reports_are_not_shared(tmp_path: Path) -> None:
    small = tmp_path / "small.ncu-rep"
    small.write_bytes(reports.plain("tile_sum.lanes"))
    assert turns.turns(str(small), 8) is None


def test_turns_are_taken_once() -> None:
    queue = Turns([(3, 1), (2,), (0, 4)], 2)
    assert list(queue.kernels((7,))) == [(7, ()), (3, (1,)), (1, ()), (2, ()), (0, (4,)), (4, ())]
    assert queue.take() is None
    queue.close()


def test_cores_are_those_that_may_be_used() -> None:
    assert 1 <= forked.cores() <= (os.cpu_count() or 1)
