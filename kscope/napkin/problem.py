"""What an operation needs at least: the bytes that must move once, and the operations, by the unit that does them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.model.errors import EXIT_USAGE, KscopeError

BYTES = {
    "fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5,
}  # fmt: skip
"""Data type -> bytes of an element."""
ALIASES = {
    "f64": "fp64", "double": "fp64", "float64": "fp64", "f32": "fp32", "float": "fp32", "float32": "fp32",
    "f16": "fp16", "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "e4m3": "fp8", "e5m2": "fp8", "f8": "fp8",
    "s8": "int8", "i8": "int8", "u8": "int8", "i4": "int4", "s4": "int4", "u4": "int4", "nvfp4": "fp4", "mxfp4": "fp4",
}  # fmt: skip
MATRIX = {"fp64": "fp64_tensor", "int4": "int8"}
"""Data type -> precision of the peak that a product of it runs at, where the names differ."""


class Operand(Struct, frozen=True):
    """An array that has to be read or written once. bytes: of all of it."""

    name: str
    bytes: float
    written: bool = False


class Product(Struct, frozen=True):
    """The matrix product inside: `batch` of m x n x k; bytes an element of a, b and c."""

    m: int
    n: int
    k: int
    batch: int
    a: float
    b: float
    c: float


class Problem(Struct, frozen=True):
    """text: as one would write it; work: FLOP (or integer operations) by precision of kscope.arch.chips.PRECISIONS;
    special: exponentials and their kind (MUFU); product: for tiles, where there is one; notes: what is counted how."""

    op: str
    text: str
    dims: Mapping[str, float]
    dtype: str
    operands: tuple[Operand, ...]
    work: Mapping[str, float]
    special: float = 0.0
    product: Product | None = None
    notes: tuple[str, ...] = ()

    @property
    def read_bytes(self) -> float:
        return sum(o.bytes for o in self.operands if not o.written)

    @property
    def written_bytes(self) -> float:
        return sum(o.bytes for o in self.operands if o.written)

    @property
    def bytes(self) -> float:
        """Compulsory traffic: every operand once."""
        return self.read_bytes + self.written_bytes

    @property
    def flop(self) -> float:
        return sum(self.work.values())

    @property
    def intensity(self) -> float | None:
        """FLOP a byte of compulsory traffic."""
        return self.flop / self.bytes if self.bytes else None


def wrong(message: str, hint: str) -> KscopeError:
    """A fault of usage."""
    return KscopeError("usage", message, hint, EXIT_USAGE)
