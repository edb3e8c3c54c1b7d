"""Tiles that are numbers of a template: which instance makes the same of half the tile, and what keeps it from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.warpgroup import halved
from kscope.fixes.warpgroup.halved import _counted, _evener
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts

CASE = "mma_waves.rows128"


def halves(
    swaps: Mapping[str, str], grid: tuple[int, int, int] | None = None, instance: str = ""
) -> list[Fix]:  # fmt: skip
    """Of the capture, its source with changes, perhaps of another grid or named in another way."""

    def lines(name: str) -> Sequence[str]:
        out = [*lines_of(name)]
        for was, becomes in swaps.items():
            out = [line.replace(was, becomes) for line in out]
        return out

    setting = setting_of(facts(CASE), lines_of)
    every = "\n".join(line for name in {i.file for i in setting.code.program.instructions} if name
                      for line in setting.lines(name))  # fmt: skip
    assert all(was in every for was in swaps) and setting.launch is not None
    launch = msgspec.structs.replace(setting.launch, grid=grid or setting.launch.grid)
    (finding,) = [f for f in diagnosed(CASE).findings if f.code == "GRD402"]
    named = setting.instance.replace("<(int)128", f"<{instance}(int)128")
    return halved.fixes(Asked(msgspec.structs.replace(setting, lines=lines, launch=launch, instance=named), finding))


def test_the_capture_takes_the_instance_that_was_measured() -> None:
    groups, fix = changes(CASE, "GRD402")
    assert groups.title.startswith("wgmma: tiles of 128 x 128") and groups.price is not None
    assert "results of a warpgroup, 64 a thread;" in groups.code
    assert groups.price.speedup > 2 and groups.code.endswith("mma_nt_groups<<<dim3(n / 128, 17), 256, 197632>>>(...)")
    attribute, launched = fix.code.split("\n")
    assert "mma_nt<64, 128, 1, 4, 4, 3, 0>, " in attribute and attribute.endswith(", 61440);")
    assert launched == "mma_nt<64, 128, 1, 4, 4, 3, 0><<<dim3(16, 34), 128, 61440>>>(...);"
    assert (fix.conditions[0].state, fix.conditions[0].ran) == ("proved", 2 * 128 * 128 + 2 * 64 * 128)
    assert "it takes 168 registers a thread at most" in {c.holds for c in fix.conditions if c.state == "check"}
    assert [(p.before, p.after) for p in fix.proof] == [(3, 2.5), (2, 1.5)]
    assert fix.price is not None and fix.price.speedup == 1.2 and "1.5 times" in fix.costs[0]


def test_names_are_the_texts_own() -> None:
    swaps = {"BM": "HIGH", "WM": "UP", "__launch_bounds__(WM": "__launch_bounds__(UP", "* 32, 2)": "* 32)"}
    (fix,) = halves(swaps)
    assert fix.title.startswith("HIGH = 64 and UP = 1") and "<64, 128, 1, 4, 4, 3, 0>" in fix.code


def test_the_other_side_where_one_is_fixed() -> None:
    (fix,) = halves({"unsigned base = sm_addr(sm);": "static_assert(BM == 128); unsigned base = sm_addr(sm);"})
    assert fix.title.startswith("BN = 64 and") and fix.parameters["grid.x"] == 32


def test_threads_may_stay() -> None:
    (fix,) = halves({"__launch_bounds__(WM * WN * 32, 2)": "__launch_bounds__(256, 2)", "T = WM * WN * 32": "T = 256"})
    assert fix.code.endswith("mma_nt<64, 128, 2, 4, 4, 3, 0><<<dim3(16, 34), 256, 61440>>>(...);")


@pytest.mark.parametrize(
    "swaps",
    [
        {"__launch_bounds__(WM * WN * 32, 2)": "__launch_bounds__(WM * WN << 5, 2)"},  # nobody says for which numbers
        {"a += (size_t)blockIdx.y * BM * k; b += (size_t)blockIdx.x * BN": "a += (size_t)blockIdx.y * 128 * k; "
         "b += (size_t)blockIdx.x * 128"},
        {"copy_wait<WAIT>(); __syncthreads();": "copy_wait<WAIT>();"},  # a race
        {"SB = BN * 80": "SB = BN * 64"},  # less than the launch gives
        {"i < BM * 4 / T": "i < 2", "i < BN * 4 / T": "i < 2"},  # half of the copies of the other side
    ],
)  # fmt: skip
def test_other_texts_have_none(swaps: dict[str, str]) -> None:
    assert halves(swaps) == []


def test_grids_that_are_even_have_none() -> None:
    assert halves({}, (16, 33, 1)) == [] and _evener(528, 132) is None and _evener(272, 132) == 1.2


def test_templates_of_types_have_none() -> None:
    assert halves({"template <int BM": "template <typename V, int BM"}, instance="float, ") == []


def test_threads_by_numbers_of_the_template() -> None:
    names = {"A": 2, "B": 4}
    assert [_counted(x, names) for x in ("A * B * 32", "A*B*8 + 64 - 32", "256", "128 / A", "A * C", "A << 2")] == [
        256, 96, 256, 64, None, None,
    ]  # fmt: skip
