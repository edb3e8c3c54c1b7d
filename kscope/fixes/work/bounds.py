"""Spills by launch bounds: the blocks an SM that leave each thread the registers it needs."""

from __future__ import annotations

import re
from collections import Counter
from math import prod

from kscope.features.counters.occupancy_limits import limits_of, pressure
from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.work.grid import any_block
from kscope.fixes.work.launch import any_shape
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.operand import memory_operand

MOST = 255  # registers of a thread
SHOWN = 3  # lines whose values are named
UNIT = 8  # registers by which they are handed out
SMALL = 256  # threads of a block that is proposed in place of a larger one (judged)
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^(),]+?)\s*(?:,\s*([^(),]+?)\s*)?\)")


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    held = setting.registers
    if held is None or setting.launch is None:
        return []
    kinds = accesses(code.program, code.classes)
    spills = code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack in ("spill", "spill slot")])
    words = {
        (memory_operand(code[i].operands) or code[i].operands[-1]).value // 4 + k
        for i in spills for k in range(max(1, code.classes[i].bytes // 4))
    }  # fmt: skip
    need = -(-(held + len(words)) // UNIT) * UNIT
    threads = setting.launch.threads
    heads = _heads(asked, spills)
    if not spills or len(heads) != 1:
        return []
    limit = _registers(code.program.sm, threads)
    blocks = next((b for b in range(32, 0, -1) if _registers(code.program.sm, threads, b) >= min(need, MOST)), 0)
    if not blocks:
        smaller = _smaller(asked, heads, held, len(words), need, spills)
        return smaller or [
            Fix(
                kind="launch_bounds", title="registers that the values need",
                refused=(
                    f"{held} registers and {len(words)} spilled words make up to {need}, and blocks of {threads} "
                    f"threads leave {limit}: smaller blocks first ({_fitting(code.program.sm, need)} threads at most)"
                ),
            )
        ]  # fmt: skip
    return _bounded(asked, heads, blocks, (held, len(words), need), spills)


def _bounded(
    asked: Asked, heads: list[Place], room: int, needs: tuple[int, int, int], spills: list[int]
) -> list[Fix]:
    """Bounds of so many blocks an SM, or of fewer where none gets as many. needs: registers, spilled words, both."""
    setting, code, (held, words, need) = asked.setting, asked.setting.code, needs
    assert setting.launch is not None
    got = _got(asked)
    blocks = min(room, got or room)
    registers = _registers(code.program.sm, setting.launch.threads, blocks)
    edits = changed(heads, lambda text: _BOUNDS.sub(lambda m: f"__launch_bounds__({m[1]}, {blocks})", text, count=1))
    was, will = setting.occupancy(), setting.occupancy(registers=registers)
    fewer = was is not None and will is not None and will.blocks < min(was.blocks, got or was.blocks)
    return [
        Fix(
            kind="launch_bounds",
            title=f"{blocks} blocks an SM: {registers} registers a thread",
            language="cuda",
            edits=edits,
            parameters={"blocks": blocks, "registers": registers},
            conditions=[
                proved(
                    f"up to {need} registers hold what {held} and {words} spilled words hold now", "code", spills,
                    "slots of the stack that are stored to and loaded from, counted",
                ),
                Condition(holds="compiled without -maxrregcount below that", state="check"),
                *([proved(f"no SM gets more than {got} of this launch's blocks", "launch", setting.sms,
                          "its grid over the SMs: fewer registers would let none more run")] if got == blocks else []),
            ],
            proof=[
                Proof(
                    what="spill loads and stores", before=total(code.executed, spills), after=0, unit="inst",
                    how=f"{len(spills)} instructions, {words} words of the stack{_where(asked, spills)}",
                )
            ],
            costs=[f"an SM holds {will.blocks} blocks, where it holds {was.blocks} now"]
            if was and will and fewer else [],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def _got(asked: Asked) -> int:
    """The most blocks that an SM gets of the launch: room for more is registers that no thread has; 0 where the number
    of SMs is not known."""
    launch, sms = asked.setting.launch, asked.setting.sms
    return -(-prod(launch.grid) // sms) if launch is not None and sms else 0


def _smaller(asked: Asked, heads: list[Place], held: int, words: int, need: int, spills: list[int]) -> list[Fix]:
    """Smaller blocks, where nothing ties the threads of one together."""
    setting, code = asked.setting, asked.setting.code
    launch = setting.launch
    threads = min(SMALL, _fitting(code.program.sm, need))
    alone = not code.where(lambda ins, op: "barrier" in op.kind or op.space == "shared")
    if launch is None or not alone or launch.threads % threads or not any_shape(asked, [0]):
        return []
    if not any_block(setting, heads[0].file, heads[0].number):
        return []
    blocks = next((b for b in range(32, 0, -1) if _registers(code.program.sm, threads, b) >= min(need, MOST)), 0)
    edits = changed(heads, lambda text: _BOUNDS.sub(f"__launch_bounds__({threads}, {blocks})", text, count=1))
    if not blocks or not edits or prod((*launch.block[1:], *launch.grid[1:])) > 1:
        return []
    grid = launch.grid[0] * (launch.threads // threads)
    registers = _registers(code.program.sm, threads, blocks)
    return [
        Fix(
            kind="launch_bounds",
            title=f"blocks of {threads} threads with {registers} registers each",
            language="cuda",
            code=f"// launch: {setting.name}<<<{grid}, {threads}>>>(...)",
            edits=edits,
            parameters={"block.x": threads, "grid.x": grid, "registers": registers},
            conditions=[
                proved(
                    f"up to {need} registers hold what {held} and {words} spilled words hold now", "code", spills,
                    "slots of the stack that are stored to and loaded from, counted",
                ) if need <= MOST else Condition(
                    holds=f"{MOST} registers hold most of what {held} and {words} spilled words hold now",
                    state="assumed", why="not all slots of the stack are in use at once",
                ),
                proved("threads of a block share nothing", "code", code, "no barrier, no shared memory"),
                proved("the code asks for the size of its block", "code", code, "it reads blockDim"),
                Condition(holds="compiled without -maxrregcount below that", state="check"),
            ],
            proof=[
                Proof(
                    what="spill loads and stores", before=total(code.executed, spills), after=0, unit="inst",
                    how=f"{len(spills)} instructions, {words} words of the stack{_where(asked, spills)}",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _where(asked: Asked, spills: list[int]) -> str:
    """The lines whose values are spilled: those of the instructions that made what is stored, most of them first."""
    code = asked.setting.code
    stored = [i for i in spills if code.classes[i].access == "store"]
    made = (p for i in stored for ps in code.defuse.sources(i).values() for p in ps)
    lines = Counter(code[p].line for p in made if code[p].line is not None and code.classes[p].access != "load")
    shown = ", ".join(f"{count} of line {line}" for line, count in lines.most_common(SHOWN))
    return f"; values spilled: {shown}" if shown else ""


def _heads(asked: Asked, indices: list[int]) -> list[Place]:
    """The line with the bounds, above the lines of these instructions."""
    found: dict[tuple[str, int], Place] = {}
    for place in places(asked.setting, indices):
        lines = asked.setting.lines(place.file)
        for n in range(place.number, 0, -1):
            text = lines[n - 1]
            if "__global__" in text:
                if _BOUNDS.search(text) and asked.setting.name in text:
                    found[place.file, n] = Place(place.file, n, text)
                break
    return [found[key] for key in sorted(found)]


def _registers(sm: int, threads: int, blocks: int = 1) -> int:
    """The most registers a thread may take so that an SM holds so many blocks; 0 where it cannot."""
    low, high = 0, MOST  # fewer registers never mean fewer blocks
    while low < high:
        count = (low + high + 1) // 2
        found = pressure(sm, count, threads, "launch")
        low, high = (count, high) if found is not None and found.blocks >= blocks else (low, count - 1)
    return low


def _fitting(sm: int, need: int) -> int:
    """The largest block, in warps of 32, whose threads get that many registers."""
    chip = limits_of(sm)
    if chip is None:
        return 0
    return next((t for t in range(1024, 0, -32) if _registers(sm, t) >= min(need, MOST)), 32)
