"""Copies of tensors' boxes and products by warpgroups, as events of the warp that asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.roles.events import Arrived, Copy, Event, Grouped, Multiplied, Settled
from kscope.fixes.roles.lanes import WINDOW
from kscope.model.lazily import np

BOXES = re.compile(
    r"cp\.async\.bulk\.tensor\.[1-5]d\.shared::(?:cluster|cta)\.global(?:\.tile)?\.mbarrier::complete_tx::bytes"
    r"(?P<all>\.multicast::cluster)?(?:\.L2::cache_hint)?"
)
_MAP = re.compile(r"\[\s*(%\d+)\s*,\s*\{[^{}]*\}\s*\]")
PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k\d+"
                     r"\.f(?:16|32)\.(?:f16|bf16|tf32|e4m3|e5m2)\.\w+")  # fmt: skip
GROUPS = ("wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned")
_ROW, _ROWS, _LONG = 128, 8, 32  # bytes of a swizzled row, rows of a pattern, bytes along K of a product (PTX ISA)


def boxes(warp: Any, name: str, of: Any) -> None:
    match = BOXES.fullmatch(name)
    source = _MAP.fullmatch(of.text(1))
    if match is None or source is None:
        raise Unplayable(name)
    array = getattr(warp.value(of.given[int(source[1][1:])]), "space", None)
    if not isinstance(array, str):
        raise Unplayable("a copy from nowhere")
    at, bar, own = of.each(0), of.each(2), warp.shared.rank
    ranks = [own]
    if match["all"]:
        mask = of.whole(3)
        if type(mask) is not int or not 0 < mask < 1 << warp.blocks:
            raise Unplayable("blocks of a cluster")
        ranks = [n for n in range(warp.blocks) if mask >> n & 1]
    for rank in ranks:
        there = (rank - own) * WINDOW
        warp.tell(Copy(warp.lanes(), at + there, np.full(len(at), -1), bar + there, array, box=True))


def product(warp: Any, name: str, of: Any) -> None:
    match = PRODUCT.fullmatch(name)
    if match is None or not np.all(warp.on) or warp.threads % 128:
        raise Unplayable(name)
    turned = [of.text(n) for n in range(3, of.count) if re.fullmatch(r"[01]", of.text(n))][-2:]
    sixteen = re.search(r"\.b?f16\.b?f16$", name) is not None
    if not sixteen and of.count > 6:
        raise Unplayable(name)
    read = []
    for n, rows in ((1, 64), (2, int(match["n"]))):
        if n == 1 and of.text(1).startswith("{"):
            continue  # from registers
        way = of.count > 5 and sixteen and len(turned) == 2 and turned[n - 1] == "1"
        read.append(_span(of.whole(n), rows, turned=way, rank=warp.shared.rank))
    warp.tell(Multiplied(warp.lanes(), tuple(read)))


def _span(value: Any, rows: int, *, turned: bool, rank: int) -> tuple[int, int]:
    """First byte and how many, at most, that a matrix of a descriptor lies in."""
    if hasattr(value, "dtype") and value.size and (value == value.flat[0]).all():
        value = int(value.flat[0])
    if type(value) is not int or value < 0 or value >> 49 & 7:
        raise Unplayable("a descriptor")
    start, across, along, way = value & 0x3FFF, value >> 16 & 0x3FFF, value >> 32 & 0x3FFF, value >> 62
    if way == 0:
        one, counts = _ROW, (rows // _ROWS - 1, 1)
    else:
        one, counts = _ROW * _ROWS, (-(-rows // 64) - 1, 1) if turned else (rows // _ROWS - 1, 0)
    strides = (across * 16, along * 16) if turned or way == 0 else (along * 16, along * 16)
    reach = max(strides[0] * counts[0] + strides[1] * counts[1], strides[1] * counts[0] + strides[0] * counts[1])
    first = start * 16 // _ROW * _ROW
    return first + rank * WINDOW, reach + one


def grouped(warp: Any, name: str, of: Any) -> None:
    if not np.all(warp.on):
        raise Unplayable(name)
    if "commit" in name:
        warp.tell(Grouped(warp.lanes()))
        return
    left = of.whole(0)
    if type(left) is not int:
        raise Unplayable(name)
    warp.tell(Settled(warp.lanes(), left))


def sized(warps: Sequence[Sequence[Event]]) -> list[list[Event]]:
    """With bytes for copies of boxes: those that arrive at an mbarrier lie side by side, and come to what is announced
    for each of its phases. Raises Unplayable where they cannot."""
    places: dict[int, set[int]] = {}
    known: dict[int, set[int]] = {}
    for event in (e for w in warps for e in w):
        if isinstance(event, Copy):
            for at, size, bar in _each(event):
                (places if size < 0 else known).setdefault(bar, set()).add(at)
        elif isinstance(event, Arrived) and np.any(event.bytes):
            for bar, size in zip(event.bar.tolist(), np.asarray(event.bytes).tolist(), strict=True):
                known.setdefault(-1 - bar, set()).update([size] * (size > 0))
    if not places:
        return [list(w) for w in warps]
    sizes: dict[tuple[int, int], int] = {}
    for bar, found in places.items():
        promised, starts = known.get(-1 - bar, set()), sorted(found)
        if len(promised) != 1 or bar in known:
            raise Unplayable("bytes of boxes")
        ends = [*starts[1:], starts[0] + next(iter(promised))]
        if ends[-1] <= starts[-1]:
            raise Unplayable("bytes of boxes")
        sizes |= {(bar, a): b - a for a, b in zip(starts, ends, strict=True)}
    return [[_with(e, sizes) for e in w] for w in warps]


def _each(event: Copy) -> Iterator[tuple[int, int, int]]:
    return zip(event.at.tolist(), np.asarray(event.bytes).tolist(), event.bar.tolist(), strict=True)


def _with(event: Event, sizes: dict[tuple[int, int], int]) -> Event:
    if not isinstance(event, Copy) or not np.any(event.bytes < 0):
        return event
    return structs.replace(event, bytes=np.array([sizes[bar, at] for at, _, bar in _each(event)]))
