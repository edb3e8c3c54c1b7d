"""Trees in shared memory whose last levels are one warp's: which loops are such, and their barriers."""

from __future__ import annotations

import pytest

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.text import Text
from kscope.fixes.shared_sums import levels
from kscope.model.lazily import np

TREE = """__device__ float all(float* part, float v, float* out) {
  const int lane = threadIdx.x;
  part[lane] = v;
  __syncthreads();
  for (unsigned int half = blockDim.x / 2; half > 0; half >>= 1) {
    if (lane < half) {
      part[lane] = fmaxf(part[lane], part[lane + half]);
      most[lane] += most[lane + half];
    }
    __syncthreads();
  }
  return part[0];
}"""
AHEAD = """__global__ void k(float* out) {
  for (int s = blockDim.x >> 1; s; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s) sum[threadIdx.x] += sum[threadIdx.x + s];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sum[0];
}"""


def becomes(code: str, *, flat: bool = True) -> str:
    text = Text("f.cu", 1, code)
    for start, end, new in sorted(levels._spans(levels.levels(text, flat=flat)), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_the_block_meets_once_more_for_all_to_read() -> None:
    new = becomes(TREE)
    assert "    if (half > 32) __syncthreads(); else __syncwarp();\n  } __syncthreads();\n  return part[0];" in new


def test_the_first_thread_alone_goes_on() -> None:
    code = TREE.replace("return part[0];", "if (lane == 0 && v > 0) { out[0] = part[0]; }")
    assert "__syncthreads();\n  if" in becomes(code)  # whoever calls it goes on with all warps
    code = code.replace("__device__ float all", "__global__ void all")
    assert "else __syncwarp();\n  }\n  if" in becomes(code)
    twice = code.replace("part[lane] = v;", "for (int i = 0; i < 2; i++) {").replace("part[0]; }", "1; } }")
    assert "__syncthreads();\n  if" in becomes(twice)  # other warps come back to what the first one still adds


def test_barriers_in_front_of_a_level() -> None:
    assert "    if (s >= 32) __syncthreads(); else __syncwarp();\n    if" in becomes(AHEAD)


def test_rows_of_threads() -> None:
    code = TREE.replace("part[lane]", "part[own]").replace("most[lane]", "most[own]")
    code = code.replace("[lane + half]", "[own + half]")
    code = code.replace("int lane", "int own = lane + threadIdx.y * n; int lane")
    assert "__syncwarp" in becomes(code, flat=False)
    assert "__syncwarp" not in becomes(code.replace("most[own + half]", "most[n + half]"), flat=False)


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("lane = threadIdx.x", "lane = threadIdx.x % 64"),
        ("lane < half", "lane >= half"),
        ("lane < half", "lane < half || lane == 9"),
        ("lane < half", "lane < half && v > 0 || lane == 9"),
        ("half >>= 1", "half -= 1"),
        ("most[lane] +=", "__syncthreads(); most[lane] +="),
        ("    }\n    __sync", "    }\n    most[lane] = 0;\n    __sync"),  # what all threads do at each level
        ("    }\n    __sync", "    } else most[lane] = 0;\n    __sync"),
        ("    if (lane", "    __syncthreads();\n    if (lane"),
    ],
)
def test_other_loops_are_left(was: str, new: str) -> None:
    assert was in TREE and becomes(TREE.replace(was, new)) == TREE.replace(was, new)


def test_a_first_level_that_may_be_one_warps() -> None:
    code = AHEAD.replace("blockDim.x >> 1", "n")
    assert becomes(code) == code


def test_promises_for_the_share_that_goes() -> None:
    assert levels._same(8) > 0


LOAD = "{ __shared__ int part[1024]; int t = threadIdx.x; part[t] = x[blockIdx.x * blockDim.x + t]; "
LEVEL = "if (t < s) part[t] += part[t + s];"
HALVES = "for (int s = blockDim.x / 2; s > 0; s >>= 1) "
BEHIND = f"{LOAD}__syncthreads(); {HALVES}{{ {LEVEL} __syncthreads(); }} "
FRONT = f"{LOAD}{HALVES}{{ __syncthreads(); {LEVEL} }} "
FIRST, EVERY = "if (t == 0) y[blockIdx.x] = part[0]; }", "y[blockIdx.x * blockDim.x + t] = part[t]; }"


@pytest.mark.parametrize("body", [BEHIND + FIRST, BEHIND + EVERY, FRONT + FIRST, FRONT + EVERY])
@pytest.mark.parametrize("threads", [64, 96, 128, 192, 256])
def test_levels_that_are_played_race_only_where_they_are_not_even(body: str, threads: int) -> None:
    head = "__global__ void k(const int* x, int* y) "
    found = levels.levels(Text("f.cu", 1, head + body), flat=True)
    new = becomes(head + body).removeprefix(head)
    assert len(found) == 1 and new != body
    left = []
    for text in (body, new):
        memory = {"x": np.arange(1024) * 7 % 31, "y": np.zeros(1024, dtype=np.int64)}
        try:
            play(text, (2, 1), (threads, 1), memory, {}, Rules(races=True))
            left.append(memory["y"].tolist())
        except Unplayable:
            left.append([])
    assert left[0] and (left[1] == left[0]) is levels.even(found, threads)
