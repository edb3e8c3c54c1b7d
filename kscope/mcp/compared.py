"""Two reports side by side, as `kscope diff` compares them."""

from __future__ import annotations

import re

from kscope.engine.compare import compare
from kscope.engine.run import analyze_paths
from kscope.features.views.footprint import Footprints, quoted
from kscope.mcp.arguments import Compare
from kscope.mcp.desk import Desk
from kscope.model.comparison import Comparison


def compared(desk: Desk, asked: Compare) -> Comparison:
    """With footprints, so that a finding counts as fixed only where what it counted went away."""
    before, after = desk.roots.file(asked.before), desk.roots.file(asked.after)
    now = after.stat()

    def make() -> Comparison:
        pattern = re.escape(asked.name) if asked.name else None
        old = Footprints()
        first = analyze_paths([before], kernel=pattern, footprints=old)
        new = Footprints(wanted=quoted([f for k in first.kernels for f in k.findings]))
        return compare(first, analyze_paths([after], kernel=pattern, footprints=new), (), (old, new))

    return desk.kept(before, ("compare", str(after), now.st_ino, now.st_mtime_ns, now.st_size, asked.name), make)
