"""Advice that fits the chip: what a finding names and the chip lacks goes, its alternatives stay.

Rules say everything that helps somewhere: `cp.async or TMA`. Which of that a chip has is data (arch/advice.toml), so it
is taken out here, once for all rules, by what the words of a text are joined with: alternatives (`cp.async or TMA`)
lose the one that lacks, remarks in parentheses and clauses that need it go whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

from msgspec import structs

from kscope.arch import table
from kscope.features.facts import ChipFacts
from kscope.model.contract.analysis import Finding, Remedy

JOINTS = r"(?: or | / |, )"
TARGET = r"(?: \(sm_\d+\))?"  # `wgmma (sm_90)`: for whom a word is goes with it


def fitting(findings: Iterable[Finding], chip: ChipFacts) -> list[Finding]:
    """The findings with titles, reasons and fixes that name nothing the chip lacks; of titles and reasons only
    alternatives go, for what they say of the code is so."""
    out = []
    for finding in findings:
        fix = fits(finding.fix, chip.has)
        title, why = (_alternatives(text, chip.has) for text in (finding.title, finding.why))
        ways = _ways(finding.remedies, chip.has)
        same = (fix, title, why, ways) == (finding.fix, finding.title, finding.why, finding.remedies)
        if not same:
            finding = structs.replace(finding, fix=fix or finding.fix, title=title, why=why, remedies=ways)
        out.append(finding)
    return out


def _ways(remedies: Iterable[Remedy], has: Callable[[str], bool]) -> list[Remedy]:
    """The ways beside the fix that the chip has; of their reasons only alternatives go."""
    kept = ((one, fits(one.step, has)) for one in remedies)
    return [structs.replace(one, step=step, why=_alternatives(one.why, has)) for one, step in kept if step]


def fits(text: str, has: Callable[[str], bool]) -> str:
    """The text without what `has` denies: empty where nothing is left."""
    if not _names_lacking(text, has):
        return text
    text = _alternatives(text, has)
    text = re.sub(r" \(([^()]*)\)", lambda m: "" if _names_lacking(m[1], has) else m[0], text)
    sentences = []
    for sentence in text.split("; "):
        clauses = [c for c in _clauses(sentence) if not _names_lacking(c, has)]
        if clauses:
            sentences.append(", ".join(clauses))
    return re.sub(r"^(?:or|and|then) ", "", "; ".join(sentences))


def _clauses(sentence: str) -> list[str]:
    """Split at commas outside of parentheses."""
    parts, depth = [""], 0
    for i, char in enumerate(sentence):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth and sentence[i + 1 : i + 2] == " ":
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def _alternatives(text: str, has: Callable[[str], bool]) -> str:
    """Words of the table that stand beside each other as alternatives: only those that the chip has, or all."""

    def chosen(found: re.Match[str]) -> str:
        run = found[0]
        words = list(_word().finditer(run))
        kept = [w[0] for w in words if has(_needs(w[1]))]
        if not kept or len(kept) == len(words):
            return run
        joint = " / " if " / " in run else " or "
        return joint.join(kept)

    return _run().sub(chosen, text)


def _names_lacking(text: str, has: Callable[[str], bool]) -> bool:
    return any(not has(_needs(found[1])) for found in _word().finditer(text))


def _needs(word: str) -> str:
    needed: str = table("advice")["words"][word]
    return needed


@cache
def _word() -> re.Pattern[str]:
    """A word of the table (group 1), and the target that it names."""
    return re.compile(rf"(?<![\w.])({_any()})(?!\w){TARGET}")


@cache
def _run() -> re.Pattern[str]:
    """Two words of the table or more, joined as alternatives."""
    one = rf"(?<![\w.])(?:{_any()})(?!\w){TARGET}"
    return re.compile(rf"{one}(?:{JOINTS}{one})+")


def _any() -> str:
    """Longest first: `mbarriers` before `mbarrier`."""
    return "|".join(map(re.escape, sorted(table("advice")["words"], key=len, reverse=True)))
