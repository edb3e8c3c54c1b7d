"""Names of types in texts that are played, and how many elements they have."""

from __future__ import annotations

QUALIFIERS = {"const", "volatile", "static", "constexpr", "__restrict__", "register"}
VECTORS = {f"{kind}{n}": n for kind in ("float", "int", "uint", "double") for n in (2, 3, 4)}
"""Elements of a vector type."""

HALVES, PAIRS = ("__half", "__nv_bfloat16"), ("__half2", "__nv_bfloat162")  # numbers of two bytes, two of them
WHOLE = {"int32_t", "uint32_t", "int64_t", "uint64_t", "uint"}
TYPES = {"int", "unsigned", "float", "double", "size_t", "long", "short", "char", "bool", "auto", *WHOLE, *VECTORS,
          *HALVES, *PAIRS}  # fmt: skip
