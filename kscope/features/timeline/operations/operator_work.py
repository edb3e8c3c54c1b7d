"""What an operator of PyTorch needs at least, from the sizes of its arguments (record_shapes=True): FLOP as the field
counts them (2 m n k for a product), and compulsory bytes: each tensor that it takes read once, each that it makes
written once. Where a size, a type or an option that matters is not recorded there is no answer.

Signatures: PyTorch's native_functions.yaml (2.0 to 2.8). A causal mask halves what attention needs; FLOP of attention's
gradient are 2.5 times those of attention (Dao, arXiv 2307.08691, section 4.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod

from msgspec import Struct

from kscope.model.timeline import Inputs

_BYTES = {
    "double": 8, "float": 4, "half": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "long": 8, "long int": 8, "int": 4, "short": 2, "short int": 2, "signed char": 1,
    "unsigned char": 1, "bool": 1, "byte": 1, "char": 1,
}  # fmt: skip
_PRECISION = {
    "double": "fp64", "float": "fp32", "half": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
"""Types as c10 writes them, without their namespace."""


class Work(Struct, frozen=True):
    """flop: of matrix products, 0 for element-wise work; precision: of their operands, or ""; bytes: compulsory."""

    flop: float
    bytes: float
    precision: str = ""


class _Tensor(Struct, frozen=True):
    dims: tuple[int, ...]
    type: str
    stored: int  # elements that differ in their place: an expanded dimension has one

    @property
    def size(self) -> int:
        return prod(self.dims)

    @property
    def bytes(self) -> float:
        return self.stored * _BYTES[self.type]


class _Unknown(Exception):
    """The recording does not say enough."""


class _Given:
    """The arguments of one call."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def tensor(self, at: int, least: int = 0) -> _Tensor:
        """The tensor at a place, of at least so many dimensions. Raises _Unknown."""
        found = self.maybe(at)
        if found is None or len(found.dims) < least:
            raise _Unknown
        return found

    def maybe(self, at: int) -> _Tensor | None:
        inputs = self.inputs
        if at >= len(inputs.dims) or at >= len(inputs.types) or not inputs.dims[at]:
            return None
        type_ = inputs.types[at].removeprefix("c10::").lower()
        if type_ not in _BYTES:
            return None
        dims = inputs.dims[at]
        strides = inputs.strides[at] if at < len(inputs.strides) and len(inputs.strides[at]) == len(dims) else dims
        return _Tensor(dims, type_, prod(d for d, s in zip(dims, strides, strict=True) if s or d == 0))

    def tensors(self) -> list[_Tensor]:
        found = [self.maybe(at) for at in range(len(self.inputs.dims))]
        return [t for t in found if t is not None]

    def numbers(self, at: int) -> tuple[int, ...]:
        """The integers of a value such as `[1, 1]`. Raises _Unknown."""
        text = self.inputs.values[at] if at < len(self.inputs.values) else ""
        if not re.fullmatch(r"\[?[-\d, ]+\]?", text, re.ASCII):
            raise _Unknown
        return tuple(int(n) for n in re.findall(r"-?\d{1,9}", text))

    def true(self, at: int) -> bool:
        """A boolean. Raises _Unknown."""
        text = (self.inputs.values[at] if at < len(self.inputs.values) else "").lower()
        if text not in ("true", "false", "1", "0"):
            raise _Unknown
        return text in ("true", "1")


def work(name: str, inputs: Inputs) -> Work | None:
    """What one call needs; None where nobody knows."""
    maker = _MAKERS.get(name.removeprefix("aten::")) if name.startswith("aten::") else None
    if maker is None:
        return None
    try:
        return maker(_Given(inputs))
    except (_Unknown, IndexError, KeyError, ZeroDivisionError):
        return None


def _product(first: int, *, batched: bool = False, out: int = 0) -> Callable[[_Given], Work]:
    """A product of the tensors at `first` and behind it; what comes before is added. out: bytes of a result's element,
    as the operands' where 0."""

    def made(given: _Given) -> Work:
        a, b = (given.tensor(first + i, 3 if batched else 2) for i in (0, 1))
        batch = a.dims[0] if batched else 1
        (m, k), n = a.dims[-2:], b.dims[-1]
        if b.dims[-2] != k or (batched and b.dims[0] != batch):
            raise _Unknown
        result = batch * m * n * (out or _BYTES[a.type])
        added = given.tensor(0).bytes if first else 0.0
        return Work(2.0 * batch * m * n * k, a.bytes + b.bytes + result + added, _precision(a.type))

    return made


def _precision(type_: str) -> str:
    if type_ not in _PRECISION:
        raise _Unknown
    return _PRECISION[type_]


def _convolution(options: int) -> Callable[[_Given], Work]:
    """(input, weight, ...) with padding, stride, dilation, groups from `options` on."""

    def made(given: _Given) -> Work:
        data, weight = given.tensor(0, 3), given.tensor(1, 3)
        padding, stride, dilation = (given.numbers(options + i) for i in range(3))
        place = data.dims[2:]
        kernel = weight.dims[2:]
        out = [
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, p, s, d in zip(place, kernel, _each(padding, place), _each(stride, place),
                                        _each(dilation, place), strict=True)
        ]  # fmt: skip
        made = data.dims[0] * weight.dims[0] * prod(out)
        flop = 2.0 * made * prod(weight.dims[1:])
        return Work(flop, data.bytes + weight.bytes + made * _BYTES[data.type], _precision(data.type))

    return made


def _each(values: Sequence[int], place: Sequence[int]) -> Sequence[int]:
    return values if len(values) == len(place) else [values[0]] * len(place)


def _convolution_backward(given: _Given) -> Work:
    """(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)."""
    grad, data, weight = (given.tensor(i, 3) for i in range(3))
    mask = re.findall(r"true|false|1|0", given.inputs.values[10].lower())
    if given.true(7) or len(mask) != 3:
        raise _Unknown
    wanted = [word in ("true", "1") for word in mask]
    each = 2.0 * grad.size * prod(weight.dims[1:])
    moved = grad.bytes
    moved += wanted[0] * (weight.bytes + data.size * _BYTES[data.type])
    moved += wanted[1] * (data.bytes + weight.size * _BYTES[weight.type])
    return Work(each * (wanted[0] + wanted[1]), moved, _precision(data.type))


def _attention(first: int, causal: int, heads_last: bool, times: float = 1.0) -> Callable[[_Given], Work]:
    """(query, key, value) from `first` on; causal: the place of the mask's flag. heads_last: batch, sequence, heads,
    width; else batch, heads, sequence, width. times: 2.5 for the gradient."""
    at = 1 if heads_last else 2

    def made(given: _Given) -> Work:
        query, key, value = (given.tensor(first + i, 4) for i in range(3))
        masked = 0.5 if given.true(causal) and query.dims[at] == key.dims[at] else 1.0
        if given.true(causal) and masked == 1.0:
            raise _Unknown  # how much of a mask is left depends on where it begins
        heads = query.dims[3 - at]
        pairs = query.dims[0] * heads * query.dims[at] * key.dims[at]
        flop = 2.0 * pairs * (query.dims[3] + value.dims[3]) * masked * times
        result = query.dims[0] * heads * query.dims[at] * value.dims[3] * _BYTES[query.type]
        reads = query.bytes + key.bytes + value.bytes
        return Work(flop, reads + result if times == 1 else 2 * (reads + result), _precision(query.type))

    return made


def _passes(reads: Sequence[int], writes: int = 1) -> Callable[[_Given], Work]:
    """Tensors at these places are read, and as much as the first of them is written so many times."""

    def made(given: _Given) -> Work:
        taken = [given.tensor(at) for at in reads]
        return Work(0.0, sum(t.bytes for t in taken) + writes * taken[0].size * _BYTES[taken[0].type])

    return made


def _elementwise(given: _Given) -> Work:
    """All tensors are read once; the result has their joint size and the widest of their floating types."""
    taken = given.tensors()
    if not taken or any(_BYTES[t.type] != _BYTES[taken[0].type] for t in taken):
        raise _Unknown
    rank = max(len(t.dims) for t in taken)
    joint = [max((t.dims[-i] for t in taken if len(t.dims) >= i), default=1) for i in range(1, rank + 1)]
    return Work(0.0, sum(t.bytes for t in taken) + prod(joint) * _BYTES[taken[0].type])


def _in_place(given: _Given) -> Work:
    """The first tensor is read and written, the others are read."""
    taken = given.tensors()
    if not taken:
        raise _Unknown
    return Work(0.0, sum(t.bytes for t in taken) + taken[0].bytes)


_POINTWISE = (
    "add", "sub", "mul", "div", "gelu", "relu", "silu", "sigmoid", "tanh", "exp", "log", "neg", "rsqrt", "sqrt", "pow",
    "clamp_min", "clamp", "leaky_relu", "hardtanh", "hardswish", "softplus", "square", "abs", "sin", "cos",
    "reciprocal", "threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward",
)  # fmt: skip
_MAKERS: dict[str, Callable[[_Given], Work]] = {
    "mm": _product(0), "addmm": _product(1), "bmm": _product(0, batched=True), "baddbmm": _product(1, batched=True),
    "_scaled_mm": _product(0, out=1),
    "cudnn_convolution": _convolution(2), "miopen_convolution": _convolution(3),
    "convolution_backward": _convolution_backward,
    "_flash_attention_forward": _attention(0, 8, True), "_flash_attention_backward": _attention(1, 11, True, 2.5),
    "_cudnn_attention_forward": _attention(0, 10, False),
    "native_layer_norm": _passes([0]), "native_layer_norm_backward": _passes([0, 1]), "_fused_rms_norm": _passes([0]),
    "_softmax": _passes([0]), "_log_softmax": _passes([0]), "_softmax_backward_data": _passes([0, 1]),
    "_log_softmax_backward_data": _passes([0, 1]), "native_dropout": _passes([0]),
    **dict.fromkeys(_POINTWISE, _elementwise), **{f"{name}_": _in_place for name in _POINTWISE},
}  # fmt: skip
"""Operators that issue kernels of their own. A result of _scaled_mm has a type of its own: a byte at least."""
