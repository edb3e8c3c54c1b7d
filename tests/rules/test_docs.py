"""Every rule is its own page: the sections, an example before and after, and its fixed place in the catalogue."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.model.kernel import Kernel
from kscope.rules.base import AnyRule, CodeRule, Rule
from kscope.rules.registry import MODULES, all_rules, matching, page, rule
from tests.support.thorough import some

SECTIONS = ("What it does", "Why it costs time", "Evidence", "Fix", "When it is wrong", "Source")
FAMILIES = {"memory": "MEM", "compute": "CMP", "latency": "LAT", "grid": "GRD", "overhead": "OVH",
            "asynchronous": "ASY"}  # fmt: skip
LINES = 225  # with the page and its excerpts
EXCERPTS = "In SASS"  # compiled code before and after, where there is some
CATALOGUE = {  # codes never change and are never reused
    "MEM101": "uncoalesced-global-access",
    "MEM102": "narrow-global-access",
    "MEM103": "shared-bank-conflicts",
    "MEM104": "register-spills",
    "MEM105": "local-memory-indexing",
    "MEM106": "redundant-memory-traffic",
    "MEM107": "dram-bandwidth-saturated",
    "MEM108": "misaligned-global-access",
    "MEM109": "atomic-contention",
    "MEM110": "host-memory-access",
    "MEM111": "divergent-constant-access",
    "MEM112": "low-data-reuse",
    "MEM113": "texture-throughput",
    "MEM114": "sum-kept-in-memory",
    "MEM115": "sector-promotion",
    "MEM116": "strong-global-loads",
    "MEM117": "small-product-tiles",
    "MEM118": "repeated-loads",
    "CMP201": "tensor-cores-idle",
    "CMP202": "legacy-tensor-path",
    "CMP203": "accidental-fp64",
    "CMP204": "slow-math-functions",
    "CMP205": "integer-address-overhead",
    "CMP206": "missing-fma",
    "CMP207": "conversion-overhead",
    "CMP208": "pipe-saturated",
    "CMP209": "serialized-wgmma",
    "CMP210": "register-bank-conflicts",
    "CMP211": "double-precision-functions",
    "CMP212": "debug-build",
    "CMP213": "tensor-pipe-gaps",
    "LAT301": "low-occupancy",
    "LAT302": "exposed-memory-latency",
    "LAT303": "dependency-chain",
    "LAT304": "barrier-stalls",
    "LAT305": "warp-divergence",
    "LAT306": "instruction-cache-misses",
    "LAT307": "unpipelined-copy",
    "LAT308": "memory-fence-stalls",
    "LAT309": "redundant-barrier",
    "LAT310": "lane-serial-bulk-copy",
    "GRD401": "small-grid",
    "GRD402": "tail-effect",
    "GRD403": "load-imbalance",
    "GRD404": "block-size",
    "GRD405": "short-threads",
    "ASY501": "pipeline-priming",
    "ASY502": "producer-bound-pipeline",
    "ASY503": "epilogue-bubble",
    "ASY504": "shallow-pipeline",
    "ASY505": "missing-proxy-fence",
    "OVH601": "launch-bound",
    "OVH602": "gpu-idle",
    "OVH603": "host-synchronization",
    "OVH604": "transfer-bound",
    "OVH605": "cuda-graph-candidate",
    "OVH606": "tiny-kernel", "OVH607": "recompilation", "OVH608": "graph-breaks",
    "OVH609": "exposed-communication",
    "OVH610": "small-collectives",
    "OVH611": "straggler",
    "OVH612": "load-imbalance-ranks",
    "OVH613": "pipeline-bubble",
    "OVH614": "single-precision-products",
}
NOT_YET: set[str] = set()
BY_CODE = {r.code: r for r in all_rules()}


def file_of(r: type[AnyRule]) -> Path:
    return Path(inspect.getfile(r))


def sections(r: type[AnyRule]) -> dict[str, str]:
    """Text under each heading of the rule's page; "" is what stands before the first."""
    out, name = {"": ""}, ""
    for line in inspect.cleandoc(sys.modules[r.__module__].__doc__ or "").splitlines():
        if line.startswith("## "):
            name = line.removeprefix("## ")
            assert name not in out, f"{name} twice"
            out[name] = ""
        else:
            out[name] += line + "\n"
    return {heading: text.strip() for heading, text in out.items()}


def test_catalogue() -> None:
    """Codes and slugs as they were promised, each once; what is planned is named, not forgotten."""
    shipped = {r.code: r.slug for r in all_rules()}
    assert len(shipped) == len(all_rules()) == len(set(shipped.values())) == len(MODULES)
    assert shipped == {code: slug for code, slug in CATALOGUE.items() if code not in NOT_YET}
    assert set(CATALOGUE) >= NOT_YET and len(set(CATALOGUE.values())) == len(CATALOGUE)
    assert [r.code for r in all_rules()] == sorted(shipped)


def test_no_rule_file_is_forgotten() -> None:
    root = Path(inspect.getfile(Rule)).parent
    files = [p for p in root.glob("*/*.py") if not p.name.startswith("_") and p.parent.name not in ("lints", "_shared")]
    there = {f"{p.parent.name}.{p.stem}" for p in files}
    assert there == set(MODULES)


@pytest.mark.parametrize("code", BY_CODE)
def test_page(code: str) -> None:
    r = BY_CODE[code]
    parts = sections(r)
    assert tuple(name for name in parts if name and name != EXCERPTS) == SECTIONS
    if issubclass(r, Rule):
        assert EXCERPTS in parts, "what it looks like in SASS, from our own captures or compiled code"
    assert EXCERPTS not in parts or tuple(parts).index(EXCERPTS) == tuple(parts).index("Fix") + 1
    assert all(len(text) > 20 for text in parts.values()), "no section is empty"
    first = parts[""]
    assert "\n" not in first and first.endswith(".") and len(first) < 120, "one sentence says what it is about"
    assert page(r).startswith(f"# {code} {r.slug}\n")
    assert "TODO" not in file_of(r).read_text(encoding="utf-8"), "what `kscope dev new-rule` left to write"


@pytest.mark.parametrize("code", BY_CODE)
def test_example(code: str) -> None:
    """Code before and after, indented, and not the same."""
    fix = sections(BY_CODE[code])["Fix"]
    found = re.search(r"^Before:\n\n((?: {4}.*\n|\n)+)\s*After:\n\n((?: {4}.*(?:\n|$)|\n)+)", fix, re.MULTILINE)
    assert found is not None, fix
    assert found[1].strip() != found[2].strip() and len(found[1].strip()) > 5 < len(found[2].strip())


@pytest.mark.parametrize("code", BY_CODE)
def test_place(code: str) -> None:
    """File name, folder, class name and family agree; a rule stays small."""
    r = BY_CODE[code]
    path = file_of(r)
    assert path.stem == r.slug.replace("-", "_")
    assert FAMILIES[path.parent.name] == code[:3]
    assert r.__name__.lower() == r.slug.replace("-", "")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES
    assert r.title and not r.title.endswith(".") and len(r.title) < 70
    assert r.regime in ("memory", "compute", "overhead")
    collect = r"--(section|set) \w" if issubclass(r, Rule) else r"nsys profile .*torch\.profiler"
    assert re.search(r"^kscope sass" if issubclass(r, CodeRule) else collect, r.collect)


@pytest.mark.parametrize("code", BY_CODE)
def test_lookup(code: str) -> None:
    r = BY_CODE[code]
    assert rule(code) is rule(code.lower()) is rule(r.slug) is rule(f" {code} ") is r
    assert matching(code) == matching(r.slug) == {code}
    assert code in matching(code[:3]) and all(c.startswith(code[:3]) for c in matching(code[:3]))


SHOWN = [c for c, r in BY_CODE.items() if "(capture " in sections(r).get(EXCERPTS, "")]


@pytest.mark.parametrize("code", some(SHOWN, 9))
def test_excerpts_are_captured_code(code: str, kernel: Callable[[str], Kernel]) -> None:
    """Each line of SASS on the page stands in the capture that it names, in that order."""
    section = sections(BY_CODE[code])[EXCERPTS] + "\n"
    found = re.findall(r"^(Before|After|From) \(capture ([\w.]+)\):\n\n((?: {4}.*\n)+)", section, re.MULTILINE)
    assert [name for name, _, _ in found] in (["Before", "After"], ["From"])
    for _, case, lines in found:
        program = kernel(case).program
        assert program is not None
        texts = iter([ins.text for ins in program.instructions])
        for line in lines.splitlines():
            assert line.strip() == "..." or any(line.strip() == text for text in texts), f"{case}: {line}"


def test_every_rule_on_kernels_shows_its_code() -> None:
    shown = [c for c, r in BY_CODE.items() if issubclass(r, Rule)]
    assert all(EXCERPTS in sections(BY_CODE[c]) for c in shown) and len(shown) >= 36
