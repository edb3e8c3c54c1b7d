"""One bulk copy instead of a lane's each: which loops are nothing but that."""

from __future__ import annotations

import pytest

from kscope.fixes.given import text
from kscope.fixes.work import elected

CODE = (
    "int t = threadIdx.x;"
    " for (int e = t; e < N; e += 256) bulk_load(to + s * 64 + e * 16, from + e, 16, full + s * 8);"
)


@pytest.mark.parametrize(
    ("was", "becomes", "right"),
    [
        ("e += 256", "e += 256", True),
        ("e += 256", "e += blockDim.x", True),
        ("e += 256", "e += 128", False),  # another block's worth
        ("e * 16", "e * 32", False),  # gaps in shared memory
        ("from + e", "from + 2 * e", False),
        ("from + e", "from + index[e]", False),  # scattered
        ("full + s * 8", "full + e * 8", False),  # a barrier each
        (", 16,", ", 32,", False),
        ("int e = t", "int e = 0", False),
        ("e < N", "e < n", False),  # no number
        ("bulk_load(", "count++; bulk_load(", False),
    ],
)
def test_pieces_that_are_one_tile(was: str, becomes: str, right: bool) -> None:
    code = CODE.replace(was, becomes)
    (loop,) = text.loops(code)
    found = elected._copies(code, loop, 256, {"N": 1024})
    assert (found is not None) is right
    if found is not None:
        assert found.new == "{ if (t == 0) bulk_load(to + s * 64, from, 16384, full + s * 8); }"
        assert found.count == 1024
