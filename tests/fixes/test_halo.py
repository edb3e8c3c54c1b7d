"""Blocks whose outer threads only load the edge of a tile: which kernels, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from kscope.engine.findings.mended import setting_of
from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Text
from kscope.fixes.thread.halo import Halo, fixes, halo, written
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts

CODE = """__global__ void k(const float* __restrict__ in, float* __restrict__ out, int w, int h) {
  __shared__ float tile[BY][BX + 1];
  int tx = threadIdx.x, ty = threadIdx.y;
  int col = blockIdx.x * (blockDim.x - 2 * R) + tx - R, row = blockIdx.y * (blockDim.y - 2 * R) + ty - R;
  if (col >= 0 && col < w && row >= 0 && row < h) tile[ty][tx] = in[row * w + col];
  else tile[ty][tx] = 0;
  __syncthreads();
  if (tx >= R && tx < BX - R && ty >= R && ty < BY - R && col < w && row < h) {
    float s = 0;
    for (int i = -R; i <= R; i++) s += tile[ty + i][tx] + tile[ty][tx + i];
    out[row * w + col] = s;
  }
}"""
KNOWN = {"R": 2, "BX": 20, "BY": 20}


def kernel(code: str) -> Kernel:
    found = read(Text("f.cu", 1, code), "k", code.split("\n"))
    assert found is not None
    return found


def found(code: str) -> Halo | None:
    return halo(kernel(code), (20, 20), KNOWN)


def test_the_inner_threads_and_the_wider_tile() -> None:
    one = found(CODE)
    assert one is not None
    assert (one.size, one.first, one.inner, one.wider) == ((68, 20), (2, 2), (64, 16), 4)
    assert one.shared == ("__shared__ float tile[BY][69];",)
    text = written(one)
    assert "if (col < w && row < h) {" in text and "blockIdx.x * 64 + tx - R" in text
    assert "blockDim" not in text and "threadIdx.y" not in text
    assert "for (int round = 0; round < 6; round++) {" in text and "if (round < 5 || at < 1360) {" in text
    assert "thread_x = threadIdx.x % 64 + 2, thread_y = threadIdx.x / 64 * 4 + round + 2;" in text


def test_rows_that_no_threads_divide_are_taken_in_turn() -> None:
    one = found(CODE)
    assert one is not None
    for inner in ((96, 16), (64, 18)):
        text = written(structs.replace(one, inner=inner))
        assert f"for (int at = threadIdx.x; at < {inner[0]} * {inner[1]}; at += 256) {{" in text
        assert f"const int thread_x = at % {inner[0]} + 2, thread_y = at / {inner[0]} + 2;" in text


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("tx >= R", "tx >= w"),  # another rectangle for each launch: of one side alone none is known
        ("tx < BX - R && ty", "(tx + ty) % 2 && ty"),
        ("&& ty >= R", "|| ty >= R"),
        ("int tx = threadIdx.x", "if (w == 3) return; int tx = threadIdx.x"),
        ("out[row * w + col] = s;\n  }", "out[row * w + col] = s;\n  } else out[0] = 1;"),
        ("blockIdx.x * (blockDim.x - 2 * R)", "blockIdx.x * blockDim.x"),
        ("blockIdx.x * (blockDim.x - 2 * R)", "(blockIdx.x + 1) * 16"),
        ("float tile[BY][BX + 1];", "float tile[BY * BX];"),
        ("  __syncthreads();", "  __syncthreads(); __syncthreads();"),
        ("int tx = threadIdx.x", "int tx = in[0]"),
        ("  __syncthreads();", "  col++;\n  __syncthreads();"),
    ],
)
def test_anything_else_is_left_alone(was: str, becomes: str) -> None:
    assert was in CODE
    one = found(CODE.replace(was, becomes))
    assert one is None


def test_rows_that_never_fill_warps_are_left() -> None:
    assert halo(kernel(CODE), (20, 20), {**KNOWN, "R": 3}) is None  # 14 results a row
    assert halo(kernel(CODE), (16, 16), {**KNOWN, "BX": 16, "BY": 16, "R": 0}) is None  # no edge


def test_the_capture_gets_whole_warps() -> None:
    (fix,) = (f for f in changes("smooth.halo_threads", "GRD404") if f.kind == "tile")
    assert "smooth_18_tiles<<<dim3(64, 256), 256>>>" in fix.code and "__shared__ float s[18][66];" in fix.code
    assert (fix.conditions[0].state, fix.conditions[0].by) == ("proved", "values")
    assert fix.proof[1].after < fix.proof[1].before


def proposed(change: tuple[str, str] = ("", "")) -> list[Fix]:
    """For the capture with another text."""

    setting = setting_of(facts("smooth.halo_threads"), lines_of)

    def lines(file: str) -> list[str]:
        return [line.replace(*change) if change[0] else line for line in setting.lines(file)]

    finding = next(f for f in diagnosed("smooth.halo_threads").findings if f.code == "GRD404")
    return fixes(Asked(structs.replace(setting, lines=lines), finding))


def test_both_texts_are_played() -> None:
    assert len(proposed()) == 1
    assert len(proposed(("s[ty][tx] = x[", "s[ty][tx] = 2 * x["))) == 1
    assert not proposed(("s[ty][tx] = x[", "s[ty][min(tx, 16)] = x["))  # a width that stands elsewhere
    assert not proposed(("+ 0.0625f * (s[ty - 1][tx - 1]", "+ tx * (s[ty - 1][tx - 1]"))
    assert not proposed(("= blockIdx.x * 16 + tx", "= blockIdx.x * 18 + tx"))
    assert not proposed(("edge(gy) * JW", "shore(gy) * JW"))


def test_images_of_any_width_come_out_the_same() -> None:
    """Bounds in the text stay: the last tile of a row may be part of one."""
    one, it = found(CODE), kernel(CODE)
    assert one is not None
    rng = np.random.default_rng(3)
    for w, h in ((64, 16), (70, 30), (5, 40)):
        image, out = rng.integers(-50, 50, w * h), [np.zeros(w * h, dtype=np.int64) for _ in range(2)]
        high = -(-h // 16)
        old, new = it.text.code[it.opening : it.closing + 1], written(one)
        for n, (body, wide, block) in enumerate(((old, -(-w // 16), (20, 20)), (new, -(-w // 64), (256, 1)))):
            memory = {"in": image, "out": out[n]}
            play(body, (wide, high), block, memory, {**KNOWN, "w": w, "h": h}, Rules(races=True))
        assert (out[0] == out[1]).all() and out[0].any()
