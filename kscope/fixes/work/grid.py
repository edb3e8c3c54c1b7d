"""Grids and blocks of other sizes for kernels that let them: loops over the grid, blocks whose size has a name."""

from __future__ import annotations

import re

from kscope.features.patterns.loop_parallelism import rounds_side_by_side, trips
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import body, constants, evaluated
from kscope.fixes.given.text import (
    Text,
    asked_here,
    blanked,
    closing,
    hidden,
    index_of,
    kernel_text,
    loops,
    outside,
    plain,
    strided,
)
from kscope.fixes.work.launch import fixes as unused_bytes
from kscope.model.contract.fixes import Condition, Fix, Proof

LARGER = (256, 512, 1024)  # threads of a block that is proposed in place of a smaller one
WARP = 32
ONCE = 1.5  # rounds, below which a loop over the grid is no loop: threads have one element or none (judged)
MOST_MORE = 0.1  # of the instructions, that more blocks may add by what each does once (judged)
_POSITION = re.compile(r"\b(?:blockIdx|gridDim)\b")
_NAMED = re.compile(r"\b[A-Za-z_][\w ]*\s(?P<name>\w+)\s*=\s*[^;=,{}]*\b(?:blockIdx|gridDim)\.x\b[^;,{}]*;")
_STEPPED = re.compile(
    r"\b(?:while\s*\(\s*(?P<while>\w+)\s*<(?!<)[^;{}]*\)\s*\{|for\s*\(\s*;\s*(?P<for>\w+)\s*<(?!<)[^;]+;[^;{}]*\)\s*\{)"
)
_PLACE = r"(?:\([\w ]+\)\s*)?(?:blockIdx|gridDim|blockDim|threadIdx)\.x"
_ELEMENT = re.compile(rf"(?=[^;,()]*(?:\([\w ]+\)[^;,()]*)*\b(?:blockIdx|gridDim)\.x){_PLACE}(?:\s*[*+]\s*{_PLACE})+\b")
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*(\w+)")


def larger(asked: Asked) -> list[Fix]:
    """More blocks for a kernel whose loop goes over the grid: as many as the chip holds at once."""
    setting = asked.setting
    launch, text = setting.launch, kernel_text(setting)
    held = setting.occupancy()
    if launch is None or text is None or held is None or not setting.sms or launch.grid[1] * launch.grid[2] > 1:
        return []
    found = _over_grid(text.code) if _own_lines(setting, text) else None
    blocks = min(held.blocks * setting.sms, round(launch.grid[0] * _rounds(setting)))
    if found is None or blocks <= launch.grid[0] or _beside(setting) * (blocks / launch.grid[0] - 1) > MOST_MORE:
        return []
    return [
        Fix(
            kind="block_size",
            title=f"{blocks} blocks instead of {launch.grid[0]}: as many as "
                  + ("the chip holds at once" if blocks == held.blocks * setting.sms else "there are rounds"),
            language="cuda",
            code=_launch(setting, blocks, launch.threads, launch.shared_dynamic),
            parameters={"grid.x": blocks},
            conditions=[
                _walks(found),
                Condition(holds="the launch is not sized for something else", state="check"),
            ],
            proof=[
                Proof(
                    what="warps that the chip holds", before=launch.grid[0] * launch.warps,
                    after=blocks * launch.warps, unit="warps",
                    how=f"{held.blocks} blocks fit on each of {setting.sms} SMs (arch/sm.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def taller(asked: Asked) -> list[Fix]:
    """Larger blocks where each takes much shared memory whatever its size."""
    setting = asked.setting
    launch, text = setting.launch, kernel_text(setting)
    was = setting.occupancy()
    if launch is None or text is None or was is None or not setting.sms or launch.block[1] * launch.block[2] > 1:
        return []
    found = _over_grid(text.code) if _own_lines(setting, text) else None
    if found != "blockDim.x" or not _any_size(text.code) or unused_bytes(asked):
        return []
    sizes = [n for n in LARGER if launch.threads < n <= _most(setting, text)]
    held = {n: p for n in sizes if (p := setting.occupancy(threads=n)) is not None and p.warps > was.warps}
    if not held:
        return []
    best = max(held, key=lambda n: (held[n].warps, -n))
    blocks = min(launch.grid[0], held[best].blocks * setting.sms)
    return [
        Fix(
            kind="block_size",
            title=f"blocks of {best} threads instead of {launch.threads}: they share what a block takes",
            language="cuda",
            code=_launch(setting, blocks, best, launch.shared_dynamic),
            parameters={"block.x": best, "grid.x": blocks},
            conditions=[
                _walks(found),
                reads("the code asks for the size of its block", "every index and step is of blockDim.x"),
            ],
            proof=[
                Proof(
                    what="warps that an SM holds", before=was.warps, after=held[best].warps, unit="warps",
                    how="registers, shared memory and slots of the SM (arch/sm.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def waves(asked: Asked) -> list[Fix]:
    """Blocks a little larger, so that the last ones fit into the wave before."""
    setting = asked.setting
    launch, text = setting.launch, kernel_text(setting)
    was = setting.occupancy()
    if launch is None or text is None or was is None or not setting.sms or launch.grid[1] * launch.grid[2] > 1:
        return []
    size = _size(text) if _own_lines(setting, text) else None
    if size is None or launch.block[1] * launch.block[2] > 1:
        return []
    threads = launch.grid[0] * launch.threads
    slots = was.blocks * setting.sms
    wanted = launch.grid[0] // slots
    if not wanted or not launch.grid[0] % slots:
        return []
    new = -(-threads // (wanted * slots * WARP)) * WARP
    will = setting.occupancy(threads=new)
    if new > (_most(setting, text) if size == "blockDim.x" else 1024) or will is None or will.blocks < was.blocks:
        return []
    blocks = -(-threads // new)
    name = "blockDim.x" if size == "blockDim.x" else f"{size} (a template parameter: instantiate it with {new})"
    return [
        Fix(
            kind="block_size",
            title=f"{blocks} blocks of {new} threads instead of {launch.grid[0]} of {launch.threads}",
            language="cuda",
            code=_launch(setting, blocks, new, launch.shared_dynamic, "" if size == "blockDim.x" else f"<{new}>"),
            parameters={"block.x": new, "grid.x": blocks},
            conditions=[
                reads(f"threads are counted by {name}", "the only size in its indices"),
                reads("threads beyond the data return", "a guard behind the index"),
            ],
            proof=[
                Proof(
                    what="waves of blocks", before=-(-launch.grid[0] // slots), after=-(-blocks // slots),
                    unit="waves", how=f"{was.blocks} blocks on each of {setting.sms} SMs (arch/sm.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _launch(setting: Setting, blocks: int, threads: int, shared: int, template: str = "") -> str:
    more = f", {shared}" if shared else ""
    return f"{setting.name}{template}<<<{blocks}, {threads}{more}>>>(...);"


def _walks(per: str) -> Condition:
    return reads(
        "any number of blocks does the same work",
        f"its loop goes from blockIdx.x * {per} on by gridDim.x * {per}, and nothing else asks for the block",
    )


def _over_grid(code: str) -> str | None:
    """What a block takes a round of the loop over the grid, where nothing but its head asks for block and grid."""
    found = [(loop, per) for loop in loops(code) if (per := strided(loop, code)) is not None]
    if len(found) != 1:
        return _stepped(code) if not found else None
    loop, per = found[0]
    head, elsewhere = code[slice(*loop.span)], outside(code, [loop.span])
    inside, words = re.findall(r"\w+", head), re.findall(r"\w+", elsewhere)
    own = [m.span() for m in _NAMED.finditer(code) if m["name"] in inside and words.count(m["name"]) == 1]
    return per if not _POSITION.search(outside(code, [loop.span, *own])) else None


def _stepped(code: str) -> str | None:
    """The same of `while (i < n) { ..; i += all; }` and of `for (; i < n; i += all) {`, whose i begins before."""
    heads = list(_STEPPED.finditer(code))
    if len(heads) != 1:
        return None
    (head,) = heads
    name, end = head["while"] or head["for"], closing(code, head.end())
    steps = list(re.finditer(rf"(?<![\w.])({name})\s*\+=\s*([^;(){{}}]+?)\s*[;)]", code))
    begins = list(re.finditer(rf"(?<![\w.])({name})\s*=(?!=)\s*([^;,]+)[;,]", code))
    if end is None or len(steps) != 1 or len(begins) != 1 or begins[0].start() > head.start():
        return None
    if head["while"] and code[steps[0].end() : end].strip():
        return None  # what follows has the next element already
    per, step = index_of(begins[0][2], code), plain(steps[0][2], code)
    if per is None or step not in (f"gridDim.x*{per}", f"{per}*gridDim.x"):
        return None
    own, words = [begins[0].span(), steps[0].span()], f"{begins[0][2]} {steps[0][2]}"
    rest = outside(code, own)
    named = [m.span() for m in _NAMED.finditer(rest) if m["name"] in re.findall(r"\w+", words)
             and len(re.findall(rf"\b{m['name']}\b", rest)) == 1]  # fmt: skip
    return per if not _POSITION.search(outside(rest, named)) else None


def _rounds(setting: Setting) -> float:
    """Rounds of the loop over the grid, the most that any loop around accesses of global memory goes: what more blocks
    than that would do is nothing."""
    code = setting.code
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access is not None))
    outer = {tuple(code.cfg.loops_around(i))[-1] for i in found if tuple(code.cfg.loops_around(i))}
    return max((rounds_side_by_side(code, loop) if trips(code, loop) >= ONCE else 1.0 for loop in outer), default=1.0)


def _beside(setting: Setting) -> float:
    """The share of the warp instructions that run outside the loops around global loads: once for each block. Functions
    that are called lie behind the kernel's own code, and are left out."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "async_copy")))
    around = {loop for i in loads for loop in code.cfg.loops_around(i)}
    inside = {i for loop in around for i in code.cfg.loop_body(loop)}
    own = range(min(code.cfg.calls.values(), default=len(code)))
    return total(code.executed, [i for i in own if i not in inside]) / max(1.0, code.all_executed)


def _any_size(code: str) -> bool:
    """Whether loops over the block go on by blockDim.x, and no index is of a number of threads."""
    for loop in loops(code):
        if loop.start == "threadIdx.x" and loop.step.partition("+=")[2].strip() != "blockDim.x":
            return False
    return _by_blocks(code, "blockDim.x")


def _by_blocks(code: str, per: str) -> bool:
    """Whether threads ask for their number and the size of their block for the element that they have alone, where
    they begin and go on through the block's data, or for the first thread: of a block of another size no other thread
    does what one did."""
    heads = [x.span for x in loops(code) if x.start == "threadIdx.x" and x.step.partition("+=")[2].strip() == per]
    rest = outside(code, [(0, code.find("{")), *heads])
    rest = _ELEMENT.sub("", re.sub(rf"\b{per}\b(?=\s*[*+])|(?<=\*\s){per}\b", "blockDim.x", rest))
    rest = re.sub(r"\bthreadIdx\.x\s*==\s*0\b|\b0\s*==\s*threadIdx\.x\b|!\s*threadIdx\.x\b", "", rest)
    return re.search(rf"\bthreadIdx\b|\bblockDim\b|\b{per}\b|\b(?:cooperative_groups|asm)\b|\bcg::", rest) is None


def any_block(setting: Setting, file: str, head: int) -> bool:
    """Whether as many threads in blocks of another size do the same, as far as the text from the kernel's head on
    says."""
    lines = setting.lines(file)
    text = Text(file, head, "\n".join(blanked(lines[n - 1]) for n in body(lines, head) if n >= head))
    if not _own_lines(setting, text) or not asked_here(setting.code, text, "SR_TID"):
        return False
    if not _by_blocks(text.code, "blockDim.x"):
        return False
    return _POSITION.search(_ELEMENT.sub("", text.code)) is None


def _most(setting: Setting, text: Text) -> int:
    """Threads of a block that the kernel's bounds allow, as far as the text says; 0 where it does not."""
    bound = _BOUNDS.search(text.code)
    known = evaluated(bound[1], constants(setting.lines(text.file))) if bound is not None else 1024
    return known or 0


def _own_lines(setting: Setting, text: Text) -> bool:
    """Whether no function and no macro that the kernel uses asks for blocks."""
    return asked_here(setting.code, text, "CTAID") and not hidden(text.code, setting.lines(text.file))


def _size(text: Text) -> str | None:
    """The name that the size of a block has: blockDim.x, or a template parameter that is its launch bound too."""
    index = re.search(r"\b\w+\s*=\s*([^;,]*\bblockIdx\.x[^;,]*);", text.code)
    if index is None or len(_POSITION.findall(text.code)) != 1:
        return None
    per = index_of(index[1], "")
    name = re.match(r"\s*(\w+)", text.code[index.start() :])
    guard = name is not None and re.search(rf"if\s*\(\s*{name[1]}\s*>=\s*\w+\s*\)\s*return", text.code)
    if per is None or not guard or not _loops_by(text.code, per) or not _by_blocks(text.code, per):
        return None
    if per == "blockDim.x":
        return per
    bound = _BOUNDS.search(text.code)
    template = re.search(rf"template\s*<\s*int\s+{per}\s*>", text.code)
    return per if template and bound is not None and bound[1] == per else None


def _loops_by(code: str, per: str) -> bool:
    block = [loop for loop in loops(code) if loop.start == "threadIdx.x"]
    return all(loop.step.partition("+=")[2].strip() == per for loop in block)
