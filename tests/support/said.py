"""What a rule says of facts."""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.rules.registry import rule


def outcome(code: str, facts: Facts) -> object:
    return rule(code)().run(facts)  # type: ignore[attr-defined]


def found(code: str, facts: Facts) -> Finding:
    said = outcome(code, facts)
    assert isinstance(said, Finding)
    return said
