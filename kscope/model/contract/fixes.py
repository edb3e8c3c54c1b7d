"""A change to a kernel: the code itself, what must hold for it, what was run to prove it, and what it is worth.

What cannot be proved has no `code`: such a Fix says in `refused` why there is none, and what would do instead.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, structs

from kscope.model.contract.frozen import Estimate, Frozen

Kind = Literal[
    "pad", "swizzle", "descriptor_swizzle", "vector_access", "lane_mapping", "hoist", "divisor", "math_function",
    "literal", "launch_bounds", "block_size", "shared_bytes", "unroll", "copy_constants", "stages", "qualifier",
    "register", "aggregate", "host_copy", "align", "build", "tile", "fence", "reciprocal",
    "texel_loads", "neighbours", "none", "jam", "index_width", "carveout", "element_access",
]  # fmt: skip
State = Literal["proved", "assumed", "check"]
Ground = Literal["", "lanes", "code", "launch", "values"]


class Condition(Frozen):
    """What must hold. `proved`: by what was run; `assumed`: what CUDA or the ABI promises, or how the source's text
    reads; `check`: only the reader knows."""

    holds: str
    state: State
    why: str = ""
    by: Annotated[
        Ground,
        Meta(description="proved by lanes that were run, machine code, the launch and the chip, or values played"),
    ] = ""
    ran: Annotated[int, Meta(description="how many addresses, instructions, numbers or values that were")] = 0


class Proof(Frozen):
    """One figure before the change and after it, and how it came about."""

    what: str
    before: float
    after: float
    unit: str = ""
    how: str = ""

    def __post_init__(self) -> None:
        """Counts are written as other figures are, whether they were just made or read back."""
        for name in ("before", "after"):
            if type(value := getattr(self, name)) is int:
                structs.force_setattr(self, name, float(value))


class Edit(Frozen):
    """One line of the source as it is and as it will be; `becomes` may be several lines, or none."""

    file: str
    line: Annotated[int, Meta(description="from 1")]
    was: str
    becomes: str


class Fix(Frozen):
    """A change, ready to paste. `code` stands before the kernel (helper functions) or says the whole of it; `edits` are
    the lines that change, where the source was at hand. `costs`: what it takes (shared memory, registers, warps)."""

    kind: Kind
    title: str
    language: Literal["cuda", "triton", ""] = ""
    code: str = ""
    edits: list[Edit] = []
    above: Annotated[int, Meta(description="line of the edited file that `code` stands before; 0: the launch")] = 0
    parameters: dict[str, int | float | str] = {}
    conditions: list[Condition] = []
    proof: list[Proof] = []
    costs: list[str] = []
    price: Annotated[Estimate | None, Meta(description="of the kernel's time, if only this were done")] = None
    refused: Annotated[str, Meta(description="why there is no code, and what fits instead")] = ""

    @property
    def printable(self) -> bool:
        """Whether there is something to paste that was proved: code or edits, figures, and no condition unproved that
        could have been computed."""
        return bool((self.code or self.edits) and self.proof and not self.refused)

    @property
    def identity(self) -> int:
        """A number that tells one change from another: where several findings ask for the same, it mends each of them,
        and is worth as much as the dearest. Another one in each process."""
        return hash((self.kind, self.title, self.code, tuple((e.file, e.line, e.becomes) for e in self.edits)))


class Proposal(Frozen):
    """A change of one kernel, and the finding that it answers."""

    kernel: str
    code: Annotated[str, Meta(description="of the rule, e.g. MEM103")]
    rule: str
    why: str
    fix: Fix
    also: Annotated[list[str], Meta(description="rules of the kernel whose findings the same change answers")] = []


class Checked(Frozen):
    """A change against a new version: whether its code has it, and what it brought."""

    kernel: str
    code: str
    kind: Kind
    what: Annotated[str, Meta(description="what is counted in both versions")]
    old: float
    new: float
    has: Literal["yes", "partly", "no", "unknown"]
    old_us: float | None = None
    new_us: float | None = None
    delivered: Annotated[float | None, Meta(description="old time over new time")] = None
    promised: Estimate | None = None
    kept: Annotated[bool | None, Meta(description="whether what was delivered lies in the promise's bounds")] = None


class FixReport(Frozen):
    """`kscope fix --format json`."""

    schema: str = "kscope.fixes/1"
    proposals: list[Proposal] = []
    checked: list[Checked] = []
