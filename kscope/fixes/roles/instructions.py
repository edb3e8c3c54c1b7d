"""What assembly does, as events of the warp that comes to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.roles.assembly import RANKS, Assembly, Step
from kscope.fixes.roles.events import Access, Arrived, Begun, Copy, Met, Stopped, Waited
from kscope.fixes.roles.functions import computed, number_of
from kscope.fixes.roles.lanes import WINDOW
from kscope.fixes.roles.tensors import GROUPS, boxes, grouped, product
from kscope.fixes.roles.texts import UNKNOWN
from kscope.fixes.roles.values import TRIED, Place
from kscope.model.lazily import np

_MEMORY = re.compile(r"\[\s*%(\d+)\s*(?:\+\s*(\d+)\s*)?\]")
_BARS = ("bar.sync", "barrier.sync", "barrier.cta.sync", "bar.arrive", "barrier.arrive", "barrier.cta.arrive")
_ORDERS = ("mbarrier.arrive", "mbarrier.try_wait", "mbarrier.test_wait", *_BARS)
_MATRICES = re.compile(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])(?:\.trans)?\.shared(?:::cta)?\.b16")
_WORDS = re.compile(
    r"(ld|st)(?:\.(?:volatile|weak|nc|cs|cg|ca|L1::\w+|L2::\w+))*\.(shared|shared::cta|global)"
    r"(?:\.(?:nc|cs|cg|ca|L1::\w+|L2::\w+))*(?:\.v[24])?\.[bsuf]\d+"
)
_OF_CLUSTERS = ("mov.", "mapa.", "barrier.cluster.", "wgmma.", "cp.async.bulk.tensor")
_BULK = "cp.async.bulk.shared::"
_SILENT = ("cp.async.bulk.prefetch", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group")
"""No bulk copy that ends otherwise than at an mbarrier is played: waits for such have nothing to wait for."""


def perform(warp: Any, one: Assembly, given: Sequence[Node]) -> Any:
    result: Any = UNKNOWN
    own: dict[str, Any] = {}  # registers of the assembly's own
    if not one.silent:
        for step in one.steps:
            if step.name.startswith(_ORDERS) and not one.keeps:
                raise Unplayable("assembly that the compiler moves accesses over")
            found = _step(warp, step, given, own)
            result = result if found is None else found
    elif one.steps and one.steps[0].name.startswith("elect"):
        result = (np.arange(WARP) == np.flatnonzero(warp.on)[0]).astype(np.int64)
    for node in given[: one.results]:
        if node[0] != "value" and not (result is UNKNOWN and _forgotten(warp, node)):
            warp.value(("assign", "=", node, ("value", result)))
    return UNKNOWN


def _forgotten(warp: Any, node: Node) -> bool:
    """Whether an element is of a lane's own array, of which nothing is known from now on."""
    place = warp.names[node[1][1]] if node[0] == "index" and node[1][0] == "name" else None
    if not isinstance(place, Place) or not isinstance(place.space, int):
        return False
    warp.own[place.space] = None
    return True


def _step(warp: Any, step: Step, given: Sequence[Node], own: dict[str, Any]) -> Any:
    name, of = step.name, _Operands(warp, step, given, own)
    if step.guarded and not name.startswith(("ld.", "st.")) and Assembly((step,), 0, repeats=False).silent is False:
        raise Unplayable("a guard in assembly")
    if Assembly((step,), 0, repeats=False).silent or name.startswith(_SILENT):
        return None
    if name.startswith("mbarrier."):
        return _mbarrier(warp, name, of)
    if name.startswith(_OF_CLUSTERS):
        return _of_clusters(warp, step, of, own)
    if name.startswith(_BARS):
        numbers = [int(of.whole(n)) for n in range(len(step.operands))]
        warp.tell(Stopped(warp.lanes(), numbers[0], [*numbers, 0][1], waits="arrive" not in name))
    elif name == "bar.warp.sync":
        warp.tell(Met(warp.lanes()))
    elif name.startswith(_BULK) and ".global.mbarrier::complete_tx::bytes" in name and "multicast" not in name:
        source = getattr(of.memory(1), "space", None)
        if not isinstance(source, str):
            raise Unplayable("a copy from nowhere")
        warp.tell(Copy(warp.lanes(), of.each(0), of.each(2), of.each(3), source))
    elif (matrix := _MATRICES.fullmatch(name)) is not None:
        rows = int(matrix[2]) * 8
        at = np.broadcast_to(np.asarray(of.memory(0 if matrix[1] == "st" else 1), dtype=np.int64), (WARP,))[:rows]
        if not np.all(warp.on):
            raise Unplayable("a part of a warp")
        warp.tell(Access(np.arange(rows), "", at, 16, write=matrix[1] == "st", all=matrix[1] == "ld"))
    elif (word := _WORDS.fullmatch(name)) is not None:
        _word(warp, step, of, store=word[1] == "st", shared=word[2] != "global")
    else:
        raise Unplayable(name)
    return None


def _of_clusters(warp: Any, step: Step, of: _Operands, own: dict[str, Any]) -> Any:
    name = step.name
    if name.startswith("mov."):
        return _rank(warp, step)
    if name == "mapa.shared::cluster.u32":
        address, rank = of.whole(1), of.whole(2)
        if not np.all((of.each(2) >= 0) & (of.each(2) < warp.blocks)):
            raise Unplayable("a block of the cluster")
        own[of.text(0)] = moved = computed("+", computed("&", address, WINDOW - 1), computed("*", rank, WINDOW))
        return moved if of.text(0).startswith("%") else None
    if name.startswith("barrier.cluster."):
        _cluster(warp, name)
        return None
    if name.startswith("wgmma.mma_async"):
        product(warp, name, of)
        return UNKNOWN
    if name in GROUPS:
        grouped(warp, name, of)
        return None
    if name.startswith("cp.async.bulk.tensor") and "mbarrier" in name:
        boxes(warp, name, of)
        return None
    raise Unplayable(name)


def _rank(warp: Any, step: Step) -> int:
    return warp.blocks if RANKS[step.operands[1]] else warp.shared.rank  # type: ignore[no-any-return]


def _cluster(warp: Any, name: str) -> None:
    """All of a cluster's threads wait for each other; between arriving and waiting nothing is done here."""
    if not re.fullmatch(r"barrier\.cluster\.(?:arrive(?:\.release)?|wait(?:\.acquire)?)(?:\.aligned)?", name):
        raise Unplayable(name)
    if "arrive" in name:
        warp.arrived = len(warp.events)
    elif warp.arrived != len(warp.events):
        raise Unplayable("something between arriving and waiting")
    else:
        warp.tell(Stopped(warp.lanes(), -1, 0, waits=True))


def _word(warp: Any, step: Step, of: _Operands, *, store: bool, shared: bool) -> None:
    at = of.memory(0 if store else 1)
    space = "" if shared else getattr(at, "space", None)
    if not isinstance(space, str):
        raise Unplayable("an address")
    where = at if shared else at.at
    if where is UNKNOWN and (shared or store):
        raise Unplayable("an address")
    warp.tell(Access(warp.lanes(), space, warp._each(where), step.bytes(), write=store))


def _mbarrier(warp: Any, name: str, of: _Operands) -> Any:
    lanes, kind = warp.lanes(), name.split(".")[1]
    there = "shared::cluster" in name and name != "mbarrier.arrive.shared::cluster.b64"
    if there or any(word in name for word in ("noComplete", ".relaxed")):
        raise Unplayable(name)
    if kind == "init":
        warp.tell(Begun(lanes, of.each(0), of.each(1)))
    elif name.startswith("mbarrier.arrive"):
        expects = ".expect_tx" in name
        at = next(n for n in range(of.count) if of.text(n).startswith("["))
        more = of.each(at + 1) if at + 1 < of.count else np.full(len(lanes), 0 if expects else 1)
        one = np.ones(len(lanes), dtype=np.int64)
        warp.tell(Arrived(lanes, of.each(at), one if expects else more, more if expects else 0 * one))
    elif kind == "expect_tx":
        warp.tell(Arrived(lanes, of.each(0), np.zeros(len(lanes), dtype=np.int64), of.each(1)))
    elif kind in ("try_wait", "test_wait") and ".parity" in name:
        warp.tell(Waited(lanes, of.each(1), of.each(2)))
        return TRIED
    else:
        raise Unplayable(name)
    return None


class _Operands:
    """What the operands of an instruction stand for."""

    def __init__(self, warp: Any, step: Step, given: Sequence[Node], own: dict[str, Any]) -> None:
        self.warp, self.step, self.given, self.own = warp, step, given, own
        self.count = len(step.operands)

    def text(self, n: int) -> str:
        return self.step.operands[n]

    def memory(self, n: int) -> Any:
        match = _MEMORY.fullmatch(self.text(n))
        inside = self.text(n).strip("[] ")
        if inside in self.own:
            return self.own[inside]
        if match is None:
            raise Unplayable(self.text(n))
        value = self.warp.value(self.given[int(match[1])])
        by = int(match[2] or 0)
        if hasattr(value, "moved"):
            return value if not by else type(value)(value.space, value.at + by, value.size)
        return value + by if value is not UNKNOWN else value

    def whole(self, n: int) -> Any:
        """A number, or an address in shared memory."""
        text = self.text(n)
        if text.startswith("["):
            value = self.memory(n)
        elif re.fullmatch(r"%\d+", text):
            value = self.warp.value(self.given[int(text[1:])])
        else:
            value = int(text, 0) if re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", text) else UNKNOWN
        if not number_of(value):
            raise Unplayable(text)
        return value

    def each(self, n: int) -> Any:
        return self.warp._each(self.whole(n))
