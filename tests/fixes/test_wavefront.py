"""A wavefront of a block, a barrier a step, by one warp whose lanes take several columns each."""

from __future__ import annotations

import pytest

from kscope.fixes.given.source import constants
from kscope.fixes.propose import MAKERS
from kscope.fixes.rows.function import constants as defined
from kscope.fixes.rows.function import of_text
from kscope.fixes.wavefront.skewed import proved_text
from tests.support.with_sources import changes

LETTERS = "const unsigned char* __restrict__ a, const unsigned char* __restrict__ b, int* __restrict__ out"
CONSTANTS = "constexpr int N = 128;\nconstexpr int GAP = 2;\n"
SMITH_WATERMAN = """
  __shared__ int d[3][N + 1]; __shared__ int red[N];
  int t = threadIdx.x; unsigned char mine = a[blockIdx.x * N + t] & 3;
  for (int k = 0; k < 3; k++) { d[k][t + 1] = 0; if (t == 0) d[k][0] = 0; }
  __syncthreads();
  int best = 0;
  for (int s = 0; s < 2 * N - 1; s++) {
    int j = s - t;
    if (j >= 0 && j < N) {
      int v = max(max(0, d[(s + 1) % 3][t] + (mine == (b[blockIdx.x * N + j] & 3) ? 3 : -3)),
                  max(d[(s + 2) % 3][t], d[(s + 2) % 3][t + 1]) - GAP);
      d[s % 3][t + 1] = v;
      best = max(best, v);
    }
    __syncthreads();
  }
  red[t] = best;
  __syncthreads();
  for (int o = N / 2; o > 0; o /= 2) { if (t < o) red[t] = max(red[t], red[t + o]); __syncthreads(); }
  if (t == 0) out[blockIdx.x] = red[0];"""
NEEDLEMAN_WUNSCH = """
  __shared__ int h[3][N]; __shared__ unsigned char q[N];
  int i = threadIdx.x; unsigned char mine = a[blockIdx.x * N + i]; q[i] = b[blockIdx.x * N + i]; __syncthreads();
  for (int d = 0; d < 2 * N - 1; d++) {
    int j = d - i;
    if (0 <= j && j <= N - 1) {
      int up = j ? h[(d + 2) % 3][i] : -(i + 1) * GAP;
      int left = i > 0 ? h[(d + 2) % 3][i - 1] : -(j + 1) * GAP;
      int diag = i == 0 ? -j * GAP : j == 0 ? -i * GAP : h[(d + 1) % 3][i - 1];
      h[d % 3][i] = max(diag + (mine == q[j] ? 1 : -1), max(up, left) - GAP);
    }
    __syncthreads();
  }
  if (i == 0) out[blockIdx.x] = h[(2 * N - 2) % 3][N - 1];"""
LONGEST_COMMON = """
  __shared__ short d0[N + 1], d1[N + 1], d2[N + 1];
  short *x = d0, *y = d1, *z = d2;
  unsigned int id = threadIdx.x;
  d0[id + 1] = 0; d1[id + 1] = 0; d2[id + 1] = 0;
  if (id == 0) { d0[0] = 0; d1[0] = 0; d2[0] = 0; }
  __syncthreads();
  for (int k = 0; k < 2 * N - 1; k++) {
    int lo = max(0, k - N + 1), hi = min(k, N - 1);
    if (threadIdx.x >= lo && threadIdx.x <= hi) {
      if (a[blockIdx.x * N + id] == b[blockIdx.x * N + k - id]) z[id + 1] = x[id] + 1;
      else z[id + 1] = max(y[id], y[id + 1]);
    }
    __syncthreads();
    short* turn = x; x = y; y = z; z = turn;
  }
  if (id == N - 1) out[blockIdx.x] = y[N];"""
TIME_WARPING = """
  __shared__ float edge[N + 1]; __shared__ float sy[N];
  int i = threadIdx.x; float mine = a[blockIdx.x * N + i]; sy[i] = b[blockIdx.x * N + i];
  edge[i + 1] = 1e30f; if (i == 0) edge[0] = 1e30f;
  float up = 1e30f, corner = i == 0 ? 0.f : 1e30f;
  __syncthreads();
  for (int s = 0; s < 2 * N - 1; s++) {
    int j = s - i;
    float left = edge[i];
    __syncthreads();
    if (j >= 0 && j < N) {
      float v = fabsf(mine - sy[j]) + fminf(corner, fminf(left, up));
      corner = left; up = v; edge[i + 1] = v;
    }
    __syncthreads();
  }
  if (i == N - 1) out[blockIdx.x] = up;"""
IN_PLACE = """
  __shared__ int h[N + 1];
  int i = threadIdx.x, corner = -i * GAP; unsigned char mine = a[blockIdx.x * N + i];
  h[i + 1] = -(i + 1) * GAP; if (i == 0) h[0] = 0;
  __syncthreads();
  for (int s = 0; s < N + m - 1; s++) {
    int j = s - i;
    int left = i ? h[i] : -(j + 1) * GAP;
    __syncthreads();
    if (j >= 0 && j < m) {
      int v = max(corner + (mine == b[blockIdx.x * m + j] ? 1 : -1), max(left, h[i + 1]) - GAP);
      corner = left; h[i + 1] = v;
    }
    __syncthreads();
  }
  if (i == 0) out[blockIdx.x] = h[N];"""
EDIT_DISTANCE = """
  __shared__ int d[3][1025];
  int i = threadIdx.x + 1;
  unsigned char ch = a[blockIdx.x * blockDim.x + threadIdx.x];
  for (int k = 0; k < 3; k++) d[k][i] = 0;
  __syncthreads();
  for (int s = 2; s <= (int)blockDim.x + n; s++) {
    int j = s - i;
    if (j >= 1 && j <= n) {
      int l = i == 1 ? j : d[(s - 1) % 3][i - 1], u = j == 1 ? i : d[(s - 1) % 3][i];
      int g = i == 1 ? j - 1 : j == 1 ? i - 1 : d[(s - 2) % 3][i - 1];
      int v = min(min(l, u) + 1, g + (ch != b[blockIdx.x * n + j - 1]));
      d[s % 3][i] = v;
      if (i == blockDim.x && j == n) out[blockIdx.x] = v;
    }
    __syncthreads();
  }"""


def made(body: str, given: str = LETTERS, block: int = 128) -> str | None:
    lines = f"{CONSTANTS}__global__ void k({given}) {{{body}\n}}".split("\n")
    fn = of_text(lines, "k")
    assert fn is not None
    found = proved_text(fn, {**constants(lines), **defined(lines, fn.code)}, block)
    return found[0] if found is not None else None


def test_a_capture_of_alignments_goes_by_a_warp_a_pair() -> None:
    assert "wavefront.skewed:fixes" in MAKERS["LAT304"]
    (fix,) = changes("align.block", "LAT304")
    head, *rest = fix.edits
    assert "__launch_bounds__(32) align_block(" in head.becomes and not any(e.becomes for e in rest)
    assert "int left_0 = __shfl_up_sync(~0u, last_0, 1);" in head.becomes
    assert "int v = max(max(0, above_0 + ((mine_c[column_n] == sb[j]) ? 3 : (-3)))" in head.becomes
    assert "__syncthreads" not in head.becomes and "const int end_n = AL + 31;" in head.becomes
    assert fix.code == "align_block<<<528, 32>>>(...);" and fix.price is not None
    assert fix.conditions[0].state == "proved" and fix.conditions[0].by == "values"


# Sizes without names, and lengths that the launch gives, are forms of the first.
@pytest.mark.parametrize(
    ("body", "given", "block"),
    [
        (SMITH_WATERMAN, LETTERS, 128),
        (SMITH_WATERMAN.replace("unsigned char", "uint8_t").replace("N", "128"), LETTERS, 128),
        (SMITH_WATERMAN.replace("j >= 0 && j < N", "t <= s && s - t < N && t < m")
         .replace("s < 2 * N - 1", "s < m + N - 1"), f"{LETTERS}, int m", 128),
        (NEEDLEMAN_WUNSCH, LETTERS, 128),
        (LONGEST_COMMON, LETTERS, 128),
        (TIME_WARPING, LETTERS.replace("unsigned char", "float").replace("int*", "float*"), 128),
        (IN_PLACE, f"{LETTERS}, int m", 128),
        (EDIT_DISTANCE, f"{LETTERS}, int n", 256),
    ],
)
def test_others_of_the_family_come_out_the_same(body: str, given: str, block: int) -> None:
    text = made(body, given, block)
    assert text is not None and "__syncthreads" not in text and f"own_0[{block // 32}]" in text


def test_pointers_that_are_read_behind_the_loop_are_turned_as_often() -> None:
    text = made(LONGEST_COMMON)
    assert text is not None and "% 3 == turn_n" in text
    assert "for (int turn_n = (((2 * N) - 1) - 0) % 3; turn_n > 0; turn_n--) {" in text


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("d[(s + 2) % 3][t], ", "t < N - 1 ? d[(s + 2) % 3][t + 2] : 0, "),  # the right neighbour's
        ("best = max(best, v);", "best = max(best, v); rows[t * N + j] = v;"),  # rows that are stored
        ("d[s % 3][t + 1] = v;", "if (v > 1) d[s % 3][t + 1] = v;"),  # a state that is not always written
        ("s < 2 * N - 1", "s < 2 * N - 2"),  # the last thread does not come to its end
        ("s = 0; s < 2 * N", "s = 1; s < 2 * N"),  # the first one does not begin at its beginning
        ("j >= 0 && j < N", "j >= 0 && j < N && t != 5"),  # a thread that is left out
        ("best = max(best, v);", "best = max(best, v); red[N - 1 - t] = v;"),  # another array that is written
        ("best = max(best, v);", "best = max(best, __shfl_xor_sync(~0u, v, 1));"),  # lanes that meet otherwise
        ("d[(s + 1) % 3][t] +", "d[s % 3][t] +"),  # what is three steps old
        ("int best = 0;", "int best = 0; if (t > 200) return;"),
        ("s++", "s += 2"),
    ],
)
def test_what_is_no_such_wavefront_is_left_alone(was: str, becomes: str) -> None:
    assert was in SMITH_WATERMAN
    assert made(SMITH_WATERMAN.replace(was, becomes), f"{LETTERS}, int* __restrict__ rows") is None
