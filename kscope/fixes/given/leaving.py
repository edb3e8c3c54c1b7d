"""Loops and switches where a kernel's text is played: threads leave them, or a round of them, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.places import Places
from kscope.model.lazily import np

ROUNDS = 4096  # of one loop


def left(before: Mapping[str, Any], now: Mapping[str, Any], inside: Iterable[Node]) -> dict[str, Any]:
    """What names stand for behind a block of these statements: its own are gone, and what they hid is back."""
    own = {name for node in inside if node[0] == "declare" for name, *_ in node[2]}
    return {name: value if name in own else now[name] for name, value in before.items()}


def statements(node: Node) -> Iterator[Node]:
    """A statement and those within it, in the order of the text."""
    yield node
    within: list[Node] = []
    if node[0] == "block":
        within = node[1]
    elif node[0] == "for":
        within = [node[1], node[4]]
    elif node[0] == "if":
        within = [node[2], node[3]]
    elif node[0] == "switch":
        within = [one for case in node[2] for one in case[2]]
    for one in within:
        yield from statements(one)


class Leaving(Places):
    """`going`: threads that have neither returned nor left what is around."""

    alive: Any
    going: Any
    broken: Any
    continued: Any

    def run(self, node: Node) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.on = np.ones(self.threads, dtype=bool)
        self.alive = self.going = self.on.copy()
        self.broken = self.continued = np.zeros_like(self.on)

    def _do_return(self, node: Node) -> None:
        self.alive, self.going = self.alive & ~self.on, self.going & ~self.on
        self.on = np.zeros_like(self.on)

    def _do_leave(self, node: Node) -> None:
        self.going = self.going & ~self.on
        if node[1] == "break":
            self.broken = self.broken | self.on
        else:
            self.continued = self.continued | self.on
        self.on = np.zeros_like(self.on)

    def _do_if(self, node: Node) -> None:
        test = self.value(node[1])
        was = self.on
        for mask, part in ((np.asarray(test) != 0, node[2]), (np.asarray(test) == 0, node[3])):
            self.on = was & self.going & mask
            if self.on.any():
                self.run(part)
        self.on = was & self.going

    def _do_for(self, node: Node) -> None:
        names, was, around = dict(self.names), self.on, (self.broken, self.continued)
        nobody = np.zeros_like(was)
        self.broken, self.continued = nobody, nobody
        self.run(node[1])
        for _ in range(ROUNDS):
            test = self.value(node[2])
            if np.ndim(test):
                self.on = self.on & (test != 0)
            if not (self.on.any() and np.any(test)):
                break
            self.run(node[4])
            self.on, self.going = self.on | self.continued, self.going | self.continued
            self.continued = nobody
            self.value(node[3])
            self.pay()
        else:
            raise Unplayable("a long loop")
        self.going = self.going | self.broken
        self.broken, self.continued = around
        self.names = left(names, self.names, [node[1]])
        self.on = was & self.going

    def _do_switch(self, node: Node) -> None:
        value, was, broken = self.value(node[1]), self.on, self.broken
        names, self.broken = dict(self.names), np.zeros_like(was)
        labels = [[np.asarray(value == self.value(x)) for x in case[0]] for case in node[2]]
        none = was & ~np.any([np.broadcast_to(x, was.shape) for one in labels for x in one] or [~was], axis=0)
        entered = np.zeros_like(was)
        for mine, (_, default, inside) in zip(labels, node[2], strict=True):
            for mask in [*mine, *([none] if default else [])]:
                entered = entered | (was & mask)
            self.on = entered & self.going
            if self.on.any():
                for one in inside:
                    self.run(one)
        self.going = self.going | self.broken
        self.broken = broken
        self.names = left(names, self.names, [one for case in node[2] for one in case[2]])
        self.on = was & self.going
