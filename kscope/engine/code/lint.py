"""One function of a binary to its findings: every lint, gravest first, none of them able to cost the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from msgspec import structs

from kscope.engine.findings.fitting import fitting
from kscope.engine.findings.outcomes import Outcomes, judged
from kscope.engine.kernels.tiles import without_threads
from kscope.features.facts import ChipFacts, CodeFacts
from kscope.features.sass.listing import Listing
from kscope.model.contract.analysis import Finding
from kscope.rules.registry import all_lints

ORDER = ("critical", "major", "minor", "info")


def lint(code: Listing, codes: Collection[str] | None = None) -> Outcomes:
    """Run the lints on a function. `codes`: only those of these rules (all if None). Never raises: a lint that does
    becomes an entry of `errors`."""
    chosen = (one for one in all_lints() if codes is None or one.of.code in codes)
    facts = CodeFacts(code)
    said = judged(((one.of.code, partial(one().check, facts, code)) for one in chosen), _gravest_first)
    said = without_threads(code.program.tile, said)
    return structs.replace(said, findings=fitting(said.findings, ChipFacts(code.program.sm)))


def _gravest_first(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (ORDER.index(f.severity), -f.confidence, f.code))
