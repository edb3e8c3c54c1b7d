"""A matrix product whose threads read both factors for every multiplication: a kernel with tiles in shared memory and
sums of 8 x 8 in registers, with the same parameters."""

from __future__ import annotations

import re

from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import kernel_text, plain
from kscope.model.contract.fixes import Condition, Fix, Proof

TILE, DEEP, EACH = 128, 8, 8  # rows and columns of a block's tile, its depth, rows and columns of a thread's sums
THREADS = (TILE // EACH) ** 2
_SUM = re.compile(
    r"(?P<sum>\w+)\s*\+=\s*(?P<a>\w+)\s*\[(?P<at_a>[^][]+)\]\s*\*\s*(?P<b>\w+)\s*\[(?P<at_b>[^][]+)\]\s*;"
)
_STORE = re.compile(r"(?P<c>\w+)\s*\[(?P<at>[^][]+)\]\s*=(?!=)\s*(?P<value>[^;]+);")
_HEAD = re.compile(r"\bvoid\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)")
KERNEL = """__global__ void __launch_bounds__({threads}) {name}_tiles({parameters}) {{
  __shared__ float a[{deep}][{tile} + 4], b[{deep}][{tile}];
  int t = threadIdx.x, row = t / {across}, col = t % {across};
  const float* from_a = {A} + (size_t)blockIdx.y * {tile} * {n}; const float* from_b = {B} + blockIdx.x * {tile};
  float sum[{each}][{each}] = {{}};
  for (int k0 = 0; k0 < {n}; k0 += {deep}) {{
    #pragma unroll
    for (int i = t; i < {tile} * {deep}; i += {threads}) {{
      a[i % {deep}][i / {deep}] = from_a[(size_t)(i / {deep}) * {n} + k0 + i % {deep}];
      b[i / {tile}][i % {tile}] = from_b[(size_t)(k0 + i / {tile}) * {n} + i % {tile}];
    }}
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < {deep}; k++) {{
      float u[{each}], v[{each}];
      #pragma unroll
      for (int i = 0; i < {each}; i++) {{ u[i] = a[k][row * {each} + i]; v[i] = b[k][col + i * {across}]; }}
      #pragma unroll
      for (int i = 0; i < {each}; i++)
        #pragma unroll
        for (int j = 0; j < {each}; j++) sum[i][j] += u[i] * v[j];
    }}
    __syncthreads();
  }}
  #pragma unroll
  for (int i = 0; i < {each}; i++)
    #pragma unroll
    for (int j = 0; j < {each}; j++)
      {C}[(size_t)(blockIdx.y * {tile} + row * {each} + i) * {n} + blockIdx.x * {tile} + col + j * {across}] = {value};
}}
// launch: {name}_tiles<<<dim3({n} / {tile}, {n} / {tile}), {threads}>>>(...), {n} on the host"""


def fixes(asked: Asked) -> list[Fix]:
    text = kernel_text(asked.setting)
    if text is None or asked.setting.launch is None:
        return []
    head, sums, stores = _HEAD.search(text.code), list(_SUM.finditer(text.code)), list(_STORE.finditer(text.code))
    written = [s for s in stores if re.search(rf"\*\s*(?:__restrict__\s+)?{s['c']}\s*(?=[,)])", text.code)]
    if head is None or len(sums) != 1 or len(written) != 1 or "__shared__" in text.code:
        return []
    one, out = sums[0], written[0]
    n = _square(one, out)
    floats = all(re.search(rf"\bfloat\s*\*\s*(?:__restrict__\s+)?{x}\s*(?:,|$)", head["parameters"])
                 for x in (one["a"], one["b"], out["c"]))  # fmt: skip
    value = re.sub(rf"\b{one['sum']}\b", "sum[i][j]", out["value"].strip())
    known = constants(asked.setting.lines(text.file)).get(n or "", 0)
    passed = bool(re.search(rf"\bint\s+{n}\s*$", head["parameters"]))
    if n is None or not floats or value != "sum[i][j]" or not (passed or known) or known % TILE:
        return []
    loads = 2 * TILE * DEEP / (TILE * TILE * DEEP)
    code = KERNEL.format(
        threads=THREADS, name=head["name"], parameters=head["parameters"], tile=TILE, deep=DEEP, across=TILE // EACH,
        each=EACH, A=one["a"], B=one["b"], C=out["c"], n=n, value=value,
    )  # fmt: skip
    return [
        Fix(
            kind="tile",
            title=f"tiles of {TILE} x {TILE} a block, {EACH} x {EACH} sums a thread",
            language="cuda",
            code=code,
            parameters={"tile": TILE, "depth": DEEP, "sums": EACH * EACH, "block.x": THREADS},
            conditions=[
                Condition(
                    holds=f"{out['c']} = {one['a']} {one['b']}, square and row by row", state="proved",
                    why="the one sum and the one store of the kernel's text",
                ),
                Condition(
                    holds=f"{n} is a multiple of {TILE}", state="proved" if known else "check",
                    why=f"it is {known}" if known else "there is no test for the edges",
                ),
            ],
            proof=[
                Proof(
                    what="elements loaded from global memory a multiplication", before=2, after=round(loads, 4),
                    how=f"{TILE} rows and columns of depth {DEEP} serve {TILE} x {TILE} x {DEEP} multiplications",
                ),
                Proof(
                    what="loads of shared memory a multiplication", before=0, after=2 * EACH / EACH**2,
                    how=f"{2 * EACH} values serve {EACH} x {EACH}",
                ),
            ],
            costs=[f"{4 * DEEP * (2 * TILE + 4)} bytes of shared memory a block", "about 128 registers a thread"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _square(one: re.Match[str], out: re.Match[str]) -> str | None:
    """The name n in `sum += a[y * n + k] * b[k * n + x]` and `c[y * n + x] = sum`; None for anything else."""
    a = re.fullmatch(r"(\w+)\*(\w+)\+(\w+)", plain(one["at_a"]))
    b = re.fullmatch(r"(\w+)\*(\w+)\+(\w+)", plain(one["at_b"]))
    c = re.fullmatch(r"(\w+)\*(\w+)\+(\w+)", plain(out["at"]))
    if a is None or b is None or c is None:
        return None
    same = a[2] == b[2] == c[2] and a[3] == b[1] and c[1] == a[1] and c[3] == b[3]
    return a[2] if same else None
