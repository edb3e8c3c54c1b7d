"""Advice names nothing that the chip lacks: all rules, all chips."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.arch import table
from kscope.engine.findings import fitting
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import ChipFacts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.rules.base import Rule
from kscope.rules.registry import all_rules
from tests.rules.test_on_captures import CASES, COMPILED
from tests.support.thorough import some

CHIPS = {
    70: "Tesla V100",
    75: "Tesla T4",
    80: "NVIDIA A100",
    86: "NVIDIA A10",
    87: "Orin",
    89: "NVIDIA L4",
    90: "NVIDIA H200",
    100: "NVIDIA B200",
    103: "NVIDIA B300",
    120: "NVIDIA GeForce RTX 5090",
    121: "NVIDIA GB10",
}
GTX = (75, "NVIDIA GeForce GTX 1660 SUPER")
EVERY = [*CHIPS.items(), GTX]
RULES = Path(fitting.__file__).resolve().parents[2] / "rules"

CLASSIC = (
    "gemm_f32.naive", "sgemm.naive", "row_stats.thread", "uncoalesced.slow", "bank_conflict.slow", "list_walk.serial",
    "l2_scan.base", "hgemm.wmma_onestage", "dram_bound.triad", "small_grid.slow", "tail_effect.slow",
)  # fmt: skip


def lacking(text: str, chip: ChipFacts) -> list[str]:
    return [found[0] for found in fitting._word().finditer(text) if not chip.has(fitting._needs(found[1]))]


def remedies() -> set[str]:
    """Every literal that a rule or lint hands on as `fix`, and the tables that they choose from."""
    out: set[str] = set()
    for file in RULES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            wanted = node.value if isinstance(node, ast.keyword) and node.arg == "fix" else None
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and "FIX" in t.id for t in node.targets):
                wanted = node.value
            if wanted is not None:
                out |= {n.value for n in ast.walk(wanted) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return {text for text in out if " " in text.strip() and not text.startswith(";")}  # not what is put behind others


def test_every_word_is_of_an_instruction() -> None:
    known = {"tensor", *table("instructions")}
    assert set(table("advice")["words"].values()) <= known and set(table("advice")["without"]) <= known


@pytest.mark.parametrize(("sm", "name"), EVERY)
def test_remedies(sm: int, name: str) -> None:
    chip, texts = ChipFacts(sm, name), remedies()
    assert len(texts) > 40
    for text in texts:
        kept = fitting.fits(text, chip.has)
        assert lacking(kept, chip) == []
        assert not kept.startswith(("or ", ", ", "; ")) and " ()" not in kept and "; ;" not in kept
        if not lacking(text, chip):
            assert kept == text, "what the chip has stays as it was written"


@pytest.mark.parametrize(
    ("sm", "wanted"),
    [
        (75, "prefetch the next tile into registers"),
        (80, "cp.async into two to four shared-memory stages; or prefetch the next tile into registers"),
        (90, "cp.async or TMA into two to four shared-memory stages; or prefetch the next tile into registers"),
    ],
)
def test_alternatives(sm: int, wanted: str) -> None:
    text = "cp.async or TMA into two to four shared-memory stages; or prefetch the next tile into registers"
    assert fitting.fits(text, ChipFacts(sm).has) == wanted


@pytest.mark.parametrize(
    ("sm", "name", "words"),
    [
        (80, "", "mma.sync / tl.dot"), (90, "", "mma.sync / wgmma / tl.dot"), (100, "", "mma.sync / tcgen05 / tl.dot"),
        (120, "", "mma.sync / tl.dot"),
    ],
)  # fmt: skip
def test_chips_are_told_what_they_have(sm: int, name: str, words: str) -> None:
    assert fitting.fits("mma.sync / wgmma / tcgen05 / tl.dot", ChipFacts(sm, name).has) == words


def on(kernel: Kernel, sm: int, name: str) -> Kernel:
    device = msgspec.structs.replace(kernel.device, cc=(sm // 10, sm % 10), name=name)
    return msgspec.structs.replace(kernel, device=device)


@pytest.mark.parametrize("case", some(CLASSIC, 4))
def test_captures_on_every_chip(case: str, kernel: Callable[[str], Kernel]) -> None:
    """The same counters and code, as a report of another chip would hold them."""
    named = 0
    for sm, name in EVERY:
        found = analyze_kernel(on(kernel(case), sm, name), case)
        assert found.errors == []
        for finding in found.findings:
            named += 1
            assert lacking(finding.fix, ChipFacts(sm, name)) == [], (sm, finding.code, finding.fix)
            assert finding.fix
    assert named


def wholly(found: KernelAnalysis, code: str) -> list[str]:
    """Everything that advises in the finding of a rule, and in the step to take."""
    out = [found.next_step.words] if found.next_step is not None else []
    for finding in found.findings:
        if finding.code == code:
            out += [finding.fix, *(way.step for way in finding.remedies)]
    return out


@pytest.mark.parametrize("code", some([code for code, on in CASES.items() if on.fires], 8))
def test_every_rule_on_every_chip(code: str, kernel: Callable[[str], Kernel]) -> None:
    """A capture on which the rule fires, told as another chip's: counters, code and launch are an H200's, only the
    device of the parsed report is changed. None of the advice names what the chip lacks."""
    own = kernel(CASES[code].fires[0])
    spoke = 0
    for sm, name in EVERY:
        found = analyze_kernel(on(own, sm, name), code, [code])
        assert found.errors == []
        chip = ChipFacts(sm, name)
        for text in wholly(found, code):
            assert lacking(text, chip) == [], (sm, name, text)
            assert text.strip() and not text.startswith(("or ", "and ", ", "))
        spoke += any(f.code == code for f in found.findings)
    assert spoke


def test_every_rule_is_crossed_with_every_chip() -> None:
    """Rules that no capture shows (races in compiled code) are crossed by their texts alone (test_remedies)."""
    profiled = {rule.code for rule in all_rules() if issubclass(rule, Rule)}
    assert profiled - {code for code, on in CASES.items() if on.fires} <= COMPILED
    assert {sm for sm, _ in EVERY} == {70, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121}


def test_ways_beside_the_fix_fit_too(kernel: Callable[[str], Kernel]) -> None:
    """What does not pay on this kernel is told in words that the chip knows."""
    steps = {}
    for sm, name in ((75, CHIPS[75]), (90, CHIPS[90])):
        found = analyze_kernel(on(kernel("list_walk.serial"), sm, name), "a")
        steps[sm] = " ".join(way.step for f in found.findings for way in f.remedies)
    assert "TMA" in steps[90] and "unroll" in steps[75]
    assert "TMA" not in steps[75] and "cp.async" not in steps[75]


def test_no_tensor_cores_are_none_to_use(kernel: Callable[[str], Kernel]) -> None:
    """A GeForce GTX 1660 has the capability of a T4 and no tensor cores."""
    own = kernel("sgemm.naive")
    codes = [{f.code for f in analyze_kernel(on(own, *chip), "a").findings} for chip in ((75, CHIPS[75]), GTX)]
    assert "CMP201" in codes[0] and "CMP201" not in codes[1]
