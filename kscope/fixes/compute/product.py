"""A matrix product whose threads read both factors for every multiplication: a kernel with tiles in shared memory and
sums of 8 x 8 in registers, with the same parameters."""

from __future__ import annotations

import re

from kscope.fixes.compute.crossed import hides
from kscope.fixes.compute.multiplied import loaded, product, rows
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import WRITES, kernel_text, loops, plain
from kscope.model.contract.fixes import Condition, Fix, Proof

TILE, DEEP, EACH = 128, 8, 8  # rows and columns of a block's tile, its depth, rows and columns of a thread's sums
THREADS = (TILE // EACH) ** 2
LESS = 1.5  # times what a multiplication loads now: for less a new kernel is not worth its lines (judged)
_SUM = re.compile(
    r"(?P<sum>\w+)\s*\+=\s*(?P<a>\w+)\s*\[(?P<at_a>[^][]+)\]\s*\*\s*(?P<b>\w+)\s*\[(?P<at_b>[^][]+)\]\s*;"
)
_STORE = re.compile(r"(?P<c>\w+)\s*\[(?P<at>[^][]+)\]\s*=(?!=)\s*(?P<value>[^;]+);")
_TERM = re.compile(r"(\w+)\*(\w+)\+(\w+)")
_INDEX = r"blockIdx\.([xy])\*(\d+|blockDim\.\1)\+threadIdx\.\1"
_TILED = re.compile(
    r"(?P<sum>\w+)\s*\+=\s*(?P<p>\w+)\s*\[(?P<u>\w+)\]\s*\[(?P<k>\w+)\]\s*\*\s*"
    r"(?P<q>\w+)\s*\[(?P=k)\]\s*\[(?P<v>\w+)\]\s*;"
)
_PUT = re.compile(r"\b(\w+)\[(\w+)\]\[(\w+)\]\s*=\s*(\w+)\[([^][]+)\]\s*;")
_HEAD = re.compile(r"\bvoid\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)")
KERNEL = """__global__ void __launch_bounds__({threads}) {name}_tiles({parameters}) {{
  __shared__ float {u}[{deep}][{tile} + 4], {v}[{deep}][{tile}];
  int t = threadIdx.x, row = t / {across}, col = t % {across};
  const float* from_a = {A} + (size_t)blockIdx.y * {tile} * {n}; const float* from_b = {B} + blockIdx.x * {tile};
  float sum[{each}][{each}] = {{}};
  for (int k0 = 0; k0 < {n}; k0 += {deep}) {{
    #pragma unroll
    for (int i = t; i < {tile} * {deep}; i += {threads}) {{
      {u}[i % {deep}][i / {deep}] = from_a[(size_t)(i / {deep}) * {n} + k0 + i % {deep}];
      {v}[i / {tile}][i % {tile}] = from_b[(size_t)(k0 + i / {tile}) * {n} + i % {tile}];
    }}
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < {deep}; k++) {{
      float u[{each}], v[{each}];
      #pragma unroll
      for (int i = 0; i < {each}; i++) {{ u[i] = {u}[k][row * {each} + i]; v[i] = {v}[k][col + i * {across}]; }}
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
    text, launch = kernel_text(asked.setting), asked.setting.launch
    head = _HEAD.search(text.code) if text is not None else None
    if text is None or launch is None or head is None:
        return []
    played = product(asked.setting, text, head["parameters"])
    found = (played.a, played.b, played.n, played.c, "sum[i][j]") if played is not None else _read(text.code)
    results = rows(asked.setting) ** 2 if played is not None else launch.threads * launch.blocks
    if found is None or results < asked.setting.sms * TILE**2:
        return []  # fewer tiles than SMs would leave some without
    a, b, n, c, value = found
    right = _floats(head["parameters"], (a, b, c)) and not hides(head["parameters"], n)
    known = constants(asked.setting.lines(text.file)).get(n, 0)
    passed = bool(re.search(rf"\bint\s+{n}\s*$", head["parameters"]))
    if not right or value != "sum[i][j]" or not (passed or known) or known % TILE:
        return []
    loads = 2 * TILE * DEEP / (TILE * TILE * DEEP)
    now = loaded(asked.setting) if played is not None else (2.0, 0.0)
    if now[0] < LESS * loads and now[1] < LESS * 2 * EACH / EACH**2:
        return []
    u, v = _tiles(a, b, c, n)
    code = KERNEL.format(
        threads=THREADS, name=head["name"], parameters=head["parameters"], tile=TILE, deep=DEEP, across=TILE // EACH,
        each=EACH, A=a, B=b, C=c, n=n, value=value, u=u, v=v,
    )  # fmt: skip
    return [
        Fix(
            kind="tile",
            title=f"tiles of {TILE} x {TILE} a block, {EACH} x {EACH} sums a thread",
            language="cuda",
            code=code,
            parameters={"tile": TILE, "depth": DEEP, "sums": EACH * EACH, "block.x": THREADS},
            conditions=[
                reads(f"{c} = {a} {b}, square and row by row", "its one sum and its one store") if played is None else
                proved(f"{c} = {a} {b}, square and row by row", "values", played.compared,
                       "the kernel played on whole numbers drawn at random, every result compared"),
                reads(f"{n} is a multiple of {TILE}", f"it is {known}") if known else
                Condition(holds=f"{n} is a multiple of {TILE}", state="check", why="there is no test for the edges"),
            ],
            proof=[
                Proof(
                    what="elements loaded from global memory a multiplication", before=round(now[0], 4),
                    after=round(loads, 4),
                    how=f"{TILE} rows and columns of depth {DEEP} serve {TILE} x {TILE} x {DEEP} multiplications",
                ),
                Proof(
                    what="loads of shared memory a multiplication", before=round(now[1], 4),
                    after=2 * EACH / EACH**2,
                    how=f"{2 * EACH} values serve {EACH} x {EACH}",
                ),
            ],
            costs=[f"{4 * DEEP * (2 * TILE + 4)} bytes of shared memory a block", "about 128 registers a thread"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _floats(parameters: str, arrays: tuple[str, ...]) -> bool:
    return all(re.search(rf"\bfloat\s*\*\s*(?:__restrict__\s+)?{x}\s*(?:,|$)", parameters) for x in arrays)


def _tiles(*taken: str) -> tuple[str, str]:
    """Names of both tiles: others than the parameters', which they would hide."""
    return ("a_tile", "b_tile") if {"a", "b"} & {*taken} else ("a", "b")


Found = tuple[str, str, str, str]
"""Names of the factors, of n, of the sum."""


def _read(code: str) -> tuple[str, str, str, str, str] | None:
    """Names of the factors, of n, of the result, and what is stored, as the text reads."""
    sums, stores = list(_SUM.finditer(code)), list(_STORE.finditer(code))
    written = [s for s in stores if re.search(rf"\*\s*(?:__restrict__\s+)?{s['c']}\s*(?=[,)])", code)]
    if len(written) != 1 or len(sums) > 1:
        return None
    (out,) = written
    found = _square(code, sums[0], out) if sums and "__shared__" not in code else _shared(code, out)
    if found is None:
        return None
    a, b, n, one = found
    if not _whole(code, one, n):
        return None
    return a, b, n, out["c"], re.sub(rf"\b{one}\b", "sum[i][j]", out["value"].strip())


def _whole(code: str, s: str, n: str) -> bool:
    """Whether a sum of floats starts at zero, goes over all of a row, and is nothing but the sum where it is stored."""
    body, every = code[code.find("{") :], loops(code)
    declared = re.findall(rf"\bfloat\s+(?:[^;()]*,\s*)?{s}\s*=\s*0(?:\.0*)?f?\s*[,;]", body)
    ends = [one for one in every if one.end == n and one.start == "0"]
    ways = re.search(r"\b(?:if|while|do|switch|return|break|continue|goto|asm|atomic\w*|double|half|__half)\b|\?", body)
    return len(declared) == 1 and len(re.findall(WRITES.replace("{x}", s), body)) == 2 and len(ends) == 1 and not ways


def _square(code: str, one: re.Match[str], out: re.Match[str]) -> Found | None:
    """`sum += a[y * n + k] * b[k * n + x]` and `c[y * n + x] = sum`; None for anything else."""
    a, b, c = (_TERM.fullmatch(plain(x)) for x in (one["at_a"], one["at_b"], out["at"]))
    if a is None or b is None or c is None:
        return None
    same = a[2] == b[2] == c[2] and a[3] == b[1] and c[1] == a[1] and c[3] == b[3]
    row, column = (re.fullmatch(_INDEX, plain(name, code)) for name in (c[1], c[3]))
    same = same and row is not None and column is not None and row[1] != column[1]
    return (one["a"], one["b"], a[2], one["sum"]) if same else None


def _shared(code: str, out: re.Match[str]) -> Found | None:
    """The same by tiles in shared memory, one result a thread: what threads put into the tiles is what the sum over
    them reads. Thread (u, v) of a block of w x w puts a[y * n + k0 + v] and b[(k0 + u) * n + x] at [u][v]."""
    sums = list(_TILED.finditer(code))
    c = _TERM.fullmatch(plain(out["at"]))
    if len(sums) != 1 or c is None or code.count("+=") > 2:
        return None
    (one,) = sums
    u, v, k, n = one["u"], one["v"], one["k"], c[2]
    puts = {m[1]: (m[2], m[3], m[4], plain(m[5])) for m in _PUT.finditer(code)}
    first, second = puts.get(one["p"]), puts.get(one["q"])
    declared = " ".join(re.findall(r"__shared__\s+float\s([^;]*;)", code))
    width = re.findall(rf"\b(?:{one['p']}|{one['q']})\s*\[\s*(\w+)\s*\]\s*\[\s*(\w+)\s*\]\s*[,;]", declared)
    if first is None or second is None or len(puts) != 2 or len({w for pair in width for w in pair}) != 1:
        return None
    (w, _), *_ = width
    every = rf"for\s*\(\s*int\s+(\w+)\s*=\s*0\s*;\s*\1\s*<\s*{n}\s*;\s*\1\s*\+=\s*{w}\s*\)"
    outer = re.search(every, code)
    inner = re.search(rf"for\s*\(\s*int\s+{k}\s*=\s*0\s*;\s*{k}\s*<\s*{w}\s*;\s*{k}\+\+\s*\)", code)
    if outer is None or inner is None:
        return None
    k0 = outer[1]
    right = (
        first[:2] == second[:2] == (u, v)
        and first[3] == f"{c[1]}*{n}+{k0}+{v}"
        and second[3] == f"({k0}+{u})*{n}+{c[3]}"
        and plain(c[1], code) == f"blockIdx.y*{w}+{u}"
        and plain(c[3], code) == f"blockIdx.x*{w}+{v}"
        and plain(u, code) in ("threadIdx.y", f"threadIdx.x/{w}")
        and plain(v, code) in ("threadIdx.x", f"threadIdx.x%{w}")
    )
    return (first[2], second[2], n, one["sum"]) if right else None
