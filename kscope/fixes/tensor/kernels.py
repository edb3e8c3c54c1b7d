"""The text of a kernel that multiplies matrices of two-byte numbers on the tensor cores: tiles copied to shared memory
while others are used, fragments of 16 x 8 by ldmatrix and mma.sync, sums in float."""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import indent

from msgspec import Struct, structs

from kscope.fixes.tensor.given import Given
from kscope.fixes.tensor.played import Layout, Product

STATIC = 48 * 1024  # bytes of shared memory that a block has without being asked for (CUDA C++ Programming Guide)
PAD = 8  # elements behind a row: rows of fragments then lie on banks of their own
PIECE = 8  # elements of 16 bytes


class Tile(Struct, frozen=True):
    """Rows, columns and depth of a block's tile, how many of them are on their way or in use, warps along both sides,
    blocks that an SM is to hold. Of one stage, which is as deep as the product, the columns change and the rows stay.
    strip: tiles side by side that a block makes; past: whether results are stored past L2, as they are more."""

    rows: int
    cols: int
    deep: int
    stages: int
    warps: tuple[int, int]
    blocks: int
    strip: int = 1
    past: bool = False

    @property
    def threads(self) -> int:
        return 32 * self.warps[0] * self.warps[1]

    def bytes(self, layout: Layout, size: int) -> int:
        """Of shared memory: of the stages, or of the results that are put in order there. size: of a result."""
        a, b = _side("A", self.rows, self.deep, layout), _side("B", self.cols, self.deep, layout)
        if self.stages == 1:  # results take the place of the columns that they were made of
            return 2 * (a.words + min(2, self.strip) * max(b.words, self.rows * (self.cols + PAD) if size == 2 else 0))
        return 2 * max(self.stages * (a.words + b.words), self.rows * (self.cols + PAD) if size == 2 else 0)


class _Side(Struct, frozen=True):
    """How a factor's tile lies: with rows along the depth, or across it. pieces: of a row; long: elements of one."""

    along: bool
    rows: int
    long: int
    step: str

    @property
    def pitch(self) -> int:
        return self.long + PAD

    @property
    def words(self) -> int:
        return self.rows * self.pitch

    @property
    def pieces(self) -> int:
        return self.long // PIECE


def _side(factor: str, wide: int, deep: int, layout: Layout) -> _Side:
    along = (not layout.turned_a) if factor == "A" else layout.turned_b
    other = layout.rows[0] if factor == "A" else layout.cols[0]
    return _Side(True, wide, deep, layout.k[0]) if along else _Side(False, deep, wide, other)


OWN = set("T t lane rows cols from_a from_b to tiles sum copy s k0 j0 u v e k a b i j x at load_a load_b c h".split())
PAIRS = {
    "f16": {"pair": "__half2", "rounded": "__floats2half2_rn"},
    "bf16": {"pair": "__nv_bfloat162", "rounded": "__floats2bfloat162_rn"},
}
MARK = "\x01"
KERNEL = """#include <cuda_pipeline.h>
__global__ void __launch_bounds__({threads}, {blocks}) {name}_tiles({parameters}) {{
  typedef {kind} T;
  {shared}
  int t = threadIdx.x, lane = t % 32, rows = t / 32 / {warps} * {warp_rows}, cols = t / 32 % {warps} * {warp_cols};
  const T* from_a = {a_start};
  const T* from_b = {b_start};
{copies}
  auto load_a = [](unsigned (&x)[4], const T* at) {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{a_trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"((unsigned)__cvta_generic_to_shared(at)));
  }};
  auto load_b = [](unsigned (&x)[4], const T* at) {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{b_trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"((unsigned)__cvta_generic_to_shared(at)));
  }};
  copy(0, 0);
{loop}
    #pragma unroll
    for (int k = 0; k < {deep}; k += 16) {{
      unsigned a[{high}][4], b[{pairs}][4];
      #pragma unroll
      for (int i = 0; i < {high}; i++) load_a(a[i], u + {a_at});
      #pragma unroll
      for (int j = 0; j < {pairs}; j++) load_b(b[j], v + {b_at});
      #pragma unroll
      for (int i = 0; i < {high}; i++)
        #pragma unroll
        for (int j = 0; j < {wide}; j++) {{
          float* c = sum[i][j];
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{mma}.{mma}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, "
                       "{{%8, %9}}, {{%0, %1, %2, %3}};"
                       : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                       : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                         "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
        }}
    }}
{store}
}}"""
COPIES = """  float sum[{high}][{wide}][4] = {{}};
  auto copy = [&](int s, int k0) {{
    T *u = tiles + s * {stage}, *v = u + {a_words};
    #pragma unroll
    for (int e = t; e < {a_all}; e += {threads})
      __pipeline_memcpy_async(u + e / {a_pieces} * {a_pitch} + e % {a_pieces} * 8, from_a + {a_load}, 16);
    #pragma unroll
    for (int e = t; e < {b_all}; e += {threads})
      __pipeline_memcpy_async(v + e / {b_pieces} * {b_pitch} + e % {b_pieces} * 8, from_b + {b_load}, 16);
    __pipeline_commit();
  }};"""
ROUNDS = """  for (int k0 = 0, s = 0; k0 < {k}; k0 += {deep}, s ^= 1) {{
    const T *u = tiles + s * {stage}, *v = u + {a_words};
    __pipeline_wait_prior(0);
    __syncthreads();
    if (k0 + {deep} < {k}) copy(s ^ 1, k0 + {deep});"""
STRIP_COPIES = """  #pragma unroll
  for (int e = t; e < {a_all}; e += {threads})
    __pipeline_memcpy_async(tiles + e / {a_pieces} * {a_pitch} + e % {a_pieces} * 8, from_a + {a_load}, 16);
  auto copy = [&](int s, int j0) {{
    T* v = tiles + {a_words} + s * {b_words};
    #pragma unroll
    for (int e = t; e < {b_all}; e += {threads})
      __pipeline_memcpy_async(v + e / {b_pieces} * {b_pitch} + e % {b_pieces} * 8, from_b + {b_load}, 16);
    __pipeline_commit();
  }};"""
STRIP = """  for (int j0 = 0, s = 0; j0 < {strip}; j0 += {tile_cols}, s ^= 1) {{
    const T* u = tiles;
    T* v = tiles + {a_words} + s * {b_words};
    __pipeline_wait_prior(0);
    __syncthreads();
    if (j0 + {tile_cols} < {strip}) copy(s ^ 1, j0 + {tile_cols});
    float sum[{high}][{wide}][4] = {{}};"""
FLOATS = """  float* to = {to};
  #pragma unroll
  for (int e = 0; e < {halves}; e++) {{
    int h = e % 2, j = e / 2 % {wide}, i = e / 2 / {wide};
    *(float2*)&to[(size_t)(rows + i * 16 + h * 8 + lane / 4) * {n} + cols + j * 8 + lane % 4 * 2] =
        make_float2(sum[i][j][h * 2]{times}, sum[i][j][h * 2 + 1]{times});
  }}"""
HALVES = """  T* to = {to};
  __syncthreads();
  #pragma unroll
  for (int e = 0; e < {halves}; e++) {{
    int h = e % 2, j = e / 2 % {wide}, i = e / 2 / {wide};
    *({pair}*)({own} + (rows + i * 16 + h * 8 + lane / 4) * {out_pitch} + cols + j * 8 + lane % 4 * 2) =
        {rounded}(sum[i][j][h * 2]{times}, sum[i][j][h * 2 + 1]{times});
  }}
  __syncthreads();
  #pragma unroll
  for (int e = t; e < {out_all}; e += {threads})
    {put}(uint4*)&to[(size_t)(e / {out_pieces}) * {n} + e % {out_pieces} * 8]{is}
        *(const uint4*)({own} + e / {out_pieces} * {out_pitch} + e % {out_pieces} * 8){done};"""
ALONG, ACROSS = "(size_t)({j}e / {0}) * {1} + {k}e % {0} * 8", "(size_t)({k}e / {0}) * {1} + {j}e % {0} * 8"
AT = {
    ("A", True): "(rows + i * 16 + lane % 16) * {pitch} + k + lane / 16 * 8",
    ("A", False): "(k + lane / 16 * 8 + lane % 8) * {pitch} + rows + i * 16 + lane / 8 % 2 * 8",
    ("B", True): "(cols + j * 16 + lane % 8 + lane / 16 * 8) * {pitch} + k + lane / 8 % 2 * 8",
    ("B", False): "(k + lane % 16) * {pitch} + cols + j * 16 + lane / 16 * 8",
}
"""Where a lane's row of four matrices of 8 x 8 lies (PTX ISA, ldmatrix and mma.m16n8k16)."""


def kernel(given: Given, found: Product, tile: Tile) -> str:
    """The new kernel and its launch."""
    size = 4 if given.kinds[found.c] == "float" else 2
    lay = found.layout
    k, cols, rows = ((marked(name), number) for name, number in (lay.k, lay.cols, lay.rows))
    theirs = structs.replace(
        found, a=marked(found.a), b=marked(found.b), c=marked(found.c), factor=marked(found.factor),
        layout=structs.replace(lay, k=k, cols=cols, rows=rows),
    )  # fmt: skip
    halves = "bf16" if "bfloat16" in given.kinds[found.a] else "f16"
    parts = {
        "name": given.name, "parameters": marked(given.parameters), "kind": marked(given.kind),
        "shared": _shared(given.name, tile.bytes(lay, size) // 2), "mma": halves, **PAIRS[halves],
        **_sizes(tile), **_places(theirs, tile), **_results(theirs, tile),
    }  # fmt: skip
    text = _text(tile, size).format(**parts)
    text = unmarked(text, OWN & {*re.findall(r"\w+", given.parameters), lay.k[0], lay.cols[0], lay.rows[0]})
    return f"{text}\n// launch: {launched(given, found, tile)}"


def _text(tile: Tile, size: int) -> str:
    """The text with names of its parts."""
    once, store = tile.stages == 1, FLOATS if size == 4 else HALVES
    store = indent(store, "  ") + "\n  }}" if once else "  }}\n" + store
    text = KERNEL.replace("{store}", store).replace("{copies}", STRIP_COPIES if once else COPIES)
    return text.replace("{loop}", STRIP if once else ROUNDS)


def _sizes(tile: Tile) -> dict[str, object]:
    high, wide = tile.rows // tile.warps[0] // 16, tile.cols // tile.warps[1] // 8
    return {
        "threads": tile.threads, "blocks": tile.blocks, "warps": tile.warps[1], "deep": tile.deep,
        "warp_rows": tile.rows // tile.warps[0], "warp_cols": tile.cols // tile.warps[1], "high": high, "wide": wide,
        "pairs": wide // 2, "halves": 2 * high * wide, "strip": tile.strip * tile.cols, "tile_cols": tile.cols,
    }  # fmt: skip


def _places(found: Product, tile: Tile) -> dict[str, object]:
    """Where both factors lie, in memory and in a block's tiles."""
    lay, once = found.layout, tile.stages == 1
    a, b = _side("A", tile.rows, tile.deep, lay), _side("B", tile.cols, tile.deep, lay)
    parts: dict[str, object] = {
        "k": lay.k[0], "stage": a.words + b.words,
        "a_start": f"{found.a} + {of_many(found, lay.rows[0], lay.k[0])}{_start('y', tile.rows, a)}",
        "b_start": f"{found.b} + {of_many(found, lay.k[0], lay.cols[0])}{_start('x', tile.strip * tile.cols, b)}",
    }  # fmt: skip
    for letter, side in (("a", a), ("b", b)):
        load = (ALONG if side.along else ACROSS).format(
            side.pieces, side.step, k="" if once else "k0 + ", j="j0 + " if once and letter == "b" else ""
        )
        parts |= {
            f"{letter}_words": side.words, f"{letter}_all": side.rows * side.pieces, f"{letter}_pieces": side.pieces,
            f"{letter}_pitch": side.pitch, f"{letter}_load": load, f"{letter}_trans": "" if side.along else ".trans",
            f"{letter}_at": AT[letter.upper(), side.along].format(pitch=side.pitch),
        }  # fmt: skip
    return parts


def _results(found: Product, tile: Tile) -> dict[str, object]:
    n, once = found.layout.cols[0], tile.stages == 1
    first = f"blockIdx.x * {tile.strip * tile.cols}" + (" + j0" if once else "")
    return {
        "n": n, "own": "v" if once else "tiles", "out_pitch": tile.cols + PAD, "out_pieces": tile.cols // PIECE,
        "to": f"{found.c} + {of_many(found, found.layout.rows[0], n)}(size_t)blockIdx.y * {tile.rows} * {n} + {first}",
        "out_all": tile.rows * tile.cols // PIECE, "times": f" * {found.factor}" if found.factor else "",
        "put": "__stcs(" if tile.past else "*", "is": "," if tile.past else " =", "done": ")" if tile.past else "",
    }  # fmt: skip


def of_many(found: Product, rows: str, cols: str) -> str:
    """Where a matrix of one of many products begins."""
    return f"(size_t)blockIdx.z * {rows} * {cols} + " if found.batches > 1 else ""


def marked(text: str) -> str:
    """With names of the given kernel marked, so that none of the new one's own is taken for them."""
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda m: f"{MARK}{m[0]}{MARK}", text)


def unmarked(text: str, theirs: Iterable[str]) -> str:
    """The new kernel's text. theirs: names of the given one, which give way where they are not marked."""
    for own in sorted(theirs):
        put = re.compile(rf"(?<![\w.{MARK}]){own}(?![\w{MARK}])")
        lines = text.split("\n")
        text = "\n".join(x if x.startswith("//") else put.sub(f"{own}_", x) for x in lines)
    return text.replace(MARK, "")


def launched(given: Given, found: Product, tile: Tile) -> str:
    size = tile.bytes(found.layout, 4 if given.kinds[found.c] == "float" else 2)
    sides = tile.rows, tile.strip * tile.cols
    return launch_of(f"{given.name}_tiles", given, found, sides, tile.threads, size)


def launch_of(name: str, given: Given, found: Product, tile: tuple[int, int], threads: int, size: int) -> str:
    """Its launch. tile: rows and columns of a block; size: bytes of shared memory."""
    lay = found.layout
    square = found.rows == found.cols and len(given.sizes) == 1
    rows = lay.rows[0] or (lay.cols[0] if square else "")
    across = [count(lay.cols[0], found.cols, tile[1]), count(rows, found.rows, tile[0])]
    across += [str(found.batches)] if found.batches > 1 else []
    more = f", {size}" if size > STATIC else ""
    first = f"cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {size}); " if more else ""
    return f"{first}{name}<<<dim3({', '.join(across)}), {threads}{more}>>>(...)"


def count(name: str, number: int, each: int) -> str:
    return f"{name} / {each}" if name and not name.isdigit() else str(number // each)


def _start(axis: str, wide: int, side: _Side) -> str:
    return f"(size_t)blockIdx.{axis} * {wide}" + (f" * {side.step}" if side.along else "")


def _shared(name: str, words: int) -> str:
    if 2 * words <= STATIC:
        return f"__shared__ __align__(128) T tiles[{words}];"
    return f"extern __shared__ __align__(128) unsigned char {name}_bytes[];\n  T* tiles = (T*){name}_bytes;"
