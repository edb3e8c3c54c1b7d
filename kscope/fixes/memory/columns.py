"""Local arrays whose indices come from data: a column of shared memory for each thread, where any indices are free of
conflicts."""

from __future__ import annotations

import random
import re

from kscope.features.lanes.bank_conflicts import wavefronts
from kscope.features.patterns.local_memory import copied, local_accesses
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES, body, constants, edited, evaluated, uses
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

STATIC = 48 * 1024  # bytes of shared memory that can be declared (CUDA C++ Programming Guide, compute capabilities)
DRAWS = 200
_HEAD = re.compile(r"\b__(?:global|device)__\b")
_LOCAL = re.compile(
    rf"(?<![\w,(])({'|'.join(sorted(SIZES, key=len, reverse=True))})\s+(\w+)\s*\[([^]]+)\]\s*;", re.ASCII
)


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    if setting.launch is None:
        return []
    local = code.ran(code.where(lambda ins, op: op.space == "local" and op.access is not None))
    if copied(code, local_accesses(code)):  # a copy of parameters: no array that is declared
        return []
    threads = setting.launch.threads
    for place in places(setting, local):
        lines = setting.lines(place.file)
        for number in range(place.number, max(0, place.number - 40), -1):
            for match in _LOCAL.finditer(lines[number - 1]):
                kind, name, size = match.groups()
                count = evaluated(size, constants(lines[: number]))
                if count is None or SIZES[kind] != 4 or not re.search(rf"\b{name}\s*\[", place.text):
                    continue
                return _columns(asked, place.file, number, match, count, threads, local)
            if _HEAD.search(lines[number - 1]):  # what stands before it is no array of this function
                break
    return []


def _columns(
    asked: Asked, file: str, number: int, match: re.Match[str], count: int, threads: int, local: list[int]
) -> list[Fix]:
    setting = asked.setting
    lines = setting.lines(file)
    kind, name = match[1], match[2]
    found = uses(lines, body(lines, number), name)
    found = [u for u in found if (u.line, u.spans[:1]) != (number, ((match.start(3), match.end(3)),))]
    used = 4 * count * threads
    was, will = setting.occupancy(), setting.occupancy(more_shared=used)
    assert setting.launch is not None
    if used + setting.launch.shared_static > STATIC or will is None or was is None:
        return [Fix(kind="unroll", title=f"{name} in shared memory", refused=f"{used} bytes a block do not fit")]
    if threads % 32 or setting.block[1] * setting.block[2] > 1 or any(len(u.spans) != 1 for u in found):
        return []
    changes: dict[int, list[tuple[int, int, str]]] = {}
    declared = f"__shared__ {kind} {name}_columns[({match[3].strip()}) * {threads}];"
    changes[number] = [(match.start(), match.end(), declared)]
    for use in found:
        (start, end) = use.spans[0]
        head = lines[use.line - 1].rindex(name, 0, start)
        parts = [(head, head + len(name), f"{name}_columns"), (start, start, "(")]
        changes.setdefault(use.line, []).extend([*parts, (end, end, f") * {threads} + threadIdx.x")])
    free = _run(count, threads)
    return [
        Fix(
            kind="copy_constants",
            title=f"{name} in shared memory, a column for each thread",
            language="cuda",
            edits=edited(file, lines, changes),
            conditions=[
                shown(
                    free == 1, "no access conflicts, whatever the indices", "values", DRAWS,
                    f"rows of {threads} words: lane n stays in bank n mod 32",
                ),
                Condition(holds=f"blocks have at most {threads} threads", state="check", why="as in this launch"),
            ],
            proof=[
                Proof(
                    what="local accesses (through L1 and L2)", before=total(setting.code.executed, local), after=0,
                    unit="inst", how=f"{len(local)} loads and stores become accesses of shared memory",
                ),
                Proof(
                    what="wavefronts an access of shared memory", before=1, after=free, unit="wavefronts",
                    how=f"{DRAWS} draws of 32 indices below {count}, played through the banks",
                ),
            ],
            costs=[
                f"{used} bytes of shared memory a block",
                f"an SM holds {counted(will.blocks, 'block')}, where it holds {was.blocks} now",
            ],
            price=None,  # the finding's is for an array in registers
        )
    ]  # fmt: skip


def _run(count: int, threads: int) -> int:
    """The most wavefronts that one access takes, of DRAWS sets of indices."""
    generator = random.Random(count)
    worst = 0
    for _ in range(DRAWS):
        offsets = [4 * (generator.randrange(count) * threads + lane) for lane in range(32)]
        worst = max(worst, wavefronts(offsets, 4, [1] * 32)[0])
    return worst
