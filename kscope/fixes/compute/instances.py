"""A template whose number says how many results a thread has each way: the instance that has more, with what of the
launch changes with it. Proved by playing both instances in small, in two sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.compute.multiplied import DRAWN
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, kernel_text
from kscope.fixes.template.proposed import results
from kscope.model.contract.fixes import Condition, Fix, Proof

MORE = (8, 4, 2)  # times as many results each way: 64 sums a thread are the most that registers hold with ease (judged)
MOST_SUMS = 64
STATIC = 48 * 1024 // 4  # words of shared memory that can be declared (CUDA C++ Programming Guide)
SIZES = ((128, (2, 1)), (160, (1, 2)))
"""What the launch's numbers are played as, all of them or all but one, and with it the larger instance's grid."""

OTHERS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # that this one is tried as
_TEMPLATE = re.compile(r"template\s*<\s*int\s+(\w+)\s*>")
_VALUE = re.compile(r"<\(int\)(\d+)>")
_HEAD = re.compile(r"\bvoid\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?\w+\s*\((?P<given>[^)]*)\)")
_NUMBER = re.compile(r"^(?:const\s+)?(?:int|unsigned)\s+(\w+)$")
_POINTER = re.compile(r"^(?P<const>const\s+)?(?:float|int)\s*\*\s*(?:__restrict__\s+)?(?P<name>\w+)$")


class _Kernel(Struct, frozen=True):
    """The template's number and its value now; parameters: numbers, arrays that are read, arrays that are written."""

    name: str
    now: int
    numbers: tuple[str, ...]
    read: tuple[str, ...]
    written: tuple[str, ...]
    body: str
    block: tuple[int, int]


class _Found(Struct, frozen=True):
    """Times as many results each way, numbers of the launch that grow and by how much, share of loads that is left, how
    many results were compared."""

    times: int
    grow: Mapping[str, int]
    loads: float
    compared: int


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text = kernel_text(setting)
    one = _kernel(setting, text) if text is not None else None
    if one is None or launch is None or launch.grid[2] * launch.block[2] > 1 or not setting.sms:
        return results(asked)
    for times in MORE:
        even = not launch.grid[0] % times and not launch.grid[1] % times
        if even and launch.blocks // times**2 >= setting.sms and (one.now * times) ** 2 <= MOST_SUMS:
            found = _larger(one, times)
            if found is not None:
                return [_instance(asked, one, found)]
    return []


def _instance(asked: Asked, one: _Kernel, found: _Found) -> Fix:
    setting, launch, more = asked.setting, asked.setting.launch, one.now * found.times
    assert launch is not None
    x, y, code = launch.grid[0] // found.times, launch.grid[1] // found.times, setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    before = total(code.executed, loads)
    block = f"dim3({launch.block[0]}, {launch.block[1]})" if launch.block[1] > 1 else str(launch.block[0])
    given = ", ".join(["...", *(f"{n} * {by}" for n, by in found.grow.items())])
    words = "".join(f", {n} {by} times as large" for n, by in found.grow.items())
    return Fix(
        kind="jam",
        title=f"{one.name} = {more} instead of {one.now}: {more} x {more} results a thread share their loads{words}",
        language="cuda",
        code=f"{setting.name}<{more}><<<dim3({x}, {y}), {block}>>>({given});",
        parameters={"instance": str(more), "grid.x": x, "grid.y": y, **found.grow},
        conditions=[
            proved("every result is the same sum", "values", found.compared,
                   f"both instances played in small, in {len(SIZES)} sizes, every result compared"),
            Condition(holds="the numbers of the launch come out even", state="check", why="there is no test for rests"),
            Condition(holds="registers hold the results without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(what="warp loads", before=before, after=before * found.loads, unit="inst",
                  how=f"elements that threads loaded where both were played: {found.loads:.3g} of those before"),
        ],
        costs=[f"{more**2 - one.now**2} registers a thread for results"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _kernel(setting: Setting, text: Text) -> _Kernel | None:
    """A kernel of floats, or whole numbers, with a square array of a template's number of results each way."""
    above = "\n".join([*setting.lines(text.file)[max(0, text.first - 2) : text.first - 1], text.code])
    template, value, head = _TEMPLATE.search(above), _VALUE.search(setting.instance), _HEAD.search(text.code)
    if template is None or value is None or head is None or setting.launch is None:
        return None
    name = template[1]
    if not re.search(rf"\b\w+\s*\[\s*{name}\s*\]\s*\[\s*{name}\s*\]", text.code):
        return None
    given = [" ".join(p.split()) for p in head["given"].split(",")]
    arrays = [m for p in given if (m := _POINTER.match(p)) is not None]
    numbers = tuple(m[1] for p in given if (m := _NUMBER.match(p)) is not None)
    if len(arrays) + len(numbers) != len(given):
        return None
    read, written = (tuple(m["name"] for m in arrays if bool(m["const"]) is kept) for kept in (True, False))
    block = setting.launch.block
    return _Kernel(name, int(value[1]), numbers, read, written, text.code[text.code.index("{") :], block[:2])


def _larger(one: _Kernel, times: int) -> _Found | None:
    """What changes with the number, if the same does in both sizes and the results are the same."""
    out: list[_Found] = []
    for size, grid in SIZES:
        small, large = (_numbers(one, one.now * t, size) for t in (1, times))
        if small is None or large is None or any(large[n] % small[n] for n in one.numbers):
            return None
        before = _made(one, one.now, small, (grid[0] * times, grid[1] * times))
        after = _made(one, one.now * times, large, grid)
        if before is None or after is None or before[0] != after[0] or not any(any(row) for row in before[0]):
            return None
        grow = {n: large[n] // small[n] for n in one.numbers if large[n] != small[n]}
        compared = sum(x != 0 for row in before[0] for x in row)
        out.append(_Found(times, grow, after[1] / before[1], compared))
    return out[-1] if all(one.grow == out[0].grow for one in out) and out[-1].loads < 1 else None


def _numbers(one: _Kernel, value: int, size: int) -> dict[str, int] | None:
    """What the launch's numbers can be for a block to write and read nothing that nobody wrote, and nothing outside:
    all of them one size, or all but one. None where they can be several."""
    plain = dict.fromkeys(one.numbers, size)
    tried = [plain, *({**plain, n: other} for n in one.numbers for other in OTHERS if other != size)]
    found = [numbers for numbers in tried if _made(one, value, numbers, (1, 1)) is not None]
    return found[0] if found and (found[0] == plain or len(found) == 1) else None


def _made(
    one: _Kernel, value: int, numbers: Mapping[str, int], grid: tuple[int, int]
) -> tuple[Sequence[list[int]], int] | None:
    """(what an instance writes, how many elements it loads); None where it cannot be played, or declares too much."""
    import numpy as np

    from kscope.fixes.given.played import play

    most = max(size for size, _ in SIZES) ** 2
    drawn = np.random.default_rng(most)
    memory = {n: drawn.integers(1, DRAWN, most) for n in one.read}
    memory |= {n: np.zeros(most, dtype=np.int64) for n in one.written}
    try:
        played = play(one.body, grid, one.block, memory, {**numbers, one.name: value})
    except Unplayable:
        return None
    return ([memory[n].tolist() for n in one.written], played.loads) if played.shared <= STATIC else None
