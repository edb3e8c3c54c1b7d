"""The operations that napkin knows: their sizes, options, bytes and FLOP.

FLOP are counted as the field counts them: 2 m n k for a product, two products for attention (five for its gradient,
as FlashAttention counts: Dao, arXiv 2307.08691, section 4.1), half of them where it is causal. Element-wise FLOP are
those of the formula, one an addition, multiplication, comparison or division; exponentials are counted apart
(`special`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from kscope.napkin.problem import BYTES, MATRIX, Operand, Problem, Product, wrong

Dims = Mapping[str, float]
Options = Mapping[str, "float | str"]
SAME = "same"  # an option that names a data type: the problem's own
SCALES = 2.0  # bytes of a group's scale in a quantised weight: fp16


class Operation(Struct, frozen=True):
    """sizes: their names in order; options: name -> default, a data type where it is a str; dtype: the usual one;
    rates: sizes and options that may be 0 or no whole number (options that are 0 by default may be 0, too)."""

    sizes: tuple[str, ...]
    build: Callable[[Dims, Options, str], Problem]
    what: str
    options: Mapping[str, float | str] = {}
    dtype: str = "bf16"
    rates: tuple[str, ...] = ()


def _int(value: float | str) -> int:
    return int(value)


def _cuda(dtype: str) -> str:
    """The CUDA cores that do element-wise work: fp64's own, else fp32's."""
    return "fp64" if dtype == "fp64" else "fp32"


def gemm(d: Dims, o: Options, dtype: str) -> Problem:
    m, n, k, batch = (_int(v) for v in (d["m"], d["n"], d["k"], o["batch"]))
    size = BYTES[dtype]
    out = BYTES[str(o["out"])] if o["out"] != SAME else _out(dtype)
    operands = [Operand("A", batch * m * k * size), Operand("B", batch * k * n * size)]
    if o["beta"]:
        operands.append(Operand("C", batch * m * n * out))
    operands.append(Operand("D" if o["beta"] else "C", batch * m * n * out, written=True))
    work = {MATRIX.get(dtype, dtype): 2.0 * batch * m * n * k}
    text = f"gemm {m}x{n}x{k}" + (f" batch {batch}" if batch > 1 else "") + f" {dtype}"
    return Problem("gemm", text, d, dtype, tuple(operands), work,
                   product=Product(m, n, k, batch, size, size, out))  # fmt: skip


def _out(dtype: str) -> float:
    """Bytes of a result element: as the operands, two bytes for narrower ones."""
    return max(BYTES[dtype], 2.0)


def quantised(d: Dims, o: Options, dtype: str) -> Problem:
    m, n, k = (_int(v) for v in (d["m"], d["n"], d["k"]))
    size, weight = BYTES[dtype], BYTES[str(o["weights"])]
    weight += SCALES / float(o["group"]) if o["group"] else 0.0
    operands = (
        Operand("activations", m * k * size), Operand("weights", k * n * weight), Operand("result", m * n * size, True),
    )  # fmt: skip
    text = f"qgemm {m}x{n}x{k} {dtype} by {o['weights']}" + (f" in groups of {o['group']:g}" if o["group"] else "")
    return Problem("qgemm", text, d, dtype, operands, {MATRIX.get(dtype, dtype): 2.0 * m * n * k},
                   product=Product(m, n, k, 1, size, weight, size),
                   notes=(f"products run at {dtype}; unpacking the weights is not counted",))  # fmt: skip


def moe(d: Dims, o: Options, dtype: str) -> Problem:
    tokens, experts, top, hidden, inner = (_int(d[name]) for name in ("tokens", "experts", "top", "hidden", "inner"))
    size, matrices = BYTES[dtype], _int(o["matrices"])
    weight = BYTES[str(o["weights"])] if o["weights"] != SAME else size
    routed = tokens * top
    active = float(experts)  # expected to be used, were the routing uniform
    if top < experts:
        active *= -math.expm1(tokens * math.log1p(-top / experts))
    operands = (
        Operand("tokens", tokens * hidden * size),
        Operand("weights", active * matrices * hidden * inner * weight),
        Operand("result", tokens * hidden * size, True),
    )
    text = f"moe of {tokens} tokens, {top} of {experts} experts, {hidden}x{inner}, {dtype}"
    each = max(1, round(routed / active))
    note = f"{active:.1f} experts are used by uniform routing, {each} tokens each; between the layers nothing is stored"
    return Problem("moe", text, d, dtype, operands,
                   {MATRIX.get(dtype, dtype): 2.0 * routed * matrices * hidden * inner},
                   product=Product(each, inner, hidden, max(1, round(active)) * matrices, size, weight, size),
                   notes=(note,))  # fmt: skip


def conv(d: Dims, o: Options, dtype: str) -> Problem:
    n, c, h, w, k, r, s = (_int(d[name]) for name in ("n", "c", "h", "w", "k", "r", "s"))
    stride, groups, size = _int(o["stride"]), _int(o["groups"]), BYTES[dtype]
    padding = float(o["padding"])
    p, q = (_int((side + 2 * padding - tap) // stride + 1) for side, tap in ((h, r), (w, s)))
    if p < 1 or q < 1 or c % groups or k % groups:
        raise wrong(f"conv of {h}x{w} by {r}x{s} with {groups} groups has no result", "check sizes, padding and groups")
    deep = c // groups * r * s
    operands = (
        Operand("input", n * c * h * w * size), Operand("filter", k * deep * size),
        Operand("output", n * k * p * q * _out(dtype), True),
    )  # fmt: skip
    text = f"conv {n}x{c}x{h}x{w} by {k} of {r}x{s}, stride {stride}, padding {padding:g}"
    text += f", {groups} groups" if groups > 1 else ""
    return Problem("conv", f"{text}, {dtype}", d, dtype, operands,
                   {MATRIX.get(dtype, dtype): 2.0 * n * p * q * k * deep},
                   product=Product(n * p * q, k // groups, deep, groups, size, size, _out(dtype)),
                   notes=("counted as the implicit product; Winograd and FFT do fewer multiplications",))  # fmt: skip


def attention(d: Dims, o: Options, dtype: str) -> Problem:
    return _attention(d, o, dtype, backward=False)


def attention_backward(d: Dims, o: Options, dtype: str) -> Problem:
    return _attention(d, o, dtype, backward=True)


def _attention(d: Dims, o: Options, dtype: str, *, backward: bool) -> Problem:
    batch, heads, length, depth = (_int(d[name]) for name in ("batch", "heads", "length", "depth"))
    kv_heads, kv_length = _int(o["kv_heads"]) or heads, _int(o["kv_length"]) or length
    if heads % kv_heads:
        raise wrong(f"{heads} heads cannot share {kv_heads} of keys and values", "kv_heads divides heads")
    size = BYTES[dtype]
    pairs = float(length) * kv_length
    if o["causal"]:  # query i sees the keys up to its own position, the queries being the last ones
        square = min(length, kv_length)
        pairs -= square * (square - 1) / 2
    q, kv = batch * heads * length * depth * size, batch * kv_heads * kv_length * depth * size
    products = 5 if backward else 2
    operands = [Operand("Q", q), Operand("K", kv), Operand("V", kv)]
    if backward:
        statistics = batch * heads * length * 4.0
        operands += [Operand("O", q), Operand("dO", q), Operand("logsumexp", statistics), Operand("dQ", q, True),
                     Operand("dK", kv, True), Operand("dV", kv, True)]  # fmt: skip
    else:
        operands.append(Operand("O", q, True))
    text = f"attention{' backward' if backward else ''} {batch}x{heads}x{length}x{depth}"
    text += f", {kv_heads} heads of K and V" if kv_heads != heads else ""
    text += f", {kv_length} keys" if kv_length != length else ""
    text += ", causal" if o["causal"] else ""
    return Problem("attention-bwd" if backward else "attention", f"{text}, {dtype}", d, dtype, tuple(operands),
                   {MATRIX.get(dtype, dtype): 2.0 * products * batch * heads * pairs * depth},
                   special=float(batch) * heads * pairs,
                   notes=("scores are not stored; softmax counts as one exponential a score",))  # fmt: skip


def softmax(d: Dims, o: Options, dtype: str) -> Problem:
    return _rows("softmax", d, dtype, flop=4, special=1, gains=0)  # maximum, subtract, sum, divide


def layernorm(d: Dims, o: Options, dtype: str) -> Problem:
    return _rows("layernorm", d, dtype, flop=7, special=0, gains=2)  # sum, subtract, square, sum, scale, gamma, beta


def rmsnorm(d: Dims, o: Options, dtype: str) -> Problem:
    return _rows("rmsnorm", d, dtype, flop=4, special=0, gains=1)  # square, sum, scale, gamma


def _rows(name: str, d: Dims, dtype: str, *, flop: int, special: int, gains: int) -> Problem:
    rows, cols, size = _int(d["rows"]), _int(d["cols"]), BYTES[dtype]
    operands = [Operand("x", rows * cols * size)]
    if gains:
        operands.append(Operand("gamma and beta" if gains == 2 else "gamma", gains * cols * size))
    operands.append(Operand("y", rows * cols * size, True))
    return Problem(name, f"{name} {rows}x{cols} {dtype}", d, dtype, tuple(operands),
                   {_cuda(dtype): float(flop) * rows * cols}, special=float(special) * rows * cols)  # fmt: skip


def elementwise(d: Dims, o: Options, dtype: str) -> Problem:
    n, size = float(d["n"]), BYTES[dtype]
    ins, outs, flop = float(o["inputs"]), float(o["outputs"]), float(o["flop"])
    operands = (Operand("inputs", n * ins * size), Operand("outputs", n * outs * size, True))
    text = f"elementwise of {n:.0f} {dtype}, {ins:g} in, {outs:g} out"
    return Problem("elementwise", text, d, dtype, operands, {_cuda(dtype): flop * n}, special=float(o["special"]) * n)


def reduce(d: Dims, o: Options, dtype: str) -> Problem:
    n, out, size = float(d["n"]), float(o["to"]), BYTES[dtype]
    operands = (Operand("x", n * size), Operand("sums", out * size, True))
    return Problem("reduce", f"reduce {n:.0f} to {out:.0f} {dtype}", d, dtype, operands, {_cuda(dtype): n})


def scan(d: Dims, o: Options, dtype: str) -> Problem:
    n, size = float(d["n"]), BYTES[dtype]
    operands = (Operand("x", n * size), Operand("y", n * size, True))
    return Problem("scan", f"scan of {n:.0f} {dtype}", d, dtype, operands, {_cuda(dtype): n},
                   notes=("one pass (decoupled look-back); two passes read twice",))  # fmt: skip


def transpose(d: Dims, o: Options, dtype: str) -> Problem:
    m, n, size = _int(d["m"]), _int(d["n"]), BYTES[dtype]
    operands = (Operand("x", m * n * size), Operand("y", m * n * size, True))
    return Problem("transpose", f"transpose {m}x{n} {dtype}", d, dtype, operands, {})


def custom(d: Dims, o: Options, dtype: str) -> Problem:
    flop, moved = float(d["flop"]), float(d["bytes"])
    precision = MATRIX.get(dtype, dtype) if o["tensor"] or dtype not in ("fp32", "fp64") else dtype
    text = f"{flop:.4g} FLOP {precision} over {moved:.4g} B"
    return Problem("custom", text, d, dtype, (Operand("data", moved),), {precision: flop} if flop else {})


OPERATIONS: dict[str, Operation] = {
    "gemm": Operation(("m", "n", "k"), gemm, "C = A B; beta: C is read as well",
                      {"batch": 1.0, "beta": 0.0, "out": SAME}),
    "qgemm": Operation(("m", "n", "k"), quantised, "products with quantised weights",
                       {"weights": "int4", "group": 128.0}, rates=("group",)),
    "attention": Operation(("batch", "heads", "length", "depth"), attention, "softmax(Q K^T) V in one kernel",
                           {"causal": 0.0, "kv_heads": 0.0, "kv_length": 0.0}),
    "attention-bwd": Operation(("batch", "heads", "length", "depth"), attention_backward, "its gradient",
                               {"causal": 0.0, "kv_heads": 0.0, "kv_length": 0.0}),
    "softmax": Operation(("rows", "cols"), softmax, "over rows"),
    "layernorm": Operation(("rows", "cols"), layernorm, "over rows, with gain and bias"),
    "rmsnorm": Operation(("rows", "cols"), rmsnorm, "over rows, with gain"),
    "elementwise": Operation(("n",), elementwise, "flop and special (exponentials): an element",
                             {"inputs": 1.0, "outputs": 1.0, "flop": 1.0, "special": 0.0}, "fp32",
                             ("inputs", "outputs", "flop", "special")),
    "conv": Operation(("n", "c", "h", "w", "k", "r", "s"), conv, "n images of c x h x w by k filters of r x s",
                      {"stride": 1.0, "padding": 0.0, "groups": 1.0}),
    "reduce": Operation(("n",), reduce, "n values to few", {"to": 1.0}, "fp32"),
    "scan": Operation(("n",), scan, "prefix sums", {}, "fp32"),
    "transpose": Operation(("m", "n"), transpose, "out of place", {}, "fp32"),
    "moe": Operation(("tokens", "experts", "top", "hidden", "inner"), moe,
                     "feed-forward layers of experts; matrices: 3 for gated ones, 2 for plain",
                     {"matrices": 3.0, "weights": SAME}),
    "custom": Operation(("flop", "bytes"), custom, "given FLOP and bytes; tensor: on tensor cores",
                        {"tensor": 0.0}, "fp32", ("flop", "bytes")),
}  # fmt: skip
"""What `kscope napkin` knows, by name."""
