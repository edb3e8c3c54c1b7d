"""Makers asked about a capture's machine code with another text: what a maker reads in the text alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.setting import Asked
from kscope.model.contract.analysis import Fix
from tests.support.with_sources import ABOVE, BELOW, diagnosed
from tools.fixes_measures import facts

Capture = tuple[str, str, Callable[[Asked], list[Fix]]]
"""A case, a rule that has found something in it, and a maker."""


def told(case: str, code: str, make: Callable[[Asked], list[Fix]], *swaps: tuple[str, str]) -> list[Fix]:
    """What a maker prints for the finding of a rule, refusals apart. swaps: (text, what stands there instead), each
    within a line."""
    found: list[str] = []

    def lines(file: str) -> list[str]:
        text = "\n".join(setting.lines(file))
        for was, becomes in swaps:
            found.extend([was] if was in text else [])
            text = text.replace(was, becomes)
        return text.split("\n")

    setting = setting_of(facts(case), lambda file: ABOVE(file) or BELOW(file))
    other = msgspec.structs.replace(setting, lines=lines)
    made = [fix for f in diagnosed(case).findings if f.code == code for fix in make(Asked(other, f))]
    assert {was for was, _ in swaps} == set(found), "a text that is not there"
    return [fix for fix in made if not fix.refused]
