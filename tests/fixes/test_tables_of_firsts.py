"""Tables of the first of as many places as an index may say: what is printed for which texts, and that it is right."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec import structs

from kscope.engine.code.fixing import subjects
from kscope.fixes.given.setting import Asked
from kscope.fixes.memory.aggregate import masked
from kscope.fixes.tables.firsts import fixes
from kscope.model.contract.fixes import Fix
from tests.support.reports import fixture
from tests.support.with_sources import BELOW

FIRST = 162  # line of the capture's kernel, whose text is put in place of its own
HEAD = "__global__ void count_global(const int* __restrict__ x, int* __restrict__ bins, int n) {\n"
PLAIN = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) atomicAdd(&bins[x[i]], 1);\n}"


@cache
def asked() -> Asked:
    (subject,) = subjects(str(fixture("atomics.slow")), None, BELOW)
    return Asked(subject.setting, next(f for f in subject.findings if f.code == "MEM109"))


def printed(text: str, grid: tuple[int, ...] = (65536, 1, 1), block: tuple[int, ...] = (256, 1, 1),
            instance: str = "", above: str = "") -> list[Fix]:  # fmt: skip
    one = asked()
    assert one.setting.launch is not None
    lines = ["" for _ in range(FIRST - 2)] + [above, *text.split("\n")]
    launch = structs.replace(one.setting.launch, grid=grid, block=block)
    setting = structs.replace(one.setting, lines=lambda _: lines, launch=launch, instance=instance)
    return fixes(structs.replace(one, setting=setting))


def becomes(fix: Fix) -> str:
    return "\n".join(e.becomes for e in fix.edits)


def test_a_histogram_goes_round_over_the_grid_with_the_largest_blocks() -> None:
    (fix,) = printed(HEAD + PLAIN)
    text = becomes(fix)
    assert "__shared__ int bins_block[8192];" in text
    assert "for (unsigned block_n = blockIdx.x; (long long)block_n * blockDim.x < n; block_n += gridDim.x) {" in text
    assert "int i = block_n * blockDim.x + threadIdx.x;" in text
    assert ("if (i < n) { const auto at_n = x[i]; if ((size_t)at_n < 8192) atomicAdd(&bins_block[at_n], 1); "
            "else atomicAdd(&bins[at_n], 1); }") in text  # fmt: skip
    assert "if (bins_block[place_n] != 0) atomicAdd(&bins[place_n], bins_block[place_n]);" in text
    assert fix.code == "count_global<<<264, 1024>>>(...);"
    assert (fix.parameters["grid.x"], fix.parameters["block.x"]) == (264, 1024)
    assert fix.conditions[0].state == "proved" and fix.conditions[0].by == "values"
    assert [c.holds for c in fix.conditions if c.state == "check"][-2:] == [
        "registers leave room for 1,024 threads a block", "the old launch has a thread for all that is below n"
    ]  # fmt: skip
    assert fix.proof[0].after == 264 * 8192
    assert fix.price == asked().finding.estimate


def test_types_of_a_template_and_elements_by_the_thread() -> None:
    text = """__global__ void count_global(T* in, Q* out, size_t all, int each) {
  unsigned at = threadIdx.x + blockDim.x * blockIdx.x, j;
  if (at * each >= all) return;
  for (j = at * each; j < (at + 1) * each; j++) {
    if (j < all) {
      unsigned item = in[j];
      atomicAdd(out + item,
                2);
    }
  }
}"""
    (fix,) = printed(text, instance="void count_global<unsigned short, unsigned int>(T1 *, T2 *, unsigned long, int)",
                     above="template <typename T, typename Q>")  # fmt: skip
    assert "__shared__ Q out_block[8192];" in becomes(fix)
    assert "(long long)block_n * blockDim.x * each < all;" in becomes(fix)
    assert "if (at * each >= all) continue;" in becomes(fix)
    assert any(c.holds == "each is above 0" and c.state == "check" for c in fix.conditions)
    assert not printed(text, instance="void count_global<float, double>(T1 *, T2 *, unsigned long, int)",
                       above="template <typename T, typename Q>")  # fmt: skip


TWO = """__global__ void count_global(const unsigned char* img, unsigned* hist, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  unsigned char v = img[y * w + x];
  atomicAdd(&hist[v], 1u);
}"""


@pytest.mark.parametrize(
    ("grid", "axis", "end", "launched"),
    [((480, 270, 1), "x", "w", "dim3(3, 270)"), ((120, 1080, 1), "y", "h", "dim3(120, 8)")],
)
def test_a_grid_of_two_sides_goes_round_along_the_longer(
    grid: tuple[int, ...], axis: str, end: str, launched: str
) -> None:
    (fix,) = printed(TWO, grid, (16, 16, 1))
    assert "__shared__ unsigned hist_block[256];" in becomes(fix)  # as many as a byte's values
    assert (f"for (unsigned block_n = blockIdx.{axis}; (long long)block_n * blockDim.{axis} < {end}; "
            f"block_n += gridDim.{axis}) {{") in becomes(fix)  # fmt: skip
    assert "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)" in becomes(fix)
    assert "y >= h) continue;" in becomes(fix)
    assert fix.code == f"count_global<<<{launched}, dim3(16, 16)>>>(...);" and fix.price is not None


def test_blocks_that_no_comparison_ends_are_done_by_the_first_of_them() -> None:
    (fix,) = printed(TWO.replace("x >= w || y >= h", "x * y >= w * h"), (480, 270, 1), (16, 16, 1))
    assert "if (blockIdx.x >= 3) return;" in becomes(fix)  # 3 * 270 of the 1,056 blocks that the chip holds
    assert "for (unsigned block_n = blockIdx.x; block_n < gridDim.x; block_n += 3) {" in becomes(fix)
    assert not fix.code and "grid.x" not in fix.parameters
    assert fix.price is None and fix.costs[1] == "the blocks from 3 on leave at once"


def test_what_is_made_of_fractions() -> None:
    text = """__global__ void count_global(const float* v, int n, float lo, float width, int bins, unsigned int* hist) {
  const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned stride = blockDim.x * gridDim.x;
  for (unsigned k = tid; k < n; k += stride) {
    int b = (int)((v[k] - lo) / width);
    if (b >= 0 && b < bins)
      atomicAdd(&hist[b], 1u);
  }
}"""
    (fix,) = printed(text)
    assert "{ const auto at_n = b; if ((size_t)at_n < 4096)" in becomes(fix)


def test_a_loop_over_the_grid_is_left_and_launched_with_fewer_blocks() -> None:
    text = HEAD + """  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    if (x[i] > 3) atomicMax(&bins[x[i]], i);
  }
}"""
    (fix,) = printed(text)
    assert "block_n" not in becomes(fix)
    assert "bins_block[place_n] = -2147483647 - 1;" in becomes(fix)
    assert fix.code == "count_global<<<1056, 256>>>(...);"
    (same,) = printed(text, (1024, 1, 1))
    assert not same.code


def test_a_block_whose_size_the_text_says_stays() -> None:
    (fix,) = printed(HEAD + PLAIN.replace("blockDim.x", "256"))
    assert fix.parameters["places"] == 4096  # of 27 KB of a block, eight an SM
    assert "(long long)block_n * 256 < n;" in becomes(fix)
    assert fix.code == "count_global<<<1056, 256>>>(...);"
    (said,) = printed(HEAD + PLAIN.replace("blockDim.x", "THREADS"), above="#define THREADS 256")
    assert "(long long)block_n * 256 < n;" in becomes(said)
    (other,) = printed(HEAD + PLAIN.replace("blockDim.x", "THREADS"), above="#define THREADS 128")
    assert "< n; block_n" not in becomes(other)  # blocks have threads in common
    own = "int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n  if (i < n && t < 64)"
    (asks,) = printed(HEAD + PLAIN[PLAIN.index(";\n") :].replace(";\n  if (i < n)", own, 1))
    assert "block.x" not in asks.parameters  # what the thread's number serves for else
    (bounded,) = printed((HEAD + PLAIN).replace("void count", "void __launch_bounds__(256) count"))
    assert "block.x" not in bounded.parameters
    (named,) = printed((HEAD + PLAIN).replace("void count", "BOUNDED void count"))
    assert "block.x" not in named.parameters
    (within,) = printed((HEAD + PLAIN).replace("void count", "void counts::count"))
    assert "block.x" in within.parameters


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("atomicAdd(&bins[x[i]], 1)", "bins[n] = atomicAdd(&bins[x[i]], 1)"),  # what it returns is used
        ("atomicAdd(&bins[x[i]], 1)", "{ int v = atomicAdd(&bins[x[i]], 1); }"),
        ("atomicAdd(&bins[x[i]], 1)", "atomicAdd(&bins[x[i]], bins[0])"),  # the array is read
        ("atomicAdd(&bins[x[i]], 1)", "{ int* b = bins; atomicAdd(&b[x[i]], 1); }"),  # another name
        ("atomicAdd(&bins[x[i]], 1)", "{ atomicAdd(&bins[x[i]], 1); atomicMax(&bins[x[i]], 1); }"),
        ("atomicAdd(&bins[x[i]], 1)", "atomicExch(&bins[x[i]], 1)"),
        ("atomicAdd(&bins[x[i]], 1)", "{ int at = i / 100; atomicAdd(&bins[at], 1); }"),  # a block's own places
        ("atomicAdd(&bins[x[i]], 1)", "atomicAdd(&bins[blockIdx.x * 9 + x[i]], 1)"),
        ("if (i < n)", "__syncthreads(); if (i < n)"),
        ("if (i < n)", "__shared__ int t[64]; if (i < n)"),
        ("if (i < n)", "n -= 3; if (i < n)"),  # a parameter that is another one in the next round
        ("if (i < n)", "for (int k = 0; k < 2; k++) if (k > i) return; if (i < n)"),
        ("if (i < n)", "int block_n = 0; if (i < n)"),
        ("if (i < n)", "unsigned m = __ballot_sync(~0u, i < n); if (i < n && m)"),
    ],
)
def test_refused(was: str, new: str) -> None:
    assert printed(HEAD + PLAIN)
    assert was in HEAD + PLAIN
    assert not printed((HEAD + PLAIN).replace(was, new))


@pytest.mark.parametrize(
    ("macro", "line"),
    [
        ("#define LEAVE return", "if (i < n && x[i] == -3) LEAVE;"),
        ("#define GUARD if (i >= n) return", "GUARD;"),
        ("#define COUNT(at) atomicAdd(&bins[at], 2)", "if (n == 77) COUNT(7);"),
        ("#define HERE (blockIdx.x * 2)", "if (i < n && x[i] == -3) i = HERE;"),
        ("#define BLOCK blockIdx.x\n#define HERE (2 * BLOCK)", "if (i < n && x[i] == -3) i = HERE;"),
        ("#define LAST (n - 1)", "if (i > LAST) i = 0;"),
        ("", "if (i < n && x[i] == -3) ELSEWHERE;"),
    ],
)
def test_what_a_macro_does_is_not_known(macro: str, line: str) -> None:
    text = HEAD + PLAIN.replace("  if (i < n)", f"  {line}\n  if (i < n)")
    assert printed(text.replace(line, "if (i > LAST) i = 0;"), above="#define LAST (1 << 20)")
    assert not printed(text, above=macro)


@pytest.mark.parametrize(
    "test",
    ["i < n || x[0]", "x[0] < n", "i < n - i", "i <= n", "!(i < n)", "(i < n && x[0]) || n > 5", "i < n ? 1 : 0"],
)
def test_what_is_no_end_is_none(test: str) -> None:
    """Then the blocks of the launch are gone over, whatever their threads compare."""
    found = printed((HEAD + PLAIN).replace("i < n", test))
    assert all("block_n < gridDim.x; block_n += 1056" in becomes(f) for f in found)


@pytest.mark.parametrize(
    ("test", "ends"), [("n > i", "< n;"), ("n < 999 && i < n", "< n;"), ("(i < n * 2)", "< (n*2);")]
)
def test_what_is_an_end(test: str, ends: str) -> None:
    (fix,) = printed((HEAD + PLAIN).replace("i < n", test))
    assert f"(long long)block_n * blockDim.x {ends}" in becomes(fix)


@pytest.mark.parametrize(
    ("kind", "one"), [("float", "1.0f"), ("double", "1.0"), ("unsigned long long", "1ull"), ("float", "1.f")]
)
def test_ones_are_counted_in_whole_numbers(kind: str, one: str) -> None:
    text = HEAD.replace("int* __restrict__ bins", f"{kind}* __restrict__ bins") + PLAIN.replace("1)", f"{one})")
    (fix,) = printed(text)
    assert "__shared__ unsigned bins_block[8192];" in becomes(fix)
    assert "atomicAdd(&bins_block[at_n], 1u);" in becomes(fix)
    assert f"atomicAdd(&bins[place_n], ({kind})bins_block[place_n]);" in becomes(fix)
    rounded = [c for c in fix.conditions if "rounded" in c.holds]
    assert bool(rounded) == (kind != "unsigned long long")
    # Sums of other numbers wait in shared memory as well (a loop of compare-and-swap).
    assert not printed(text.replace(f"{one})", "x[i])"))


@pytest.mark.parametrize(("at", "places"), [("x[i] & 31", 32), ("(x[i] >> 3) & 1023", 1024), ("x[i] / 32 & 511", 512)])
def test_a_masked_index_needs_no_more(at: str, places: int) -> None:
    (fix,) = printed(HEAD + PLAIN.replace("x[i]", at).replace("i < n)", "i < n && x[i] > 2)"))
    assert fix.parameters["places"] == places
    assert not any(c.holds.startswith("most places") for c in fix.conditions)
    by_name = f"{{ int b = {at}; atomicAdd(&bins[b], 1); }}"
    (named,) = printed(HEAD + PLAIN.replace("atomicAdd(&bins[x[i]], 1);", by_name))
    assert named.parameters["places"] == places


@pytest.mark.parametrize("at", ["x[i] | i & 31", "x[i] ^ n & 31", "n ? x[i] : i & 31", "(x[i] + 3) & n"])
def test_a_mask_of_a_part_is_none(at: str) -> None:
    assert masked(at, {"n": 30}) is None
    assert masked("(a | b) & n", {"n": 31}) == 32


def test_too_few_adds_a_block() -> None:
    one = asked()
    cold = structs.replace(one.finding, evidence=[e for e in one.finding.evidence if "max" not in e.metric])
    assert not fixes(structs.replace(one, finding=cold))
    assert not printed((HEAD + PLAIN), (1, 1, 1))
