"""Every lint over every kernel of fixtures/sass: exactly the codes that the manifest names fire, on every target."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from kscope.engine.code.lint import lint
from kscope.engine.findings.outcomes import Outcomes
from kscope.features.facts import CodeFacts
from kscope.features.sass.listing import Listing
from kscope.rules.lint import Lint
from kscope.rules.lints.local_memory_indexing import EITHER
from kscope.rules.memory.local_memory_indexing import COPY, WHERE_IT_LIES
from kscope.rules.registry import LINTS, all_lints, all_rules
from tests.features.listings import program
from tests.features.patterns.test_local_memory import PARAMETERS
from tests.support.sass import EXPECTED, FOLDER, MANIFEST, functions

CODES = {one.of.code for one in all_lints()}
ONE_TARGET = {"CMP209"}  # wgmma exists on sm_90a only


@cache
def linted(source: str, arch: str, kernel: str) -> Outcomes:
    return lint(Listing(functions(source, arch)[kernel]))


@pytest.mark.parametrize(("source", "arch", "kernel"), EXPECTED, ids="-".join)
def test_kernel(source: str, arch: str, kernel: str) -> None:
    found = linted(source, arch, kernel)
    assert found.errors == []
    assert {f.code for f in found.findings} == EXPECTED[source, arch, kernel]
    judged = [f.code for f in found.findings] + found.passed + [n.code for n in found.not_applicable]
    assert sorted(judged) == sorted(CODES), "each lint says something, once"
    for f in found.findings:
        assert f.estimate is None, "nothing was measured"
        assert f.title and f.why and f.fix and f.evidence and 0 < f.confidence < 1
        assert f.locations and all(place.sass and place.function == kernel for place in f.locations)
        program = functions(source, arch)[kernel]
        pcs = {ins.pc: ins.text for ins in program.instructions}
        assert all(pcs[place.pc] == place.sass for place in f.locations)
        assert all(place.file is None or place.file.startswith(("/corpus/", "/usr/")) for place in f.locations)


@pytest.mark.parametrize("code", sorted(CODES))
def test_fires_and_is_silent_on_two_targets(code: str) -> None:
    """On at least two targets a kernel shows the fault and another one of the same source does not."""
    fires, silent = defaultdict(set), defaultdict(set)
    for (source, arch, kernel), codes in EXPECTED.items():
        (fires if code in codes else silent)[source, arch].add(kernel)
    both = {arch for source, arch in fires if (source, arch) in silent}
    assert len(both) >= (1 if code in ONE_TARGET else 2)


def test_every_kernel_is_in_the_manifest() -> None:
    for unit in MANIFEST["unit"]:
        for arch in unit["archs"]:
            entries = {name for name, program in functions(unit["source"], arch).items() if program.entry}
            # Sources without any expectation are the reader's (calls, separate compilation).
            assert not unit["expects"] or entries <= set(unit["expects"]), f"{unit['source']} {arch}"
    packed = {f"{Path(unit['source']).stem}.{arch}.cubin.xz" for unit in MANIFEST["unit"] for arch in unit["archs"]}
    assert packed == {path.name for path in FOLDER.glob("*.xz")}


def test_no_lint_is_forgotten() -> None:
    import kscope.rules.lints

    folder = Path(kscope.rules.lints.__path__[0])
    assert {p.stem for p in folder.glob("*.py") if p.stem != "__init__"} == set(LINTS)
    assert len({one.of for one in all_lints()}) == len(LINTS)
    assert {one.of for one in all_lints()} <= set(all_rules())
    for one in all_lints():
        assert one.__module__.rpartition(".")[2] == one.of.slug.replace("-", "_")
        assert one.__name__ == one.of.__name__ + "Lint"


def test_a_lint_that_fails_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Lint, facts: CodeFacts, code: Listing) -> None:
        raise ValueError("odd\nprogram")

    monkeypatch.setattr(all_lints()[0], "check", broken)
    found = lint(Listing(functions("memory.cu", "sm_90a")["mix80_capped"]))
    assert [(e.code, e.message) for e in found.errors] == [(all_lints()[0].of.code, "ValueError: odd program")]
    assert [f.code for f in found.findings] == ["MEM104"]


def test_only_the_codes_asked_for() -> None:
    found = lint(Listing(functions("memory.cu", "sm_90a")["mix80_capped"]), {"MEM105"})
    assert found.findings == [] and found.passed == ["MEM105"]


@pytest.mark.parametrize(("sm", "way"), [(90, WHERE_IT_LIES), (61, EITHER)])
def test_a_copy_of_parameters_is_told_where_the_chip_needs_none(sm: int, way: str) -> None:
    found = lint(Listing(program(PARAMETERS, sm)), {"MEM105"})
    assert [f.fix for f in found.findings] == [way] and (COPY in found.findings[0].why) is (sm == 90)


def test_severity_follows_the_loops() -> None:
    (inside,) = linted("memory.cu", "sm_90a", "palette_local").findings
    (straight,) = linted("memory.cu", "sm_90a", "scale4_scalar").findings
    assert (inside.severity, straight.severity) == ("major", "minor")


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_both_directions_across_the_proxies(arch: str) -> None:
    """Stores before a TMA store are a race; loads before a TMA load, behind a barrier, at most one by the model."""
    (store,) = linted("tma.cu", arch, "put_unfenced").findings
    (load,) = [f for f in linted("tma.cu", arch, "refill_unfenced").findings if f.code == "ASY505"]
    assert (store.severity, load.severity) == ("critical", "info") and store.confidence > load.confidence
    assert [re.split(r"[ .]", p.sass or "")[0] for p in store.locations[:3]] == ["STS", "BAR", "UTMASTG"]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_copies_that_are_not_proven_uniform(arch: str) -> None:
    """Graver where a loop of the program goes through them again and again."""
    (looped,) = linted("tma.cu", arch, "refill_fenced").findings
    (once,) = linted("roles.cu", arch, "beside").findings
    assert (looped.code, looped.severity, once.code, once.severity) == ("LAT310", "minor", "LAT310", "info")
    assert [p.opcode.split(".")[0] for p in looped.locations] == ["UTMALDG"] and "elect.sync" in looped.fix


def test_merging_names_its_condition() -> None:
    (plain,) = linted("memory.cu", "sm_90a", "scale4_scalar").findings
    (rows,) = linted("memory.cu", "sm_90a", "row_pairs").findings
    assert "the pointer is 16-byte aligned." in plain.why
    assert "run-time strides are multiples of 4 elements" in rows.why and rows.confidence < plain.confidence
    (pairs,) = linted("memory.cu", "sm_100a", "scale8_pairs").findings
    assert "32 bytes" in pairs.title


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90a", "sm_100a"])
def test_the_conflict_degree_is_derived(arch: str) -> None:
    (plain,) = linted("tiles.cu", arch, "transpose_plain").findings
    (strided,) = linted("tiles.cu", arch, "rows_strided").findings
    assert "32 wavefronts where 1" in plain.title and "8 wavefronts where 1" in strided.title


def excerpts(rule: type) -> tuple[str, list[re.Match[str]]]:
    """A page's section on SASS, and what of it names a kernel of fixtures/sass."""
    from kscope.rules.registry import page

    _, _, section = page(rule).partition("## In SASS\n")
    section = section.partition("\n## ")[0] + "\n"
    return section, [*re.finditer(r"\((?:(\w+\.cu), )?(\w+)(?:, (sm_\w+))?\):\n\n((?: {4}.*\n)+)", section)]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.code)
def test_every_excerpt_names_what_it_is_of(rule: type) -> None:
    """A kernel that is compiled here, or a capture (test_docs): else nobody compares it."""
    section, compiled = excerpts(rule)
    captured = re.findall(r"^(?:Before|After|From) \(capture [\w.]+\):\n\n {4}", section, re.MULTILINE)
    assert len(re.findall(r"\n\n {4}", section)) == len(compiled) + len(captured)


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if excerpts(rule)[1]], ids=lambda r: r.code)
def test_excerpts_are_compiled_code(rule: type) -> None:
    """Each line of SASS on a rule's page stands in the kernel that it names, in that order."""
    source = arch = ""
    for match in excerpts(rule)[1]:
        source, arch = match[1] or source, match[3] or arch
        texts = iter([ins.text for ins in functions(source, arch)[match[2]].instructions])
        for line in match[4].splitlines():
            text = line.strip()
            assert text == "..." or any(text == have for have in texts), f"{match[2]}: {text}"
