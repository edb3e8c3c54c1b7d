"""JSON v1: round trip, schema, one line."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest

from kscope.model.contract.analysis import Headroom, from_json, json_schema
from kscope.reports import jsonv1, render
from tests.reports import sample


@pytest.mark.parametrize("case", [sample.analysis, sample.many, sample.hostile])
def test_round_trip_on_one_line_and_valid(case) -> None:  # type: ignore[no-untyped-def]
    text = render("json", case())
    assert text.count("\n") == 1
    assert text.endswith("}\n")
    assert from_json(text) == case()
    jsonschema.validate(json.loads(text), json_schema())


def test_non_finite_numbers_become_null() -> None:
    kernel = sample.kernel()
    headroom = Headroom(speedup_bound=float("inf"), bounded_by="L2")
    made = json.loads(render("json", sample.analysis(msgspec.structs.replace(kernel, headroom=headroom))))
    assert made["kernels"][0]["headroom"]["speedup_bound"] is None


def test_a_file_name_that_is_not_utf8_survives() -> None:
    analysis = sample.analysis(msgspec.structs.replace(sample.kernel(), input="caf\udce9.ncu-rep"))
    made = json.loads(jsonv1.encode(analysis))
    assert made["kernels"][0]["input"] == "caf?.ncu-rep"
    assert made["kernels"][0]["duration_us"] == 327.7
