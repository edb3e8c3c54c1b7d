"""The end of a block's work, for the work of several blocks in one: the parts between its barriers side by side, so
that all of them meet as often as one did."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec import Struct

from kscope.fixes.given.rewrite import declarations
from kscope.fixes.given.source import SIZES, evaluated

_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_SHARED = re.compile(r"__shared__\s+(?P<type>[A-Za-z_][\w ]*?)\s+(?P<rest>\w+\s*(?:\[[^;=]*)?);")
_ONE = re.compile(r"(?P<name>\w+)\s*(?P<sizes>(?:\[[^][]*\]\s*)*)$")


class End(Struct, frozen=True):
    """`shared`: (type, name, sizes) of the block's arrays. `bytes`: all of them. `phases`: texts between barriers."""

    shared: tuple[tuple[str, str, str], ...]
    bytes: int
    phases: tuple[str, ...]

    def declared(self, times: int) -> str:
        """An array for each of the blocks that become one."""
        return " ".join(f"__shared__ {kind} {name}_of[{times}]{sizes};" for kind, name, sizes in self.shared)

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self.shared]


def ended(tail: str, types: str, known: Mapping[str, int]) -> End | None:
    """None where there is no barrier between statements of the end itself, where the arrays' sizes are not known, or
    where a part takes what one in front of another barrier has declared."""
    shared = _shared(tail, known)
    phases = _phases(_SHARED.sub("", tail))
    if shared is None or not shared or len(phases) < 2 or "__syncthreads" in "".join(phases):
        return None
    for n, phase in enumerate(phases):
        made = set(re.findall(rf"\b(?:{types})\s*\*?\s*(\w+)\s*[=;\[,]", phase))
        for name in made | {name for _, name in declarations(phase)}:
            uses = [re.search(rf"(?<![\w.])(?<!->){name}\b", later) for later in phases[n + 1 :]]
            if any(u and not re.search(rf"\b(?:{types}|auto)\s*\*?\s*$", later[: u.start()])
                   for u, later in zip(uses, phases[n + 1 :], strict=True)):  # fmt: skip
                return None
    return End(tuple(one[:3] for one in shared), sum(one[3] for one in shared), tuple(phases))


def _phases(text: str) -> list[str]:
    """The statements between barriers that stand in no block of their own."""
    out, at = [], 0
    for match in _BARRIER.finditer(text):
        if sum((c in "({[") - (c in ")}]") for c in text[: match.start()]) == 0:
            out.append(text[at : match.start()].strip())
            at = match.end()
    return [*out, text[at:].strip()]


def _shared(tail: str, known: Mapping[str, int]) -> list[tuple[str, str, str, int]] | None:
    out = []
    for match in _SHARED.finditer(tail):
        kind = " ".join(match["type"].split())
        for part in re.split(r",(?![^\[]*\])", match["rest"]):
            one = _ONE.match(part.strip())
            sizes = [evaluated(s, known) for s in re.findall(r"\[([^][]*)\]", one["sizes"])] if one is not None else []
            if one is None or kind not in SIZES or None in sizes:
                return None
            out.append((kind, one["name"], one["sizes"].strip(), SIZES[kind] * math.prod(s or 0 for s in sizes)))
    return out if len(out) >= tail.count("__shared__") else None
