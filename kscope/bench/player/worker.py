"""The player: loads one candidate, holds its arrays, calls it when it is told to. The clock is on the other side.

A request is `{"do": NAME, ...}`, its answer `{"ok": true, ...}` or `{"ok": false, "kind", "error"}`. `run` is answered
three times: ready, done, and what came out; once where it is untimed.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from kscope.bench.player import handing, loading, native, pages, tools, watch, wire
from kscope.bench.player.arrays import Numpy, Slot, Torch

FAULTS = 600  # characters of a fault that are sent


class Player:
    """One candidate with its slots."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.given: dict[str, Any] = {}
        self.side: Any = None
        self.call: Any = None
        self.slots: list[Slot] = []
        self.bound: list[Callable[[], Any]] = []
        self.folder = ""
        self.arena: np.memmap[Any, Any] | None = None
        self.inputs: list[dict[str, Any]] = []
        self.watch: watch.Watch
        self.known: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.graphs: dict[str, tools.Graph] = {}
        self.retained: list[Any] = []
        self.aside = 0

    def serve(self) -> None:
        while True:
            try:
                asked = wire.receive(self.link)
            except wire.Broken:
                return
            if asked.get("do") == "quit":
                return
            try:
                answer = getattr(self, f"do_{asked['do']}")(asked) or {}
                wire.send(self.link, {"ok": True, **answer})
            except wire.Broken:
                return
            except BaseException as error:  # a candidate may raise anything
                if self.retained:
                    self.retained = []
                wire.send(self.link, {"ok": False, "kind": type(error).__name__, "error": str(error)[:FAULTS]})

    def do_load(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.given, self.folder = asked, asked["folder"]
        if asked["role"] == "reference":
            pages.kept()
        own = [os.path.dirname(asked["path"])] if asked.get("path") else asked.get("folders", [])
        self.watch = watch.Watch(own)
        if asked["framework"] == "raw":
            self.side = native.Memory(asked["device"])
            self.aside = tools.emptied(self.side)
            self.call = native.entry(asked["library"])
            return {"what": "library"}
        if asked["framework"] == "torch":
            self.side = Torch(asked["device"])
            self.side.torch.manual_seed(asked["seed"])
            self.aside = tools.emptied(self.side)
        else:
            self.side = Numpy()
        self.known, self.settings = watch.functions(), watch.settings()
        self.watch.phase = "import"
        try:
            module = loading.module(asked["path"], asked["module"])
            found = loading.named(module, asked["name"], asked["role"])
            self.call, what = self._callable(module, found)
        finally:
            self.watch.phase = ""
        return {"what": what}

    def _callable(self, module: Any, found: Any) -> tuple[Any, str]:
        given = self.given
        if loading.is_module(found):
            torch = self.side.torch
            torch.manual_seed(given["seed"])
            start = module.get_init_inputs() if callable(getattr(module, "get_init_inputs", None)) else []
            made = found(*start).to(given["device"])
            return (made.double() if given.get("wide") else made), "module"
        if loading.is_triton(found):
            names = [one for one in given["names"] if one]
            return loading.launcher(given["launch"], given["name"], found, names, given["keywords"]), "triton"
        if given["launch"]:
            return loading.launcher(given["launch"], given["name"], found, given["names"], given["keywords"]), "launch"
        if given["keywords"]:
            from functools import partial

            return partial(found, **given["keywords"]), "function"
        return found, "function"

    def do_describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"inputs": loading.described(self.call)}

    def do_case(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Allocate slots. inputs, outputs: {shape, dtype, layout} or {value}; changes: positions a call writes to."""
        self.slots, self.bound, self.graphs, self.retained = [], [], {}, []
        gc.collect()
        if isinstance(self.side, native.Memory):
            self.side.free()
        self.inputs = asked["inputs"]
        for _ in range(asked["slots"]):
            arrays = [self._made(one) for one in asked["inputs"]]
            slot = Slot(arrays, [self._made(one) for one in asked["outputs"]])
            self.slots.append(slot)
            self.bound.append(self._bind(slot, asked))
        self.arena = np.memmap(os.path.join(self.folder, "in"), np.uint8, "r", shape=(asked["bytes"],))
        return {}

    def _made(self, one: dict[str, Any]) -> Any:
        if "value" in one:
            return one["value"]
        return self.side.make(one["shape"], one["dtype"], one.get("layout", "plain"))

    def _bind(self, slot: Slot, asked: dict[str, Any]) -> Callable[[], Any]:
        if isinstance(self.side, native.Memory):
            blocks = [a for a in (*slot.arrays, *slot.outputs) if isinstance(a, native.Block)]
            stream = tools.PER_THREAD if self.given["device"] == "cuda" else None
            return native.bound(self.call, blocks, asked["dims"], self.side, stream)
        call, arguments = self.call, (*slot.arrays, *slot.outputs)
        if self.given["launch"]:
            call.__globals__.update(asked["sizes"])
        return lambda: call(*arguments)

    def do_fill(self, asked: dict[str, Any]) -> None:
        """New data in a slot, at the same addresses. how: `copy`, or `raw` past the framework; offsets by position."""
        assert self.arena is not None
        slot = self.slots[asked["slot"]]
        for position, offset in asked["offsets"]:
            one = self.inputs[position]
            storage = np.dtype("uint16" if one["dtype"] == "bfloat16" else one["dtype"])
            count = int(np.prod(one["shape"], dtype=np.int64)) * storage.itemsize
            raw = np.array(self.arena[offset : offset + count]).view(storage).reshape(one["shape"])
            self.side.fill(slot.arrays[position], raw, asked["how"])
            if position in asked.get("changes", ()):
                slot.pristine[position] = self.side.copy(slot.arrays[position])
        self.side.sync()

    def do_spread(self, asked: dict[str, Any]) -> None:
        count = asked["count"]
        for i in range(count, len(self.slots)):
            slot, like = self.slots[i], self.slots[i % count]
            for position, one in enumerate(self.inputs):
                if "value" not in one:
                    self.side.restore(slot.arrays[position], like.arrays[position])
            slot.pristine = like.pristine
        self.side.sync()

    def do_rewrap(self, asked: dict[str, Any]) -> None:
        """Other objects around the same memory."""
        slot = self.slots[asked["slot"]]
        slot.arrays = [self.side.again(a) if hasattr(a, "shape") else a for a in slot.arrays]
        self.bound[asked["slot"]] = self._bind(slot, asked)

    def do_run(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Calls of slots in order; of those in `keep` the outputs are sent. mode `graph`: replayed from one."""
        order, keep = asked["order"], set(asked["keep"])
        self.watch.phase = asked.get("phase", "call")
        self._poison(asked)
        graph = self._graph(asked) if asked.get("mode") == "graph" else None
        for slot in asked.get("prime", ()):
            graph.replay() if graph is not None else self.bound[slot]()
        self._restore(bool(asked.get("restore")))
        plan = [(self.bound[slot], i in keep) for i, slot in enumerate(order)]
        once = graph.replay if graph is not None else native.many(self.side, self.call, self.bound, order)
        if asked.get("empty"):
            plan, once = [(_nothing, False)] * len(order), None
        self._outputs_poisoned(order)
        self.side.sync()
        kept: list[Any] = []
        gc.disable()
        if not self._told(asked, "ready").get("go"):
            return {}
        if once is not None:
            for _ in range(asked.get("repeat", 1)):
                once()
        else:
            kept = handing.called(plan, self.side.copy if self.given.get("reuses") else None)
        self.side.sync()
        self._told(asked, "done")
        gc.enable()
        if once is not None:
            kept = graph.kept if graph is not None else [None] * len(keep)
        answer = self._taken(kept, [order[i] for i in sorted(keep)])
        if asked.get("again"):  # the same objects once more, later
            self.retained = [kept, [order[i] for i in sorted(keep)]]
        self.watch.phase = ""
        return answer

    def _told(self, asked: dict[str, Any], what: str) -> dict[str, Any]:
        """A word to the clock, and its answer; at once where no clock runs."""
        if asked.get("untimed"):
            return {"go": True}
        wire.send(self.link, {"ok": True, what: True})
        return wire.receive(self.link)

    def do_retake(self, asked: dict[str, Any]) -> dict[str, Any]:
        kept, slots = self.retained
        self.side.sync()
        return self._taken(kept, slots)

    def _poison(self, asked: dict[str, Any]) -> None:
        """Memory that an allocator may hand out next is no longer what it was."""
        for shape, dtype in asked.get("poison", ()):
            blocks = [self.side.make(shape, dtype, "plain") for _ in range(3)]
            for one in blocks:
                self.side.poison(one)
            del blocks

    def _outputs_poisoned(self, order: list[int]) -> None:
        for i in set(order):
            for one in self.slots[i].outputs:
                self.side.poison(one)

    def _restore(self, again: bool) -> None:
        for slot in self.slots if again else ():
            for position, pristine in slot.pristine.items():
                self.side.restore(slot.arrays[position], pristine)

    def _graph(self, asked: dict[str, Any]) -> tools.Graph:
        key = asked["graph"]
        if key not in self.graphs:
            calls = [self.bound[slot] for slot in asked["order"]]
            self.graphs = {key: tools.captured(self.side, calls, set(asked["keep"]))}
        return self.graphs[key]

    def _taken(self, kept: list[Any], slots: list[int]) -> dict[str, Any]:
        rows = [self._outputs(out, self.slots[i]) for out, i in zip(kept, slots, strict=True)]
        return {"outputs": handing.written(self.side, self.folder, rows)}

    def _outputs(self, out: Any, slot: Slot) -> list[Any]:
        if slot.outputs:
            return slot.outputs
        changed = [slot.arrays[i] for i in self.given.get("changes", ())]
        return handing.flat(out) if out is not None else changed

    def do_dump(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The inputs of a slot as they are now."""
        arrays = [one for one in self.slots[asked["slot"]].arrays if hasattr(one, "shape")]
        return {"outputs": handing.written(self.side, self.folder, [arrays])}

    def do_audit(self, asked: dict[str, Any]) -> dict[str, Any]:
        now = watch.settings()
        changed = {k: [v, now.get(k, v)] for k, v in self.settings.items() if now.get(k, v) != v}
        return {
            "events": self.watch.found(),
            "replaced": watch.replaced(self.known),
            "settings": changed,
            "persisting": max((tools.persisting(self.given["device"]) or 0) - self.aside, 0),
        }

    def do_exceptions(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"found": watch.caught_inside(self.watch, self.bound[asked["slot"]])}

    def do_profile(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"found": [tools.profiled(self.side, [self.bound[slot] for slot in one]) for one in asked["orders"]]}

    def do_streams(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._outputs_poisoned([asked["slot"]])
        return tools.on_streams(self.side, self.bound[asked["slot"]],
                                lambda out: self._outputs(out, self.slots[asked["slot"]]))  # fmt: skip

    def do_counted(self, asked: dict[str, Any]) -> None:
        groups = [[self.bound[slot] for slot in group] for group in asked["groups"]]
        tools.counted(self.side, self.call, groups, [self.bound[slot] for slot in asked["between"]])

    def do_code(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"kernels": tools.triton_code(self.call)}


def _nothing() -> None: ...


def main(number: int) -> None:
    Player(socket.socket(fileno=number)).serve()
