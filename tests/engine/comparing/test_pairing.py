"""Which kernel became which, and which findings are credited with the time."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest

from kscope.engine.comparing.compare import compare
from kscope.engine.comparing.pairing import Rule, pair, parse_rule
from kscope.engine.run import analyze_paths
from kscope.features.views.footprint import Footprints, quoted
from kscope.model.contract.analysis import Analysis, KernelAnalysis
from kscope.model.contract.comparison import Comparison
from kscope.reports import Options
from kscope.reports.html.page import render_diff
from kscope.reports.markdown.diff import render as render_md
from kscope.reports.text.diff import render as render_text
from tests.support.reports import fixture


@cache
def read(case: str) -> tuple[Analysis, Footprints]:
    """A capture, with all that its own and others' findings quote."""
    prints = Footprints(wanted=WANTED)
    return analyze_paths([fixture(case)], footprints=prints), prints


CASES = ("bank_conflict.slow", "csr.warp", "spill.slow", "occupancy_smem.slow", "uncoalesced.slow", "tail_effect.slow")
WANTED: set[str] = set()
for _case in CASES:
    WANTED |= quoted([f for k in analyze_paths([fixture(_case)]).kernels for f in k.findings])


def compared(before: str, after: str, *rules: Rule) -> Comparison:
    (a, old), (b, new) = read(before), read(after)
    return compare(a, b, rules, (old, new))


def named(case: str, *names: str) -> list[KernelAnalysis]:
    """Copies of a capture's kernel under other names."""
    (one,) = read(case)[0].kernels
    return [msgspec.structs.replace(one, name=n, demangled=n, id=f"x.{i}") for i, n in enumerate(names)]


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [
        (["f(int)"], ["f(int)"], ["name"]),
        (["void f<1>(int)"], ["void f<2>(int)"], ["name and signature"]),
        (["void f<1>(int)"], ["void f<2>(float)"], ["name without arguments"]),
        (["void f<1>(int)", "void f<1>(long)"], ["void f<2>(long)", "void f<2>(int)"], ["name and signature"] * 2),
        (["f(int)"], ["g(int)"], ["elimination"]),
        (["a(int)", "b(int)"], ["c(int)", "d(int)"], ["position"] * 2),
        (["a(int)", "b(int)"], ["c(int)"], []),
        (["f<1>(int)", "f<2>(int)"], ["f<3>(int)", "f<4>(int)"], ["position"] * 2),
    ],
)
def test_names_pair_before_places(before: list[str], after: list[str], how: list[str]) -> None:
    old, new = named("csr.warp", *before), named("bank_conflict.slow", *after)
    pairs, left, right = pair(old, new)
    assert [p[2] for p in pairs] == how
    assert (len(left), len(right)) == (len(before) - len(how), len(after) - len(how))
    if "name and signature" in how:
        assert all(a.demangled.split("(")[1] == b.demangled.split("(")[1] for a, b, _ in pairs)


def test_code_that_is_alike_pairs_kernels_of_other_names() -> None:
    [one] = compared("spill.slow", "spill.fast").pairs
    assert one.matched_by == "code" and not one.guess and "MEM104" in one.fixed
    [other] = compared("csr.warp", "bank_conflict.slow").pairs
    assert other.matched_by == "elimination" and other.guess


def test_a_guess_is_called_one_in_every_format_and_promises_nothing() -> None:
    found = compared("uncoalesced.slow", "bank_conflict.fast")
    [one] = found.pairs
    assert one.guess and one.promises == [] and found.speedup is None
    for text in (render_text(found, Options(width=100)), render_md(found, Options()), one.sentence):
        assert "a guess" in text and "promised" not in text and "inside" not in text
    assert "a guess" in msgspec.json.encode(found).decode()
    assert "--match OLD=NEW" in " ".join(found.notes)
    assert render_diff(found)


def test_pairs_by_hand() -> None:
    [one] = compared("csr.warp", "bank_conflict.slow", parse_rule("csr_.*=transpose")).pairs
    assert one.matched_by == "by hand" and not one.guess
    old, new = named("csr.warp", "a_1(int)", "a_2(int)"), named("csr.warp", "b_2(int)", "b_1(int)")
    pairs, _, _ = pair(old, new, [parse_rule(r"^a_(\d)=^b_\1\(")])
    assert [(a.name, b.name) for a, b, _ in pairs] == [("a_1(int)", "b_1(int)"), ("a_2(int)", "b_2(int)")]


def test_a_rule_divides_at_the_first_plain_equals_sign() -> None:
    assert parse_rule("a(?=b)=c") == Rule("a(?=b)", "c")
    assert parse_rule(r"operator\=\==f=g") == Rule(r"operator\=\=", "f=g")
    for text in ("a", "a=", "=a", "(=a", "a=)"):
        with pytest.raises(ValueError):
            parse_rule(text)


@pytest.mark.parametrize(
    ("case", "code"),
    [("bank_conflict", "MEM103"), ("spill", "MEM104"), ("occupancy_smem", "LAT301"), ("tail_effect", "GRD402")],
)
def test_what_was_repaired_is_credited(case: str, code: str) -> None:
    [one] = compared(f"{case}.slow", f"{case}.fast").pairs
    assert code in one.fixed and code in {p.code for p in one.promises} and code not in one.gone


def test_a_finding_that_merely_stopped_firing_is_gone() -> None:
    """The same counters as before, the rule silent, the kernel faster: nothing of what was counted went."""
    before, old = read("bank_conflict.slow")
    (kernel,) = before.kernels
    quiet = msgspec.structs.replace(
        kernel, findings=[f for f in kernel.findings if f.code != "MEM103"], passed=[*kernel.passed, "MEM103"],
        duration_us=(kernel.duration_us or 0) / 2,
    )  # fmt: skip
    after = msgspec.structs.replace(before, kernels=[quiet])
    found = compare(before, after, (), (old, old))
    [one] = found.pairs
    assert one.gone == ["MEM103"] and one.fixed == [] and one.promises == []
    for text in (render_text(found, Options(width=100)), render_md(found, Options())):
        assert "not credited" in text and "promised" not in text


def test_several_repairs_share_one_measured_gain() -> None:
    """Two findings that explain different samples, both repaired: neither is said to have kept its promise."""
    before, old = read("bank_conflict.slow")
    (kernel,) = before.kernels
    mine = next(f for f in kernel.findings if f.code == "MEM103")
    twin = msgspec.structs.replace(mine, code="MEM101", overlaps=[])
    both = msgspec.structs.replace(kernel, findings=[msgspec.structs.replace(mine, overlaps=[]), twin])
    after, new = read("bank_conflict.fast")
    found = compare(msgspec.structs.replace(before, kernels=[both]), after, (), (old, new))
    [one] = found.pairs
    assert [(p.code, p.alone, p.shared_with) for p in one.promises] == [
        ("MEM103", False, ["MEM101"]), ("MEM101", False, ["MEM103"])
    ]  # fmt: skip
    for text in (render_text(found, Options(width=100)), render_md(found, Options())):
        assert "it shares the measured 2.28x with MEM101" in " ".join(text.split()) and "inside" not in text


def test_devices_that_differ_are_named() -> None:
    before, after = read("bank_conflict.slow")[0], read("bank_conflict.fast")[0]
    (kernel,) = after.kernels
    other = msgspec.structs.replace(kernel, device=msgspec.structs.replace(kernel.device, name="NVIDIA A100"))
    notes = compare(before, msgspec.structs.replace(after, kernels=[other])).notes
    assert notes == ["different GPUs: \"NVIDIA H200\" before, \"NVIDIA A100\" after"]
