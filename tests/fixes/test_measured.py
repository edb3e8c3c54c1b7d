"""Proposals that were built as printed and run: the wavefronts of layouts, the times of changes, the promises."""

from __future__ import annotations

import lzma
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.code.fixing import Subject, subjects
from kscope.engine.code.programs import sources_below
from kscope.model.contract.analysis import Fix, KernelAnalysis
from tests.support.patches import FIXTURES
from tests.support.thorough import often, some
from tests.support.with_sources import changes

HERE = FIXTURES / "fixes"
MEASURED: dict[str, Any] = tomllib.loads((HERE / "measured.toml").read_text("utf-8"))
KINDS = {"padded": "pad", "swizzled": "swizzle"}
WARPS = 2048 * 8  # of each launch of the layouts
PROMISED = [(p["case"], p["rule"], p["kind"], p["before_us"] / p["after_us"]) for p in MEASURED["proposals"]]


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    path = tmp_path_factory.mktemp("layouts") / "layouts.cubin"
    path.write_bytes(lzma.decompress((HERE / "layouts.sm_90.cubin.xz").read_bytes()))
    return {s.name: s for s in subjects(str(path), None, sources_below(HERE))}


def proposed(subject: Subject, kind: str) -> Fix | None:
    return next((x for f in subject.findings for x in f.fixes if x.kind == kind and not x.refused), None)


@pytest.mark.parametrize("name", MEASURED["layouts"])
def test_layouts_clear_what_the_hardware_counted(name: str, layouts: dict[str, Subject]) -> None:
    """Each variant that ran had the least wavefronts; the one that had not is proposed no more."""
    for variant, row in MEASURED["layouts"][name].items():
        if variant == "plain":
            assert row["wavefronts"] > row["ideal"]
            continue
        fix = proposed(layouts[name], KINDS[variant])
        if row["wavefronts"] > row["ideal"]:  # cp.async into rows padded by half a sector
            assert fix is None or fix.price is None
            assert (name, variant) == ("tile_copied", "padded")
        else:
            assert fix is not None and fix.edits
            assert any(c.holds == "no access conflicts" and c.state == "proved" for c in fix.conditions)


@pytest.mark.parametrize("name", MEASURED["layouts"])
def test_no_layout_that_is_proposed_was_slower(name: str) -> None:
    """In turn with the original; an earlier run that was not had found 53 us for one of 25."""
    rows = MEASURED["layouts"][name]
    for variant in rows.keys() - {"plain"}:
        assert rows[variant]["us"] <= 1.01 * rows["plain"]["us"]


@pytest.mark.parametrize(
    "name", [n for n in MEASURED["layouts"] if n not in ("tile_matrix128", "tile_matrix64", "tile_copied")]
)
def test_wavefronts_before_and_after_are_the_counted_ones(name: str, layouts: dict[str, Subject]) -> None:
    """Of kernels without loops, where each instruction runs once a warp."""
    rows = MEASURED["layouts"][name]
    for variant in rows.keys() - {"plain"}:
        fix = proposed(layouts[name], KINDS[variant])
        assert fix is not None
        figures = fix.proof[0]
        assert figures.before == rows["plain"]["wavefronts"] / WARPS
        assert figures.after == rows[variant]["wavefronts"] / WARPS


@pytest.mark.parametrize(("case", "rule", "kind", "delivered"), some(PROMISED, 10))
def test_what_was_built_is_proposed_and_no_slower(case: str, rule: str, kind: str, delivered: float) -> None:
    fix = next(x for x in changes(case, rule) if x.kind == kind)
    assert fix.printable
    assert delivered > 1


def test_promises_were_kept() -> None:
    priced = [
        (fix.price, delivered) for case, rule, kind, delivered in some(PROMISED, 24)
        for fix in changes(case, rule) if fix.kind == kind and fix.price is not None
    ]  # fmt: skip
    assert len(priced) >= often(25, 8)
    assert sum(price.low <= delivered <= price.high for price, delivered in priced) >= 0.9 * len(priced)


@pytest.mark.parametrize("case", ["gemm_bf16.mma", "mha.plain"])
def test_a_function_that_makes_addresses_is_changed(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """A tile in dynamic shared memory: the swizzle goes into the one function that all its addresses come from."""
    fix = next(x for f in diagnosis(case).findings if f.code == "MEM103" for x in f.fixes if x.kind == "swizzle")
    (edit,) = fix.edits
    assert "swizzled(" in edit.becomes and "row * 128" in edit.was


def test_enough_was_built() -> None:
    assert len(PROMISED) >= 84
    assert len(MEASURED["layouts"]) >= 8
    same = [p for p in MEASURED["proposals"] if p.get("largest_difference") == 0]
    assert len(same) >= 35, "most are the same to the last bit"
    compared = {p["case"]: p["largest_difference"] for p in MEASURED["proposals"] if "largest_difference" in p}
    assert compared.pop("layernorm_bf16.scalar") < 2**-7, "a step of bf16"
    halves = [compared.pop(case) for case in ("hmm.each", "hmm.shared", "qk.float")]
    assert max(halves) < 2**-10, "a step of half"
    assert compared.pop("hgemm.packed") < 2**-5, "sums of halves before, of floats now"
    assert compared.pop("dependency_chain.slow") < 1e-3, "a chain of hundreds of products in another order"
    few = {p["case"]: p["words_that_differ"] for p in MEASURED["proposals"] if "words_that_differ" in p}
    for case in ("slopes.angles", "nucleus.walk"):  # beside the end of a sector, or of a sum: the neighbouring one
        assert compared.pop(case) < 0.2 and few[case] < 1e-3
    assert max(compared.values()) < 1e-4, "the others round differently"


def test_the_kernels_are_the_source(tmp_path: Path) -> None:
    text = (HERE / "layouts.cu").read_text("utf-8")
    assert all(f"void {name}(" in text for name in MEASURED["layouts"])


def test_a_layout_that_a_descriptor_fixes_is_no_code_but_a_mode(tmp_path: Path) -> None:
    path = tmp_path / "described.cubin"
    path.write_bytes(lzma.decompress((HERE / "described.sm_90a.cubin.xz").read_bytes()))
    (subject,) = subjects(str(path), None, sources_below(HERE))
    (fix,) = [x for f in subject.findings if f.code == "MEM103" for x in f.fixes]
    assert fix.kind == "descriptor_swizzle" and not fix.code and not fix.edits and fix.price is None
    assert "UTMALDG fixes the layout" in fix.refused and "CU_TENSOR_MAP_SWIZZLE_128B" in fix.refused
    assert fix.proof[0].after < fix.proof[0].before
