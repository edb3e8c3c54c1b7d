"""Lanes of a warp that go different ways, as their places say: threads of a block take each other's places, so that
those of one way are neighbours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from kscope.fixes.atomics.reading import Kernel, kernel_of
from kscope.fixes.given.called import functions
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, asked_here, hidden, spans_edited
from kscope.fixes.order.alike import MATH, Side, alike, called, kinds, known, memory_of
from kscope.fixes.order.by_way import TOGETHER
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

WARP = 32
PLACE = "place_n"
PLAYED = 2  # blocks
FLAGS = (0, 1)  # that each number is played as, beside what is as large as the launch
MOST = 6  # numbers of a launch that are tried one by one (judged: a play each)
HALF = 0.5  # of the warps must be parted, so that it is not some guard at an array's end (judged)
_LANES = re.compile(
    r"\b__syncwarp\b|\b__\w+_sync\b|\b__activemask\b|\b(?:asm|goto|static|clock\w*|wmma)\b|#(?!\s*pragma\s+unroll)"
)
_THREAD = re.compile(r"\bthreadIdx\s*\.\s*x\b")
_OTHER = re.compile(r"\bthreadIdx\s*\.\s*[yz]\b")
_DRAWN = 1 << 24


class Ways(Struct, frozen=True):
    """Of a kernel's numbers: ways that a warp's lanes go, the mean, as places are and as they would be."""

    numbers: Mapping[str, int]
    before: float
    after: float
    parted: bool


class Places(Struct, frozen=True):
    """Threads of `group` neighbours take each other's places: `each` of them, side by side, go one of `ways` ways."""

    ways: int
    each: int
    block: int

    @property
    def group(self) -> int:
        return WARP * self.ways

    @property
    def text(self) -> str:
        """The place that a thread takes."""
        t, rest = "threadIdx.x", WARP // self.each
        own = t if self.group == self.block else f"{t} % {self.group}"
        way = f"{t} / {WARP}" if self.group == self.block else f"{t} / {WARP} % {self.ways}"
        parts = [] if self.group == self.block else [f"{t} / {self.group} * {self.group}"]
        if self.each == 1:
            parts += [f"{t} % {WARP} * {self.ways}", way]
        else:
            inner = [f"{own} % {self.each}".replace(f" % {self.group} %", " %")]
            if rest > 1:
                inner.append(f"{t} / {self.each} % {rest} * {self.each * self.ways}")
            parts += [*inner, f"{way} * {self.each}"]
        return " + ".join(parts)

    def taken(self) -> Any:
        """Of each thread of a block the place that it takes."""
        t = np.arange(self.block)
        inner = t % self.each + t // self.each % (WARP // self.each) * (self.each * self.ways)
        return t // self.group * self.group + inner + t // WARP % self.ways * self.each


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    kernel = kernel_of(setting)
    together = code.where(lambda ins, op: "mbarrier" in op.kind or ins.opcode in TOGETHER)
    if kernel is None or launch is None or together or max(*launch.block[1:], 1) > 1:
        return []
    if not asked_here(code, kernel.text, "TID") or not _apart(kernel):
        return []
    found = chosen(kernel, launch.block[0])
    if found is None:
        return []
    places, ways = found
    new = spans(kernel, places)
    played = same(kernel, places, new)
    edits = spans_edited(setting, kernel.text, new) if played else []
    if not edits:
        return []
    before = max(w.before for w in ways if w.parted)
    return [
        Fix(
            kind="lane_mapping",
            title=f"threads take each other's places within {places.group}: lanes of a warp go one way",
            language="cuda",
            edits=edits,
            parameters={"ways": places.ways, "threads": places.group},
            conditions=[
                proved("every place is taken by one thread, with the same result", "values", played,
                       f"{launch.block[0]} threads counted out, both versions played, every result compared"),
                proved("lanes of a warp take nothing of each other", "code", code, "no shuffles, votes or reductions"),
                *_settings(ways),
                Condition(holds=f"every launch has a multiple of {places.group} threads a block", state="check",
                          why=f"places are exchanged within {places.group} of them"),
            ],
            proof=[
                Proof(what="ways that a warp's lanes go, the mean", before=round(before, 2), after=1, unit="ways",
                      how=f"statements that each thread of {PLAYED} blocks goes through, as both versions were played"),
            ],
            costs=[f"lanes of a warp use {WARP // places.each} times {places.each} of {places.group} elements: their "
                   "sectors are shared by warps of a block, in L1"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _apart(kernel: Kernel) -> bool:
    """Whether lanes have nothing in common and threads are known by one axis, in a text without the new name."""
    named_ = re.search(rf"\b{PLACE}\b", kernel.text.code)
    return not (_LANES.search(kernel.body) or _OTHER.search(kernel.body) or named_ or hidden(kernel.body, kernel.lines))


def chosen(kernel: Kernel, block: int) -> tuple[Places, list[Ways]] | None:
    """The exchange within the fewest threads after which no warp is parted by places."""
    runs = paths(kernel, block)
    if block % WARP or not runs:
        return None
    for ways, each in product(range(2, block // WARP + 1), (1, 2, 4, 8, 16)):
        places = Places(ways, each, block)
        if block % places.group:
            continue
        found = [_counted(numbers, of, places) for numbers, of in runs]
        asks = [w for w in found if w.parted]
        if asks and all(w.after == 1 for w in asks):
            return places, found
    return None


def _counted(numbers: Mapping[str, int], of: Any, places: Places) -> Ways:
    """of: the path of each thread of a block, a row for each block."""
    old, new = (_each(part) for part in (of, of[:, places.taken()]))
    return Ways(numbers, float(old.mean()), float(new.mean()), bool((old > 1).mean() > HALF))


def _each(of: Any) -> Any:
    """Paths of each warp."""
    ordered = np.sort(of.reshape(-1, WARP), axis=1)
    return 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)


def paths(kernel: Kernel, block: int) -> list[tuple[Mapping[str, int], Any]]:
    """Of each thread which way it goes, for the numbers that a launch may give."""
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    all_ = dict.fromkeys(numbers, PLAYED * block)
    out: list[tuple[Mapping[str, int], Any]] = []
    for given in [all_, *({**all_, n: v} for n in numbers[:MOST] for v in FLAGS)]:
        of = _gone(kernel, kernel.text.code[kernel.opening : kernel.closing + 1], given, block)
        if of is not None:
            out.append((given, of))
    return out


def _gone(kernel: Kernel, body: str, numbers: Mapping[str, int], block: int) -> Any:
    """As a kernel's own functions are gone through with it, or where they are not understood as numbers alone."""
    inner = functions(kernel.lines, body)
    for opaque in ((), called(kernel) or ()):
        memory = memory_of(kernel, _DRAWN, {})
        rules = Rules(literals="drawn", kinds=kinds(kernel), opaque=(*MATH, *opaque), paths=True,
                      functions={n: f for n, f in inner.items() if n not in opaque})  # fmt: skip
        try:
            took = play(body, (PLAYED, 1), (block, 1), memory, {"warpSize": WARP, **known(kernel), **numbers}, rules)
        except Unplayable:
            continue
        return took.paths.reshape(PLAYED, block)
    return None


def spans(kernel: Kernel, places: Places) -> list[Span]:
    """The place that is named in the kernel's first line, and what is put in for the thread's number."""
    code, at = kernel.text.code, kernel.opening + 1
    first = f"\n  const unsigned {PLACE} = {places.text};" + ("" if code[at : at + 1] == "\n" else "\n ")
    return [(at, at, first), *((m.start(), m.end(), PLACE) for m in _THREAD.finditer(code, at))]


def put_in(kernel: Kernel, new: Sequence[Span]) -> str:
    """The body with them."""
    code = kernel.text.code[: kernel.closing + 1]
    for start, end, text in sorted(new, reverse=True):
        code = code[:start] + text + code[end:]
    return code[kernel.opening :]


def same(kernel: Kernel, places: Places, new: Sequence[Span]) -> int:
    """How many results came out alike in both versions, if the exchange is one and warps go the ways that it says; else
    0."""
    block, opaque = places.block, called(kernel)
    if opaque is None or sorted(places.taken().tolist()) != list(range(block)):
        return 0
    body = put_in(kernel, new)
    for given, of in paths(kernel, block):
        gone = _gone(kernel, body, given, block)
        if gone is None or (_each(of[:, places.taken()]) != _each(gone)).any():
            return 0
    old = Side(kernel.text.code[kernel.opening : kernel.closing + 1], (PLAYED, 1), (block, 1), opaque=opaque)
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    whole = dict.fromkeys(numbers, PLAYED * block)
    others = (dict.fromkeys(numbers, n) for n in (block + block // 2 - 1, 2 * PLAYED * block + 5))
    sizes = [whole, *others, *({**whole, n: v} for n in numbers[:MOST] for v in FLAGS)] if numbers else [{}]
    return alike(kernel, old, Side(body, (PLAYED, 1), (block, 1), opaque=opaque), sizes)


def _settings(ways: Sequence[Ways]) -> list[Condition]:
    """Numbers of the launch with which warps would be parted that are not now."""
    worse = [w for w in ways if w.after > w.before]
    good = next(w for w in ways if w.parted)
    if not worse:
        return []
    other = {n: sorted({w.numbers[n] for w in worse} - {good.numbers[n]}) for n in good.numbers}
    values = [f"{n} = {good.numbers[n]}" if good.numbers[n] in FLAGS else f"{n} other than {' and '.join(map(str, no))}"
              for n, no in other.items() if no]  # fmt: skip
    why = "with others lanes of a warp go together as they are: leave the places to those launches"
    return [Condition(holds=f"launches that take long have {', '.join(values)}", state="check", why=why)]
