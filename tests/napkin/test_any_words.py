"""Whatever sizes are given: an answer in every format, or one line that says what is wrong."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from kscope.arch.chips import chips
from kscope.model.errors import KscopeError
from kscope.napkin.answer import answer
from kscope.napkin.asked import ask
from kscope.napkin.operations import OPERATIONS
from kscope.napkin.problem import BYTES
from kscope.napkin.roofs import roofs
from kscope.reports import napkin as report
from kscope.reports.markdown.napkin import markdown

SIZES = st.sampled_from(["0", "1", "2", "3", "7", "64", "4k", "1M", "1e6", "1e17", "-1", "0.5", "nan"])
VALUES = st.sampled_from(["0", "1", "2", "64", "0.5", "int4", "fp8", "same", "1e12"])


@st.composite
def words(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(list(OPERATIONS)))
    spec = OPERATIONS[name]
    given_ = [name, *(draw(SIZES) for _ in spec.sizes)]
    given_ += [f"{key}={draw(VALUES)}" for key in spec.options if draw(st.booleans())]
    return [*given_, *draw(st.lists(st.sampled_from(list(BYTES)), max_size=1))]


@settings(max_examples=300, deadline=None)
@given(words(), st.sampled_from(list(chips())), st.floats(1e-3, 1e12), st.booleans())
def test_an_answer_or_a_line(said: list[str], chip: str, us: float, swept: bool) -> None:
    try:
        asked = ask(said)
        sweep = (next(iter(asked.dims)), (1, 5, 4096)) if swept else None
        found = answer(asked, roofs(chips()[chip]), measured_us=us, swept=sweep)
    except KscopeError as fault:
        assert fault.status == 2
        assert fault.message and fault.hint
        return
    assert 0 < found.estimate.floor_us <= found.estimate.attained_us < math.inf
    for width in (60, 80, 120):
        text = report.text(found, width=width, color=False, unicode=True)
        assert all(len(line) <= width for line in text.splitlines())
    assert markdown(found).startswith("# ")
    assert json.loads(report.as_json(found))["schema"] == report.SCHEMA
