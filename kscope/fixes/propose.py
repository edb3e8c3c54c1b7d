"""Finding to fixes: which synthesis answers which rule. A synthesis that fails costs nobody else anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from kscope.fixes.given.setting import Asked, Setting
from kscope.model.contract.findings import Finding
from kscope.model.contract.fixes import Fix
from kscope.model.faults import show_traceback

MOST = 3  # fixes of one finding that are shown: the best first
MAKERS: dict[str, tuple[str, ...]] = {
    "MEM101": ("lane_mapping:fixes", "vectors:fixes", "rows:fixes", "records:fixes",
               "triton_tiles:along"),
    "MEM102": ("vectors:fixes", "neighbours:fixes", "neighbours:elements"),
    "MEM103": ("tile.conflicts:fixes",),
    "MEM104": ("bounds:fixes",), "MEM105": ("unrolled:fixes", "columns:fixes"), "MEM116": ("qualifiers:fixes",),
    "MEM111": ("constants:fixes",), "CMP203": ("literals:fixes",), "CMP204": ("math_functions:fixes", "reciprocals:fixes"),
    "CMP205": ("divisors:fixes",), "CMP206": ("fused:fixes",), "LAT301": ("launch:fixes", "grid:taller"),
    "GRD404": ("launch:blocks", "triton:programs"), "LAT307": ("triton:stages", "waits:ring"), "ASY504": ("triton:stages",),
    "CMP207": ("conversions:fixes", "integer_dots:fixes"), "CMP209": ("fences:products",), "CMP211": ("powers:fixes",),
    "LAT302": ("grid:larger",), "LAT308": ("fences:fences",), "MEM109": ("aggregate:fixes",), "MEM110": ("host:fixes",),
    "MEM108": ("aligned:fixes",), "MEM113": ("texels:fixes",), "LAT304": ("shuffles:fixes",), "CMP212": ("build:fixes",),
    "MEM114": ("kept:fixes",), "GRD401": ("grid:larger", "triton_tiles:parts"), "MEM106": ("triton_tiles:whole_rows",), "GRD402": ("grid:waves",), "GRD403": ("dealt:fixes",),
}  # fmt: skip
"""Code of a rule -> what answers it, as module:function of this room, imported when the rule has found something."""


def proposed(setting: Setting, findings: Sequence[Finding]) -> list[Finding]:
    """The findings with the changes that mend them; of a profile those that pay, or promise nothing in figures."""
    bare = setting.launch is None
    return [
        msgspec.structs.replace(f, fixes=made) if (bare or f.severity != "info") and (made := _made(setting, f)) else f
        for f in findings
    ]


def _made(setting: Setting, finding: Finding) -> list[Fix]:
    found: list[Fix] = []
    for name in MAKERS.get(finding.code, ()):
        module, _, function = name.partition(":")
        make: Callable[[Asked], list[Fix]] = getattr(import_module(f"kscope.fixes.{module}"), function)
        try:
            found += make(Asked(setting, finding))
        except Exception as error:  # a change that cannot be computed must not cost the finding
            show_traceback(error)
    return [f for f in found if f.printable or f.refused][:MOST]
