"""Rounds of a block's loop that several blocks take in turn: which texts may, which may not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.rows.regrouped import applied
from kscope.fixes.tiling import in_turn
from kscope.fixes.tiling.turns import spans, turns
from kscope.fixes.tiling.turns_played import kernel, same

BALL = """__global__ void near_of(int points, int many, float far, int most, const float *all, const float* some,
                        int *found, int *count) {
  int scene = blockIdx.x;
  all += points*3*scene; some += many * 3 * scene; found += many * most * scene; count += many * scene;
  int first = threadIdx.x, all_of = blockDim.x;
  for (int q = first; q < many; q += all_of) {
    int c = 0;
    for (int k = 0; k < points && c < most; ++k) {
      float dx = some[q * 3] - all[k * 3], dy = some[q * 3 + 1] - all[k * 3 + 1];
      if (sqrtf(dx * dx + dy * dy) < far) {
        if (c == 0) for (int l = 0; l < most; ++l) found[q * most + l] = k;
        found[q * most + c] = k;
        c += 1;
      }
    }
    count[q] = c;
  }
}"""  # fmt: skip
ROWS = """template <typename T>
__global__ void rows_of(const T* x, const int* at, T* y, const int n, int wide) {
  for (size_t i = threadIdx.x; i < n; i += blockDim.x)
    for (int k = 0; k < wide; k++) {
      const int to = at[i * wide + k];
      for (int c = 0; c < 3; ++c) atomicAdd(&y[to * 3 + c], x[((blockIdx.x * n + i) * wide + k) * 3 + c]);
    }
}"""
TURNS = """__global__ void turns_of(const float* x, float* y, int n, int m) {
  const float* mine = x + blockIdx.y * n;
  float v;
  unsigned int i = threadIdx.x;
  while (i < n) {
    v = mine[i];
    for (int k = 1; k < m; k++) v = fmaxf(v, mine[(i + k) % n]);
    y[blockIdx.y * n + i] = v;
    i += blockDim.x;
  }
}"""


def shared(code: str, *, axis: str = "y", grid: tuple[int, int, int] = (32, 1, 1), block: int = 256) -> list[str]:
    """What becomes of a text by each of the ways that are shown to do the same."""
    lines = code.split("\n")
    name, first = code[code.index("void ") + 5 : code.index("(")], code[: code.index("__global__")].count("\n")
    launch = SimpleNamespace(grid=grid, block=(block, 1, 1), threads=block, shared_dynamic=256)
    setting: Any = SimpleNamespace(name=name, lines=lambda _: lines, instance=f"{name}<float>", launch=launch)
    text = Text("k.cu", first + 1, "\n".join(lines[first:]))
    one = kernel(setting, text)
    levels = turns(text.code, one.opened, one.plainly) if one is not None else []
    return [applied(text.code, spans(x, axis)) for x in levels if one is not None and same(setting, one, x, axis)]


def test_lists_of_neighbours() -> None:
    (new,) = shared(BALL)
    assert "for (int q = first + blockIdx.y * all_of; q < many; q += gridDim.y * all_of) {" in new


def test_atomics_of_rounds_within_rounds() -> None:
    rows, within = shared(ROWS)
    assert "for (size_t i = threadIdx.x + (size_t)blockIdx.y * blockDim.x; i < n; i += gridDim.y * blockDim.x)" in rows
    assert "for (int k = blockIdx.y; k < wide; k += gridDim.y) {" in within and "i += blockDim.x)" in within


def test_a_loop_that_goes_on_at_its_end() -> None:
    (new,) = shared(TURNS, axis="z", grid=(1, 8, 1))
    assert "unsigned int i = threadIdx.x + blockIdx.z * blockDim.x;" in new
    assert "    i += gridDim.z * blockDim.x;" in new


@pytest.mark.parametrize("end", ["i < n && mine[i] < 1000", "i < n && i < far(i)", "i < n || i < 3"])
def test_a_loop_that_may_end_at_what_it_finds(end: str) -> None:
    assert shared(TURNS.replace("i < n)", f"{end})"), axis="z", grid=(1, 8, 1)) == []


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("int c = 0;\n", "c = c > most ? 0 : c;\n"),  # what a round hands on
        ("count[q] = c;", "count[0] = c;"),
        ("count[q] = c;", "count[found[q]] = c;"),  # what data pick
        ("count[q] = c;", "if (some[q] > 1e30f) count[0] = c; count[q] = c;"),  # never gone through
        ("count[q] = c;", "if (some[q] == 190) count[0] = c; else count[q] = c;"),  # few at a time
        ("count[q] = c;", "if (c < 0) break; count[q] = c;"),
        ("count[q] = c;", "if (c < 0) return; count[q] = c;"),
        ("count[q] = c;", "__syncthreads(); count[q] = c;"),
        ("count[q] = c;", "count[q] = atomicAdd(count + many, c);"),  # tickets
        ("count[q] = c;", "count[q] = q > 0 ? count[q - 1] + c : c;"),
        ("count[q] = c;", "count[q] = c; some += 1;"),
        ("count[q] = c;", "count[q] = c; many -= 1;"),
        ("  }\n}", "  }\n  if (first == 0) count[many] = points;\n}"),
        ("  }\n}", "  }\n  __syncthreads();\n  if (first == 0) found[0] = count[0] + count[many - 1];\n}"),
        ("count[q] = c;", "seen[threadIdx.x] = c; count[q] = c;"),
        ("count[q] = c;", "atomicAdd(&seen[c % 32], 1); count[q] = c;"),
        ("all_of = blockDim.x", "all_of = blockDim.x * gridDim.x"),
        ("float far", "Far far"),
    ],
)  # fmt: skip
def test_rounds_that_need_each_other(was: str, new: str) -> None:
    assert was in BALL
    before = {"c": "int c = 0;", "s": "__shared__ int seen[256];", "a": "__shared__ int seen[256];"}
    code = BALL.replace(was, new)
    if new.startswith(("c =", "seen", "atomicAdd(&seen")):
        code = code.replace("int scene", f"{before[new[0]]} int scene")
    assert shared(code) == []


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("  float v;\n", "  float v = 0;\n"),  # the same, said twice
        ("    v = mine[i];\n", "    if (i) v = mine[i];\n"),  # the round before has set it
        ("    y[blockIdx.y", "    if (v < 0) continue;\n    y[blockIdx.y"),
        ("    i += blockDim.x;\n  }", "    i += blockDim.x;\n  }\n  y[blockIdx.y * n] = v;"),
        ("    i += blockDim.x;\n  }", "    i += blockDim.x;\n  }\n  atomicAdd(y, i);"),
        ("  float v;\n", "  float v; float last[2] = {0, 0};\n"),
    ],
)
def test_what_is_asked_for_elsewhere(was: str, new: str) -> None:
    assert was in TURNS
    code = TURNS.replace(was, new)
    if "last[2]" in new:
        code = code.replace("v = mine[i];", "v = mine[i] + last[1]; last[1] = v;")
    assert len(shared(code, axis="z", grid=(1, 8, 1))) == (new == "  float v = 0;\n")


def test_a_thread_that_goes_along_neighbours_goes_on() -> None:
    code = "__global__ void k(const float* x, float* y, int n) {\n  int t = threadIdx.x;\n  {}\n}"
    along = "for (int i = 0; i < n; i++) y[t * n + i] = x[t * n + i] * 2;"
    down = "for (int i = 0; i < n; i++) y[i * blockDim.x + t] = x[i * blockDim.x + t] * 2;"
    one = {"grid": (1, 1, 1), "axis": "x"}
    assert shared(code.replace("{}", along), **one) == []  # type: ignore[arg-type]
    (new,) = shared(code.replace("{}", down), **one)  # type: ignore[arg-type]
    assert "for (int i = blockIdx.x; i < n; i += gridDim.x)" in new


@pytest.mark.parametrize(
    ("many", "blocks", "text", "found"),
    [
        (4, 32, "blockIdx.x", ("y", 4)),  # no more than there are rounds
        (100, 32, "blockIdx.x", ("y", 25)),  # 33 fit: four rounds each, as few as of 25
        (100, 32, "blockIdx.x blockIdx . y", ("z", 25)),
        (1, 32, "blockIdx.x", None),
        (100, 600, "blockIdx.x", None),  # the chip is full
    ],
)
def test_how_many_blocks(
    monkeypatch: pytest.MonkeyPatch, many: int, blocks: int, text: str, found: tuple[str, int] | None
) -> None:
    monkeypatch.setattr(in_turn, "machine_loops", lambda *_: {0: 1})
    monkeypatch.setattr(in_turn, "trips", lambda *_: many)
    monkeypatch.setattr(in_turn, "_share", lambda *_: 1.0)
    launch = SimpleNamespace(grid=(blocks, 1, 1), blocks=blocks)
    setting: Any = SimpleNamespace(launch=launch, sms=132, code=None, occupancy=lambda: SimpleNamespace(blocks=8))
    turn: Any = SimpleNamespace(body=(0, 1), whole=(0, 1))
    way = in_turn._chosen(setting, Text("k.cu", 1, text), text, [turn])
    assert (way and (way.axis, way.parts)) == found
    monkeypatch.setattr(in_turn, "_share", lambda *_: 0.3)
    assert in_turn._chosen(setting, Text("k.cu", 1, text), text, [turn]) is None  # most is done once a block


@pytest.mark.parametrize("line", ["asm(\"\");", "clock();", "atomicCAS(count, 0, 1);", "dim3 at = blockIdx;"])
def test_words_that_are_not_played(line: str) -> None:
    assert in_turn._STRANGE.search(BALL[BALL.index("{") :]) is None
    assert in_turn._STRANGE.search(BALL[BALL.index("{") :].replace("int c = 0;", line)) is not None
