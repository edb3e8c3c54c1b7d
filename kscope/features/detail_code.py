"""The machine code of one kernel as columns for the source view."""

from __future__ import annotations

from kscope.features.code import Code
from kscope.features.columns import Column
from kscope.features.facts import Facts
from kscope.model.detail import CodeDetail, LoopDetail

LARGEST_SOURCE = 400_000  # characters of one file; headers of libraries beyond it are left out


def code_detail(facts: Facts) -> CodeDetail | None:
    """None where the report has no SASS."""
    code = facts.code
    if code is None:
        return None
    instructions, kernel = code.program.instructions, facts.kernel
    files = list(dict.fromkeys(ins.file for ins in instructions if ins.file))
    place = {name: i for i, name in enumerate(files)}
    loops = [
        LoopDetail(
            first=min(one.instructions), last=max(one.instructions), depth=one.depth,
            parent=-1 if one.parent is None else one.parent, size=len(one.instructions),
        )
        for one in code.cfg.loops
    ]  # fmt: skip
    spaces: dict[str, list[int]] = {}
    for i, op in enumerate(code.classes):
        if op.access is not None and op.space is not None:
            spaces.setdefault(f"{op.space} {op.access}", []).append(i)
    return CodeDetail(
        function=code.function,
        pcs=[ins.pc for ins in instructions],
        sass=[ins.text for ins in instructions],
        files=files,
        file=[place[ins.file] if ins.file else -1 for ins in instructions],
        line=[ins.line or 0 for ins in instructions],
        samples=[int(x) for x in code.samples],
        executed=[int(x) for x in code.executed],
        lanes=[round(t / e, 1) if e else 0.0 for t, e in zip(code.threads, code.executed, strict=True)],
        loop=[-1 if number is None else number for number in code.cfg.loop_of],
        loops=loops,
        stalls={reason: _sparse(column) for reason, column in code.stall.items() if any(column)},
        blamed=_sparse([round(x, 1) for x in code.blamed]),
        bytes=_sparse([float(op.bytes) for op in code.classes]),
        jumps=_jumps(code),
        spaces=spaces,
        sources={f: kernel.sources[f] for f in files if 0 < len(kernel.sources.get(f, "")) <= LARGEST_SOURCE},
    )


def _sparse(column: Column) -> list[int]:
    return [int(v) for i, x in enumerate(column) if x >= 1 for v in (i, round(x))]


def _jumps(code: Code) -> list[int]:
    """Branch and target as indices, flat."""
    blocks = code.cfg.blocks
    out: list[int] = []
    for block in blocks:
        last = block.end - 1
        for successor in block.successors:
            if blocks[successor].start != block.end:
                out += [last, blocks[successor].start]
    return out
