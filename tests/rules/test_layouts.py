"""MEM101 says what to do about the walk that the code takes, and nothing of rows where there is none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from kscope.features.facts import Facts, Listing
from kscope.features.profile.coalescing import halves
from kscope.rules._shared.layouts import FIX, MOVED, PIECE, PRODUCT, ROW, SWAPPED, kind_of, rows_of
from tests.features.listings import program
from tests.support import labels
from tests.support.said import found


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        ("uncoalesced.slow", ROW),
        ("triton_rowsum.down", ROW),
        ("csr.thread", ROW),  # rows start where loaded data says, and then go on
        ("sgemm.naive", SWAPPED),  # a warp a row would do each row again for every column
        ("gemm_f32.naive", SWAPPED),
        ("particles.aos", MOVED),  # device memory is full: staging saves none of its sectors
        ("qk.float", ""),  # rows of a tile on its way into shared memory: few wait for them
    ],
)
def test_the_fix_follows_the_walk(case: str, layout: str, facts: Callable[[str], Facts]) -> None:
    finding = found("MEM101", facts(case))
    assert finding.fix == FIX[layout]
    assert ("row" in finding.title) == (layout == ROW)
    assert PRODUCT not in (layout,), "no capture of ours walks both factors of a product"


@pytest.mark.parametrize(("loads", "way"), [([0.7, 0.9, 1.0], ["", "", MOVED]), ([0.7, 0.9], ["", MOVED])])
def test_where_device_memory_is_full_staging_saves_nothing(
    loads: list[float], way: list[str], facts: Callable[[str], Facts]
) -> None:
    """Below what kernels attain, where it moves half as much again as is needed; at all that they attain, always."""
    known = facts("particles.aos")
    dram = known.counters.units["dram"]
    kept = 0.9 if len(loads) == 3 else 0.5
    for load, expected in zip(loads, way, strict=True):
        unit = msgspec.structs.replace(dram, attainable=dram.parts[0].busy / load)
        units = {**known.counters.units, "dram": unit}
        asked = cast(Facts, SimpleNamespace(counters=SimpleNamespace(units=units, busiest=None)))
        assert unit.load == pytest.approx(load)
        assert kind_of(asked, [], {"dram_bytes": kept}, "", None, ()) == expected


@pytest.mark.parametrize("case", ["bank_conflict.slow", "gemm_f32.reg2d"])
def test_a_conflict_of_rows_is_padded_one_of_pieces_is_not(case: str, facts: Callable[[str], Facts]) -> None:
    """A column of a 32-wide tile wants a pad; two vectors of a lane side by side want to lie a warp apart."""
    finding = found("MEM103", facts(case))
    assert finding.fix.startswith("pad the row" if case == "bank_conflict.slow" else "neighbouring lanes on")


PIECES = """
IMAD.WIDE R4, R3, 0x20, R6
LDG.E.128 R8, [R4.64]
LDG.E.128 R12, [R4.64+0x10]
LDG.E.128 R16, [R4.64+0x40]
{use}
STG.E.128 [R20.64], R8
STG.E.128 [R20.64+0x10], R12
STG.E.128 [R20.64+0x20], R16
EXIT
"""


@pytest.mark.parametrize(
    ("use", "pieces"), [("NOP", [1, 2]), ("FADD R24, R8, R12", []), ("STG.E [R12.64], R8", []), ("MOV R4, R8", [])]
)
def test_pieces_of_an_element_that_is_only_copied_are_for_neighbouring_lanes(use: str, pieces: list[int]) -> None:
    """Of 32 bytes, none that lie apart; a lane that computes with its element, or follows it, needs it whole."""
    assert halves(Listing(program(PIECES.format(use=use)), "test"), range(4)) == pieces


def test_gathers_are_told_of_pieces_where_these_have_a_quarter_of_the_sectors(
    facts: Callable[[str], Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = facts("l2_rows.picked")
    monkeypatch.setattr(type(known.profile), "halves", lambda self, members: [i for i in members if i < 2])
    assert kind_of(known, [1.0, 0.0, 3.0], {}, "", [0, 1, 2], ()) == "indirect"
    assert kind_of(known, [1.1, 0.0, 3.0], {}, "", [0, 1, 2], ()) == PIECE


def test_a_warp_a_row_fills_an_empty_device_and_says_what_the_other_way_brings(facts: Callable[[str], Facts]) -> None:
    finding = found("MEM101", facts("row_stats.thread"))
    assert finding.fix == FIX[ROW] and finding.pulls == ["+threads"]
    assert finding.estimate is not None and "too empty" in finding.why
    other, wide = finding.remedies
    assert other.applies and other.estimate is not None and other.estimate.speedup <= finding.estimate.speedup
    assert wide.applies and "float4" in wide.step and wide.estimate is not None


def test_rows_in_pieces_of_16_bytes_are_another_way(facts: Callable[[str], Facts]) -> None:
    """Built: the promise holds; rows that are read so already have nothing more of it."""
    wide = next(r for r in found("MEM101", facts("rows.single")).remedies if "float4" in r.step)
    brought = labels.TIMES["rows.single"] / labels.TIMES["rows.quads"]
    assert wide.estimate is not None and wide.estimate.low <= brought <= wide.estimate.high
    assert not any("float4" in r.step for r in found("MEM101", facts("rows.quads")).remedies)


def test_rows_of_few_elements_are_no_work_for_a_warp(facts: Callable[[str], Facts]) -> None:
    """The same code, had its loop run one round of what it unrolls."""
    known = facts("row_stats.thread")
    code = known.code
    assert code is not None
    loads = [i for i in code.ran(code.where(lambda ins, op: op.access == "load" and op.space == "global"))
             if code.cfg.loop_of[i] is not None]  # fmt: skip
    long = rows_of(known, code, loads, 0.9)
    assert long is not None and long.why_not == "" and long.elements > 100 and long.lanes == 32
    assert rows_of(known, code, loads, 0.01) is None, "nobody waits for them"
    short = Facts(known.kernel)
    assert short.code is not None
    once = min(n for n in short.code.executed if n > 0)
    for i in range(len(short.code)):
        short.code.executed[i] = min(short.code.executed[i], once)
        short.code.threads[i] = min(short.code.threads[i], 32 * once)
    few = rows_of(short, short.code, loads, 0.9)
    assert few is not None and few.elements < 32 and (few.why_not == "") == (few.elements >= 8)


@pytest.mark.parametrize(("case", "elements"), [("rows.single", 256), ("rows.quads", 64)])
def test_elements_of_a_row_are_counted_by_what_a_lane_loads(
    case: str, elements: float, facts: Callable[[str], Facts]
) -> None:
    """Four rounds of the loop are written out; the weights, another array, are no elements."""
    known = facts(case)
    code = known.code
    assert code is not None
    loads = [i for i in code.ran(code.where(lambda ins, op: op.access == "load" and op.space == "global"))
             if code.cfg.loop_of[i] is not None]  # fmt: skip
    rows = rows_of(known, code, loads, 0.9)
    assert rows is not None and rows.elements == pytest.approx(elements)
