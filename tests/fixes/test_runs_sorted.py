"""Rows that are added to places of an index, in an order that the host makes once."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.fixes.atomics.reading import read
from kscope.fixes.given.text import Text
from kscope.fixes.order.runs import rows, written
from kscope.fixes.order.runs_sorted import ORDER, same, sorting
from tests.fixes.test_runs import COLUMNS, GUARDED, HEAD, kernel
from tests.support.with_sources import changes


def test_the_capture_of_an_embeddings_gradient() -> None:
    first, second = changes("embed_grad.scatter", "MEM109")
    assert first.kind == second.kind == "jam" and "sorted by token[] once" in first.title
    text = first.edits[0].becomes
    assert "float* __restrict__ out, const int* __restrict__ order_n) {" in text and "__shfl_sync" not in text
    assert "const int place_n = order_n[blockIdx.x * 32 + threadIdx.x];" in text
    assert "key_n[threadIdx.x] = token[place_n];" in text
    assert "const unsigned block_n = row_n[round_n];" in text and not any(e.becomes for e in first.edits[1:])
    assert "  sorted_n[at_n] = (int)at_n;\n  by_n[at_n] = token[(int)at_n];" in first.code
    assert "// launch: embed_grad_scatter<<<1024, 256>>>(token, g, out, order_n);" in first.code
    assert first.above == first.edits[0].line and "order_n" not in second.edits[0].becomes
    assert first.conditions[0].state == "proved" and first.conditions[0].ran > 1000
    assert [c.state for c in first.conditions[2:]] == ["check"] * 3


@pytest.mark.parametrize(("body", "key"), [(COLUMNS, "int64_t"), (GUARDED, "int")], ids="cg")
@pytest.mark.parametrize("count", [32, 16])
def test_variants_come_out_the_same(body: str, key: str, count: int) -> None:
    whole = kernel(body)
    one = rows(whole)
    made = sorting(whole, "add", one) if one is not None else None
    assert one is not None and made is not None and made.key == key
    new = written(one, count, ORDER)
    assert same(whole, one, made, new, 64, count) > 100
    if count == 32:
        return
    for old, wrong in (
        ("sum_n = 0;\n    ", "\n"),
        (f"{ORDER}[blockIdx.x * {count} + threadIdx.x]", f"{ORDER}[threadIdx.x]"),
        ("block_n = row_n[round_n]", "block_n = round_n"),
        (f"round_n == {count - 1} || ", ""),
        ("__syncthreads();", ""),
    ):
        assert old in new and same(whole, one, made, new.replace(old, wrong), 64, count) == 0, old
    assert same(whole, one, structs.replace(made, value="0"), new, 64, count) == 0  # not each row once


def test_an_index_of_more_than_the_row_is_found_by_the_host_too() -> None:
    whole = kernel(GUARDED)
    one = rows(whole)
    made = sorting(whole, "add", one) if one is not None else None
    assert made is not None and "by_n[at_n] = two[(int)at_n * 2 + 1];" in made.body


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (HEAD.replace("int width", "int width, const int* order_n"), COLUMNS),
        (HEAD.replace("int width", "int width = 3"), COLUMNS),
        (HEAD, COLUMNS.replace("float v", "int sorted_n = 0; float v")),
    ],
)
def test_names_and_parameters_that_are_not_taken_over(head: str, body: str) -> None:
    code = head + body
    whole = read(Text("a.cu", 1, code), "add", code.split("\n"))
    assert whole is not None
    one = rows(whole)
    assert one is None or sorting(whole, "add", one) is None
