"""Which arithmetic of a loop is one serial chain."""

from __future__ import annotations

from kscope.features.patterns.dependency_chains import carried
from kscope.features.sass.listing import Listing
from tests.features.listings import CHAIN, program

LOOP = "IADD3 R3, R3, -0x1, RZ\nISETP.GT.AND P1, PT, R3, RZ, PT\n{body}\n@P1 BRA 0x0\nEXIT"


def chain(body: str, weight: dict[int, float] | None = None) -> list[int]:
    code = Listing(program(LOOP.format(body=body)), "test")
    return carried(code, [1.0 if weight is None else weight.get(i, 0.0) for i in range(len(code))])


def test_a_carried_chain_is_found() -> None:
    code = Listing(program(CHAIN), "test")
    assert carried(code, [1.0] * len(code)) == [3, 4, 5, 6]


def test_a_run_that_starts_anew_each_round_is_none() -> None:
    run = "\n".join(["FMUL R8, R20, R21", *("FFMA R8, R8, R9, R10",) * 12, "STG.E desc[UR4][R2.64], R8"])
    assert chain(run) == []


def test_accumulators_side_by_side_do_not_add_up() -> None:
    two = "FFMA R5, R5, R4, 0.5\nFFMA R6, R6, R4, 0.5\nFFMA R7, R7, R4, 0.5"
    assert chain(two, {2: 1.0, 3: 5.0, 4: 1.0}) == [3]
