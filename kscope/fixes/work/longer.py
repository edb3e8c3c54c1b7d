"""Threads that do little each: the template's number that says how much, raised, and as many blocks fewer."""

from __future__ import annotations

import re

from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import kernel_text, loops, plain, shape
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 64  # rounds of a thread that are proposed: what it does once is then a small part (judged)
WAVES = 2  # of blocks that must be left, so that the last one is not half of the time (judged)
_TEMPLATE = re.compile(r"template\s*<\s*int\s+(\w+)\s*>")
_VALUE = re.compile(r"<\(?(?:int)?\)?(\d+)>")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text, held = kernel_text(setting), asked.setting.occupancy()
    said = _VALUE.search(setting.instance)
    if text is None or launch is None or held is None or said is None or not setting.sms:
        return []
    above = "\n".join([*setting.lines(text.file)[max(0, text.first - 2) : text.first - 1], text.code])
    template, was = _TEMPLATE.search(above), int(said[1])
    if template is None or not _walked(text.code, template[1]):
        return []
    name, slots = template[1], held.blocks * setting.sms
    more = [n for n in (2, 4, 8, 16, 32, 64) if launch.grid[0] % n == 0 and launch.blocks // n >= WAVES * slots]
    times = max((n for n in more if n * was <= MOST), default=0)
    if not times:
        return []
    x, y, z = launch.grid[0] // times, launch.grid[1], launch.grid[2]
    grid = f"dim3({x}, {y}, {z})" if z > 1 else f"dim3({x}, {y})" if y > 1 else str(x)
    shared = f", {launch.shared_dynamic}" if launch.shared_dynamic else ""
    return [
        Fix(
            kind="block_size",
            title=f"{name} = {was * times} instead of {was}: {times} times the work, {launch.blocks // times} blocks",
            language="cuda",
            code=f"{setting.name}<{was * times}><<<{grid}, {shape(launch.block)}{shared}>>>(...);",
            parameters={name: was * times, "grid.x": x, "grid.y": y},
            conditions=[
                reads(f"{name} is how many elements a thread takes, a block's threads side by side",
                      f"a loop of {name} rounds, and blockIdx.x times the block and {name} in the index"),
                shown(launch.grid[0] % times == 0, "the blocks come out even", "launch", launch.grid[:2],
                      f"{launch.grid[0]} is a multiple of {times}"),
                Condition(holds="the order of what is summed or compared does not matter", state="check"),
            ],
            proof=[
                Proof(
                    what="blocks that the launch starts", before=launch.blocks, after=launch.blocks // times,
                    unit="blocks", how=f"{slots} at once on {setting.sms} SMs: at least {WAVES} waves are left",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _walked(code: str, name: str) -> bool:
    """Whether a number is the rounds of one loop and a factor of the block's place, and nothing else."""
    rounds = [one for one in loops(code) if plain(one.end) == name and one.start == "0"]
    index = re.findall(rf"blockIdx\.x\s*\*\s*(?:\w+|blockDim\.x)\s*\*\s*{name}\b", code)
    return len(rounds) == 1 and len(index) == 1 and len(re.findall(rf"(?<!int )\b{name}\b", code)) == 2
