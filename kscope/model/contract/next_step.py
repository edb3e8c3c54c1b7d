"""What to do with a kernel after it was diagnosed: the one field that an agent needs to know when to stop."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kscope.model.contract.findings import Frozen

UNHEARD = 5
"""Rules without their inputs, from which the silence of the others says little."""
Action = Literal["stop", "go_on", "change_algorithm", "measure"]
WRITTEN = "as the code stands"
"""End of the name of a bound that other code for the same arithmetic moves (engine/kernels/headroom.py)."""


class NextStep(Frozen):
    """`stop`: nothing that is known would pay. `go_on`: the finding of `code` promises `speedup`; without a code there
    is room that no rule explains. `change_algorithm`: this kernel is at its roof and the problem's floor is far below.
    `measure`: the report lacks what would tell."""

    do: Action
    words: Annotated[str, Meta(description="do, gain and rule as a line")]
    why: str
    code: Annotated[str | None, Meta(description="of the rule to follow")] = None
    command: Annotated[str | None, Meta(description="that collects what lacks; PROGRAM stands for the program")] = None
    speedup: Annotated[float | None, Meta(description="that is promised; null where nobody knows")] = None
