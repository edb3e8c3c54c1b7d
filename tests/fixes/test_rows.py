"""A row by fewer lanes: which texts are understood, what is printed, and where nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.rows import lanes, warps
from kscope.fixes.rows.compared import arrayed
from kscope.fixes.rows.function import function
from kscope.fixes.rows.inlined import callees, joined_by
from kscope.fixes.rows.parts import in_parts
from kscope.fixes.rows.syntax import tree
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts

BLOCKS = ("rank16.block", "nearest256.block", "topk.block", "best4.block")


def setting(case: str, *put: tuple[str, str]) -> Setting:
    """A capture with another text than it was made of: pieces of it put by others."""
    found = setting_of(facts(case), lines_of)
    if not put:
        return found

    def lines(file: str) -> tuple[str, ...]:
        text = "\n".join(lines_of(file))
        for was, becomes in put:
            assert was in text
            text = text.replace(was, becomes)
        return tuple(text.split("\n"))

    return msgspec.structs.replace(found, lines=lines)


def made(make: Callable[[Asked], list[Fix]], case: str, of: Setting | None = None) -> list[Fix]:
    finding = next(f for f in diagnosed(case.partition(".")[0] + (".warp" if "csr" in case else ".block")).findings
                   if f.code in ("GRD405", "LAT304"))  # fmt: skip
    return make(Asked(of or setting(case), finding))


@pytest.mark.parametrize(
    ("case", "code", "launch"),
    [
        ("rank16.block", "GRD404", "rank16_block<<<4096, dim3(4, 64)>>>(...);"),
        ("nearest256.block", "LAT304", "nearest_block<<<8192, dim3(32, 8)>>>(...);"),
        ("topk.block", "LAT304", "topk_block<<<2048, dim3(32, 8)>>>(...);"),
        ("best4.block", "GRD405", "best4_block<<<4096, dim3(32, 8)>>>(...);"),
        ("short_csr.warp", "GRD405", "csr_warp<<<16384, 256>>>(...);"),
    ],
)
def test_fewer_lanes_have_a_row(case: str, code: str, launch: str) -> None:
    fix = next(f for f in changes(case, code) if f.kind == "lane_mapping")
    assert fix.code.endswith(launch) and fix.price is not None and fix.printable
    assert (fix.conditions[0].state, fix.conditions[0].by) == ("proved", "values")


def test_barriers_of_a_block_go() -> None:
    (fix,) = made(warps.fixes, "rank16.block")
    assert (fix.proof[0].what, fix.proof[0].before, fix.proof[0].after) == ("barriers that a warp passes", 9, 0)
    assert [line.strip() for line in fix.edits[0].becomes.split("\n")][1:] == [
        "const unsigned row_n = blockIdx.x * 64 + threadIdx.y;",
        "float s;", "const int t = threadIdx.x;", "const int o = row_n % 4096;", "const int b = row_n / 4096;",
        "float sum = 0;",
        "if (rank % 4 == 0) {",
        "#pragma unroll 1", "for (int k = 4 * t; k < rank; k += 16) {",
        "float4 x_1 = *(float4 *)(x + (b * rank + k));", "float4 w_2 = *(float4 *)(w + (o * rank + k));",
        *(f"sum += x_1.{letter} * w_2.{letter};" for letter in "xyzw"),
        "}", "}", "else {",
        "#pragma unroll 1", "for (int k = t; k < rank; k += 4) sum += x[b * rank + k] * w[o * rank + k];",
        "}",
        "s = sum;",
        "#pragma unroll", "for (int d = 2; d; d >>= 1) {", "const float s_far = __shfl_xor_sync(~0u, s, d);",
        "s += s_far;", "}",
        "if (!threadIdx.x) y[row_n] = s;",
        "}",
    ]  # fmt: skip
    assert {e.becomes for e in fix.edits[1:]} == {""}


def test_what_only_the_reader_knows_is_said() -> None:
    known = {case: [c for f in made(warps.fixes, case) for c in f.conditions] for case in BLOCKS}
    said = {case: {c.holds for c in every if c.state == "check"} for case, every in known.items()}
    assert {"the order of the sums does not matter", "w, x at multiples of 16 bytes"} < said["rank16.block"]
    assert "of equal values either may be taken" in said["best4.block"]
    # Each of their operations stays what it was: a lane does one after the other what several threads did.
    assert len(said["nearest256.block"]) == len(said["topk.block"]) == 1


def test_a_template_of_others_is_left_as_it_is() -> None:
    (fix,) = made(warps.fixes, "best4.block")
    assert "void best4_rows(" in fix.code and "__shfl_xor_sync(~0u, sv, d)" in fix.code and "k += B" in fix.code
    assert [e.becomes.endswith("{ best4_rows<32>(x, y, n); }") for e in fix.edits] == [True]
    (fix,) = made(lanes.fixes, "short_csr.warp")
    assert "{ row_times<8>(" in fix.edits[0].becomes and "{" not in fix.code  # the same template, as it is


@pytest.mark.parametrize("case", ["rank16.thread", "nearest256.warp", "topk.warp", "best4.warp", "short_csr.eight"])
def test_better_versions_are_left(case: str) -> None:
    assert made(warps.fixes, case) == made(lanes.fixes, case) == []


@pytest.mark.parametrize(
    ("case", "was", "becomes"),
    [
        ("rank16.block", "s[t] = sum; __syncthreads();", "s[t] = sum;"),  # not right as it is
        ("rank16.block", "s[t] += s[t + d]; __syncthreads();", "s[t] += s[t + d];"),
        ("rank16.block", "if (!t) y[blockIdx.x]", "if (!t) y[blockIdx.x % gridDim.x]"),
        ("rank16.block", "if (!t) y[blockIdx.x] = s[0]", "if (!t) atomicAdd(y, s[0])"),
        ("rank16.block", "y[blockIdx.x] = s[0]", "y[blockIdx.x] = mean_of(s[0])"),  # a function that is not here
        ("topk.block", "float v[4]", "float v[16]"),  # more than registers hold
        ("nearest256.block", "if (t == 0) y[b]", "if (threadIdx.y == 0) y[b]"),
    ],
)
def test_texts_that_make_something_else_are_left(case: str, was: str, becomes: str) -> None:
    of = setting(case, (was, becomes))
    of.code.found.clear()
    assert made(warps.fixes, case, of) == []
    of.code.found.clear()


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("if (lane == 0) y[r] = s;", "y[r] = s + lane;"),
        ("if (lane == 0) y[r] = s;", "if (lane == 9) y[r] = s;"),
        ("s += a[k] * x[col[k]]", "s += a[k] * x[col[k]] * lane"),
        ("o, LANES);", "o, 32);"),  # shuffles that go beyond a row's lanes: harmless ones
        ("if (r >= rows) return;\n  float s = 0;", "float s = 0; if (r < rows)"),
    ],
)
def test_warps_that_need_all_lanes_are_left(was: str, becomes: str) -> None:
    found = made(lanes.fixes, "short_csr.warp", setting("short_csr.warp", (was, becomes)))
    assert bool(found) is (becomes == "o, 32);")


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        ("s[t] += s[t + d]", "s[t] += s[t + d] * d", "for (int t = threadIdx.x; t < 256; t += 32) { float sum = "),
        ("sum += x[b * rank + k]", "sum += x[b * rank + k] * t", "const int t = threadIdx.x + 32 * part_n;"),
        ("float sum = 0;", "float sum = 256 - 255;", "float sum = 256 - 255;"),
    ],
)
def test_where_a_threads_place_counts_lanes_stand_for_threads(was: str, becomes: str, line: str) -> None:
    of = setting("rank16.block", (was, becomes))
    of.code.found.clear()
    (fix,) = made(warps.fixes, "rank16.block", of)
    of.code.found.clear()
    assert line in fix.edits[0].becomes and "rows a block" in fix.title


def test_shared_memory_of_the_launch_is_declared() -> None:
    put = ("__shared__ float s[256]", "extern __shared__ float s[]"), ("+= 256", "+= blockDim.x")
    of = setting("rank16.block", *put)
    assert of.launch is not None
    for dynamic, right in ((1024, True), (2048, False)):
        of.code.found.clear()
        launch = msgspec.structs.replace(of.launch, shared_dynamic=dynamic)
        found = made(warps.fixes, "rank16.block", msgspec.structs.replace(of, launch=launch))
        assert bool(found) is right
        assert not right or "  float s;\n  const int t" in found[0].edits[0].becomes
    of.code.found.clear()


def test_functions_of_fractions_are_played_as_such() -> None:
    of = setting(
        "rank16.block", ("__shared__ float s[256];", "__shared__ float s[256], mean; /* of a row */"),
        ("y[blockIdx.x] = s[0];", "mean = s[0] / rank; __syncthreads();"
         " for (int k = t; k < rank; k += 256) y[blockIdx.x * rank + k] = __expf(x[k] - mean) * rsqrtf(mean);"),
    )  # fmt: skip
    of.code.found.clear()
    (fix,) = made(warps.fixes, "rank16.block", of)
    assert fix.conditions[0].holds == "every result is the same, but for rounding"
    assert "if (!threadIdx.x) mean[threadIdx.y] = s / rank;\n  __syncwarp();" in fix.edits[0].becomes
    of = setting("rank16.block", ("sum += x[b * rank + k]", "sum += __expf(x[b * rank + k] / (t + 1))"))
    of.code.found.clear()
    assert "32 * part_n" in made(warps.fixes, "rank16.block", of)[0].edits[0].becomes  # another place with 8 lanes
    of.code.found.clear()


def test_a_width_that_could_be_something_else_stays() -> None:
    """No row that is played has nothing above r, so that a play does not show what B is then."""
    of = setting("best4.block", ("v = -1; int key = 0;", "v = r; int key = B;"))
    of.code.found.clear()
    (fix,) = made(warps.fixes, "best4.block", of)
    of.code.found.clear()
    assert "best4_rows<256>(" in fix.edits[0].becomes


def test_trees_in_global_memory_are_left() -> None:
    of = setting("halves.global")
    fn = function(of)
    assert fn is not None and in_parts(fn, 512, 8) is None


def test_a_grid_with_a_rest_or_too_small_is_left() -> None:
    for make, case in ((warps.fixes, "rank16.block"), (lanes.fixes, "short_csr.warp")):
        of = setting(case)
        assert of.launch is not None and made(make, case, of)
        of.code.found.clear()
        odd = msgspec.structs.replace(of, launch=msgspec.structs.replace(of.launch, grid=(65521, 1, 1)))
        assert made(make, case, odd) == []
        of.code.found.clear()
        assert made(make, case, msgspec.structs.replace(of, sms=10000)) == []


def test_long_rows_keep_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    of = setting("best4.block")
    length, _ = warps.row(of, warps.function(of), 256, {})  # type: ignore[arg-type]
    assert length == 672  # 384 elements, and what was found before, compared with each
    monkeypatch.setattr(warps, "MOST_ROUNDS", 2)
    of.code.found.clear()
    assert made(warps.fixes, "best4.block", of) == []
    of.code.found.clear()


def test_shared_variables_are_arrays_of_one() -> None:
    text = "{ __shared__ float sum, s[4]; if (t == 0) sum = s[0]; y[t] = sum; }"
    assert arrayed(text) == "{ __shared__ float sum[1], s[4]; if (t == 0) sum[0] = s[0]; y[t] = sum[0]; }"


def sums(body: str, block: tuple[int, int] = (32, 2)) -> Any:
    y = np.zeros(block[0] * block[1], dtype=np.int64)
    play(f"{{ int t = threadIdx.y * 32 + threadIdx.x, s = t; {body} y[t] = s; }}", (1, 1), block, {"y": y}, {})
    return y


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("s = __shfl_xor_sync(~0u, s, 5);", lambda t: t ^ 5),
        ("s = __shfl_xor_sync(0xffffffff, s, 16, 8);", lambda t: np.where(t % 32 < 16, t, t ^ 16)),
        ("s = __shfl_down_sync(~0u, s, 3);", lambda t: np.where(t % 32 < 29, t + 3, t)),
        ("s = __shfl_down_sync(~0u, s, 3, 8);", lambda t: np.where(t % 8 < 5, t + 3, t)),
        ("s = __shfl_up_sync(~0u, s, 1);", lambda t: np.where(t % 32 > 0, t - 1, t)),
        ("s = __shfl_sync(~0u, s, 9, 8);", lambda t: t // 8 * 8 + 1),
        ("if (threadIdx.y) s = __shfl_sync(~0u, s, 0);", lambda t: np.where(t < 32, t, 32)),
        ("if (threadIdx.y) __syncwarp();", lambda t: t),
        ("if (t > 60 && y[t + 3 - 3 * (t / 61)] == 0) s = 7;", lambda t: np.where(t > 60, 7, t)),
    ],
)
def test_lanes_are_played(body: str, wanted: Callable[[Any], Any]) -> None:
    assert (sums(body) == wanted(np.arange(64))).all()


@pytest.mark.parametrize(
    "body",
    [
        "if (threadIdx.x < 16) s = __shfl_xor_sync(~0u, s, 1);",
        "if (threadIdx.x == 3) return; s = __shfl_sync(~0u, s, 3);",
        "s = __shfl_xor_sync(0xffff, s, 1);", "s = __shfl_xor_sync(~0u, s, 1, 12);", "s = __shfl_up_sync(~0u, s, -1);",
        "if (threadIdx.x < 8) __syncwarp();", "if (threadIdx.y) __syncthreads();",
    ],
)  # fmt: skip
def test_lanes_that_are_missing_are_refused(body: str) -> None:
    with pytest.raises(Unplayable):
        sums(body)


TREE = """{ __shared__ int s[64]; int t = threadIdx.x; s[t] = t; %s
  for (int d = 16; d; d /= 2) { if (t < d) s[t] += s[t + d]; %s } y[t] = s[0]; }"""


@pytest.mark.parametrize(
    ("first", "each", "width", "right"),
    [
        ("__syncwarp();", "__syncwarp();", 32, True),
        ("", "__syncwarp();", 32, False),
        ("__syncwarp();", "", 32, False),
        ("__syncwarp();", "__syncwarp();", 64, False),  # of another warp nobody waits for
        ("__syncthreads();", "__syncthreads();", 64, True),
    ],
)
def test_lanes_that_wait_for_each_other_race_no_more(first: str, each: str, width: int, right: bool) -> None:
    y = np.zeros(64, dtype=np.int64)
    try:
        play(TREE % (first, each), (1, 1), (width, 1), {"y": y}, {}, Rules(races=True))
        assert right and (y[:width] == sum(range(32))).all()
    except Unplayable:
        assert not right


MOST = """__device__ float most(float v, float* w) {
  for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? w[threadIdx.x % 32] : -1e30f;
  for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
  return v;
}"""


@pytest.mark.parametrize(("filled", "how"), [("-1000", "fmaxf"), ("w[0]", "fmaxf"), ("0", "")])
def test_what_stands_for_threads_that_are_not_there(filled: str, how: str) -> None:
    body = tree("{ m = most(x, s); }")
    assert body is not None
    known = callees(MOST.replace("-1e30f", filled).split("\n"), body)
    assert joined_by(known, "most", [("name", "x"), ("name", "s")], 0, {"s": 32}, 256) == how
