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


class Odds(Frozen):
    """What came of first suggestions of the same size, built as told on kernels of public libraries
    (kscope/arch/record.toml)."""

    built: int
    gained: Annotated[int, Meta(description="that made their kernel faster by a tenth or more")]
    slower: Annotated[int, Meta(description="that made it slower by 3 % or more")]
    least: Annotated[float, Meta(description="smallest promised speed-up that is counted")]
    below: Annotated[float | None, Meta(description="speed-up from which promises are of the next size; null: none")]


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
    odds: Annotated[Odds | None, Meta(description="how such promises fared; null without a promise")] = None
