"""The bounds of a loop in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line

if TYPE_CHECKING:
    from kscope.model.contract.programs import LoopView


def bounds(loop: LoopView, most: int = 6) -> str:
    """`if this were the only limit: LSU 64 · FMA 16 cycles a warp and round`."""
    if loop.refused:
        return f"no bound: {one_line(loop.refused)}"
    known = [b for b in loop.bounds if not b.refused]
    parts = [f"{b.pipe} {_cycles(b.cycles, b.most)}" for b in known[:most]]
    text = f"if this were the only limit: {' · '.join(parts)} cycles a warp and round" if parts else "no pipe is used"
    refused = [f"{b.pipe}: {one_line(b.refused)}" for b in loop.bounds if b.refused]
    return text + "".join(f"; not counted, {one}" for one in refused)


def _cycles(least: float, most: float) -> str:
    return f"{least:.4g}" if f"{least:.4g}" == f"{most:.4g}" else f"{least:.4g} to {most:.4g}"
