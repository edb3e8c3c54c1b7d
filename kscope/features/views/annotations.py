"""Beside each instruction what an expert would note: role, access, whom it waits for, where a branch goes, which loop
it is in, live registers. Linear in the number of instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.sass.accesses import Access, accesses
from kscope.features.sass.loop_kinds import loop_kinds
from kscope.features.sass.scoreboards import Wait, waits
from kscope.isa.families import family
from kscope.isa.purpose import constant_of, role_of, words

if TYPE_CHECKING:
    from kscope.features.sass.cfg import Cfg
    from kscope.isa.opcodes import OpClass
    from kscope.model.program import Instruction, Program

_LINKS = family("convergence_open")
_JUMPS, _INDIRECT = family("jump"), family("indirect_jump")


class Annotation(Struct, frozen=True):
    """What is to say about one instruction.

    `role`: one of kscope.isa.purpose.ROLES. `words`: its meaning where the name does not tell. `pipe`: what
    executes it. `latency`: cycles to a usable result where that is fixed, None where a scoreboard says
    (`scoreboard`: "long" for L1TEX, "short" for MIO) or nothing waits for it. `waits`: see
    kscope.features.sass.scoreboards. `flow`: where control goes. `loop`: number of the innermost loop (see
    `loop_numbers`), None outside. `live`: general registers live at it, None where not computed.
    """

    role: str
    words: str
    pipe: str
    latency: float | None
    scoreboard: str | None
    access: Access | None
    waits: tuple[Wait, ...]
    flow: str
    depth: int
    loop: int | None
    live: int | None


def annotate(
    program: Program,
    cfg: Cfg,
    classes: Sequence[OpClass],
    *,
    live: Sequence[int] | None = None,
    spilling: bool | None = None,
) -> list[Annotation]:
    """Annotations of all instructions, in program order. `live`: live registers by instruction, if known;
    `spilling`: see `accesses`."""
    waited = waits(program, cfg, classes)
    touched = accesses(program, classes, spilling=spilling)
    numbers = loop_numbers(cfg)
    groups = _group_waits(program.instructions)
    flows = _flows(program, cfg, numbers, loop_kinds(program, cfg, classes))
    roles = {id(op): role_of(op) for op in {id(op): op for op in classes}.values()}
    out = []
    for i, (ins, op) in enumerate(zip(program.instructions, classes, strict=True)):
        constant = constant_of(ins) is not None
        fixed = op.known and op.scoreboard is None and bool(ins.defs) and "wgmma" not in op.kind
        loop = cfg.loop_of[i]
        out.append(
            Annotation(
                role="move" if constant else roles[id(op)], words=groups.get(i) or words(ins, op), pipe=op.pipe,
                latency=op.latency if fixed else None,
                scoreboard=op.scoreboard if ins.defs else None, access=touched[i], waits=waited[i],
                flow=flows.get(i, ""), depth=cfg.depth[i], loop=numbers[loop] if loop is not None else None,
                live=live[i] if live is not None else None,
            )
        )  # fmt: skip
    return out


def _group_waits(code: Sequence[Instruction]) -> dict[int, str]:
    """What a DEPBAR on groups waits for: cp.async's or the bulk copies', by what else the code has."""
    opcodes = {ins.opcode for ins in code}
    copies, bulk = "LDGDEPBAR" in opcodes, "UTMACMDFLUSH" in opcodes
    if copies == bulk:
        return {}
    name = "cp.async.wait_group" if copies else "cp.async.bulk.wait_group"
    out = {}
    for ins in code:
        if ins.opcode == "DEPBAR" and "LE" in ins.mods and len(ins.operands) == 2 and ins.operands[1].kind == "integer":
            left = ins.operands[1].value
            out[ins.index] = f"{name} {left}: " + (f"all but the last {left}" if left else "all groups")
    return out


def loop_numbers(cfg: Cfg) -> list[int]:
    """For each loop of the graph the number that listings show, from 1 in the order of their headers' addresses."""
    order = sorted(range(len(cfg.loops)), key=lambda n: (cfg.blocks[cfg.loops[n].header].start, cfg.loops[n].depth))
    numbers = [0] * len(order)
    for place, loop in enumerate(order, 1):
        numbers[loop] = place
    return numbers


def _flows(program: Program, cfg: Cfg, numbers: Sequence[int], kinds: Mapping[int, str]) -> dict[int, str]:
    """Where each control instruction leads, by index."""
    heads = {loop.header: n for n, loop in enumerate(cfg.loops)}
    code = program.instructions
    out: dict[int, str] = {}
    called: dict[int, list[int]] = {}
    for call, target in cfg.calls.items():
        called.setdefault(target, []).append(call)
    names = dict(program.symbols)
    for number, block in enumerate(cfg.blocks):
        last = block.end - 1
        ins = code[last]
        if ins.opcode in _JUMPS or ins.opcode in _INDIRECT:
            into = _into(cfg, numbers, number, heads, kinds)
            out[last] = _branch(program, cfg, numbers, number) or into
        elif ins.opcode == "CALL":
            out[last] = _callee(ins)
            if last in cfg.calls:
                entry = code[cfg.calls[last]].pc
                out[last] = f"calls {names.get(entry) or f'{entry:04x}'}"
    for target, calls in called.items():
        if target not in out:
            out[target] = f"called from {_list([code[c].pc for c in sorted(calls)])}"
    for i, ins in enumerate(code):
        if ins.opcode in _LINKS and ins.operands and ins.operands[-1].kind == "integer":
            out[i] = f"lanes meet again at {ins.operands[-1].value:04x}"
    return out


def _callee(ins: Instruction) -> str:
    """What a call out of the function leads to: before linking (nvcc -rdc) the operand is the callee's symbol."""
    registers = any(o.kind == "register" and o.register >= 0 for o in ins.operands)
    symbol = ins.operands[-1].symbol if ins.operands and not registers else ""
    return f"calls {symbol}, linked from elsewhere" if symbol else "calls through a register"


def _branch(program: Program, cfg: Cfg, numbers: Sequence[int], number: int) -> str:
    code, block = program.instructions, cfg.blocks[number]
    ins = code[block.end - 1]
    indirect = ins.opcode not in _JUMPS  # may name the block behind it, too
    falls = [] if indirect else [s for s in block.successors if cfg.blocks[s].start == block.end]
    jumps = [s for s in block.successors if s not in falls] or [s for s in falls if s == number]
    if not jumps:
        if ins.pc in cfg.unresolved:
            return "indirect: targets not known"
        return "" if falls else "padding"
    if len(jumps) > 1 or indirect:
        guess = " (guessed)" if ins.pc in cfg.guessed else ""
        return f"switch to {_list([code[cfg.blocks[s].start].pc for s in jumps])}{guess}"
    target = jumps[0]
    if target == number and block.end - block.start == 1:
        return "padding"
    return _of_loops(cfg, numbers, cfg.loop_of[block.end - 1], target)


def _of_loops(cfg: Cfg, numbers: Sequence[int], within: int | None, target: int) -> str:
    """What a branch from inside the loop `within` to a block means to the loops: the next round of one, or its end."""
    loop = within
    while loop is not None:
        if cfg.loops[loop].header == target:
            return f"next round of loop {numbers[loop]}"
        loop = cfg.loops[loop].parent
    if within is not None and target not in cfg.loops[within].blocks:
        outer = cfg.loops[within].parent
        while outer is not None and target not in cfg.loops[outer].blocks:
            within, outer = outer, cfg.loops[outer].parent
        return f"leaves loop {numbers[within]}"
    return ""


def _into(
    cfg: Cfg, numbers: Sequence[int], number: int, heads: Mapping[int, int], kinds: Mapping[int, str]
) -> str:
    """Which loop a forward branch enters, if any."""
    block = cfg.blocks[number]
    for successor in block.successors:
        loop = heads.get(successor)
        if loop is not None and cfg.blocks[successor].start != block.end and number not in cfg.loops[loop].blocks:
            return f"to loop {numbers[loop]}" + (f" ({kinds[loop]})" if loop in kinds else "")
    return ""


def _list(pcs: Sequence[int], most: int = 6) -> str:
    shown = ", ".join(f"{pc:04x}" for pc in pcs[:most])
    return shown + (f" and {len(pcs) - most} more" if len(pcs) > most else "")
