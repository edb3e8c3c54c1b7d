"""Triton's own words: stages of a loop whose copies wait, programs that are too small."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from kscope.arch import table
from kscope.arch.chips import chips
from kscope.features.counters.occupancy_limits import limits_of
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

MOST = 4  # stages that are proposed at most; Triton's own tuning tables for matrix products go from 2 to 5
TOGETHER = ("SHFL", "REDUX", "VOTE", "MATCH")  # by which a program's lanes join what is theirs
WARPS = 4  # of a program that is proposed: with them no chip's limit of blocks binds before that of warps


def is_triton(setting: Setting) -> bool:
    """The code's lines are of Python."""
    return any(ins.file is not None and ins.file.endswith(".py") for ins in setting.code.program.instructions)


def stages(asked: Asked) -> list[Fix]:
    """num_stages of a loop that copies and computes by turns: as many as fit without losing a block."""
    setting, code = asked.setting, asked.setting.code
    launch = setting.launch
    ahead = code.where(lambda ins, op: ins.opcode in ("LDGSTS", "UTMALDG"))
    if launch is None or not launch.shared_dynamic or ahead or not is_triton(setting):
        return []
    each = launch.shared_dynamic  # without copies ahead the buffers hold one stage
    was = setting.occupancy()
    if was is None:
        return []
    held = {n: setting.occupancy(more_shared=(n - 1) * each) for n in range(2, MOST + 1)}
    fitting = [n for n, p in held.items() if p is not None and p.blocks == was.blocks]
    if not fitting:
        return []
    count = max(fitting)
    needed = _in_flight(code.program.sm)
    return [
        Fix(
            kind="stages",
            title=f"num_stages={count}: {count - 1} tiles on their way while one is used",
            language="triton",
            code=f"{setting.name}[grid](..., num_stages={count})",
            parameters={"num_stages": count, "bytes_a_stage": each},
            conditions=[
                proved(
                    f"{count} stages of {each} bytes leave {counted(was.blocks, 'block')} on an SM", "launch",
                    len(was.limits), "registers, shared memory and slots of the SM (arch/sm.toml)",
                ),
                Condition(holds="the loop's loads follow from its counter", state="check", why="to be copied ahead"),
            ],
            proof=[
                Proof(
                    what="bytes on their way on an SM", before=0, after=(count - 1) * each * was.blocks, unit="B",
                    how=f"latency x bandwidth asks for {needed:,.0f}" if needed else "copies ahead of use",
                )
            ],
            costs=[f"{(count - 1) * each} bytes of shared memory a block more"],
            price=asked.finding.estimate if not needed or (count - 1) * each * was.blocks >= needed else None,
        )
    ]  # fmt: skip


def programs(asked: Asked) -> list[Fix]:
    """Larger programs where an SM's slots for blocks are full before its slots for warps."""
    setting = asked.setting
    launch, chip = setting.launch, limits_of(setting.code.program.sm)
    if launch is None or chip is None or not is_triton(setting) or launch.grid[1] * launch.grid[2] > 1:
        return []
    was, will = setting.occupancy(), setting.occupancy(threads=32 * WARPS)
    factor = WARPS // launch.warps if launch.warps and WARPS % launch.warps == 0 else 0
    alone = not setting.code.where(lambda ins, op: "barrier" in op.kind or op.space == "shared"
                                   or ins.opcode in TOGETHER) and _by_elements(setting)  # fmt: skip
    if was is None or will is None or factor < 2 or will.warps <= was.warps or not alone:
        return []
    return [
        Fix(
            kind="block_size",
            title=f"programs {factor} times as large: BLOCK * {factor}, num_warps={WARPS}",
            language="triton",
            code=(
                f"{setting.name}[({math.ceil(launch.grid[0] / factor)},)]"
                f"(..., BLOCK=BLOCK * {factor}, num_warps={WARPS})  # BLOCK: a program's elements"
            ),
            parameters={"factor": factor, "num_warps": WARPS, "grid.x": math.ceil(launch.grid[0] / factor)},
            conditions=[
                proved("the programs share nothing", "code", setting.code, "no barrier, no shared memory"),
                Condition(holds="BLOCK is a tl.constexpr of elements", state="check"),
            ],
            proof=[
                Proof(
                    what="warps that an SM holds", before=was.warps, after=will.warps, unit="warps",
                    how=f"{was.blocks} blocks of {launch.warps} warps, {will.blocks} of {WARPS} (arch/sm.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def function(lines: Sequence[str], number: int) -> range:
    """Lines of the function around a line."""
    head = next((n for n in range(number, 0, -1) if lines[n - 1 : n] and lines[n - 1].startswith("def ")), number)
    return range(head, next((n for n in range(head + 1, len(lines) + 1) if lines[n - 1][:1].strip()), len(lines) + 1))


def _by_elements(setting: Setting) -> bool:
    """Whether a program's number is asked for as its place, times the elements of a program, alone. Yes where the text
    is not here."""
    files = sorted({ins.file for ins in setting.code.program.instructions if ins.file is not None})
    every = [(lines, n) for lines in map(setting.lines, files) for n, line in enumerate(lines, 1)
             if re.match(rf"def {re.escape(setting.name)}\s*\(", line)]  # fmt: skip
    if len(every) != 1:
        return not any(map(setting.lines, files))
    lines, at = every[0]
    text = "\n".join(lines[n - 1].partition("#")[0] for n in function(lines, at))
    names = re.findall(r"(\w+)\s*=\s*tl\.program_id\((?:axis=)?0\)\s*$", text, re.M)
    made = re.sub(r"\w+\s*=\s*tl\.program_id\((?:axis=)?0\)\s*$", "", text, flags=re.M)
    number = "|".join([r"tl\.program_id\((?:axis=)?0\)", *(rf"\b{n}\b" for n in names)])
    placed = rf"(?:{number})\s*\*\s*(\w+)\s*\+\s*tl\.arange\(0,\s*(\w+)\)"
    sizes = {size for pair in re.findall(placed, made) for size in pair}
    rest = re.sub(placed, "", made)
    (size, *others) = sizes or {""}
    asked = re.search(rf"{number}|tl\.(?:program_id|num_programs|arange|sum|max|min|reduce|dot|cumsum|sort)\b", rest)
    again = len(re.findall(rf"\b{size}\b", rest)) != 1  # the parameter
    return bool(size) and not others and asked is None and not again and re.search(rf"\b{size}\s*:", rest) is not None


def _in_flight(sm: int) -> float | None:
    """Bytes that an SM must have on their way to keep device memory busy: latency x bandwidth, of the chip of this
    capability with the fastest memory."""
    latency = table("latency").get(f"sm_{sm}", table("latency")["default"])["dram"]
    rates = [c.dram_bytes_per_s / c.clock_hz / c.sms for c in chips().values() if c.cc == sm and c.clock_hz]
    return float(latency * max(rates)) if rates else None
