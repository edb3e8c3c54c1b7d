"""Finding to fixes: which synthesis answers which rule. A synthesis that fails costs nobody else anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from kscope.fixes.setting import Asked, Setting
from kscope.model.faults import show_traceback
from kscope.model.findings import Finding
from kscope.model.fixes import Fix

MOST = 3  # fixes of one finding that are shown: the best first
MAKERS: dict[str, str] = {"MEM103": "shared"}
"""Code of a rule -> module of this room whose `fixes(Asked)` answers it, imported when the rule has found something."""


def proposed(setting: Setting, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those that pay (or promise nothing in figures) with the changes that mend them."""
    return [
        msgspec.structs.replace(f, fixes=made) if f.severity != "info" and (made := _made(setting, f)) else f
        for f in findings
    ]


def _made(setting: Setting, finding: Finding) -> list[Fix]:
    if finding.code not in MAKERS:
        return []
    make: Callable[[Asked], list[Fix]] = import_module(f"kscope.fixes.{MAKERS[finding.code]}").fixes
    try:
        found = make(Asked(setting, finding))
    except Exception as error:  # a change that cannot be computed must not cost the finding
        show_traceback(error)
        return []
    return [f for f in found if f.printable or f.refused][:MOST]
