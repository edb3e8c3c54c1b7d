"""Loops that the threads of few blocks share, with nothing but sums in shared memory at their end, or nothing at all:
as many blocks as the device holds share them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.estimate.gains import expected_at_most
from kscope.fixes.atomics.reading import MODIFIED, into_the_same
from kscope.fixes.atomics.regions import clear
from kscope.fixes.given.conditions import WRITES, proved, reads
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Loop, Span, closing, kernel_text, loops, outside, plain, spans_edited
from kscope.fixes.shared_sums.carried import acting, carried
from kscope.fixes.shared_sums.carried import asked as methods_of
from kscope.fixes.shared_sums.rounds import rounds
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

LEAST = 8  # rounds of a thread that each part keeps: what a block does besides is done once for each (judged)
_SHARED = re.compile(
    r"(?:extern\s+)?__shared__\s+(?P<kind>[A-Za-z_][\w:]*(?:\s+(?:int|long))*)\s+(?P<name>\w+)\s*\[[^;=]*\]\s*;"
)
_WHOLE = re.compile(r"(?:unsigned|signed)?\s*(?:int|long long)?|u?int(?:32|64)_t")
_NEVER = re.compile(
    r"\b(?:blockIdx|gridDim|threadIdx)\s*\.\s*[yz]|\b(?:goto|asm|volatile|cg|cooperative_groups|clock\w*|curand\w*)\b|"
    r"__threadfence|__\w+_sync\b"
)
_ASSIGNED = re.compile(rf"(?<![\w.>\])])(?P<name>[A-Za-z_]\w*){MODIFIED}|(?:\+\+|--)\s*(?P<other>[A-Za-z_]\w*)")
_STORED = re.compile(rf"(?:\]|\)|->\s*\w+|\.\w+|[;{{}}]\s*\*\s*\w+){MODIFIED}")


class Parted(Struct, frozen=True):
    """`shared`: loops that more blocks can share; `added`: statements that add to global memory what a block has of an
    array in shared memory, with the text of that. `table`: its name; "" where there is none."""

    shared: tuple[Loop, ...]
    added: tuple[tuple[int, str], ...]
    table: str
    whole: bool


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, price = asked.setting, asked.setting.launch, asked.finding.estimate
    text, held = kernel_text(setting), asked.setting.occupancy()
    if text is None or launch is None or held is None or price is None or not setting.sms:
        return []
    if max(*launch.grid[1:], *launch.block[1:]) > 1:
        return []
    found = parted(clear(text.code), setting.lines(text.file))
    if found is None or not _bare(setting, found):
        return []
    many = rounds(setting, text, [one.body for one in found.shared])
    parts = int(min(held.blocks * setting.sms // launch.grid[0], many // LEAST))
    edits = spans_edited(setting, text, _spans(clear(text.code), found)) if parts > 1 else []
    return [_fix(asked, found, parts, edits, methods_of(clear(text.code), found.shared))] if edits else []


def _fix(asked: Asked, found: Parted, parts: int, edits: list[Edit], of: Sequence[str]) -> Fix:
    setting, launch, price = asked.setting, asked.setting.launch, asked.finding.estimate
    assert launch is not None and price is not None
    given = [f"dim3({launch.grid[0]}, {parts})", str(launch.threads)]
    given += [str(launch.shared_dynamic)] if launch.shared_dynamic else []
    what = f"what blocks add up in {found.table}[]" if found.table else "the rounds of a block's loop"
    return Fix(
        kind="lane_mapping",
        title=f"{what} by {parts} blocks for each of now",
        language="cuda",
        code=f"{setting.name}<<<{', '.join(given)}>>>(...);",
        edits=edits,
        parameters={"grid.y": parts},
        conditions=[
            reads("each round is done once", "rounds go on from the thread's place among all blocks of one blockIdx.x"),
            reads("no round needs another's", "threads of a block have them in no order, and no name is carried on"),
            *([proved("a block leaves nothing but sums", "code", setting.code,
                      "no store to global memory; atomics add what is in shared memory")] if found.table else []),
            *([Condition(holds="the order in which floats are added does not matter", state="check",
                         why="atomics have none")] if found.table and not found.whole else []),
            Condition(holds="nothing that it calls asks for blockIdx.y", state="check", why="the grid has a new side"),
            *(Condition(holds=f"methods of {name} leave it as it is", state="check", why="rounds may call them")
              for name in of),
        ],
        proof=[
            Proof(what="blocks that share a loop", before=1, after=parts, unit="blocks",
                  how=f"at least {LEAST} rounds are left for each thread; as many as the device holds at most")
        ],
        costs=["what a block does besides is done by each"],
        price=expected_at_most(price, float(parts)),
    )  # fmt: skip


def parted(code: str, lines: Sequence[str] = ()) -> Parted | None:
    """The loops of a kernel that go over the block's threads; None where other things meet in shared memory, or what
    more blocks would do again is not the same."""
    opening = code.find("{")
    if opening < 0 or _NEVER.search(code):
        return None
    declared = list(_SHARED.finditer(code))
    every = [one for one in loops(code) if _by_threads(one, code)]
    if len(declared) > 1 or code.count("__shared__") != len(declared) or not every:
        return None
    bare = outside(code, [(0, opening), *((one.span[0], one.body[1]) for one in every)])
    if _acts(code, every, bare, lines) or _late(code, every, bare, {m["name"] for m in declared}):
        return None
    if not declared:
        alone = "__syncthreads" not in code and "atomic" not in code and all(_alone(code, one) for one in every)
        return Parted(tuple(every), (), "", whole=True) if alone else None
    return _summed(code, declared[0], every)


def _acts(code: str, every: Sequence[Loop], bare: str, lines: Sequence[str]) -> bool:
    """Whether something is done outside of the loops, or carried on by their rounds."""
    stored = _STORED.search(bare) is not None or "atomic" in bare
    return stored or acting(bare) or any(carried(code, x, lines, methods_of(code, [x])) for x in every)


def _late(code: str, every: Sequence[Loop], bare: str, shared: set[str]) -> bool:
    """Whether loops stand in each other, or what stands outside of them reads what they store: blocks may come to it
    when others have stored there."""
    if any(a is not b and a.body[0] <= b.span[0] < a.body[1] for a in every for b in every):
        return True
    stored = {m[1] for x in every for m in re.finditer(rf"(\w+)\s*\[[^;]*\]{MODIFIED}", code[slice(*x.body)])}
    same = {n for name in stored - shared for n in (name, *into_the_same(code, name))}
    return any(re.search(rf"(?<![\w.]){n}\s*\[|\*\s*{n}\b\s*[;,)]", bare) for n in same)


def _summed(code: str, array: re.Match[str], every: list[Loop]) -> Parted | None:
    """Of a kernel whose loops clear an array in shared memory, add to it, and add what is there to global memory."""
    name, uses, shared, added = array["name"], 1, list[Loop](), list[tuple[int, str]]()
    for one in every:
        body, own = code[slice(*one.body)], rf"{name}\s*\[\s*{one.name}\s*\]"
        text = body.strip().removeprefix("{").removesuffix("}").strip()
        uses += len(re.findall(rf"\b{name}\b", body))
        if re.fullmatch(rf"{own}\s*=\s*0(?:\.0*)?[uUlLf]*\s*;", text):
            continue
        calls = [c for c in calls_of(body, "atomicAdd") if len(c.arguments) == 2]
        if len(calls) != body.count("atomic"):
            return None
        if len(calls) == 1 and re.fullmatch(own, calls[0].arguments[1]):
            elsewhere = re.search(rf"\b{name}\b", calls[0].arguments[0])
            if elsewhere or not re.fullmatch(r"atomicAdd\s*\(.*\)\s*;", text, re.S):
                return None
            added.append((one.body[0] + calls[0].start, calls[0].arguments[1]))
            continue
        if not _counts(name, body, calls) or not _alone(code, one):
            return None
        shared.append(one)
    if not shared or not added or uses != len(re.findall(rf"\b{name}\b", code)):
        return None
    whole = _WHOLE.fullmatch(" ".join(array["kind"].split())) is not None
    return Parted(tuple(shared), tuple(added), name, whole=whole)


def _counts(name: str, body: str, calls: list[Call]) -> bool:
    """Whether an array is met in additions to it alone, whose results nobody takes."""
    to = rf"(?:&\s*)?{name}\s*(?:\[.*\]|\+.*)"
    added = all(re.fullmatch(to, c.arguments[0], re.S) and _statement(body, c.start) for c in calls)
    return added and len(re.findall(rf"\b{name}\b", body)) == len(calls)


def _statement(body: str, start: int) -> bool:
    """Whether a call is a statement, whose result nobody takes."""
    before = body[:start].rstrip()
    return before[-1:] in (";", "{", "}", ")", "") or before.endswith("else")


def _by_threads(loop: Loop, code: str) -> bool:
    return (plain(loop.start, code) == "threadIdx.x" and "+=" in loop.step
            and plain(loop.step.partition("+=")[2], code) == "blockDim.x")  # fmt: skip


def _alone(code: str, loop: Loop) -> bool:
    """Whether a round carries nothing on: what it gives values to by name is its own. Loops within are."""
    body = code[slice(*loop.body)]
    if re.search(r"\b(?:return|break|__syncthreads)\b", body):
        return False
    kept = set(re.findall(r"\b[A-Za-z_]\w*\s+(\w+)\s*\[", code[code.find("{") :]))
    if any(m[1] in kept for m in re.finditer(rf"\b(\w+)\s*(?:\[[^\]]*\])+{MODIFIED}", body)):
        return False  # an array of the thread's own
    for match in _ASSIGNED.finditer(body):
        name = match["name"] or match["other"]
        kind = r"(?:const\s+)?(?!return\b|else\b)[A-Za-z_][\w:<>]*(?:\s+[\w:]+)*[\s*&]+"
        if not re.search(rf"(?:^|[;{{}}(,])\s*{kind}{name}\s*(?:[=;,({{\[:]|$)", body):
            return False
    return True


def _bare(setting: Setting, found: Parted) -> bool:
    """Whether the machine code agrees: with a table, nothing is stored in global memory, and no old value used."""
    code = setting.code
    writes = code.ran(code.where(lambda ins, op: op.access in WRITES and op.space in ("global", "generic")))
    if found.table:
        alone = all(code.classes[i].access == "reduction" or not code.defuse.consumers(i) for i in writes)
        return bool(writes) and alone and all("ADD" in code[i].mods for i in writes)
    met = code.where(lambda ins, op: "barrier" in op.kind or op.space == "shared" or ins.opcode in ("SHFL", "REDUX"))
    return not met and all(code.classes[i].access == "store" for i in writes)


def _spans(code: str, found: Parted) -> list[Span]:
    out: list[Span] = []
    for one in found.shared:
        head = code[slice(*one.span)]
        at = re.search(rf"\b{one.name}\s*=\s*", head)
        step = head.rfind("+=")
        close = closing(head, head.index("(") + 1)
        if at is None or close is None or step < 0:
            return []
        start = one.span[0] + at.end()
        out.append((start, start + len(one.start), "blockIdx.y * blockDim.x + threadIdx.x"))
        begin = one.span[0] + step + 2
        out.append((begin, one.span[0] + close, " gridDim.y * blockDim.x"))
    return out + [(at, at, f"if ({value}) ") for at, value in found.added]
