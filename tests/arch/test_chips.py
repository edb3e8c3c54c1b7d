"""The chip table: every number has a source, and what is published agrees with rates, clocks and buses."""

from __future__ import annotations

import pytest

from kscope.arch import table
from kscope.arch.chips import PRECISIONS, chips, find, instructions, of_device
from kscope.arch.sheet import sheet
from kscope.model.errors import KscopeError

NOT_NUMBERS = set("name family match aliases memory previous cc sources peak attained sparse".split())
"""Words, and cc and sparse, which the family's documents say in their titles."""


@pytest.mark.parametrize("key", chips())
def test_every_number_has_one_source(key: str) -> None:
    entry = table("chips")[key]
    numbers = sorted(set(entry) - NOT_NUMBERS)
    numbers += [f"peak.{name}" for name in entry.get("peak", {})]
    numbers += [f"attained.{name}" for name in entry.get("attained", {})]
    named = [name for names in entry["sources"].values() for name in names]
    assert sorted(numbers) == sorted(named)
    for document in entry["sources"]:
        assert document in table("chips")["documents"] or document.startswith("borrowed:")


@pytest.mark.parametrize("key", chips())
def test_borrowed_numbers_are_those_of_the_lender(key: str) -> None:
    entry = table("chips")[key]
    for document, names in entry["sources"].items():
        lender = chips().get(document.removeprefix("borrowed:"))
        if document.startswith("borrowed:") and lender is not None:
            for name in names:
                group, _, one = name.rpartition(".")
                mine = chips()[key]
                assert getattr(mine, group)[one] == getattr(lender, group)[one] if group else getattr(
                    mine, name
                ) == getattr(lender, name)


@pytest.mark.parametrize("chip", chips().values(), ids=chips())
def test_published_peaks_are_rate_times_sms_times_clock(chip) -> None:
    """Data sheets state tensor peaks up to 9 % below the highest clock (H100 SXM: 1830 of 1980 MHz), never above."""
    for precision in ("fp16", "fp32", "fp64", "fp64_tensor"):
        rate, published = chip.per_clock(precision), chip.peak.get(precision)
        if rate is None or published is None or chip.clock_hz is None:
            continue
        if chip.key == "gb200":  # a data sheet's 2500 would take 2062 MHz; the clock is borrowed
            continue
        highest = rate * chip.sms * chip.clock_hz
        assert 0.98 <= highest / published <= 1.10, (precision, highest, published)
        assert chip.at_clock(precision) >= published


@pytest.mark.parametrize("chip", chips().values(), ids=chips())
def test_precisions_keep_their_ratios(chip) -> None:
    peak = chip.peak
    assert set(peak) <= set(PRECISIONS)
    assert set(chip.attained) <= {*PRECISIONS, "dram_bytes_per_s", "l2_bytes_per_s"}
    for name, value in chip.attained.items():
        top = chip.at_clock(name) if name in PRECISIONS else getattr(chip, name, None)
        assert top is None or value < top, name
    if "bf16" in peak:
        assert peak["bf16"] == peak["fp16"]
    if "tf32" in peak:
        assert peak["tf32"] == pytest.approx(peak["fp16"] / 2, rel=0.02)
    if "fp8" in peak:
        assert peak["fp8"] == pytest.approx(2 * peak["fp16"], rel=0.02)


def test_names_people_use() -> None:
    for name, key in {
        "h100": "h100", "H100 SXM": "h100", "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H100 PCIe": "h100_pcie",
        "NVIDIA H200": "h200", "rtx 4090": "rtx_4090", "NVIDIA GeForce RTX 4090": "rtx_4090", "4090": "rtx_4090",
        "NVIDIA L4": "l4", "NVIDIA L40S": "l40s", "Tesla T4": "t4", "NVIDIA A100-SXM4-80GB": "a100", "v100": "v100",
        "NVIDIA A100 80GB PCIe": "a100_pcie", "NVIDIA GB200": "gb200", "NVIDIA B200": "b200", "A10": "a10",
        "Jetson AGX Orin": "orin", "NVIDIA GB10": "gb10", "dgx-spark": "gb10",
    }.items():  # fmt: skip
        assert find(name).key == key, name
    assert of_device("AMD Instinct MI300X") is None
    assert of_device("NVIDIA L40") is None
    assert of_device("Orin") is None  # what the driver calls the smaller ones as well
    with pytest.raises(KscopeError, match="no chip 'h1000'") as fault:
        find("h1000")
    assert fault.value.status == 2
    assert "rtx_5090" in fault.value.hint


def test_instructions_by_target() -> None:
    assert {"wgmma", "tma", "cluster", "mma_fp8"} <= set(instructions(90))
    assert "wgmma" not in instructions(100)
    assert {"tcgen05", "cluster_launch_control", "fma_pairs"} <= set(instructions(103))
    assert "tcgen05" not in instructions(120)
    assert "mma_fp4" in instructions(121)
    assert not {"cp_async", "mma_bf16", "mbarrier"} & set(instructions(75))
    assert "mma_fp8" not in instructions(86)


def test_every_target_of_the_chips_has_an_sm() -> None:
    for chip in chips().values():
        assert str(chip.cc) in table("sm"), chip.key
        assert chip.sm["shared"] // 1024 == max(chip.sm["carveouts_kib"])
        assert chip.latency["l1"] < chip.latency["l2"] < chip.latency["dram"]


@pytest.mark.parametrize("cc", [70, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121])
def test_every_architecture_is_described(cc: int) -> None:
    """A chip of each, what an SM of it holds in an entry of its own, and instructions."""
    assert any(chip.cc == cc for chip in chips().values())
    assert str(cc) in table("sm") and instructions(cc)
    own = f"sm_{cc}" in table("latency")
    assert own == (cc in (70, 75, 80, 89, 90))


@pytest.mark.parametrize(
    ("key", "name", "source"),
    [
        ("orin", "FP32 multiply-add", "as sm_86"), ("gb10", "FP32 multiply-add", "as sm_90"),
        ("gb10", "FP64 multiply-add", "as sm_120"), ("v100", "FP32 multiply-add", "as sm_75"),
    ],
)  # fmt: skip
def test_borrowed_intervals_are_said_to_be(key: str, name: str, source: str) -> None:
    rows = [r for r in sheet(chips()[key]) if r.section.startswith("issue intervals") and r.name == name]
    assert [(r.borrowed, source in r.source) for r in rows] == [(True, True)]
    held = [r for r in sheet(chips()["h200"]) if r.section.startswith("issue intervals") and r.name == name]
    assert [r.borrowed for r in held] == [False]
