"""The text of a kernel that multiplies matrices of two-byte numbers by warpgroups: tiles of rows of 128 bytes, swizzled
as the descriptors say, copied by all threads into a ring of stages while products are on their way."""

from __future__ import annotations

import re
from textwrap import indent, wrap

from msgspec import Struct, structs

from kscope.fixes.tensor.given import Given
from kscope.fixes.tensor.kernels import PAIRS, launch_of, marked, of_many, unmarked
from kscope.fixes.tensor.played import Product

ROWS, DEEP, THREADS = 128, 64, 256  # of a block: two warpgroups of 64 rows; the depth is a row of 128 bytes
LINE = 1024  # bytes that the swizzle repeats after: tiles begin on them
PAD = 8  # elements behind a row of results
OWN = set("d t group tiles base own from_a from_b to copy s k0 i a b j k c e at p".split())


class Tile(Struct, frozen=True):
    """Columns of a block's tile, stages of the ring, blocks that an SM is to hold."""

    cols: int
    stages: int
    blocks: int

    @property
    def stage(self) -> int:
        return (ROWS + self.cols) * 2 * DEEP

    @property
    def bytes(self) -> int:
        return self.stages * self.stage + LINE


MULTIPLY = """// 64 x {cols} results of a warpgroup, {sums} a thread; both factors as their descriptors say.
__device__ __forceinline__ void {name}_multiply(float (&d)[{sums}], unsigned long long a, unsigned long long b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{cols}k16.f32.{mma}.{mma} {{"
{registers}
    "}}, %{sums}, %{next}, 1, 1, 1, {across_a}, {across_b};"
    : {operands}
    : "l"(a), "l"(b));
}}
__device__ __forceinline__ unsigned long long {name}_rows(unsigned at, unsigned long long leading) {{
  return (at & 0x3ffff) >> 4 | leading << 16 | 64ull << 32 | 1ull << 62;
}}
"""
KERNEL = """#include <cuda_pipeline.h>
{multiply}__global__ void __launch_bounds__({threads}, {blocks}) {name}_groups({parameters}) {{
  extern __shared__ unsigned char {name}_bytes[];
  unsigned char* tiles = {name}_bytes + (-(unsigned)__cvta_generic_to_shared({name}_bytes) & 1023);
  unsigned base = (unsigned)__cvta_generic_to_shared(tiles);
  int t = threadIdx.x, group = t / 128;
  unsigned char* own = tiles + t / 8 * 128 + (t % 8 ^ t / 8 % 8) * 16;
  const {kind}* from_a = {a_start};
  const {kind}* from_b = {b_start};
  auto copy = [&](int s, int k0) {{
    unsigned char* to = own + s * {stage};
    #pragma unroll
    for (int i = 0; i < {a_rounds}; i++) __pipeline_memcpy_async(to + i * 4096, from_a + {a_load}, 16);
    #pragma unroll
    for (int i = 0; i < {b_rounds}; i++) __pipeline_memcpy_async(to + {a_bytes} + i * 4096, from_b + {b_load}, 16);
  }};
  #pragma unroll
  for (int s = 0; s < {ahead}; s++) {{
    if (s * 64 < {k}) copy(s, s * 64);
    __pipeline_commit();
  }}
  float d[{sums}] = {{}};
  for (int i = 0; i < {k} / 64; i++) {{
    __pipeline_wait_prior({left});
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned a = base + i % {stages} * {stage}, b = a + {a_bytes};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int j = 0; j < 4; j++)
      {name}_multiply(d, {name}_rows(a + group * 8192 + j * {a_step}, {a_leading}),
                      {name}_rows(b + j * {b_step}, {b_leading}));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (i + {ahead} < {k} / 64) copy((i + {ahead}) % {stages}, (i + {ahead}) * 64);
    __pipeline_commit();
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }}
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
{store}
}}"""
FLOATS = """float* to = {to};
float* c = to + (size_t)(group * 64 + t / 32 % 4 * 16 + t % 32 / 4) * {n} + t % 4 * 2;
#pragma unroll
for (int i = 0; i < {pairs}; i++) {{
  *(float2*)(c + i * 8) = make_float2(d[i * 4]{times}, d[i * 4 + 1]{times});
  *(float2*)(c + (size_t)8 * {n} + i * 8) = make_float2(d[i * 4 + 2]{times}, d[i * 4 + 3]{times});
}}"""
HALVES = """{kind}* to = {to};
__syncthreads();
{kind}* p = ({kind}*)tiles + (group * 64 + t / 32 % 4 * 16 + t % 32 / 4) * {pitch} + t % 4 * 2;
#pragma unroll
for (int i = 0; i < {pairs}; i++) {{
  *({pair}*)(p + i * 8) = {rounded}(d[i * 4]{times}, d[i * 4 + 1]{times});
  *({pair}*)(p + 8 * {pitch} + i * 8) = {rounded}(d[i * 4 + 2]{times}, d[i * 4 + 3]{times});
}}
__syncthreads();
#pragma unroll 8
for (int e = t; e < {out_all}; e += {threads})
  *(uint4*)&to[(size_t)(e / {out_pieces}) * {n} + e % {out_pieces} * 8] =
      *(const uint4*)(({kind}*)tiles + e / {out_pieces} * {pitch} + e % {out_pieces} * 8);"""


def kernel(given: Given, found: Product, tile: Tile) -> str:
    """The new kernel and its launch."""
    lay = found.layout
    k, cols, rows = ((marked(name), number) for name, number in (lay.k, lay.cols, lay.rows))
    theirs = structs.replace(
        found, a=marked(found.a), b=marked(found.b), c=marked(found.c), factor=marked(found.factor),
        layout=structs.replace(lay, k=k, cols=cols, rows=rows),
    )  # fmt: skip
    halves = "bf16" if "bfloat16" in given.kinds[found.a] else "f16"
    parts: dict[str, object] = {
        "name": given.name, "parameters": marked(given.parameters), "kind": marked(given.kind), "mma": halves,
        **PAIRS[halves], **_sizes(tile), **_places(theirs, tile), **_results(theirs, tile), **_operands(tile),
        "across_a": int(lay.turned_a), "across_b": int(not lay.turned_b),
    }  # fmt: skip
    store = FLOATS if given.kinds[found.c] == "float" else HALVES
    parts["multiply"] = MULTIPLY.format(**parts)
    parts["store"] = indent(store.format(**parts), "  ")
    text = unmarked(KERNEL.format(**parts), OWN & {*re.findall(r"\w+", given.parameters), k[0], cols[0], rows[0]})
    return f"{text}\n// launch: {launched(given, found, tile)}"


def _sizes(tile: Tile) -> dict[str, object]:
    return {
        "threads": THREADS, "blocks": tile.blocks, "stages": tile.stages, "stage": tile.stage, "ahead": tile.stages - 2,
        "left": tile.stages - 3, "cols": tile.cols, "sums": tile.cols // 2, "pairs": tile.cols // 8,
        "a_bytes": ROWS * 2 * DEEP,
    }  # fmt: skip


def _operands(tile: Tile) -> dict[str, object]:
    """The list of registers, by which assembly and the compiler name them."""
    sums = tile.cols // 2
    named = wrap(",".join(f"%{n}" for n in range(sums)).replace(",", ", "), 112)
    given = wrap(", ".join(f'"+f"(d[{n}])' for n in range(sums)), 112)
    return {
        "registers": "\n".join(f'    "{line}{" " * (line is not named[-1])}"' for line in named),
        "operands": "\n      ".join(given), "next": sums + 1,
    }  # fmt: skip


def _places(found: Product, tile: Tile) -> dict[str, object]:
    """Where both factors lie, in memory and in a block's tiles."""
    lay = found.layout
    a = f"{found.a} + {of_many(found, lay.rows[0], lay.k[0])}", not lay.turned_a, lay.rows[0], "y", ROWS
    b = f"{found.b} + {of_many(found, lay.k[0], lay.cols[0])}", lay.turned_b, lay.cols[0], "x", tile.cols
    parts: dict[str, object] = {"k": lay.k[0]}
    for letter, (start, along, other, axis, wide) in (("a", a), ("b", b)):
        first = f"blockIdx.{axis} * {wide}"
        parts |= {
            f"{letter}_start": start + (
                f"((size_t){first} + t / 8) * {lay.k[0]} + t % 8 * 8" if along
                else f"(size_t)(t / 8) * {other} + {first} + t % 8 * 8"
            ),
            f"{letter}_load": (
                f"(size_t)i * 32 * {lay.k[0]} + k0" if along
                else f"(size_t)(k0 + i % 2 * 32) * {other} + i / 2 * 64"
            ),
            f"{letter}_rounds": wide // 32, f"{letter}_step": 32 if along else 2048,
            f"{letter}_leading": 1 if along else "8192 >> 4",
        }  # fmt: skip
    return parts


def _results(found: Product, tile: Tile) -> dict[str, object]:
    n = found.layout.cols[0]
    first = f"{found.c} + {of_many(found, found.layout.rows[0], n)}"
    return {
        "n": n, "pitch": tile.cols + PAD, "out_pieces": tile.cols // 8, "out_all": ROWS * tile.cols // 8,
        "to": f"{first}(size_t)blockIdx.y * {ROWS} * {n} + blockIdx.x * {tile.cols}",
        "times": f" * {found.factor}" if found.factor else "",
    }  # fmt: skip


def launched(given: Given, found: Product, tile: Tile) -> str:
    return launch_of(f"{given.name}_groups", given, found, (ROWS, tile.cols), THREADS, tile.bytes)
