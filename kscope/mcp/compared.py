"""Two reports side by side, as `kscope diff` compares them."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.engine.comparing.compare import compare
from kscope.engine.run import analyze_paths
from kscope.features.views.footprint import Footprints, quoted
from kscope.mcp.arguments import Compare
from kscope.mcp.desk import Desk
from kscope.mcp.keys import kernel_keys
from kscope.model.contract.analysis import Analysis
from kscope.model.contract.comparison import Comparison


class Sides(Struct, frozen=True):
    """The comparison, and the keys of all kernels of both sides by their ids, also of those without a partner."""

    comparison: Comparison
    before: dict[str, str]
    after: dict[str, str]


def compared(desk: Desk, asked: Compare) -> Sides:
    """With footprints, so that a finding counts as fixed only where what it counted went away."""
    before, after = desk.roots.file(asked.before), desk.roots.file(asked.after)
    now = after.stat()

    def make() -> Sides:
        pattern = re.escape(asked.name) if asked.name else None
        old = Footprints()
        first = analyze_paths([before], kernel=pattern, footprints=old)
        new = Footprints(wanted=quoted([f for k in first.kernels for f in k.findings]))
        second = analyze_paths([after], kernel=pattern, footprints=new)
        return Sides(compare(first, second, (), (old, new)), _keys(first), _keys(second))

    return desk.kept(before, ("compare", str(after), now.st_ino, now.st_mtime_ns, now.st_size, asked.name), make)


def _keys(analysis: Analysis) -> dict[str, str]:
    return dict(zip((k.id for k in analysis.kernels), kernel_keys(analysis.kernels), strict=True))
