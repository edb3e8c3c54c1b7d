"""Blocks in pieces, of which an SM holds more: which may, and that each thread finds itself again."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Setting
from kscope.fixes.tiling import smaller
from kscope.fixes.tiling.hidden import hides_places
from kscope.fixes.tiling.smaller import _played, pieces, spans
from tests.support.altered import told
from tests.support.with_sources import ABOVE, changes
from tools.fixes_pairs import facts

CODE = """__global__ void __launch_bounds__(256) mix(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  if (i >= n) return;
  out[i] = in[i] + threadIdx.x * blockIdx.x + lane * gridDim.x + blockDim.x;
}"""


def changed(code: str, count: int) -> str:
    for start, end, new in sorted(spans(code, count), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def tail(**launch: object) -> Setting:
    found = setting_of(facts("tail_effect.slow"), ABOVE)
    assert found.launch is not None
    return structs.replace(found, launch=structs.replace(found.launch, **launch))


def test_a_block_too_many_fits_beside_the_others() -> None:
    (fix,) = (f for f in changes("tail_effect.slow", "GRD402") if f.kind == "block_size")
    assert fix.price is not None and fix.price.speedup == pytest.approx(16 / 9)
    assert fix.code == "fma_block<<<1064, 128>>>(...);"
    first, second, last = fix.edits
    assert first.becomes.endswith("block_n = blockIdx.x / 8, thread_n = blockIdx.x % 8 * blockDim.x + threadIdx.x;")
    assert second.becomes.startswith("  float a = thread_n, b")
    assert last.becomes == "  out[block_n * (size_t)(blockDim.x * 8) + thread_n] = a + d + e + f;"
    assert [(p.before, p.after) for p in fix.proof] == [(2, 1), (16, 9)]  # as good as it gets: a warp more for some
    assert [c.holds for c in fix.conditions if c.state == "check"] == [
        "every launch of fma_block has blocks of 1 / 8 of the threads, and 8 times as many",
        "the bytes of shared memory are not there to hold blocks back",
    ]
    assert not [f for f in changes("tail_effect.fast", "GRD402") if f.kind == "block_size"]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_results_are_the_same(count: int) -> None:
    found = []
    for text, blocks, threads in ((CODE, 3, 256), (changed(CODE, count), 3 * count, 256 // count)):
        memory = {"out": np.zeros(768, dtype=np.int64), "in": np.arange(768) * 7919 % 1009}
        play(text[text.index("{") :], (blocks, 1), (threads, 1), memory, {"n": 700}, Rules(races=True))
        found.append(memory["out"])
    assert (found[0] == found[1]).all() and found[0][:700].any()


@pytest.mark.parametrize("more", ["asm(\"\");", "auto b = cg::this_grid();", "int3 p = at(threadIdx);", "int block_n;"])
def test_texts_that_ask_in_another_way(more: str) -> None:
    assert spans(CODE, 4) and not spans(CODE.replace("if (i", f"{more} if (i"), 4)


def test_blocks_that_are_left() -> None:
    assert pieces(tail()) is not None
    assert pieces(tail(grid=(132, 1, 1))) is None  # one wave, one for each SM
    assert pieces(tail(grid=(264, 1, 1))) is None  # two for each SM
    assert pieces(tail(shared_dynamic=0)) is None  # it does now
    assert pieces(tail(registers=64)) is None  # as many threads as before
    assert pieces(tail(block=(48, 1, 1))) is None  # no whole warps


@pytest.mark.parametrize(
    ("above", "used", "hides"),
    [
        ("#define ME (blockIdx.x * 64 + threadIdx.x)", "int i = ME;", True),
        ("#define AT threadIdx.x\n#define ME(n) (AT + n)", "int i = ME(3);", True),
        ("#define ROW \\\n  blockIdx.y", "int i = ROW;", True),
        ("#define ROWS 64", "int i = ROWS;", False),
        ("constexpr int ROWS = 64, COLS = 3;", "int i = ROWS * COLS;", False),
        ("#include \"places.h\"", "int i = MY_PLACE;", True),
        ("", "float v = -FLT_MAX, w = INFINITY;", False),
        ("template <int BLOCK, typename ACC>", "ACC v = BLOCK;", False),
    ],
)
def test_places_behind_a_macro(above: str, used: str, hides: bool) -> None:
    assert hides_places([*above.split("\n"), used], used) == hides


def test_each_thread_is_there_once() -> None:
    assert _played(4) == 1 * 64 + 3 * 128 + 5 * 1024


@pytest.mark.parametrize("place", ["TID", "CTAID"])
def test_functions_that_ask_for_a_thread_or_a_block(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = ("tail_effect.slow", "GRD402", smaller.fixes)
    assert told(*capture)
    monkeypatch.setattr(smaller, "asked_here", lambda code, text, asked: asked != place)
    assert not told(*capture)
