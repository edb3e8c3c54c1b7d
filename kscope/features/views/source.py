"""Machine code as columns for the source view: of a profiled kernel, or of a binary that nobody ran."""

from __future__ import annotations

import msgspec

from kscope.features.facts import Facts
from kscope.features.profile.code import Code
from kscope.features.sass.columns import Column
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.features.views.annotations import annotate
from kscope.features.views.notes import notes
from kscope.features.views.waiting import Waits
from kscope.isa.control import words
from kscope.model.contract.detail import CodeDetail, LoopDetail
from kscope.model.program import Program
from kscope.parsers.ncu.embedded_code import with_image

CAUSES, LEAST = 200, 0.001  # instructions of which causes are told, and the share of samples that they have at least
LARGEST_SOURCE = 400_000  # characters of one file; headers of libraries beyond it are left out


def code_detail(facts: Facts, report: str = "") -> CodeDetail | None:
    """None where the report has no SASS. report: its plain file, for what the embedded image knows of the code."""
    code = facts.code
    if code is None:
        return None
    kernel, bare = facts.kernel, bare_detail(code.structure, report)
    return msgspec.structs.replace(
        bare,
        function=code.function,
        samples=[int(x) for x in code.samples],
        executed=[int(x) for x in code.executed],
        lanes=[round(t / e, 1) if e else 0.0 for t, e in zip(code.threads, code.executed, strict=True)],
        stalls={reason: _sparse(column) for reason, column in code.stall.items() if any(column)},
        blamed=_sparse([round(x, 1) for x in code.blamed]),
        causes=_causes(facts, code),
        traffic=_traffic(code),
        sources={f: kernel.sources[f] for f in bare.files if 0 < len(kernel.sources.get(f, "")) <= LARGEST_SOURCE},
    )  # fmt: skip


TRAFFIC = {"wavefronts": "memory_l1_wavefronts_shared", "sectors": "memory_l2_theoretical_sectors_global"}


def _traffic(code: Code) -> dict[str, list[int]]:
    columns = {name + end: code.column(counter + end) for name, counter in TRAFFIC.items() for end in ("", "_ideal")}
    return {name: _sparse(column) for name, column in columns.items() if column is not None and any(column)}


def _causes(facts: Facts, code: Code) -> list[tuple[int, str, list[int]]]:
    """Causes of the waits at the instructions that matter, hottest first."""
    waits, every = Waits(facts, code), sum(code.samples) or 1.0
    out = []
    for i in code.hottest(range(len(code)), code.samples)[:CAUSES]:
        if code.samples[i] < LEAST * every:
            break
        reason = max(code.stall, key=lambda r: code.stall[r][i])
        if (found := waits.at(i, reason)).text:
            out.append((i, found.text, list(found.pcs)))
    return out


@once_per_code  # a report's launches share their functions
def bare_detail(structure: Structure, report: str) -> CodeDetail:
    """The part of `code_detail` that follows from the code alone."""
    program = structure.program
    return listing_detail(Listing(program, structure=structure), with_image(program, report) if report else None)


def listing_detail(code: Listing, program: Program | None = None) -> CodeDetail:
    """Code alone: no samples, no executions, no sources. program: the same code with scheduling fields, if known."""
    program = program or code.program
    instructions = program.instructions
    named = (name for ins in instructions for name in (ins.file, *(site.file for site in ins.inlined)) if name)
    files = list(dict.fromkeys(named))
    place = {name: i for i, name in enumerate(files)}
    nothing = [0] * len(instructions)
    return CodeDetail(
        function=code.function,
        pcs=[ins.pc for ins in instructions],
        sass=[ins.text for ins in instructions],
        files=files,
        file=[place[ins.file] if ins.file else -1 for ins in instructions],
        line=[ins.line or 0 for ins in instructions],
        samples=nothing,
        executed=nothing,
        lanes=[0.0] * len(instructions),
        loop=[-1 if number is None else number for number in code.cfg.loop_of],
        loops=_loops(code),
        stalls={},
        blamed=[],
        bytes=_sparse([float(op.bytes) for op in code.classes]),
        jumps=_jumps(code),
        depends=_depends(code),
        spaces=_spaces(code),
        live=code.liveness.counts(),
        control=_control(program),
        notes=_notes(code, program),
        inlined=[
            [i, *(v for site in ins.inlined for v in (place[site.file], site.line))]
            for i, ins in enumerate(instructions) if ins.inlined
        ],
    )  # fmt: skip


def _loops(code: Listing) -> list[LoopDetail]:
    return [
        LoopDetail(
            first=min(one.instructions), last=max(one.instructions), depth=one.depth,
            parent=-1 if one.parent is None else one.parent, size=len(one.instructions),
        )
        for one in code.cfg.loops
    ]  # fmt: skip


def _spaces(code: Listing) -> dict[str, list[int]]:
    """Instructions by what they access and how: `global load`."""
    spaces: dict[str, list[int]] = {}
    for i, op in enumerate(code.classes):
        if op.access is not None and op.space is not None:
            spaces.setdefault(f"{op.space} {op.access}", []).append(i)
    return spaces


def _notes(code: Listing, program: Program) -> list[tuple[int, str]]:
    """What stands beside instructions; widths of accesses are a column."""
    noted = annotate(program, code.cfg, code.classes)
    return [(i, note) for i, one in enumerate(noted) for note in notes(program, i, one) if not note.endswith("B/lane")]


def _control(program: Program) -> list[str]:
    """The scheduling fields in words; empty where only text is known."""
    controls = [ins.control for ins in program.instructions]
    texts = {control: words(control) if control is not None else "" for control in set(controls)}
    return [texts[control] for control in controls] if any(texts.values()) else []


def _sparse(column: Column) -> list[int]:
    return [int(v) for i, x in enumerate(column) if x >= 1 for v in (i, round(x))]


def _depends(code: Listing) -> list[int]:
    """Producer and consumer of each register value, flat; of the uniform datapath and predicates as well."""
    out: list[int] = []
    for i in range(len(code)):
        for producer in sorted({p for found in code.defuse.sources(i).values() for p in found}):
            out += [producer, i]
    return out


def _jumps(code: Listing) -> list[int]:
    """Branch and target as indices, flat."""
    blocks = code.cfg.blocks
    out: list[int] = []
    for block in blocks:
        last = block.end - 1
        for successor in block.successors:
            if blocks[successor].start != block.end:
                out += [last, blocks[successor].start]
    return out
