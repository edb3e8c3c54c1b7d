"""More blocks for a loop over the grid: no more than it has rounds for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.sass.listing import Ran, Structure
from kscope.fixes.given.setting import Setting
from kscope.fixes.work.grid import _rounds
from kscope.model.kernel import Kernel


@pytest.mark.parametrize(("rounds", "found"), [(1.0, 1.0), (1.2, 1.0), (40.0, 40.0)])
def test_threads_that_have_one_element_or_none_leave_nothing_to_others(
    rounds: float, found: float, kernel: Callable[[str], Kernel]
) -> None:
    """A public kernel whose 171 blocks went round once was 0.94x with 264."""
    program = kernel("small_grid.slow").program
    assert program is not None
    structure = Structure(program)
    cfg = structure.cfg
    loads = [i for i, op in enumerate(structure.classes) if op.space == "global" and op.access == "load"]
    outer = {cfg.loops_around(i)[-1] for i in loads if cfg.loop_of[i] is not None}
    inside = {i for loop in outer for i in cfg.loop_body(loop)}
    executed = tuple(rounds if i in inside else 1.0 for i in range(len(program)))
    items = _rounds(Setting(Ran(structure, executed), lambda _: []))
    assert outer and (items == found if found == 1 else items >= found)
