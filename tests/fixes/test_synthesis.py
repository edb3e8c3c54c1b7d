"""Changes of whole kernels: what captures whose better version was timed are told, and that the better version is not
told the same again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.accuracy import powers
from kscope.fixes.compute import conversions, integer_dots, product
from kscope.fixes.given import text
from kscope.fixes.given.rewrite import replaced
from kscope.fixes.memory import jammed, neighbours, rows, tickets
from kscope.fixes.work import grid, halved
from kscope.fixes.work.dealt import TRIED
from tests.support.thorough import some
from tests.support.with_sources import changes

CHANGES = [
    ("atomics.slow", "atomics.fast", "MEM109", "aggregate", "atomicAdd(&bins_block[(int)(in[i] * 8) & 3]"),
    ("groupby_f64.global", "groupby_f64.shared", "MEM109", "aggregate", "__shared__ double out_block[64][32];"),
    ("attn.global", "", "MEM102", "vector_access", "element4(&k[j * AD], c)"),
    ("narrow_loads.slow", "narrow_loads.fast", "MEM102", "neighbours", "out_v.at[k] = __hmul(in_v.at[k], s);"),
    ("particles.aos", "particles.soa", "MEM101", "lane_mapping", "p.vx[i], vy = p.vy[i], vz = p.vz[i];"),
    ("uncoalesced.slow", "uncoalesced.fast", "MEM101", "lane_mapping", "(int c = threadIdx.x % 32; c < cols; c += 32)"),
    ("csr.thread", "csr.warp", "MEM101", "lane_mapping", "if (threadIdx.x % 32 == 0) y[r] = s;"),
    ("row_stats.thread", "row_stats.warp", "MEM101", "lane_mapping", "q += __shfl_xor_sync(~0u, q, d);"),
    ("bitonic1024.barriers", "bitonic1024.shuffles", "LAT304", "lane_mapping", "__shfl_xor_sync(~0u, v, j); else"),
    ("mandelbrot.bands", "mandelbrot.dealt", "GRD403", "lane_mapping", "blockIdx.x + r * gridDim.x"),
    ("publish.fence_each", "publish.fence_once", "LAT308", "fence", "= in[k * step + t] * 2;  } __threadfence();"),
    ("quotients.divided", "quotients.reciprocal", "CMP204", "reciprocal", "v[k].x * inverse_sum, v[k].y * inverse_sum"),
    ("weights.pow", "weights.root", "CMP211", "math_function", "exp(-x[i]) / ((t) * sqrt(t))"),
    ("gemv_w4.cast", "", "CMP207", "math_function", "halves_in((word >> (4 * b)) & 0x000f000fu, 8)"),
    ("qdot.to_float", "qdot.dp4a", "CMP207", "math_function", "s[v] = __dp4a(a, b, s[v]);"),
    ("sums.in_shared", "sums.in_register", "MEM114", "register", "sum_own += tile[k] * v;"),
    ("texels.fetched", "texels.loaded", "MEM113", "texel_loads", "t[(size_t)min(max(v + b, 0), t_h - 1) * t_w"),
    ("conv1x1.constant", "conv1x1.global", "MEM111", "copy_constants", "__shared__ float cw_shared[32][33];"),
    ("lbm.directions", "", "MEM105", "unroll", "for (int q = 0; q < 9; q++) if (q < nq)"),
    ("spill.slow", "spill.fast", "MEM104", "launch_bounds", "__launch_bounds__(256, 1)"),
    ("mma_ring.wait_all", "", "LAT307", "stages", "copy_wait<3>(); __syncthreads();"),
    ("moe_list.each", "moe_list.block", "MEM109", "aggregate", "unsigned slot = (count_base[e] + count_own[round_n])"),
    ("unpack.byte", "unpack.sixteen", "MEM102", "neighbours", "y_v.at[k] = bits_one >> ((i + k) & 31) & 1;"),
    ("tile_sum.lanes", "tile_sum.elected", "LAT310", "lane_mapping", '"r"(to), "l"(p + (size_t)k * TILE), "r"(b)'),
    ("digits.thread_rows", "", "MEM103", "swizzle", "c[((v >> (6 * j) & 63) * BIN) * 128 + t]++; }"),
    ("layernorm_bf16.scalar", "layernorm_bf16.vec8", "MEM102", "neighbours", "__bfloat162float(x_of[k / 8].at[k % 8])"),
    ("fp8_quant.strided", "", "MEM102", "neighbours", "y_to10[j / 8].at[j % 8 / 2] = __nv_cvt_float2_to_fp8x2("),
    ("batch4.wait", "", "LAT307", "stages", "if (k + 32 < C / 4) fetch(k + 32, slot ^ 1);"),
    ("chol8.direct", "", "MEM101", "lane_mapping", "= x_tile[threadIdx.x][i * 8 + j] + (i == j ? 8.f : 0.f);"),
    ("paged_kv.tokens", "", "MEM101", "lane_mapping", "unsigned i = turned(blockIdx.x * 256 + threadIdx.x)"),
    ("rotors.all_sites", "", "LAT305", "lane_mapping", "else x = 2 * x + (y & 1);"),
    ("centroids.each", "centroids.eight", "MEM112", "jam", "if (d_of[q_n] < best) { best = d_of[q_n]; at = q; }"),
    ("levels.each", "levels.eight", "MEM118", "jam", "count_of[q_n] += x[(size_t)j * n + i] < level_of[q_n];"),
    ("list_walk.serial", "list_walk.four", "LAT302", "jam", "p_of[l_n] = next[p_of[l_n]];"),
    ("triton_rowsum.down", "triton_rowsum.along", "MEM101", "lane_mapping", "(rows * cols + c)[:, None]"),
    ("triton_softmax.passes", "triton_softmax.once", "MEM106", "block_size", "row = tl.load(x + base + offs)"),
]
LAUNCHES = [
    ("small_grid.slow", "small_grid.fast", "GRD401", "block_reduce<<<1056, 256>>>(...);"),
    ("calibrate.block128", "calibrate.block1024", "LAT301", "calibrate<<<264, 1024, 96000>>>(...);"),
    ("gravity.blocks270", "gravity.blocks255", "GRD402", "gravity<544><<<255, 544, 98304>>>(...);"),
    ("gather_rows.header4", "gather_rows.header128", "MEM108", "skip = (skip + 31) / 32 * 32;"),
    ("place_rows.header1", "place_rows.header32", "MEM108", "header = (header + 31) / 32 * 32;"),
    ("scale_add.host_input", "scale_add.device_input", "MEM110", "cudaMemcpyAsync(x_device, x, bytes"),
    ("ws_gemm.stages2", "", "ASY504", "197664 bytes of dynamic shared memory"),
    ("build.debug", "build.optimised", "CMP212", "nvcc -O3 -lineinfo -arch=sm_90"),
    ("gamma.double", "gamma.float", "CMP203", "gamma_curve<float><<<grid, block>>>(...);"),
    ("signal_max.one", "signal_max.many", "GRD405", "signal_max<64><<<dim3(256, 16), 256>>>(...);"),
    ("mm.coalesced", "", "MEM112", "dim3(n / 128, n / 128), 256>>>"),
    ("manhattan.one", "", "MEM112", "sum[i][j] += fabsf(u[i] - v[j]);"),
    ("gemm_f32.shared", "", "MEM112", "dim3(N / 128, N / 128), 256>>>"),
    ("sgemm.tiled", "sgemm.blocktile2d", "MEM112", "dim3(n / 128, n / 128), 256>>>"),
    ("triton_deep.tiles16", "triton_deep.split16", "GRD401", "matmul_tiles[(4, 4, 8)](..., K_EACH=K_EACH // 8)"),
]


@pytest.mark.parametrize(("case", "better", "code", "kind", "line"), some(CHANGES, 9))
def test_lines(case: str, better: str, code: str, kind: str, line: str) -> None:
    fix = next(x for x in changes(case, code) if x.kind == kind)
    assert fix.printable
    assert any(line in edit.becomes for edit in fix.edits)
    first = fix.proof[0]
    assert first.before != first.after
    assert not better or all(x.kind != kind for x in changes(better, code)), "it is told again"


@pytest.mark.parametrize(("case", "better", "code", "words"), LAUNCHES)
def test_launches_and_other_words(case: str, better: str, code: str, words: str) -> None:
    fix = changes(case, code)[0]
    assert words in fix.code and fix.printable
    assert not better or not changes(better, code), "it is told again"


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("groupby_f64.shared", "GRD401"),  # each block clears and adds up a table: more of them do that more often
        ("moe_list.block", "MEM109"),  # counted in the block already
    ],
)
def test_what_does_not_follow_is_not_proposed(case: str, code: str) -> None:
    assert not changes(case, code)


@given(st.integers(1, 1023), st.data())
def test_small_integers_are_exact_halves(mask: int, data: st.DataObject) -> None:
    less = data.draw(st.integers(0, 1023 - mask))
    n = data.draw(st.integers(0, mask))
    assert conversions._half(n, less) == n - less


def test_runs_and_turns_are_the_same_rows() -> None:
    for blocks, each in TRIED:
        run = sorted(b * each + r for b in range(blocks) for r in range(each))
        assert run == sorted(b + r * blocks for b in range(blocks) for r in range(each))


@pytest.mark.parametrize(
    ("before", "body", "alone"),
    [
        ("float s = 0;", "s += x[r * n + c];", True),
        ("float s = 0, q = 0.f;", "{ float v = x[r * n + c]; s += v; q += v * v; }", True),
        ("float s = 1;", "s += x[r * n + c];", False),
        ("float s = 0; s = b[r];", "s += x[r * n + c];", False),
        ("float s = 0;", "{ s += x[r * n + c]; y[c] = s; }", False),
        ("float s = 0;", "{ if (x[c] < 0) break; s += x[c]; }", False),
        ("float s = 0;", "{ s += x[c]; note(&s); }", False),
        ("float s = 0;", "s = fmaxf(s, x[c]);", False),
    ],
)
def test_rounds_that_only_add_are_told_from_others(before: str, body: str, alone: bool) -> None:
    code = f"{before} for (int c = 0; c < n; c++) {body}"
    (loop,) = text.loops(code)
    assert rows._alone(loop, code) is alone


def test_dots_need_all_four() -> None:
    four = "(float)a.x * (float)b.x + (float)a.y * (float)b.y + (float)a.z * (float)b.z + (float)a.w * (float)b.w"
    assert integer_dots._dots(f"s += {four};", {"a", "b"}) == "s += dot4(a, b);"
    assert "dot4" not in integer_dots._dots(f"s += {four.replace('b.w', 'b.z')};", {"a", "b"})
    assert "dot4" not in integer_dots._dots(f"s += {four};", {"a"})
    for other in (f"s = t * {four};", f"s = t - {four};", f"s = {four} * t;", f"s = {four}0;"):
        assert integer_dots._dots(other, {"a", "b"}) == other  # not of all four
    assert integer_dots._dots(f"s = t * ({four}) * t;", {"a", "b"}) == "s = t * (dot4(a, b)) * t;"


def test_products_are_square_and_row_by_row() -> None:
    def n(text: str) -> str | None:
        one, out = product._SUM.search(text), product._STORE.search(text[text.index(";") + 1 :])
        assert one is not None and out is not None
        places = "int y = blockIdx.y * 32 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;"
        found = product._square(places + text, one, out)
        return found[2] if found is not None else None

    assert n("s += A[(size_t)y * n + k] * B[(size_t)k * n + x]; C[y * n + x] = s;") == "n"
    assert n("s += A[y * n + k] * B[x * n + k]; C[y * n + x] = s;") is None
    assert n("s += A[y * n + k] * B[k * m + x]; C[y * n + x] = s;") is None


def test_powers_of_halves_alone() -> None:
    assert powers._HALVES.fullmatch("1.5") and powers._HALVES.fullmatch("2") and powers._HALVES.fullmatch("3.0")
    assert not powers._HALVES.fullmatch("1.25") and not powers._HALVES.fullmatch("y")
    assert replaced("pow(x, 1.25)", "pow", lambda call: None) == "pow(x, 1.25)"


ROUNDS = "for (int q = 0; q < k; q++) { float d = 0; for (int j = 0; j < n; j++) d += x[j] * c[q]; y[q] = d; }"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("y[q] = d;", "s = d; y[q] = s;"),  # s is not read before it is written: the same round alone
        ("float d = 0;", "float d = 0, u = q * 2;"),
    ],
)
def test_rounds_that_are_free_of_each_other_go_together(was: str, becomes: str) -> None:
    assert jammed._found(ROUNDS) is not None
    one = jammed._found(ROUNDS.replace(was, becomes))
    assert one is not None and one.outer.name == "q" and one.inner.name == "j"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("d += x[j] * c[q];", "d += x[j] * c[q] * s;|s = d; y[q] = d;"),  # uses what the round before has made
        ("d += x[j] * c[q];", "{ d += x[j]; y[j] = d; }"),  # writes memory in the inner loop
        ("d += x[j] * c[q];", "d += y[j] * c[q];"),  # reads what a round has written
        ("d += x[j] * c[q];", "{ d += x[j]; if (d > 9) break; }"),
        ("d += x[j] * c[q];", "{ d += x[j]; s++; }"),
        ("d += x[j] * c[q];", "d += f(&s, x[j]);"),
        ("int j = 0;", "int j = q;"),  # another length each round
        ("int q = 0;", "int q = 1;"),
        ("float d = 0;", "float d = 0; s = q;"),
        ("y[q] = d;", "__syncthreads(); y[q] = d;"),
        ("y[q] = d;", "for (int i = 0; i < n; i++) y[q] += d;"),
    ],
)
def test_rounds_that_may_need_each_other_do_not(was: str, becomes: str) -> None:
    inner, _, tail = becomes.partition("|")
    code = ROUNDS.replace(was, inner)
    assert jammed._found(code.replace("y[q] = d;", tail) if tail else code) is None


PRODUCT = """def f(a, b, c, K, BK: tl.constexpr):
    rk = tl.arange(0, BK)
    pa, pb = a + rk, b + rk
    acc = tl.zeros((16, 16), dtype=tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(tl.load(pa), tl.load(pb))
    tl.store(pc, acc)

def g():"""


def test_sums_in_parts_are_lines_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.fixes.given.rewrite import Place
    from kscope.fixes.given.setting import Asked, Setting
    from kscope.fixes.triton import tiles

    def split(text: str) -> list[str] | None:
        lines = text.split("\n")
        monkeypatch.setattr(tiles, "places", lambda setting, found: [Place("k.py", 5, lines[4])])
        made = tiles._split(Asked(Setting(None, lambda file: lines), None), [0], 4)  # type: ignore[arg-type]
        return None if made is None else [e.becomes.strip() for e in made[0]]

    assert split(PRODUCT) == [
        "rk = tl.program_id(2) * (K // 4) + tl.arange(0, BK)", "for _ in range(0, K // 4, BK):",
        "tl.atomic_add(pc, acc)",
    ]  # fmt: skip
    assert split(PRODUCT.replace("rk = tl", "rk = tl.program_id(2) * 5 + tl")) is None
    assert split(PRODUCT.replace("tl.store(pc, acc)", "tl.store(pc, acc * 2)")) is None


def test_places_in_lists_are_given_once() -> None:
    assert tickets._play(16) == tickets.BLOCKS * tickets.THREADS
    lists = "unsigned e = (x[i] >> 9) % ME;"
    assert tickets._lists(lists, "e", {"ME": 16}) == 16
    assert tickets._lists("unsigned e = x[i] & 15;", "e", {}) == 16
    assert tickets._lists(lists, "e", {}) is None, "no number is known"
    assert tickets._lists(lists.replace("unsigned", "int"), "e", {"ME": 16}) is None, "it may be negative"
    assert tickets._lists(f"{lists} e += 4;", "e", {"ME": 16}) is None


def test_stores_that_are_all_of_a_kernel() -> None:
    head = "__global__ void f(const unsigned* x, unsigned char* y) { size_t i = blockIdx.x * 256ul + threadIdx.x; "
    assert neighbours._stored(head + "y[i] = x[i >> 5] >> (i & 31) & 1; }") is not None
    assert neighbours._stored(head + "y[i] = y[i] + 1; }") is None
    assert neighbours._stored(head + "y[i + 1] = x[i]; }") is None
    assert neighbours._stored(head + "y[i] = x[i]; y[i + 9] = 1; }") is None


@pytest.mark.parametrize(
    ("index", "alike"),
    [("i >> 5", True), ("i / 48", True), ("i >> 3", False), ("i / 24", False), ("i / n", False), ("i + 1", False)],
)
def test_neighbours_read_one_element_where_the_divisor_holds_them(index: str, alike: bool) -> None:
    once, text = neighbours._alike(f"y[i] = x[{index}] & 1;", "i", 16)
    assert (once == f"\n  const auto x_one = x[{index}];") is alike
    assert ("x_one & 1" in text) is alike
    assert neighbours._same_index(16) > 0


LEAVES = (
    "__global__ void f(float* o, int c) { int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y;"
    " if ((x + y) & 1) return; o[x] = y; }"
)


@pytest.mark.parametrize(
    ("was", "becomes", "stays"),
    [
        ("& 1)", "& 1)", "0"),
        ("(x + y) & 1", "((x ^ y) & 1) != c", "c"),
        ("(x + y) & 1", "((y + x) % 2) == 0", "1"),
        ("(x + y) & 1", "((y + x) % 2) == c", "1 - c"),
        ("if (", "if (x > c) return; if (", None),  # asks for the place as it was
        ("if (", "o[x] = 0; if (", None),
        ("o[x] = y;", "o[threadIdx.x] = y;", None),
        ("if ((x + y) & 1) return;", "x = 2 * x + (y & 1);", None),  # done already
        ("int x", "const int x", None),
    ],
)  # fmt: skip
def test_every_second_place_is_told_by_its_parity(was: str, becomes: str, stays: str | None) -> None:
    found = halved._found(LEAVES.replace(was, becomes))
    assert (found.stays if found is not None else None) == stays
    assert halved._played() > 0


@given(st.sampled_from([1, 2, 4, 8, 16]))
def test_neighbours_are_done_once_each(count: int) -> None:
    assert neighbours._once(count) == 4 * count + 1


@pytest.mark.parametrize(
    ("head", "step", "more", "per"),
    [
        ("Big i = at", "all", "", "blockDim.x"),
        ("unsigned i = blockIdx.x * blockDim.x + threadIdx.x", "gridDim.x * blockDim.x", "", "blockDim.x"),
        ("Big i = at", "all", "part[at] = 0;", None),  # the place in the grid is used otherwise
        ("Big i = at", "all", "if (blockIdx.x == 0) n[0] = 1;", None),
        ("Big i = at", "all + 1", "", None),
    ],
)
def test_loops_over_the_grid_by_names(head: str, step: str, more: str, per: str | None) -> None:
    named = "unsigned int at = blockIdx.x * blockDim.x + threadIdx.x; const int all = blockDim.x * gridDim.x;"
    loop = f"for ({head}; i < n; i += {step}) y[i] = f(x[i]);"
    named = named if "at" in head.split() else ""
    assert grid._over_grid(f"__global__ void k(Big n) {{ {named} {more} {loop} }}") == per


def test_powers_by_integers() -> None:
    def new(text: str) -> str:
        return powers._all(text, lambda call: powers._of_integers(call, {"n", "size"}) or None)

    assert new("y = a / pow(2, n);") == "y = a / ldexp(1.0, (int)(n));"
    assert new("y = std::pow(2.0, n - size);") == "y = ldexp(1.0, (int)(n - size));"
    assert new("s += pow(-1, n + 1) * x;") == "s += (((n + 1) & 1) ? -1.0 : 1.0) * x;"
    for other in ("pow(2, x)", "pow(3, n)", "pow(-2.0, n)", "pow(2, n / size)", "pow(2, f(n))", "my::pow(2, n)"):
        assert new(other) == other


@pytest.mark.parametrize(
    ("loop", "per"),
    [
        ("while (i < n) { y[i] = x[i]; i += all; }", "blockDim.x"),
        ("for (; i < n; i += blockDim.x * gridDim.x) { y[i] = x[i]; }", "blockDim.x"),
        ("while (i < n) { i += all; y[i] = x[i]; }", None),
        ("while (i < n) { y[i] = x[i]; i += 2 * all; }", None),
        ("while (i < n) { y[i] = x[i] + blockIdx.x; i += all; }", None),
        ("i += 1; while (i < n) { y[i] = x[i]; i += all; }", None),
    ],
)
def test_loops_that_begin_before(loop: str, per: str | None) -> None:
    head = "int i = threadIdx.x + blockIdx.x * blockDim.x; const int all = gridDim.x * blockDim.x;"
    head = head if "all" in loop else head.partition(";")[0] + ";"
    assert grid._over_grid(f"__global__ void k(int n) {{ {head} {loop} }}") == per
