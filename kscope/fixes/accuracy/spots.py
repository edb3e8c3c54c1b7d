"""Where calls of accurate functions stand in the source, and what of all that they cost each of them costs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, structs

from kscope.features.estimate.gains import of_part
from kscope.features.patterns.accurate_math import FUNCTIONS, accurate_calls
from kscope.features.patterns.math_functions import half_divisions, powers
from kscope.features.patterns.slicing import computation
from kscope.features.sass.columns import total
from kscope.fixes.given.rewrite import Place
from kscope.fixes.given.setting import Setting
from kscope.model.contract.fixes import Fix
from kscope.model.contract.frozen import Estimate

WORTH = 1.02  # expected gain from which a change is worth its accuracy: below, runs differ by as much (judged)
POWER = 4  # instructions of a fast power: scaling, lg2, a product and ex2 (those of __powf, nvcc 13.0)
_TOOLKIT = re.compile(r"/(?:targets|cuda[\w.-]*)/(?:[^/]+/)*include/|\bcuda_\w+\.hpp$")


class Spot(Struct, frozen=True):
    """A call: the instruction that only it has, its function (of FUNCTIONS, or "pow"), the warp instructions that a
    fast one saves, the lines that it is on, from the one that calls it outwards."""

    anchor: int
    function: str
    saved: float
    places: tuple[Place, ...]

    def at(self, places: Collection[tuple[str, int]]) -> bool:
        return any((p.file, p.number) in places for p in self.places)


def spots(setting: Setting) -> list[Spot]:
    """The calls that ran."""
    code = setting.code
    found = []
    for call in (*accurate_calls(code), *half_divisions(code)):
        saved = total(code.executed, call.members) - FUNCTIONS[call.function].fast * code.executed[call.anchor]
        found.append(Spot(call.anchor, call.function, max(0.0, saved), lines_of(setting, call.anchor)))
    raised = powers(code)
    calls = total(code.executed, [p.start for p in raised])
    if not calls:
        return found
    mine = computation(code, tuple({i for p in raised for i in (p.start, *p.seeds)}))
    each = max(0.0, total(code.executed, sorted(mine)) / calls - POWER)  # lines with several share what they compute
    found += [Spot(p.start, "pow", each * code.executed[p.start], lines_of(setting, p.start)) for p in raised]
    return found


def for_host(lines: Sequence[str], number: int) -> bool:
    """Whether the function around a line is the host's, too: intrinsics are the device's alone."""
    named = [m[1] for line in lines if (m := re.match(r"\s*#\s*define\s+(\w+)\s.*__host__", line)) is not None]
    words = re.compile(r"\b(?:__(?:host|device|global)__" + "".join(f"|{re.escape(n)}" for n in named) + r")\b")
    for n in range(min(number, len(lines)), 0, -1):
        if words.search(lines[n - 1]) and not lines[n - 1].lstrip().startswith("#"):
            head = "\n".join(lines[max(0, n - 2) : n + 1])
            return any(word == "__host__" or word in named for word in words.findall(head))
    return False


def helper_of(power: str, lines: Sequence[str]) -> tuple[str, str]:
    """(name, text) of a function to add that is called power, by another name where the file has that one."""
    text = "\n".join(lines)
    rest = re.sub(r"\bpower<\w+>\(", "", text.replace(power, ""))
    name = "whole_power" if re.search(r"\bpower\b", rest) else "power"
    return name, re.sub(r"\bpower\b", name, power)


def lines_of(setting: Setting, index: int) -> tuple[Place, ...]:
    """The lines of an instruction that somebody wrote: not the toolkit's own."""
    found = []
    for file, number in setting.sites(index):
        lines = setting.lines(file)
        if 0 < number <= len(lines) and not _TOOLKIT.search(file):
            found.append(Place(file, number, lines[number - 1]))
    return tuple(found)


def priced(fix: Fix, whole: Estimate | None, found: Iterable[Spot], taken: Iterable[Spot]) -> list[Fix]:
    """The change with its part of what fast versions of all calls would save; none where that is not worth it."""
    if whole is None:
        return [fix]
    every = sum(s.saved for s in found)
    price = of_part(whole, sum(s.saved for s in taken) / every if every else 1.0)
    return [structs.replace(fix, price=price)] if price.speedup >= WORTH else []
