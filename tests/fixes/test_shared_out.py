"""Work that is shared out anew: rounds of one lane over its warp, a sum's rounds over blocks, rows kept in registers.
Which texts may, which may not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.given.setting import Asked
from kscope.fixes.work import all_lanes, parts, passes
from tests.support.reports import fixture
from tests.support.with_sources import changes
from tools import fixes_better, fixes_built

ONE_LANE = """__global__ void f(const int* pick, const float* table) {
  int lane = threadIdx.x % 32;
  if (lane == 0) expect(full, 16384);
  __syncwarp();
  if (lane == 0) for (int r = 0; r < 64; r += 2) {
    int2 p = *(const int2*)(pick + r);
    bulk_load(base + r * 256, table + p.x * 64, 256, full);
    bulk_load(base + r * 256 + 256, table + p.y * 64, 256, full);
  }
  __syncwarp();
}"""


def test_rounds_of_one_lane() -> None:
    one = all_lanes._found(ONE_LANE)
    assert one is not None and (one.lane, one.step, one.loop.end) == ("lane", 2, "64")
    (span,) = all_lanes._spans(all_lanes.Text("f.cu", 1, ONE_LANE), one)
    assert span[2] == "for (int r = lane * 2; r < 64; r += 64)"
    assert ONE_LANE[span[0] :].startswith("if (lane == 0) for") and ONE_LANE[span[1] :].startswith(" {")


@pytest.mark.parametrize(
    ("gone", "before", "after"),
    [
        ("  __syncwarp();\n  if", "{ __syncwarp(); for", ""),
        ("\n  __syncwarp();\n}", "{ for", " __syncwarp(); }"),
    ],
)
def test_warps_meet_before_and_behind(gone: str, before: str, after: str) -> None:
    code = ONE_LANE.replace(gone, gone.replace("__syncwarp();", ""))
    one = all_lanes._found(code)
    assert one is not None
    first, last = all_lanes._spans(all_lanes.Text("f.cu", 1, code), one)
    assert first[2].startswith(before) and last[2].endswith(after + " }" * (not after))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("threadIdx.x % 32", "threadIdx.x"),  # one thread of the block, not of each warp
        ("threadIdx.x % 32", "threadIdx.x / 32"),
        ("lane == 0) for", "lane == 1) for"),
        ("int r = 0", "int r = first"),
        ("r += 2", "r += 3"),
        ("r += 2", "r += step"),
        ("int2 p = *", "p = *"),  # what a round writes would be seen by the next
        ("int2 p", "n++; int2 p"),
        ("int2 p", "if (r > 8) break; int2 p"),
        ("int2 p", "atomicAdd(out, 1); int2 p"),
        ("int2 p", "last[0] = r; int2 p"),
        ("int2 p", "r++; int2 p"),
        ("pick + r)", "pick + r + lane)"),
    ],
)
def test_rounds_that_stay_with_their_lane(was: str, becomes: str) -> None:
    assert was in ONE_LANE
    assert all_lanes._found(ONE_LANE.replace(was, becomes)) is None


def test_each_round_is_done_once() -> None:
    assert all_lanes._played() > 10_000


def test_the_measured_version_is_the_proposed_one() -> None:
    (fix,) = changes("picked_norms.one_lane", "ASY502")
    (edit,) = fix.edits
    assert edit.becomes.strip() == "for (int r = lane * 2; r < 64; r += 64) {"
    assert (fix.proof[0].before, fix.proof[0].after) == (64, 2)
    assert {c.by for c in fix.conditions if c.state == "proved"} == {"values", "code"}


SUM = """__global__ void f(const int* __restrict__ start, const float* __restrict__ x, float* y) {
  int a = start[blockIdx.x], b = start[blockIdx.x + 1]; float s = 0;
  #pragma unroll 8
  for (int r = a; r < b; r++) s += x[r * 128 + threadIdx.x];
  y[blockIdx.x * 128 + threadIdx.x] = s;
}"""


def test_sums_in_parts() -> None:
    one = parts._found(SUM)
    assert one is not None and (one.name, one.sum, one.kind) == ("y", "s", "float")
    loop, store = parts._spans(SUM, one)
    assert loop[2] == "for (int r = a + blockIdx.y; r < b; r += gridDim.y)"
    assert store[2] == "if (int(a + blockIdx.y) < b) atomicAdd(&y[blockIdx.x * 128 + threadIdx.x], s);"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("r++", "r += 2"),
        ("s += x", "s = s * 2 + x"),
        ("s += x", "s += s * x"),  # a product, not a sum
        ("s += x", "s -= x"),
        ("s += x[", "s += next(r) * x["),
        ("s += x[r * 128 + threadIdx.x];", "{ s += x[r]; n += 1; }"),
        ("float s = 0", "float s = 1"),  # each part would add it
        ("float s = 0", "half s = 0"),
        ("= s;", "= s * 2;"),
        ("= s;", "+= s;"),
        ("= s;\n}", "= s;\n  y[0] = 1;\n}"),
        ("threadIdx.x] = s", "r] = s"),
        ("blockIdx.x + 1", "blockIdx.y + 1"),
        ("float s = 0;", "float s = 0; if (a == b) return;"),
        ("float s = 0;", "float s = y[0];"),
        ("  for (", "  if (a < b) for ("),
        ("float s = 0;", "__shared__ int n; float s = 0;"),
        ("float* y", "double* y"),
    ],
)
def test_sums_that_stay_whole(was: str, becomes: str) -> None:
    assert was in SUM
    assert parts._found(SUM.replace(was, becomes)) is None


@pytest.mark.parametrize("count", [2, 7, 32])
def test_parts_are_the_rounds(count: int) -> None:
    assert parts._played(count) == parts.DRAWN


ROWS = """__global__ void f(const float* __restrict__ x, float* y, int n) {
  const float* row = x + (size_t)blockIdx.x * n; float m = 0, s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float v = row[i]; m = fmaxf(m, v); }
  m = block_max(m);
  #pragma unroll 4
  for (int j = threadIdx.x; j < n; j += blockDim.x) s += row[j] - m;
  y[blockIdx.x] = s;
}"""


def test_rows_of_two_passes() -> None:
    one = passes._found(ROWS, 256)
    assert one is not None and (one.name, one.element, one.index, len(one.loops)) == ("row", "float", "i", 2)
    new = ROWS
    for start, end, put in sorted(passes._spans(ROWS, one, 3), reverse=True):
        new = new[:start] + put + new[end:]
    assert "float row_row[3];" in new and new.count("row[i]") == 1 and "row[j]" not in new and "unroll 4" not in new
    assert new.count("#pragma unroll\n") == 3 and new.count("{") == new.count("}")
    assert "if (n > 3 * blockDim.x) __trap();" in new


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("row[j]", "row[j + 1]"),
        ("j < n", "j < n - 1"),
        ("j = threadIdx.x", "j = 0"),
        ("j += blockDim.x", "j += 128"),
        ("m = block_max(m);", "m = block_max(m); row += n;"),
        ("m = block_max(m);", "m = block_max(m); n = 5;"),
        ("m = block_max(m);", "m = block_max(m); row[0] = m;"),
        ("m = block_max(m);", "if (m > 0) return;"),
        ("m = block_max(m);", "change(&row);"),
        ("s += row[j] - m", "{ if (s > 1) break; s += row[j]; }"),
        ("s += row[j] - m", "{ j++; s += row[j]; }"),
        ("s += row[j] - m", "for (int k = 0; k < 2; k++) s += row[j]"),
        ("  #pragma unroll 4\n  for", "  if (m > 0)\n  for"),
        ("const float* row", "const Record* row"),
    ],
)
def test_rows_that_are_loaded_again(was: str, becomes: str) -> None:
    assert was in ROWS
    assert passes._found(ROWS.replace(was, becomes), 256) is None


def test_rows_are_taken_once() -> None:
    assert passes._played(3) == 39  # 1, 3 and 8 threads, rows of 0 to 3 elements each
    (fix,) = changes("softmax_rows.threepass", "MEM106")
    assert fix.parameters["elements"] == 32 and fix.costs[0] == "128 registers a thread"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None or shutil.which("cpp") is None, reason="no nvcc or no cpp here")
def test_the_version_by_all_lanes_is_not_told_again(tmp_path: Path) -> None:
    """The template's other instance, whose text is the same."""
    case = "picked_norms.one_lane"
    (old, *_) = subjects(str(fixture(case)), None, fixes_built.lines_of)
    finding = next(f for f in old.findings if f.code == "ASY502")
    better = fixes_better.better_subject(case, old, tmp_path)
    assert all_lanes.fixes(Asked(old.setting, finding))
    assert better is not None and better.setting.launch is not None
    assert not all_lanes.fixes(Asked(better.setting, finding))
