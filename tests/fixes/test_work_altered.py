"""Work that goes to other threads, blocks or registers: captures' kernels with another statement, of which it would not
be the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.features.sass.cfg import Cfg
from kscope.fixes.given.text import Text, asked_here, plain
from kscope.fixes.work import all_lanes, dealt, fences, halved, launch, longer, parts, passes, waits
from tests.fixes.test_shared_out import ONE_LANE, SUM
from tests.support.altered import told

JULIA = ("julia.block6x6", "GRD404", launch.blocks)
STORE = "out[y * w + x] = s;"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (STORE, f"{STORE} if (threadIdx.x == 0) out[blockIdx.x] = s;"),
        (STORE, "out[y * w + x + threadIdx.x % 6] = s;"),
        (STORE, "out[y * gridDim.x * blockDim.x + x] = s;"),
        (STORE, f"__shared__ float best; {STORE}"),
        ("__global__ void julia", "__global__ void __launch_bounds__(36) julia"),
    ],
)
def test_blocks_of_another_shape(was: str, becomes: str) -> None:
    assert told(*JULIA) and not told(*JULIA, (was, becomes))


def test_blocks_of_longer_rows() -> None:
    cubes = ("phases.cubes", "GRD404", launch.rows)
    assert told(*cubes) and not told(*cubes, ("sum += weight", "sum += blockDim.y * weight"))


SIGNAL = ("signal_max.one", "GRD405", longer.fixes)
ROUND, ENDS = "m = fmaxf(m, p[k * 256] * s);", "atomicMax(&y[signal], __float_as_int(m))"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (ROUND, "m = fmaxf(m, p[k * 256] * y[k]);"),  # other rounds have other factors then
        (ROUND, "m = fmaxf(m, p[k] * s);"),
        (ROUND, "{ m = fmaxf(m, p[k * 256]) * s; }"),
        (ROUND, "{ if (m > 3) break; m = fmaxf(m, p[k * 256] * s); }"),
        (ROUND, "m += p[k * 256] * s;"),
        (ENDS, "y[blockIdx.x] = m"),  # fewer blocks
        (ENDS, "atomicMax(&y[signal], __float_as_int(m * m))"),
        (ENDS, "atomicAdd(&y[signal], 1)"),
        (f"if (!t) {ENDS}", "if (m > 3) atomicMax(&y[signal], 1)"),
        ("signal = blockIdx.y", "signal = blockIdx.y * gridDim.x"),
    ],
)
def test_threads_that_do_more(was: str, becomes: str) -> None:
    assert told(*SIGNAL) and not told(*SIGNAL, (was, becomes))


ROTORS = ("rotors.all_sites", "LAT305", halved.fixes)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("y = blockIdx.y;", "y = blockIdx.y, w = gridDim.x * 256;"),
        ("if (PACKED) x = x * 2 + (y & 1); else if ((x", "if (n > 3) if ((x"),
        ("template <bool PACKED> __global__ void __launch_bounds__(256) rotors(",
         "__global__ void __launch_bounds__(256) rotors(int PACKED, "),
    ],
)  # fmt: skip
def test_places_of_half_the_lanes(was: str, becomes: str) -> None:
    assert told(*ROTORS) and not told(*ROTORS, (was, becomes))


PUBLISH = ("publish.fence_each", "LAT308", fences.fences)
FENCE = "if (EACH) __threadfence();"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (FENCE, f"{FENCE} flag[k] = 1;"),  # it says that the data are there
        (FENCE, f"{FENCE} *flag = k;"),
        (FENCE, f"{FENCE} tell(flag, k);"),
        (FENCE, f"{FENCE} else flag++;"),
        ("for (int k = 0; k < n; k++)", "if (n > 3) for (int k = 0; k < n; k++)"),
    ],
)
def test_fences_that_stay(was: str, becomes: str) -> None:
    assert told(*PUBLISH) and not told(*PUBLISH, (was, becomes))


BANDS = ("mandelbrot.bands", "GRD403", dealt.fixes)
SET, HEIGHT = "out[y * w + x] = n;", "int rows = h / gridDim.x;"


@pytest.mark.parametrize(
    "swaps",
    [
        [(SET, f"{SET} if (n > limit) return;")],
        [(SET, "out[y * w + x] = n + out[y * w - w + x];")],  # the row before is another block's then
        [(SET, f"{SET} out[r] = 3;")],
        [(HEIGHT, f"{HEIGHT} int last = 0;"), (SET, "out[y * w + x] = n - last; last = n;")],
        [(HEIGHT, f"{HEIGHT} unsigned short* q = out;"), (SET, "q[y * w + x] = n + out[y * w - w + x];")],
        [(HEIGHT, f"{HEIGHT} __shared__ int s[1024];"), (SET, "s[x] += n; out[y * w + x] = s[x];")],
        [("for (int x", "if (r > 5) break; for (int x")],
        [("DEALT ? ", "(limit > 3) ? ")],
        [(HEIGHT, f"{HEIGHT} if (limit > 3) out[limit ? blockIdx.x : 0] = 3;")],
    ],
)
def test_rows_that_are_not_apart(swaps: list[tuple[str, str]]) -> None:
    assert told(*BANDS) and not told(*BANDS, *swaps)


def test_rows_that_fill_shared_memory_anew() -> None:
    assert told(*BANDS, (HEIGHT, f"{HEIGHT} __shared__ int s[1024];"), (SET, "s[x] = n; out[y * w + x] = s[x];"))


SOFTMAX = ("softmax_rows.threepass", "MEM106", passes.fixes)
SUMMED, FIRST, HEAD = "s = 1 / block_sum(s, w);", "{ float4 v = r[i]; m = fm", "float m = -1e30f"


@pytest.mark.parametrize(
    "swaps",
    [
        [(SUMMED, f"{SUMMED} ++r;")],
        [(SUMMED, f"{SUMMED} r[3].x = 5;")],
        [(SUMMED, f"{SUMMED} *r = 5;")],
        [(FIRST, "{ float4 v; if (i % 3) v = r[i]; m = fm")],  # fewer are counted than the row has
        [("int c4)", "int r_n, int c4)")],  # a name that the change would take
        [("int c4)", "const int* of)"), (HEAD, f"int c4 = of[blockIdx.x]; {HEAD}")],  # each block's own length
        [(HEAD, f"float4* q = (float4*)r; {HEAD}"), ("y[(size_t)blockIdx.x * c4 + i] = make", "q[i] = make")],
    ],
)
def test_rows_that_do_not_stay_in_registers(swaps: list[tuple[str, str]]) -> None:
    assert told(*SOFTMAX) and not told(*SOFTMAX, *swaps)


def test_rows_whose_length_follows_from_the_launch() -> None:
    assert told(*SOFTMAX, ("int c4)", "int c8)"), (HEAD, f"int c4 = c8 / 2; {HEAD}"))


LANE = "int lane = threadIdx.x % 32;"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("pick + r)", "pick + r + threadIdx.x)"),
        (LANE, f"{LANE} base += lane;"),
        (LANE, f"{LANE} lane ^= 3;"),
        (LANE, f"{LANE} if (lane == 0) {{ base = next[0]; }}"),  # the first lane's own
        (LANE, f"{LANE} int v = pick[lane]; base += v;"),
        ("  }\n", "  } else { later(); }\n"),
    ],
)
def test_rounds_of_the_first_lane_alone(was: str, becomes: str) -> None:
    assert was in ONE_LANE and all_lanes._found(ONE_LANE) is not None
    assert all_lanes._found(ONE_LANE.replace(was, becomes, 1)) is None


def test_rounds_of_a_warp_that_has_a_name() -> None:
    named = "int warp = threadIdx.x / 32, lane = threadIdx.x % 32; base += warp;"
    assert all_lanes._found(ONE_LANE.replace(LANE, named)) is not None


@pytest.mark.parametrize("became", ["a & ~3", "n > 3 ? a : b", "a - 1"])
def test_parts_begin_within_brackets(became: str) -> None:
    code = SUM.replace("r = a", f"r = {became}")
    one = parts._found(code)
    assert one is not None
    loop, store = parts._spans(code, one)
    assert f"r = ({became}) + blockIdx.y;" in loop[2] and f"int(({became}) + blockIdx.y) < b" in store[2]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [("r < b", "r < b && x[r] > 0"), ("r < b", "r < n ? a : b"), ("r = a", "r = a++"), ("r = a", "r = next()")],
)
def test_sums_with_another_end(was: str, becomes: str) -> None:
    assert parts._found(SUM.replace(was, becomes)) is None


@pytest.mark.parametrize(
    ("expression", "text", "becomes"),
    [
        ("2 * k", "int k = n + 1;", "2*(n+1)"),
        ("k / 2", "int k = n - 1;", "(n-1)/2"),
        ("k + 2", "int k = n + 1;", "n+1+2"),
        ("k + 2", "int k = n; k ^= 3;", "k+2"),
        ("k + 2", "int k = n; --k;", "k+2"),
        ("d + i", "for (int d = 16; d; d >>= 1) f(d);", "d+i"),
    ],
)
def test_names_that_are_put_in(expression: str, text: str, becomes: str) -> None:
    assert plain(expression, text) == becomes


@pytest.mark.parametrize(("at", "line", "own"), [(0xC, 3, True), (0xC, 90, False), (0x14, 90, False), (0x8, 90, True)])
def test_functions_that_ask_how_many_blocks_there_are(at: int, line: int, own: bool) -> None:
    word = SimpleNamespace(text=f"c[0x0][{at:#x}]", kind="constant", bank=0, bases=(), value=at)
    instruction = SimpleNamespace(operands=[word], file="k.cu", line=line)
    code = SimpleNamespace(program=SimpleNamespace(sm=90, instructions=[instruction]))
    assert asked_here(code, Text("k.cu", 1, "a\n" * 9), "SR_CTAID") is own  # type: ignore[arg-type]


def test_waits_for_groups_that_some_rounds_do_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = ("mma_ring.wait_all", "LAT307", waits.ring)
    assert told(*ring)
    monkeypatch.setattr(Cfg, "every_round", lambda cfg, loop, index: False)
    assert not told(*ring)
