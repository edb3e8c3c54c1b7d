"""A matrix product of 2-byte numbers on the FMA pipes: a kernel of the same parameters whose warps multiply 16 x 16
fragments on the tensor cores (nvcuda::wmma), with the next tiles on their way while one is used."""

from __future__ import annotations

import re

import msgspec

from kscope.fixes.compute.crossed import hides
from kscope.fixes.compute.multiplied import Product, loaded, product, rows
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import kernel_text
from kscope.model.contract.fixes import Condition, Fix, Proof

TILE, DEEP = 128, 32  # rows and columns of a block's tile, its depth
KINDS = {"__half": "half", "half": "half", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "bf16": "bf16"}
_KIND = rf"(?:{'|'.join(KINDS)})"
_HEAD = re.compile(r"\bvoid\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)")
_AS_FLOATS = (
    (r"\b(?:__half2float|__float2half(?:_rn)?|__bfloat162float|__float2bfloat16(?:_rn)?)\s*\(", "("),
    (r"\b__hmul\s*\(", "__fmul_rn("), (r"\b__hadd\s*\(", "__fadd_rn("), (r"\b__hfma\s*\(", "fmaf("),
    (rf"\b{_KIND}\b", "float"),
)  # fmt: skip
OWN = set("t u v w x y s T rows cols sum load from_a from_b own to i j k e k0 row".split())
KERNEL = """#include <mma.h>
__global__ void __launch_bounds__(256) {name}_tiles({parameters}) {{
  namespace w = nvcuda::wmma;
  typedef {kind} T;
  __shared__ __align__(32) T u[2][{tile}][{deep} + 8], v[2]{v_dims};
  int t = threadIdx.x, rows = t / 128 * 64, cols = t / 32 % 4 * 32;
  const T* from_a = {A} + (size_t)blockIdx.y * {tile} * {n}; const T* from_b = {B} + {b_start};
  w::fragment<w::accumulator, 16, 16, 16, float> sum[4][2];
  #pragma unroll
  for (int i = 0; i < 8; i++) w::fill_fragment(sum[i / 2][i % 2], 0.f);
  uint4 x[2], y[2];
  auto load = [&](int k0) {{
    #pragma unroll
    for (int i = 0, e = t; i < 2; i++, e += 256) {{
      x[i] = *(const uint4*)(from_a + (size_t)(e / 4) * {n} + k0 + e % 4 * 8);
      y[i] = *(const uint4*)(from_b + {b_load});
    }}
  }};
  load(0);
  for (int k0 = 0, s = 0; k0 < {n}; k0 += {deep}, s ^= 1) {{
    #pragma unroll
    for (int i = 0, e = t; i < 2; i++, e += 256) {{
      *(uint4*)&u[s][e / 4][e % 4 * 8] = x[i];
      *(uint4*)&v[s]{b_put} = y[i];
    }}
    __syncthreads();
    if (k0 + {deep} < {n}) load(k0 + {deep});
    #pragma unroll
    for (int k = 0; k < {deep}; k += 16) {{
      w::fragment<w::matrix_a, 16, 16, 16, T, w::row_major> a[4];
      w::fragment<w::matrix_b, 16, 16, 16, T, w::{b_major}> b[2];
      #pragma unroll
      for (int i = 0; i < 4; i++) w::load_matrix_sync(a[i], &u[s][rows + i * 16][k], {deep} + 8);
      #pragma unroll
      for (int j = 0; j < 2; j++) w::load_matrix_sync(b[j], {b_at}, {b_pitch});
      #pragma unroll
      for (int i = 0; i < 8; i++) w::mma_sync(sum[i / 2][i % 2], a[i / 2], b[i % 2], sum[i / 2][i % 2]);
    }}
  }}
{store}
}}
// launch: {name}_tiles<<<dim3({n} / {tile}, {n} / {tile}), 256>>>(...), {n} on the host"""
FLOATS = """  #pragma unroll
  for (int i = 0; i < 8; i++) {{
    size_t row = blockIdx.y * {tile} + rows + i / 2 * 16;
    float* to = {C} + row * {n} + blockIdx.x * {tile} + cols + i % 2 * 16;
    w::store_matrix_sync(to, sum[i / 2][i % 2], {n}, w::mem_row_major);
  }}"""
HALVES = """  __syncthreads();
  float* own = (float*)&u[0][0][0] + t / 32 * 256;
  #pragma unroll
  for (int i = 0; i < 8; i++) {{
    w::store_matrix_sync(own, sum[i / 2][i % 2], 16, w::mem_row_major);
    __syncwarp();
    T* to = {C} + (size_t)(blockIdx.y * {tile} + rows + i / 2 * 16) * {n} + blockIdx.x * {tile} + cols + i % 2 * 16;
    for (int e = t % 32; e < 256; e += 32) to[(size_t)(e / 16) * {n} + e % 16] = {rounded}(own[e]);
    __syncwarp();
  }}"""
PLAIN = {
    "v_dims": f"[{DEEP}][{TILE} + 8]", "b_start": "blockIdx.x * {tile}", "b_put": "[e / 16][e % 16 * 8]",
    "b_load": "(size_t)(k0 + e / 16) * {n} + e % 16 * 8", "b_major": "row_major",
    "b_at": "&v[s][k][cols + j * 16]", "b_pitch": f"{TILE} + 8",
}  # fmt: skip
TURNED = {
    "v_dims": f"[{TILE}][{DEEP} + 8]", "b_start": "(size_t)blockIdx.x * {tile} * {n}", "b_put": "[e / 4][e % 4 * 8]",
    "b_load": "(size_t)(e / 4) * {n} + k0 + e % 4 * 8", "b_major": "col_major",
    "b_at": "&v[s][cols + j * 16][k]", "b_pitch": f"{DEEP} + 8",
}  # fmt: skip


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    head = _HEAD.search(text.code) if text is not None else None
    if text is None or setting.launch is None or head is None or setting.code.program.sm < 80:
        return []
    given = re.findall(rf"\b({_KIND})\s*\*", head["parameters"])
    kinds = {KINDS[k] for k in given}
    if len(kinds) != 1:
        return []
    floats = msgspec.structs.replace(text, code=_as_floats(text.code))
    size = 4 if re.search(r"(?<!const )\bfloat\s*\*", head["parameters"]) else 2
    played = product(setting, floats, _as_floats(head["parameters"]), size, turned=True)
    n = rows(setting, size)
    if played is None or n * n < setting.sms * TILE**2 or n % TILE or hides(head["parameters"], played.n):
        return []
    known = constants(setting.lines(text.file)).get(played.n, 0)
    if {played.a, played.b, played.c, played.n} & OWN:
        return []
    code = _kernel(head["name"], head["parameters"], given[0], size, played)
    loads = 2 * TILE * DEEP / (TILE * TILE * DEEP)
    turned = "'" if played.turned else ""
    return [
        Fix(
            kind="tile",
            title=f"tensor cores: tiles of {TILE} x {TILE} a block, fragments of 16 x 16",
            language="cuda",
            code=code,
            parameters={"tile": TILE, "depth": DEEP, "block.x": 256},
            conditions=[
                proved(f"{played.c} = {played.a} {played.b}{turned}, square and row by row", "values", played.compared,
                       "the kernel played on whole numbers drawn at random, every result compared"),
                reads(f"{played.n} is a multiple of {TILE}", f"it is {known}") if known else
                Condition(holds=f"{played.n} is a multiple of {TILE}", state="check", why="as here; no edges"),
                Condition(holds="the matrices begin on 32 bytes", state="check", why="cudaMalloc's do, parts may not"),
                Condition(holds="sums of floats in another order will do", state="check",
                          why="products are exact, tensor cores add in an order of their own"),
            ],
            proof=[
                Proof(
                    what="elements loaded from global memory a multiplication",
                    before=round(loaded(setting, size, 2)[0], 4), after=round(loads, 4),
                    how=f"{TILE} rows and columns of depth {DEEP} serve {TILE} x {TILE} x {DEEP} multiplications",
                ),
            ],
            costs=[f"{2 * 2 * (TILE * (DEEP + 8) * 2)} bytes of shared memory a block at most"],
            price=asked.finding.estimate if asked.finding.code == "CMP201" else None,  # a tile's is another one's
        )
    ]  # fmt: skip


def _kernel(name: str, parameters: str, kind: str, size: int, played: Product) -> str:
    """The new kernel: of 2-byte elements of a kind, into elements of `size` bytes."""
    names = {"tile": TILE, "deep": DEEP, "n": played.n, "A": played.a, "B": played.b, "C": played.c}
    way = {key: part.format(**names) for key, part in (TURNED if played.turned else PLAIN).items()}
    rounded = "__float2half" if KINDS[kind] == "half" else "__float2bfloat16"
    store = (FLOATS if size == 4 else HALVES).format(**names, rounded=rounded)
    return KERNEL.format(name=name, parameters=parameters, kind=kind, store=store, **names, **way)


def _as_floats(text: str) -> str:
    """The text with its numbers as floats: whole numbers are played, so that types show nothing."""
    for pattern, new in _AS_FLOATS:
        text = re.sub(pattern, new, text)
    return text
