"""The work of several blocks in one, one after the other: threads of one element each make as many, and their loads are
on their way together. Each block's own operations stay in their order: results are the same to the last bit."""

from __future__ import annotations

import re

from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, asked_here, hidden, kernel_text, shape, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

TIMES = (8, 4, 2)  # blocks that become one: as many elements a thread, and their loads in registers (judged)
WAVES = 2  # of blocks that must be left, so that the last one is not half of the time (judged)
ROUND, BLOCK = "round_n", "block_n"
_WHOLE = re.compile(r"\bblockIdx\b(?!\.[xyz]\b)|\bstatic\b")
_AXIS = re.compile(r"\bblockIdx\.([xyz])\b")
_MEETS = re.compile(
    r"__shared__|\b__sync\w*|\b__\w+_sync\b|\b(?:asm|goto|cooperative_groups|gridDim)\b|\batomic\w*|\bcg::|#"
)
_CHANGED = re.compile(
    r"(?<![\w.\]>*])(\w+)(?:\s*\.\s*\w+)*\s*(?:[-+*/|&^%]?=(?!=)|<<=|>>=|\+\+|--)|"
    r"(?:\+\+|--|[(,]\s*&)\s*(\w+)|\*\s*(\w+)\s*(?:\+\+|--)"
)
_RETURN = re.compile(r"\breturn\s*;")
_LOOPS = re.compile(r"\b(?:for|while|do|switch)\b")


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text, held = kernel_text(setting), asked.setting.occupancy()
    axis = _axis(setting, text)
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    if text is None or axis is None or launch is None or held is None or _repeats(asked):
        return []
    # What the compiler may load ahead of another element's store is marked: read-only, and no alias.
    meets = code.where(
        lambda ins, op: op.space == "shared" or op.access in ("atomic", "reduction") or "barrier" in op.kind
    )  # fmt: skip
    if not loads or meets or any(".CONSTANT" not in code[i].name for i in loads) or not asked_here(code, text, "CTAID"):
        return []
    along = launch.grid["xyz".index(axis)]
    slots = held.blocks * setting.sms
    times = next((n for n in TIMES if along % n == 0 and launch.blocks // n >= WAVES * slots), 0)
    edits = spans_edited(setting, text, spans(text.code, axis, times)) if times else []
    if not edits:
        return []
    grid = [n // times if a == axis else n for a, n in zip("xyz", launch.grid, strict=True)]
    shared = [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    return [
        Fix(
            kind="jam",
            title=f"the work of {times} blocks in one, one after the other: {times} elements a thread",
            language="cuda",
            code=f"{setting.name}<<<{', '.join([shape(grid), shape(launch.block), *shared])}>>>(...);",
            edits=edits,
            parameters={"blocks": times, f"grid.{axis}": along // times},
            conditions=[
                proved("the blocks come out even", "launch", launch.grid, f"{along} is a multiple of {times}"),
                proved("threads share nothing and meet nowhere", "code", len(code),
                       "no shared memory, barriers or atomics among them, nor in what they call"),
                reads("a block takes nothing from another one", f"blockIdx.{axis} is put in for each of them"),
                *not_written(code, loads),
                Condition(holds=f"registers hold {times} elements' values without spills", state="check",
                          why="kscope fix --check on the new cubin"),
                Condition(holds=f"every launch has a multiple of {times} blocks along {axis}", state="check"),
            ],
            proof=[
                Proof(
                    what="blocks that the launch starts", before=launch.blocks, after=launch.blocks // times,
                    unit="blocks", how=f"{slots} at once on {setting.sms} SMs: at least {WAVES} waves are left",
                )
            ],
            costs=[f"the values of {times} elements in registers"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _axis(setting: Setting, text: Text | None) -> str | None:
    return alone(text.code) if text is not None and not hidden(text.code, setting.lines(text.file)) else None


def _repeats(asked: Asked) -> bool:
    """Issue slots are what is full: a loop around the text repeats every instruction (swap_heads.division: 0.95x). The
    same for code that nobody ran, of which nothing is known."""
    estimate = asked.finding.estimate
    if estimate is None or not asked.setting.sms:
        return not asked.setting.sms
    first = estimate.relieves[0] if estimate.relieves else ""
    return first == "issue" or estimate.capped_by == "issue slots"


def alone(code: str) -> str | None:
    """The axis of the grid along which blocks follow each other, in a kernel whose threads have nothing to do with each
    other and no loop; None for any other. A thread that returns goes on with the next element instead."""
    head, _, rest = code.partition("{")
    body, words = rest[: rest.rfind("}")], set(re.findall(r"\w+", code))
    axes = set(_AXIS.findall(body))
    if len(axes) != 1 or _WHOLE.search(body) or _MEETS.search(code) or _LOOPS.search(body) or {ROUND, BLOCK} & words:
        return None
    if len(re.findall(r"\breturn\b", body)) != len(_RETURN.findall(body)):
        return None
    # A parameter that a thread changes would be another one in its next round.
    changed = {name for pair in _CHANGED.findall(body) for name in pair}
    return None if changed & set(re.findall(r"(\w+)\s*(?=[,)])", head)) else axes.pop()


def spans(code: str, axis: str, times: int) -> list[Span]:
    """The loop around the body, and what stands in it for the block and for a return."""
    open_, close = code.find("{"), code.rfind("}")
    start = (
        f"\n#pragma unroll\n  for (unsigned {ROUND} = 0; {ROUND} < {times}; {ROUND}++) {{\n"
        f"  const unsigned {BLOCK} = blockIdx.{axis} * {times} + {ROUND};"
    ) + ("" if code[open_ + 1 : open_ + 2] == "\n" else "\n ")
    out: list[Span] = [(open_ + 1, open_ + 1, start)]
    out += [(m.start() + open_, m.end() + open_, BLOCK) for m in _AXIS.finditer(code[open_:close])]
    out += [(m.start() + open_, m.end() + open_, "continue;") for m in _RETURN.finditer(code[open_:close])]
    return [*out, (close, close, "}")]
