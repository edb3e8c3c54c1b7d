"""A profiled kernel beside the problem that it was to solve: what it moved and computed, and what the problem needs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kscope.model.contract.findings import Frozen


class ProblemFit(Frozen):
    """needed: by the problem, every operand once; done: by the kernel, null where the report lacks it. `headroom` is
    the problem's, `headroom_code` that of these instructions and bytes, as in the kernel's own `headroom`."""

    text: str
    chip: Annotated[str, Meta(description="whose rates the floor is of")]
    flop_needed: float
    flop_done: float | None
    read_bytes_needed: Annotated[float, Meta(description="from device memory, cold")]
    read_bytes_done: float | None
    written_bytes_needed: float
    written_bytes_done: float | None
    l2_read_bytes: Annotated[float | None, Meta(description="that L2 handed to the SMs")]
    floor_us: Annotated[float, Meta(description="nothing is faster")]
    attained_us: Annotated[float, Meta(description="what the best kernels reach")]
    limiter: str
    headroom: Annotated[float | None, Meta(description="time over attained_us; null where it is another problem")]
    headroom_code: float | None
    says: Annotated[list[str], Meta(description="what differs, in words")] = []
