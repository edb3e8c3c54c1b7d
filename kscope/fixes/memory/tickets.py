"""Places in lists that each lane asks a counter of its list for: counted within the block first, one atomic a list and
block."""

from __future__ import annotations

import random
import re
from collections import Counter

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Span, Text, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

MOST = 1024  # lists of a kernel: two words each in shared memory, and no more of them than a block can have threads
BLOCKS, THREADS = 5, 96  # that are played
_TICKET = re.compile(
    r"(?<=[=(,+-])\s*atomicAdd\s*\(\s*&\s*(?P<name>\w+)\s*\[\s*(?P<list>\w+)\s*(?P<apart>\*\s*\w+)?\s*\]\s*,\s*1u?\s*\)"
)


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text = kernel_text(setting)
    found = list(_TICKET.finditer(text.code)) if text is not None else []
    if text is None or launch is None or len(found) != 1 or text.code.count("atomic") != 1:
        return []
    (one,) = found
    body = text.code[text.code.find("{") : one.start()]
    if re.search(r"\breturn\b|\bif\b|\?|__shared__|__syncthreads", body) or loops(text.code):
        return []  # all threads of the block get to the barriers
    count = _lists(text.code, one["list"], constants(setting.lines(text.file)))
    kind = re.search(rf"\b(unsigned|int)\s*\*\s*(?:__restrict__\s+)?{one['name']}\b", text.code)
    if count is None or not 1 < count <= MOST or kind is None:
        return []
    flat = launch.block[1] * launch.block[2] == 1
    edits = spans_edited(setting, text, _spans(text, one, kind[1], count, flat=flat))
    atoms = setting.code.ran(setting.code.where(lambda ins, op: op.access in ("atomic", "reduction")))
    before, after = 32 * total(setting.code.executed, atoms), launch.blocks * count
    return [_counted(asked, one["name"], count, edits, (before, after))] if edits and after < before else []


def _counted(asked: Asked, name: str, count: int, edits: list[Edit], atomics: tuple[float, float]) -> Fix:
    played = _play(count)
    return Fix(
        kind="aggregate",
        title=f"{name}[] asked once for each list by each block, its lanes' places counted in shared memory",
        language="cuda",
        edits=edits,
        parameters={"lists": count},
        conditions=[
            shown(
                played > 0, "no two lanes get the same place, and none is left out", "values", played,
                f"{BLOCKS} blocks of {THREADS} threads played with lists drawn at random",
            ),
            reads(f"there are {count} lists", "the list's number is cut to that"),
            reads("all threads of the block get to the barriers", "no branch before"),
            Condition(holds="the order within a list does not matter", state="check", why="atomics have none"),
        ],
        proof=[
            Proof(
                what="atomics on global memory", before=atomics[0], after=atomics[1], unit="atomics",
                how=f"32 lanes of each warp's; at most {count} of each block",
            )
        ],
        costs=[f"{8 * count} bytes of shared memory a block, three barriers"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _lists(code: str, name: str, known: dict[str, int]) -> int | None:
    """How many values an unsigned index can have: `unsigned e = .. % N` or `.. & mask`."""
    made = re.findall(rf"\bunsigned\s+(?:int\s+)?(?:[^;()]*,\s*)?{name}\s*=\s*([^;]*?)([%&])\s*(\w+)\s*;", code)
    if len(made) != 1 or re.search(rf"\b{name}\s*(?:[-+*/%&|^]=|\+\+|--)", code):
        return None
    ((before, by, text),) = made
    value = evaluated(text, known)
    if value is None or value < 1 or before.count("(") != before.count(")"):
        return None
    return value if by == "%" else value + 1


def _spans(text: Text, one: re.Match[str], kind: str, count: int, *, flat: bool) -> list[Span]:
    name, at, apart = one["name"], one["list"], one["apart"] or ""
    mine, base = f"{name}_mine", f"{name}_base"
    start = max(text.code.rfind(c, 0, one.start()) for c in ";{}") + 1
    first, step = "threadIdx.x", "k += blockDim.x"
    if not flat:
        first = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
        step = "k += blockDim.x * blockDim.y * blockDim.z"
    head = (
        f"\n  __shared__ {kind} {mine}[{count}], {base}[{count}];"
        f"\n  for (int k = {first}; k < {count}; {step}) {mine}[k] = 0;"
        f"\n  __syncthreads();\n  {kind} {name}_own = atomicAdd(&{mine}[{at}], 1);\n  __syncthreads();"
        f"\n  for (int k = {first}; k < {count}; {step})"
        f" {base}[k] = {mine}[k] ? atomicAdd(&{name}[k {apart}], {mine}[k]) : 0;".replace("k ]", "k]")
        + "\n  __syncthreads();"
    )
    return [(start, start, head), (one.start(), one.end(), f" ({base}[{at}] + {name}_own)")]


def _play(count: int) -> int:
    """How many lanes were played, if they got the places of each list once each; 0 otherwise."""
    generator = random.Random(count)
    counter: Counter[int] = Counter()
    places: list[tuple[int, int]] = []
    for _ in range(BLOCKS):
        lists = [generator.randrange(count) for _ in range(THREADS)]
        mine: Counter[int] = Counter()
        own = []
        for e in lists:
            own.append(mine[e])
            mine[e] += 1
        base = {e: counter[e] for e in mine}
        counter.update(mine)
        places += [(e, base[e] + n) for e, n in zip(lists, own, strict=True)]
    right = sorted(places) == sorted((e, n) for e, many in counter.items() for n in range(many))
    return len(places) if right else 0
