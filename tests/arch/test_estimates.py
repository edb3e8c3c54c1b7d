"""The constants of the estimates: each has a value, a unit, and says how it was chosen and on what."""

from __future__ import annotations

import datetime

from msgspec import structs

from kscope.arch import table
from kscope.arch.estimates import Constants, constants


def test_every_constant_says_where_it_comes_from() -> None:
    rows = table("estimates")
    assert set(rows) == {f.name for f in structs.fields(Constants)}
    for name, row in rows.items():
        assert set(row) == {"value", "unit", "what", "chosen", "cases", "date"}, name
        assert row["chosen"] in ("measured", "derived", "fitted", "judged"), name
        assert isinstance(row["value"], float) and row["unit"] and row["what"] and row["cases"], name
        assert isinstance(row["date"], datetime.date), name


def test_the_value_is_the_tables() -> None:
    known = constants()
    assert known.smooth == table("estimates")["smooth"]["value"]
    assert 0 < known.free < known.full <= 1 and known.near < known.at and known.low < 1 < known.rise
