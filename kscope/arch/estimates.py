"""The constants of the estimates as a typed value: arch/estimates.toml says what each is and how it was chosen."""

from __future__ import annotations

from msgspec import Struct, structs

from kscope.arch import table


class Constants(Struct, frozen=True):
    """One value of each key of arch/estimates.toml. Whoever wants others passes others (tools/fit.py)."""

    smooth: float
    full: float
    free: float
    relieved: float
    near: float
    at: float
    calm: float
    crowded: float
    yields: float
    rise: float
    low: float
    cost: float
    start: float
    starts: float


def constants() -> Constants:
    """As the table has them now."""
    rows = table("estimates")
    return Constants(**{f.name: float(rows[f.name]["value"]) for f in structs.fields(Constants)})
