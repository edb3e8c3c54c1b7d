"""Which grid dimensions an address depends on: what decides who shares what in a matrix product."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.profile.code import Code
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import (
    address_origins,
    gathers,
    grid_dimensions,
    origins,
    steps_from_loaded,
    stored,
)
from tests.features.listings import program


def code_of(facts: Facts) -> Code:
    assert facts.code is not None
    return facts.code


def globals_of(code: Code, access: str) -> list[int]:
    return code.where(lambda ins, op: op.space == "global" and op.access == access)


@pytest.mark.parametrize("case", ["sgemm.naive", "sgemm.tiled", "sgemm.blocktile2d"])
def test_matrix_product(case: str, facts: Callable[[str], Facts]) -> None:
    """A is addressed by the block's row (y) alone, B by its column (x) alone, C by both."""
    code = code_of(facts(case))
    loads = [grid_dimensions(code, i) for i in globals_of(code, "load")]
    assert set(loads) == {frozenset("x"), frozenset("y")}
    assert loads.count(frozenset("x")) == loads.count(frozenset("y")), "one of each matrix a step"
    assert {grid_dimensions(code, i) for i in globals_of(code, "store")} == {frozenset("xy")}


@pytest.mark.parametrize("case", ["dram_bound.triad", "narrow_loads.slow", "uncoalesced.slow", "local_array.slow"])
def test_one_dimension(case: str, facts: Callable[[str], Facts]) -> None:
    code = code_of(facts(case))
    found = {grid_dimensions(code, i) for i in globals_of(code, "load") + globals_of(code, "store")}
    assert found == {frozenset("x")}


def test_transpose_uses_both(facts: Callable[[str], Facts]) -> None:
    code = code_of(facts("bank_conflict.slow"))
    for access in ("load", "store"):
        assert {grid_dimensions(code, i) for i in globals_of(code, access)} == {frozenset("xy")}


def test_histogram_target_is_loaded_data(facts: Callable[[str], Facts]) -> None:
    """The bin's address comes from memory: no statement about the grid."""
    code = code_of(facts("atomics.slow"))
    atomics = code.where(lambda ins, op: op.access in ("atomic", "reduction"))
    assert atomics
    for i in atomics:
        assert grid_dimensions(code, i) is None
        assert "load" in (origins(code, i) or ())


def test_origins_name_the_thread_too(facts: Callable[[str], Facts]) -> None:
    code = code_of(facts("dram_bound.triad"))
    found = origins(code, globals_of(code, "load")[0])
    assert found is not None and {"x", "tid"} <= found
    assert not {"y", "z", "load"} & found


def test_sparse_rows_walk_and_gather(facts: Callable[[str], Facts]) -> None:
    """Columns and values of a row are walked from a start that was loaded; the vector is gathered by the columns."""
    code = facts("csr.thread").code
    assert code is not None
    inside = [
        i for i in range(len(code))
        if code.classes[i].space == "global" and code.classes[i].access == "load" and code.cfg.loop_of[i] is not None
    ]  # fmt: skip
    walked = [i for i in inside if steps_from_loaded(code, i)]
    assert len(walked) >= 2 * len(inside) // 3 and len(inside) - len(walked) > 0
    assert all(gathers(code, i) for i in inside)


ADDRESSES = """
S2R R2, SR_TID.X
LDG.E R4, desc[UR6][R8.64]
LEA R3, R2, UR4, 0x2
ISETP.NE.AND P0, PT, R4, RZ, PT
{access}
EXIT
"""


@pytest.mark.parametrize(
    "access",
    [
        "@P0 STS [R3], R4",  # what is stored, and whether, is loaded; where is not
        "@P0 STS.128 [R3], R4",
        "@P0 LDS R5, [R3]",
        "STS [R3], RZ",
        "ATOMS.ADD RZ, [R3], R4",
    ],
)
def test_an_address_is_neither_the_data_nor_the_guard(access: str) -> None:
    code = Listing(program(ADDRESSES.format(access=access)), "test")
    assert address_origins(code, 4) == {"tid"}


GUARDED = """
S2R R2, SR_TID.X
LDG.E R4, desc[UR6][R8.64]
ISETP.NE.AND P0, PT, R4, RZ, PT
MOV R3, UR4
{guard} LEA R3, R2, UR4, 0x2
{between}
{reader} STS [R3], RZ
EXIT
"""


@pytest.mark.parametrize(
    ("guard", "between", "reader", "gathered"),
    [
        ("@P0", "NOP", "@P0", False),  # whenever it is stored to, this is the place
        ("@P0", "NOP", "", True),  # one of two places: data decide which
        ("@P0", "NOP", "@!P0", False),  # the other place, whose address no data decide
        ("@P0", "ISETP.NE.AND P0, PT, R2, RZ, PT", "@P0", True),  # another guard of that name
        ("@P0", "@P0 IADD3 R3, R3, R4, RZ", "@P0", True),
    ],
)
def test_a_guard_that_the_access_has_too_says_nothing_of_its_address(
    guard: str, between: str, reader: str, gathered: bool
) -> None:
    text = GUARDED.format(guard=guard, between=between, reader=reader)
    assert gathers(Listing(program(text), "test"), 6) == gathered


def test_a_zero_and_the_address_itself_are_no_stored_register() -> None:
    found = [stored(Listing(program(ADDRESSES.format(access=a)), "test"), 4) for a in (
        "STS [R3], RZ", "STS [R3], R3", "@P0 STS.64 [R3], R4", "STS [R3+UR4], R2"
    )]  # fmt: skip
    assert found == [[], [], [4, 5], [2]]
