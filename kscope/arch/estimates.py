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
    strewn: float
    yields: float
    rise: float
    steep: float
    low: float
    cost: float
    noise: float
    over: float
    start: float
    starts: float
    empty: float
    queueing: float
    others_left: float
    floor_left: float
    more_overlap: float
    more_balance: float
    arithmetic: float
    mostly_outside: float
    full_unit: float
    used_unit: float
    idle_sms: float
    as_full: float
    waits_lead: float
    even_work: float
    primed: float
    tensor_at_work: float
    producer_makes: float
    waits_clear: float
    waits_name: float
    few_blocks: float


def constants() -> Constants:
    """As the table has them now."""
    rows = table("estimates")
    return Constants(**{f.name: float(rows[f.name]["value"]) for f in structs.fields(Constants)})
