"""Threads that do little each: the template's number that says how much, raised, and as many blocks fewer."""

from __future__ import annotations

import re

from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Loop, asked_here, closing, hidden, kernel_text, loops, plain, shape
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 64  # rounds of a thread that are proposed: what it does once is then a small part (judged)
WAVES = 2  # of blocks that must be left, so that the last one is not half of the time (judged)
_TEMPLATE = re.compile(r"template\s*<\s*int\s+(\w+)\s*>")
_LEFT = re.compile(r"\b(?:break|return|goto|atomic\w*)\b|__sync")
_WRITTEN = re.compile(r"(?<![\w.\])])(\w+)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")
_SUBSCRIPT = re.compile(r"\[[^\[\]]*\]")
_ARRAY = re.compile(r"(?<!__shared__ )\b(?:float|double|int|unsigned|half)\d?\s+\w+\s*\[")
_BY = {**dict.fromkeys(("fmaxf", "fmax", "max"), "atomicMax"), **dict.fromkeys(("fminf", "fmin", "min"), "atomicMin")}
_VALUE = re.compile(r"<\(?(?:int)?\)?(\d+)>")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text, held = kernel_text(setting), asked.setting.occupancy()
    said = _VALUE.search(setting.instance)
    if text is None or launch is None or held is None or said is None or not setting.sms:
        return []
    above = "\n".join([*setting.lines(text.file)[max(0, text.first - 2) : text.first - 1], text.code])
    template, was = _TEMPLATE.search(above), int(said[1])
    if template is None or not _walked(text.code, template[1]) or hidden(text.code, setting.lines(text.file)):
        return []
    if not asked_here(setting.code, text, "CTAID"):
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
    """Whether a number is the rounds of one loop and a factor of the block's place, nothing else asks for the block,
    and rounds are as far apart as they are many to a block: those of the next block are then the next rounds."""
    rounds = [one for one in loops(code) if plain(one.end) == name and one.start == "0"]
    index = re.findall(rf"blockIdx\.x\s*\*\s*(\w+|blockDim\.x)\s*\*\s*{name}\b", code)
    if len(rounds) != 1 or len(index) != 1 or len(re.findall(rf"(?<!int )\b{name}\b", code)) != 2:
        return False
    ((loop,), (each,)) = rounds, index
    inside, used = code[slice(*loop.body)], rf"\b{loop.name}\b"
    ways = rf"(?<![*/%.]){used}\*{each}\b(?![*/%.])|(?<![*/%.\w]){each}\*{used}(?![*/%.])"
    apart = re.findall(ways, re.sub(r"\s*([*/%])\s*", r"\1", inside))
    alone = loop.step in (f"{loop.name}++", f"++{loop.name}") and len(apart) == len(re.findall(used, inside)) > 0
    others = re.findall(r"\bblockIdx\b(?!\s*\.\s*[yz])|\bgridDim\b|\b(?:while|do|asm|goto)\b", code)
    return alone and len(others) == 1 and not _LEFT.search(inside) and _put_together(code, loop)


def _put_together(code: str, loop: Loop) -> bool:
    """Whether what a thread's rounds leave behind is a sum from nothing on that is added up, or an extreme of which the
    extreme is taken: then it does not matter whose rounds they were."""
    inside, bare = code[slice(*loop.body)], code[loop.body[1] :]
    before = code[code.find("{") : loop.span[0]]
    kept = [n for n in _WRITTEN.findall(inside) if re.search(rf"\b{n}\b", before)]
    if len(kept) > 1 or _ARRAY.search(code):
        return False
    m = kept[0] if kept else "-"
    own = re.search(rf"(?<![\w.]){m}\s*(?:(\+)=|=\s*({'|'.join(_BY)})\s*\(\s*{m}\s*,)", inside)
    if kept and (own is None or len(re.findall(rf"\b{m}\b", inside)) != (1 if own[1] else 2)):
        return False
    if own is not None and not own[1]:
        end = closing(inside, inside.index("(", own.start()) + 1)
        if end is None or inside[end + 1 :].lstrip()[:1] != ";":
            return False
    if own is not None and own[1] and not re.search(rf"\b{m}\s*=\s*0(?:\.0*)?f?\s*[,;]", before):
        return False
    by, atomic = ("", "atomicAdd") if own is None or own[1] else (own[2], _BY[own[2]])
    heads = rf"\b(?:for|if)\s*\((?:(?!\b{m}\b)[^()])*\)|\b__syncthreads\s*\(\s*\)\s*;"
    bare = re.sub(heads, "", _SUBSCRIPT.sub("", bare))
    bare = re.sub(rf"\b__shfl\w*_sync\s*\([^(),]*,\s*{m}\s*,[^(),]*\)|\b__float_as_u?int\s*\(\s*{m}\s*\)", m, bare)
    together = rf"{m}\s*=\s*{by}\s*\(\s*{m}\s*,\s*{m}\s*\)" if by else rf"{m}\s*\+=\s*{m}"
    handed = rf"(?<![\w.])(?:{together}|\w+\s*=\s*{m}|{m}\s*=\s*\w+|{atomic}\s*\(\s*&?\s*\w+\s*,\s*{m}\s*\))\s*;"
    return not re.sub(handed, "", bare).strip(" \n{}")
