"""Number formats of inputs and outputs, as numpy stores them: numpy knows no bfloat16, so its bits travel as uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.model.errors import EXIT_USAGE, KscopeError

Floats = NDArray[np.float64]
Raw = NDArray[Any]


class Dtype(Struct, frozen=True):
    """storage: numpy's name of what holds it. unit: half the distance from 1 to the next number (IEEE 754; 0 for
    integers). exact: integers up to here are all there. largest: the largest finite number. c: its name in CUDA C++."""

    name: str
    storage: str
    unit: float
    exact: float
    largest: float
    c: str

    @property
    def size(self) -> int:
        return np.dtype(self.storage).itemsize

    @property
    def whole(self) -> bool:
        return self.unit == 0.0


DTYPES = {
    one.name: one
    for one in (
        Dtype("float64", "float64", 2.0**-53, 2.0**53, 1.79e308, "double"),
        Dtype("float32", "float32", 2.0**-24, 2.0**24, 3.4e38, "float"),
        Dtype("float16", "float16", 2.0**-11, 2.0**11, 65504.0, "__half"),
        Dtype("bfloat16", "uint16", 2.0**-8, 2.0**8, 3.39e38, "__nv_bfloat16"),
        Dtype("int64", "int64", 0.0, 2.0**53, 2.0**62, "long long"),
        Dtype("int32", "int32", 0.0, 2.0**31, 2.0**31 - 1, "int"),
        Dtype("int16", "int16", 0.0, 2.0**15, 2.0**15 - 1, "short"),
        Dtype("int8", "int8", 0.0, 127.0, 127.0, "signed char"),
        Dtype("uint8", "uint8", 0.0, 255.0, 255.0, "unsigned char"),
        Dtype("bool", "bool", 0.0, 1.0, 1.0, "bool"),
    )
}
ALIASES = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "half": "float16",
           "float": "float32", "double": "float64", "int": "int32", "long": "int64"}  # fmt: skip
TF32_UNIT = 2.0**-11  # 10 bits of mantissa (NVIDIA A100 whitepaper, 2020)


def dtype(name: str) -> Dtype:
    """Raises KscopeError (status 2) for a name that is none."""
    found = DTYPES.get(ALIASES.get(name, name))
    if found is None:
        hint = f"known are {', '.join(DTYPES)}"
        raise KscopeError("usage", f"no data type {name!r}", hint, EXIT_USAGE)
    return found


def encode(values: Floats, kind: Dtype) -> Raw:
    """float64 values to storage, rounded to nearest even; integers are cut at the format's range."""
    if kind.name == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        rounded[np.isnan(values)] = 0x7FC0
        return rounded
    if kind.whole and kind.name != "bool":
        values = np.clip(np.rint(values), np.iinfo(kind.storage).min, np.iinfo(kind.storage).max)
    with np.errstate(over="ignore", invalid="ignore"):
        out: Raw = values.astype(kind.storage)
    return out


def decode(raw: Raw, kind: Dtype) -> Floats:
    """Storage to float64, exactly (int64 above 2^53 is rounded)."""
    if kind.name == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.astype(np.float64)
