"""Every JSON output of the captures validates against the published schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import pytest

from kscope.model.contract.analysis import Analysis
from kscope.reports import render
from tests.cli.running import kscope
from tests.support import reports


@cache
def validator() -> Any:
    """Of the schema that the command prints."""
    done = kscope("analyze", "--schema")
    assert done.returncode == 0, done.stderr
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("case", reports.chosen())
def test_capture(case: str, analysis: Callable[[str], Analysis]) -> None:
    validator().validate(json.loads(render("json", analysis(case))))


def test_the_schema_refuses_what_is_wrong(analysis: Callable[[str], Analysis]) -> None:
    value = json.loads(render("json", analysis("launch_bound.tiny")))
    value["kernels"][0]["verdict"]["regime"] = "magic"
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(value)
    del value["kernels"][0]["verdict"]
    assert any("verdict" in e.message for e in validator().iter_errors(value))
