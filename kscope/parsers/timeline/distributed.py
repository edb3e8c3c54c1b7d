"""What a trace of the torch profiler says of the job that its process is one of: its rank, and what each collective was
for (`record_param_comms`, repeated on the kernels by Kineto from 2.2 on). parsers/kineto.md.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from kscope.model.errors import KscopeError, one_line
from kscope.model.timeline import LATEST, Message, Place
from kscope.parsers.files.stream import Stream
from kscope.parsers.timeline.chrome_events import Events

_HEAD = 1 << 16
_INT64 = 1 << 63
_LARGEST = 1 << 50  # bytes of a message
_MEMBERS = 1 << 20
_NAMES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "_allgather_base": "all_gather",
    "all_gather_into_tensor": "all_gather", "allgather_into_tensor_coalesced": "all_gather",
    "reducescatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter", "all_to_allv": "all_to_all", "alltoall": "all_to_all",
    "alltoall_base": "all_to_all", "allreduce_coalesced": "all_reduce",
    "all_gather_into_tensor_coalesced": "all_gather",
}  # fmt: skip
"""Names that versions of c10d gave to the same collective."""
_BYTES = {"double": 8, "long": 8, "complexdouble": 16, "complexfloat": 8, "float": 4, "int": 4, "half": 2,
          "bfloat16": 2, "short": 2, "float32": 4, "float64": 8, "int64": 8, "int32": 4, "float16": 2}  # fmt: skip


def message_of(args: Any) -> Message:
    """The Message of an event whose arguments (chrome_events.Args) name a collective."""
    said = one_line(str(args.collective))[:80].lower()
    peer = args.target if args.target is not None else args.source
    each = _BYTES.get(str(args.dtype).lower(), 1)
    size = max(integer(args.sent), integer(args.received), 0) * each
    return Message(
        what=_NAMES.get(said, said), bytes=min(size, _LARGEST), group=one_line(str(args.group or ""))[:200],
        ranks=_members(args.ranks), size=max(integer(args.group_size), 0),
        peer=integer(peer) if peer is not None else -1,
    )  # fmt: skip


def _members(value: Any) -> tuple[int, ...]:
    """The ranks of "[0, 1, 2]"; none for a list that the profiler cut short ("[0, 1, ..., 63]")."""
    try:
        found = decode(value, type=list[int]) if isinstance(value, str) else []
    except DecodeError:
        return ()
    return tuple(found) if all(0 <= r < _MEMBERS for r in found) else ()


def place_of(header: dict[str, Any]) -> Place:
    """The process of the job, from what stands beside the events."""
    said = header.get("distributedInfo")
    said = said if isinstance(said, dict) else {}
    rank, world, origin = said.get("rank"), said.get("world_size"), header.get("baseTimeNanoseconds")
    origin = origin if type(origin) is int and -LATEST < origin < LATEST else 0
    if type(rank) is int and type(world) is int and 0 <= rank < world <= _MEMBERS:
        return Place(rank=rank, world=world, origin=origin)
    return Place(origin=origin)


def integer(value: Any) -> int:
    """A device, stream or size: an integer, or the digits of "stream 7"; 0 for anything else."""
    if type(value) is int:
        return value if -_INT64 < value < _INT64 else 0
    if isinstance(value, str):
        digits = value.rpartition(" ")[2]
        return int(digits) if digits.isdecimal() and len(digits) < 19 else 0
    return 0


def place(path: Path) -> Place:
    """The Place of a trace, from what stands before its events, without reading them; unknown where it says nothing
    there, or cannot be read (which `kineto.read` says better)."""
    with contextlib.suppress(KscopeError, OSError):
        events = Events(Stream(path), str(path), _HEAD)
        for _ in events:
            break
        return place_of(events.header)
    return Place()
