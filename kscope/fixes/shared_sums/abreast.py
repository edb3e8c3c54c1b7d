"""Blocks of one warp, of which an SM has places for few: several of them side by side in one block. Each meets as a
warp, where it met as a block, and has its own part of what was shared."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.features.estimate.gains import expected_at_most
from kscope.features.sass.listing import Listing
from kscope.fixes.atomics.regions import clear, regions
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, asked_here, hidden, kernel_text, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

WARP, TIMES = 32, (2, 4)
STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
_MACRO = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim|__sync\w*|__shared__)\b")
_BOUND = re.compile(r"__launch_bounds__|__block_size__|__cluster_dims__")
_SHARED = re.compile(
    r"(?P<extern>extern\s+)?__shared__\s+(?P<kind>(?!__)[A-Za-z_][\w:<>]*(?:\s+(?:int|long|char|short))*)\s+"
    r"(?P<name>\w+)\s*(?P<dims>(?:\[[^;={},]*\])*)\s*;"
)
_SYNC = re.compile(r"(?<![\w.:])__syncthreads\s*\(\s*\)")
_NEVER = re.compile(
    r"\b(?:threadIdx|blockDim)\s*\.\s*[yz]|\b(?:threadIdx|blockDim)\b(?!\s*\.)|\b(?:goto|asm|bar|cg|cooperative_groups|this_thread_block)\b|"
    r"\b__syncthreads_\w+|\bcuda\s*::|#\s*(?:if|else|elif)"
)


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, text = asked.setting, asked.setting.launch, kernel_text(asked.setting)
    if text is None or launch is None or not _free(setting, text):
        return []
    axis = max("xyz", key=lambda a: launch.grid["xyz".index(a)])
    n = "xyz".index(axis)
    was, (times, will) = setting.occupancy(), _times(setting, launch.grid[n])
    if was is None or will <= was.warps:
        return []
    code = clear(text.code)
    edits = spans_edited(setting, text, abreast(code, axis, times))
    if not edits:
        return []
    grid, more = [side // times if k == n else side for k, side in enumerate(launch.grid)], will / was.warps
    found = asked.finding.estimate
    price = expected_at_most(found, more) if found else None
    return [
        Fix(
            kind="block_size",
            title=f"{times} blocks of a warp side by side in one: {will} warps an SM instead of {was.warps}",
            language="cuda",
            code=f"dim3 block({WARP}, {times}), grid({', '.join(map(str, grid))});",
            edits=edits,
            parameters={"block.y": times, f"grid.{axis}": grid[n]},
            conditions=[
                proved("a block is one warp", "launch", launch.block, "32 threads: where they met, the warp meets"),
                proved("the blocks come out even", "launch", launch.grid, f"{launch.grid[n]} is a multiple of {times}"),
                proved("no function that it calls asks which block it is", "code", setting.code, "reads of CTAID"),
                reads("each warp has its own part of shared memory", "arrays have one place more, threadIdx.y"),
                Condition(holds=f"every launch of blocks of {WARP} threads is changed with it", state="check",
                          why="others have a block.y of 1, and are as before"),
            ],
            proof=[
                Proof(what="warps that an SM holds", before=was.warps, after=will, unit="warps",
                      how="registers, shared memory and slots of the SM (arch/sm.toml)")
            ],
            price=price,
        )
    ]  # fmt: skip


def _free(setting: Setting, text: Text) -> bool:
    """Whether blocks are one warp each, and only the kernel's own text asks which block it is, meets and shares."""
    launch, called = setting.launch, regions(setting)[1:]
    if launch is None or launch.block != (WARP, 1, 1) or launch.shared_dynamic:
        return False
    if not asked_here(setting.code, text, "CTAID") or _elsewhere(setting.code, text):
        return False
    if fixed(text, setting.lines(text.file)):
        return False
    return not any(_SYNC.search(t.code) or _NEVER.search(t.code) or "__shared__" in t.code for t in called)


def fixed(text: Text, lines: Sequence[str]) -> bool:
    """Whether a macro has what would change, or a kernel is compiled for so many threads: more could not be launched.
    """
    above = "\n".join(lines[max(0, text.first - 3) : text.first - 1]).rpartition("}")[2]
    return hidden(text.code, lines, _MACRO) or _BOUND.search(above + text.code) is not None


def _times(setting: Setting, blocks: int) -> tuple[int, int]:
    """(blocks that become one, warps that an SM then holds): (0, 0) where none fit."""
    shared = setting.launch.shared_static if setting.launch is not None else 0
    tried = {k: setting.occupancy(threads=WARP * k, more_shared=(k - 1) * shared) for k in TIMES}
    held = {k: p.warps for k, p in tried.items() if p is not None and blocks % k == 0 and k * shared <= STATIC}
    times = max(held, key=lambda k: (held[k], -k), default=0)
    return times, held.get(times, 0)


def _elsewhere(code: Listing, text: Text) -> bool:
    """Whether the block meets in what the kernel calls."""
    last = text.first + text.code.count("\n")
    meets = [ins for ins in code.program.instructions if ins.opcode == "BAR"]
    return not all(ins.file == text.file and text.first <= (ins.line or 0) <= last for ins in meets)


def abreast(code: str, axis: str, times: int) -> list[Span]:
    """What becomes of a kernel's text; nothing where it asks for more than its block's place and its lanes."""
    opening = code.find("{")
    body = code[opening:]
    places = list(re.finditer(rf"\bblockIdx\s*\.\s*{axis}\b", body))
    declared = list(_SHARED.finditer(body))
    if not places or _NEVER.search(body) or re.search(rf"\bgridDim\s*\.\s*{axis}\b", body):
        return []
    if len(declared) != body.count("__shared__") or any(m["extern"] for m in declared):
        return []
    if re.search(r"\bblockIdx\b(?!\s*\.)", body) or any(re.search(rf"\b{m['name']}_of\b", body) for m in declared):
        return []  # handed on whole, or a name that is taken
    spans = [(m.start(), m.end(), f"(blockIdx.{axis} * blockDim.y + threadIdx.y)") for m in places]
    for m in declared:
        kind, name = m["kind"], m["name"]
        own = f"auto& {name} = {name}_of[threadIdx.y];"
        spans.append((*m.span(), f"__shared__ {kind} {name}_of[{times}]{m['dims']}; {own}"))
    meet = f"(blockDim.x <= {WARP} ? __syncwarp() : __syncthreads())"
    spans += [(m.start(), m.end(), meet) for m in _SYNC.finditer(body)]
    return [(a + opening, b + opening, new) for a, b, new in spans]
