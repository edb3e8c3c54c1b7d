"""Bounds, intervals, physics, expressions, formats: what needs no process."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from kscope.bench.judge import bounds, physics, proof
from kscope.bench.judge.inputs import KINDS, generator, make, one_changed
from kscope.bench.judge.interval import ratio
from kscope.bench.judge.referee import Truth
from kscope.bench.player import tools, worker
from kscope.bench.session.sweep import parse, unfit
from kscope.bench.task import expressions
from kscope.bench.task.spec import Source, Task, params, sizes
from kscope.bench.values.numbers import DTYPES, decode, encode
from kscope.bench.values.result import Timing
from kscope.model.errors import KscopeError

CODE = Source("x.py:f", "python", "x.py", "", "f")


def task(**more) -> Task:
    return Task(CODE, CODE, inputs=params("x[m,n] w[n]"), cases=({"m": 8, "n": 16},), **more)


@pytest.mark.parametrize("name", [one for one in DTYPES if one != "int64"])
def test_formats_keep_what_they_can_hold(name: str) -> None:
    kind = DTYPES[name]
    values = np.array([0.0, 1.0, 1.0 if kind.name == "bool" else kind.exact // 2])
    assert decode(encode(values, kind), kind).tolist() == values.tolist()


def test_bfloat16_rounds_to_nearest_even() -> None:
    kind = DTYPES["bfloat16"]
    unit = 2.0**-7
    given = np.array([1 + unit / 2, 1 + 1.5 * unit, 1 + 0.51 * unit, np.nan, np.inf])
    assert decode(encode(given, kind), kind)[:3].tolist() == [1.0, 1 + 2 * unit, 1 + unit]
    assert np.isnan(decode(encode(given, kind), kind)[3]) and np.isinf(decode(encode(given, kind), kind)[4])


def _sums(x: np.ndarray) -> np.ndarray:
    return x.sum(-1)


def _limit(x: np.ndarray, name: str = "float32") -> tuple[np.ndarray, bounds.Bound]:
    """The bound of a row's sum, as the referee makes it."""
    rng, truth = generator(), _sums(x)
    moved = [_sums(x * (1 + bounds.RELATIVE * rng.uniform(-1, 1, x.shape))) for _ in range(bounds.PROBES)]
    sums = []
    for share in (0.25, 0.5, 1.0):
        larger = x.copy()
        larger[:, : int(share * x.shape[1])] *= 1 + bounds.RELATIVE
        sums.append(_sums(larger))
    walk = bounds.rounding(DTYPES[name], "float32", "") * np.sqrt(x.shape[1])
    return truth, bounds.bound(truth, moved, sums, DTYPES[name], walk, None)


@pytest.mark.parametrize("data", ["normal", "uniform", "sorted"])
@pytest.mark.parametrize("count", [64, 1000, 4097])
def test_a_naive_sum_is_within_its_bound(data: str, count: int) -> None:
    """One term after another in float32: the worst order that anybody writes."""
    rng = np.random.default_rng(5)
    x = (rng.random if data == "uniform" else rng.standard_normal)((256, count)).astype(np.float32)
    x = np.sort(x, axis=None).reshape(x.shape) if data == "sorted" else x
    naive = np.zeros(256, np.float32)
    for k in range(count):
        naive += x[:, k]
    truth, limit = _limit(x.astype(np.float64))
    found = bounds.compare(naive, DTYPES["float32"], truth, limit)
    assert found.ok, found


@pytest.mark.parametrize("data", ["normal", "uniform"])
def test_a_sum_of_halves_is_not(data: str) -> None:
    rng = np.random.default_rng(6)
    x = (rng.random if data == "uniform" else rng.standard_normal)((256, 1024)).astype(np.float32)
    truth, limit = _limit(x.astype(np.float64))
    rounded = x.astype(np.float16).astype(np.float64).sum(-1).astype(np.float32)
    assert not bounds.compare(rounded, DTYPES["float32"], truth, limit).ok


def test_nan_is_right_only_where_the_reference_has_it() -> None:
    truth = np.array([1.0, np.nan, np.inf])
    limit = bounds.Bound(np.full(3, 0.1), np.full(3, 0.1))
    kind = DTYPES["float32"]
    assert bounds.compare(np.array([1, np.nan, np.inf], np.float32), kind, truth, limit).ok
    for got in ([np.nan, np.nan, np.inf], [1, 2, np.inf], [1, np.nan, 7], [1, np.nan, -np.inf]):
        assert not bounds.compare(np.array(got, np.float32), kind, truth, limit).ok


def test_a_right_answer_of_nan_alone_has_bounds_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limit = bounds.bound(np.full((2, 3), np.nan), [], [], DTYPES["float32"], 1e-6, np.zeros((2, 3)))
    assert limit.own == 0.0


def test_whole_numbers_are_exact() -> None:
    kind, truth = DTYPES["float32"], np.array([1.0, 2.0])
    assert bounds.whole(truth, kind) and not bounds.whole(truth + 0.5, kind)
    assert bounds.exact(np.array([1, 2], np.float32), kind, truth).ok
    assert not bounds.exact(np.array([1, 2.0000002], np.float32), kind, truth).ok


def test_the_same_code_is_called_different_in_one_of_twenty_at_most() -> None:
    rng, named = np.random.default_rng(1), 0
    for _ in range(400):
        drift = 1 + 0.05 * np.cumsum(rng.standard_normal(24)) / 5  # both sides see the same clock
        a, b = (drift * (1 + 0.01 * rng.standard_normal(24)) for _ in range(2))
        named += ratio(a, b).word != "inconclusive"
    assert named <= 20


def test_three_percent_are_found() -> None:
    rng, found = np.random.default_rng(2), 0
    for _ in range(100):
        drift = 1 + 0.05 * np.cumsum(rng.standard_normal(24)) / 5
        base, cand = (
            103 * drift * (1 + 0.005 * rng.standard_normal(24)),
            100 * drift * (1 + 0.005 * rng.standard_normal(24)),
        )
        one = ratio(base, cand)
        found += one.word == "faster" and one.low < 1.03 < one.high
    assert found >= 90


def _timing(us: float, baseline: float = 100.0, cache: str = "cold") -> Timing:
    return Timing(
        dims={"m": 8, "n": 16}, dtype="float32", cache=cache, candidate_us=us, baseline_us=baseline,
        ratio=1.0, low=1.0, high=1.0, noise_pct=0.1, rounds=9, calls=9,
    )  # fmt: skip


def test_faster_than_memory_is_named() -> None:
    truth = Truth((np.zeros((8, 16)),), (DTYPES["float32"],), ())
    rates = physics.Rates(1e9, {"float32": 1e12}, "a chip's peak")
    floor, size = physics.floor_us(task(), _timing(1.0), truth, rates, dependent=True)
    assert size == 4 * (8 * 16 + 16 + 8 * 16) and floor == pytest.approx(size / 1e3)
    found = physics.judge(_timing(floor / 2), floor, size, rates.of)
    assert found is not None and found.cheat == 52
    assert physics.judge(_timing(floor, floor), floor, size, rates.of) is None
    slow = physics.judge(_timing(6e3, 50e3), 10 * floor, size, rates.of)
    assert slow is not None and slow.cheat == 50
    far = physics.judge(_timing(6e3, 50e3), 100.0, size, rates.of)
    assert far is not None and far.cheat == 50 and far.standing == "seen"


def test_bytes_are_no_floor_where_inputs_need_not_be_read() -> None:
    truth = Truth((np.zeros((8, 16)),), (DTYPES["float32"],), ())
    rates = physics.Rates(1e9, {"float32": 1e6}, "a chip's peak")
    assert physics.floor_us(task(), _timing(1.0), truth, rates, dependent=False) == (0.0, 0.0)
    assert physics.floor_us(task(), _timing(1.0, cache="hot"), truth, rates, dependent=True)[1] == 0.0
    assert physics.floor_us(task(flop="2*m*n"), _timing(1.0), truth, rates, dependent=False)[0] == pytest.approx(256.0)


def test_data_of_every_kind_has_its_shape_and_range() -> None:
    rng = generator()
    for what in KINDS:
        for name in ("float32", "bfloat16", "float16", "int32"):
            data = make(task(), {"m": 8, "n": 16}, name, what, rng)
            assert [one.shape for one in data.arrays()] == [(8, 16), (16,)]
            assert np.isfinite(decode(data.arrays()[0], DTYPES[name])).all(), (what, name)
    ranged = Task(CODE, CODE, inputs=(params("x[m]")[0],), cases=({"m": 99},))
    one = make(ranged, {"m": 99}, "float32", "normal", rng)
    changed, at, index = one_changed(ranged, one, rng)
    different = changed.arrays()[0] != one.arrays()[0]
    assert at == 0 and different.sum() == 1 and different[index]


def test_every_input_has_its_turn_to_be_changed() -> None:
    """Left to chance, of two inputs one is missed by all eight changes once in 256 runs."""
    rng = generator()
    data = make(task(), {"m": 8, "n": 16}, "float32", "normal", rng)
    assert [one_changed(task(), data, rng, turn)[1] for turn in range(3, 7)] == [1, 0, 1, 0]


@pytest.mark.parametrize(
    "text", ["__import__('os')", "m.real", "m if m else 1", "'a'", "2**m", "x", "(", "m" * 500, "[1]"]
)
def test_sizes_are_arithmetic_and_nothing_else(text: str) -> None:
    with pytest.raises(KscopeError):
        expressions.value(text, {"m": 3})
    assert expressions.whole("ceil(m/2)*4", {"m": 3}) == 8


def test_words_of_the_command() -> None:
    x, w, n, alpha = params("x[m,2*n] w[n]:int32 n alpha=0.5")
    assert x.sizes({"m": 3, "n": 5}) == (3, 10) and w.dtype == "int32" and n.scalar and alpha.value == "0.5"
    assert sizes("m=4k, n=7") == {"m": 4096, "n": 7}
    assert parse("n=256..2048") == ("n", ("256", "512", "1024", "2048")) and parse("B=1,2") == ("B", ("1", "2"))
    for wrong in ("m", "m=x", "=3", "m=1e99"):
        with pytest.raises(KscopeError):
            sizes(wrong)


def test_launches_that_cannot_be_are_not_run() -> None:
    fits = task(launch="f<<<m, BLOCK, BLOCK * 4>>>(x)", keywords={"BLOCK": "1024"})
    assert unfit(fits) == ""
    assert "1024 at most" in unfit(task(launch="f<<<m, BLOCK>>>(x)", keywords={"BLOCK": "2048"}))
    assert "shared memory" in unfit(task(launch="f<<<dim3(m, 2), 32, 300000>>>(x)"))


CSV = '''==PROF== Connected to process 7
"ID","Process ID","Kernel Name","dram__bytes_read.sum","smsp__inst_executed.sum"
"","","","byte","inst"
{rows}
==PROF== Disconnected
'''


def _counted(*groups: list[tuple[str, float, float]]) -> str:
    """As ncu writes them: a mark, then the kernels of a group."""
    rows = []
    for group in groups:
        rows.append('"0","7","kscope_bench_marked()","64","12"')
        rows += [f'"0","7","{name}(const float *, int)","{read:,.0f}","{count:.0f}"' for name, read, count in group]
    return CSV.format(rows="\n".join(rows))


def _proof(*, one=("f", 8e6, 1000.0), last=None, zeros=None, several=4, needed=8 << 20) -> list[int | None]:
    groups = [[one], [one], [zeros or one], [one], [one], [last or one], [one] * several]
    return [found.cheat for found in proof.judged(proof.groups(_counted(*groups)), needed)]


def test_counters_of_an_honest_call_name_nothing() -> None:
    assert proof.groups("==ERROR== ERR_NVGPUCTRPERM") == [] and len(proof.groups(_counted([], []))) == 2
    assert _proof() == [] and _proof(one=("f", 1e3, 10.0), needed=1 << 16) == []


def test_counters_name_what_calls_do_otherwise() -> None:
    assert _proof(one=("f", 2e6, 1000.0)) == [26], "inputs that matter are not read"
    assert _proof(one=("f", 2e6, 1000.0), needed=0) == [], "nobody has seen that they matter"
    assert _proof(several=1) == [7], "calls in one launch"
    assert _proof(zeros=("f", 8e6, 100.0)) == [27] and _proof(last=("f", 8e6, 300.0)) == [36]
    assert _proof(zeros=("f", 8e6, 1800.0)) == [], "zeros divided the long way"
    assert _proof(last=("f", 0.0, 1000.0)) == [], "it may lie in the cache by then: the first call did read"


class _Driver:
    """The two calls of CUDA's driver that set L2 aside, as an H100's answers them."""

    def __init__(self, size: int, *, fixed: bool = False) -> None:
        self.size, self.fixed = size, fixed

    def cuCtxGetLimit(self, out, limit: int) -> int:
        out._obj.value = self.size
        return 0 if limit == tools.PERSISTING else 1

    def cuCtxSetLimit(self, limit: int, size) -> int:
        if self.fixed:
            return 1
        self.size = size.value
        return 0

    def cuCtxResetPersistingL2Cache(self) -> int:
        return 0


@pytest.mark.parametrize("fixed", [False, True])
def test_l2_that_a_driver_sets_aside_is_nobodys_cheat(monkeypatch: pytest.MonkeyPatch, fixed: bool) -> None:
    driver = _Driver(9_830_400, fixed=fixed)
    monkeypatch.setattr(tools.ctypes, "CDLL", lambda name: driver)

    class Side:
        device = "cuda"

        def sync(self) -> None: ...

    player = worker.Player(None)  # type: ignore[arg-type]
    player.given, player.aside = {"device": "cuda"}, tools.emptied(Side())
    player.watch = SimpleNamespace(found=list)  # type: ignore[assignment]
    assert player.do_audit({})["persisting"] == 0
    driver.size = 16 << 20
    assert player.do_audit({})["persisting"] == (16 << 20) - (9_830_400 if fixed else 0), "the candidate's own doing"


@pytest.mark.parametrize(("count", "ok"), [(1, True), (4, True), (1000, False)])
def test_a_mean_of_few_errors_says_little(count: int, ok: bool) -> None:
    """Each of them 1.2 of what the formats explain, below its own bound of 4."""
    truth = np.full(count, 1.0)
    limit = bounds.bound(truth, [truth], [], DTYPES["float32"], 0.0, None)
    raw = (truth + 1.2 * limit.plain).astype(np.float64)
    found = bounds.compare(raw, DTYPES["float64"], truth, limit)
    assert found.ok is ok and 1.1 < found.rms < 1.3 and found.ratio < 0.5


def test_what_the_reference_itself_is_off_is_granted_on_the_whole_too() -> None:
    """Zeros into a layer with weights: nothing that is changed shows how large its sums are."""
    truth = np.full(1000, 1.0)
    off = np.full(1000, 1.7 * DTYPES["float32"].unit)
    granted = bounds.bound(truth, [truth], [], DTYPES["float32"], 0.0, off)
    assert bounds.compare(truth + off, DTYPES["float64"], truth, granted).ok
    bare = bounds.bound(truth, [truth], [], DTYPES["float32"], 0.0, None)
    assert not bounds.compare(truth + off, DTYPES["float64"], truth, bare).ok
