"""An instance of a template whose blocks meet in an atomic, where the one that was launched has a block store alone:
rows that few blocks take whole, taken by more."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED, Kernel, kernel_of
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, hidden, loops, plain, shape
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.kernel import Launch

LEAST = 2  # turns of a part's loop, unrolled as it is (argmax.split32, with 2 left, is 3.65x as fast as with 64)
FEWEST = 2  # parts of a row
TRIED = ((1, 6), (2, 64), (8, 24), (32, 1024))  # parts and elements of a row that are played
_MEETS = (
    r"if\s*\(\s*{flag}\s*\)\s*\{{?\s*(?P<function>atomic(?:Add|Max|Or|Xor))\s*\(\s*&\s*(?P<name>\w+)\s*\[(?P<at>[^\]]*)\]\s*,"
    r"\s*(?P<value>[^;]*?)\s*\)\s*;\s*\}}?\s*else\s*\{{?\s*(?P=name)\s*\[(?P=at)\]\s*=\s*(?P=value)\s*;"
)
_ZERO = {
    "atomicAdd": ("int", "unsigned", "unsigned long long", "float", "double"), "atomicOr": ("int", "unsigned",
    "unsigned long long"), "atomicMax": ("unsigned", "unsigned long long"), "atomicXor": ("int", "unsigned"),
}  # fmt: skip
"""Types whose zero an atomic's first value goes into unchanged."""


class Merged(Struct, frozen=True):
    """`instance`: its arguments with the flag set; `name`: what blocks meet in; `each`: the parameter that says how
    many elements a block takes, along `axis`."""

    instance: str
    name: str
    each: str
    axis: str


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, held = asked.setting, asked.setting.launch, asked.setting.occupancy()
    kernel = kernel_of(setting)
    found = merged(kernel, setting) if kernel is not None and not hidden(kernel.body, kernel.lines) else None
    if found is None or launch is None or held is None or not setting.sms:
        return []
    slots = held.blocks * setting.sms
    parts = min(slots // launch.blocks, int(_turns(setting) / LEAST))
    parts = 1 << max(0, parts.bit_length() - 1)
    if parts < FEWEST:
        return []
    grid = list(launch.grid)
    grid["xyz".index(found.axis)] = parts
    shared = f", {launch.shared_dynamic}" if launch.shared_dynamic else ""
    played = _played()
    return [
        Fix(
            kind="lane_mapping",
            title=f"{parts} blocks for each one, which meet in {found.name}: the instance <{found.instance}>",
            language="cuda",
            code=f"cudaMemsetAsync({found.name}, 0, bytes, stream);\n"
                 f"{setting.name}<{found.instance}><<<{shape(grid)}, {shape(launch.block)}{shared}>>>"
                 f"(..., {found.each} / {parts});",
            parameters={"instance": found.instance, f"grid.{found.axis}": parts},
            conditions=[
                shown(played > 0, "each element is taken once", "values", played,
                      f"blockIdx.{found.axis} * {found.each} + element written out for several numbers of blocks"),
                proved(f"one block along {found.axis} takes all now", "launch", launch.grid, "the grid"),
                reads(f"a block takes {found.each} elements from blockIdx.{found.axis} * {found.each} on",
                      "neither is named for anything else, and no element but by both"),
                reads("blocks of the other instance meet in an atomic", "instead of the store, at the same place"),
                Condition(holds=f"{found.each} is a multiple of {parts}", state="check"),
                Condition(holds=f"{found.name} is zero before the launch", state="check"),
                Condition(holds="what blocks make of their elements may be put together by that atomic", state="check",
                          why="the instance is there for it; sums of floats are added in another order"),
            ],
            proof=[
                Proof(what="warps that the chip holds", before=launch.blocks * launch.warps,
                      after=min(slots, launch.blocks * parts) * launch.warps, unit="warps",
                      how=f"{held.blocks} blocks fit on each of {setting.sms} SMs"),
            ],
            costs=[f"{parts} atomics for each result"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def merged(kernel: Kernel, setting: Setting) -> Merged | None:
    """Where the template's one flag, unset in the instance that ran, makes the kernel's one store an atomic."""
    above = "\n".join([*kernel.lines[max(0, kernel.text.first - 2) : kernel.text.first - 1], kernel.text.code])
    template = re.search(r"template\s*<([^<>]*)>[^<>;{}]*__global__", above)
    given = re.search(rf"\b{re.escape(setting.name)}<([^<>]*)>\(", setting.instance)
    if template is None or given is None or setting.launch is None:
        return None
    declared = [one.split("=")[0].split() for one in split_declarators(template[1])]
    values = [re.sub(r"\((?:int|bool|unsigned int)\)(?=[\w-])", "", v).strip() for v in split_declarators(given[1])]
    if len(declared) != len(values):
        return None
    for n, (kind, value) in enumerate(zip(declared, values, strict=True)):
        if kind[:-1] != ["bool"] or value not in ("0", "false"):
            continue
        others = [("true" if v == "1" else "false") if d[0] == "bool" else v
                  for d, v in zip(declared, values, strict=True)]  # fmt: skip
        others[n] = "true"
        if found := _meeting(kernel, kind[-1], ", ".join(others), setting.launch):
            return found
    return None


def _meeting(kernel: Kernel, flag: str, instance: str, launch: Launch) -> Merged | None:
    body, grid = kernel.body, launch.grid
    threads = launch.threads if max(launch.block[1:]) == 1 else 0
    meets = re.search(_MEETS.format(flag=re.escape(flag)), body)
    if meets is None or len(re.findall(rf"\b{flag}\b", body)) != 1:
        return None
    name, kind = meets["name"], kernel.parameters.get(meets["name"], "")
    pointed = re.fullmatch(r"([\w ]+?) \*(?: ?(?:__restrict__|const))*", kind)
    if pointed is None or pointed[1] not in _ZERO[meets["function"]] or len(re.findall(rf"\b{name}\b", body)) != 2:
        return None
    for n, axis in enumerate("xyz"):
        if grid[n] == 1 and f"blockIdx.{axis}" not in meets["at"] and (each := _taken(kernel, axis, threads)):
            return Merged(instance, name, each, axis)
    return None


def _taken(kernel: Kernel, axis: str, threads: int) -> str:
    """The parameter, an int, that is how many elements a block takes along an axis, if the block's place is named in
    nothing but the first of them, and an element by nothing but its place behind that."""
    body = kernel.body
    first = rf"(?:\(\s*(?:size_t|long long|unsigned)\s*\)\s*)?blockIdx\.{axis}\s*\*\s*(\w+)\b"
    named = {m[1] for m in re.finditer(first, body)}
    if len(named) != 1 or len(re.findall(rf"\bblockIdx\.{axis}\b", body)) != len(re.findall(first, body)):
        return ""
    (each,) = named
    over = [loop for loop in loops(body) if loop.end == each]
    if kernel.parameters.get(each) not in ("int", "const int") or len(over) != 1 or f"gridDim.{axis}" in body:
        return ""
    (loop,) = over
    steady = not re.search(rf"(?<![\w.]){each}\b{MODIFIED}", body) and not _named(loop.start, each)
    counts = len(re.findall(rf"\b{each}\b", body)) == len(re.findall(first, body)) + 1
    return each if steady and counts and _all(body, loop, threads) and _placed(body, loop, first) else ""


def _all(body: str, loop: Loop, threads: int) -> bool:
    """Whether a block's loop comes by every element from the first one on: what it left out at a row's start, it would
    leave out at each part's."""
    step = loop.step.partition("+=")[2].strip()
    every = loop.start == "0" and loop.step in (f"{loop.name}++", f"++{loop.name}")
    return every or (plain(loop.start, body) == "threadIdx.x" and step in ("blockDim.x", str(threads)))


def _named(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _placed(body: str, loop: Loop, first: str) -> bool:
    """Whether the loop's number is only an index of pointers to a block's first element, or added to its number; and
    whether such a pointer, and that number, are used for nothing else."""
    inside, i = body[slice(*loop.body)], re.escape(loop.name)
    rows = {m[1] for m in re.finditer(rf"\*\s*(?:__restrict__\s+)?(\w+)\s*=\s*[^;,]*\+\s*{first}\s*[;,]", body)}
    added = rf"{first}\s*\+\s*{i}\b"
    indexed = rf"\b({'|'.join(map(re.escape, rows))})\s*\[\s*{i}\s*\]" if rows else r"(?!)"
    rest = re.sub(indexed, "", re.sub(added, "", inside))
    uses = sum(len(re.findall(rf"\b{row}\b", body)) for row in rows)
    starts = len(re.findall(first, body)) == len(rows) + len(re.findall(added, inside))
    return not _named(rest, i) and starts and uses == len(rows) + len(re.findall(indexed, inside))


def _turns(setting: Setting) -> float:
    """How often a warp goes round the outermost loop, as it is unrolled."""
    code, launch = setting.code, setting.launch
    outer = [i for i in range(len(code)) if code.cfg.depth[i] == 1]
    most = max((code.executed[i] for i in outer), default=0.0)
    return most / (launch.warps * launch.blocks) if launch is not None and total(code.executed) else 0.0


def _played() -> int:
    """How many elements were written out, if more blocks of fewer take the same ones; 0 otherwise."""
    count = 0
    for parts, size in TRIED:
        each = size // parts
        if sorted(b * each + i for b in range(parts) for i in range(each)) != list(range(size)):
            return 0
        count += size
    return count
