"""Rows that a block passes over again and again: each thread keeps its elements in registers between the passes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.atomics.reading import MODIFIED, into_the_same
from kscope.fixes.given.conditions import WRITES, not_written, proved, reads, shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Loop, Span, Text, kernel_text, loops, outside, plain, spans_edited, written
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.units import counted

WORD, MOST = 4, 160  # bytes of a register; registers for the row: a thread has 255, and the passes' own stay
TRIED = 3  # block sizes that the places of a row are played for
_FLOW = re.compile(r"\b(?:break|continue|return|goto|while|switch|asm)\b|#")
_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+unroll[^\n]*\n\s*$")
_USE = re.compile(r"(?<![\w.])(?<!->)(?P<name>\w+)\s*\[(?P<at>[^][;=]*)\]")


class _Passes(Struct, frozen=True):
    """Loops of one head over the same elements. `uses`: spans of `name[index]` in them, `element`: its type, `head`:
    where the first begins, with the unroll pragma that stands before it."""

    loops: tuple[Loop, ...]
    name: str
    element: str
    index: str
    uses: tuple[tuple[tuple[int, int], ...], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    text = kernel_text(setting)
    found = _found(text.code, launch.threads) if text is not None and launch is not None else None
    if text is None or launch is None or found is None or launch.block[1] * launch.block[2] > 1:
        return []
    loads = [_loads(setting, text, loop) for loop in found.loops]
    length = _length(setting, loads) if _of_all_blocks(text.code, setting.name, found) else 0.0
    rounds = math.ceil(length / launch.threads) if length else 0
    more = rounds * max(1, SIZES[found.element] // WORD)
    will = setting.occupancy(registers=launch.registers + more)
    if not rounds or more > MOST or will is None or will.blocks < 1:
        return []
    edits = spans_edited(setting, text, _spans(text.code, found, rounds))
    every = [i for one in loads for i in one]
    writes = setting.code.where(lambda ins, op: op.space in ("global", "generic") and op.access in WRITES)
    if {pointer(setting.code, i) for i in every} & {pointer(setting.code, i) for i in writes} - {None}:
        return []
    bytes_ = rounds * launch.threads * SIZES[found.element]
    return [
        Fix(
            kind="register",
            title=f"{found.name}[{found.index}] of a row in registers: loaded once for {len(found.loops)} passes",
            language="cuda",
            edits=edits,
            parameters={"elements": rounds},
            conditions=[
                shown(_played(rounds) > 0, "each element of a row is taken once", "values", _played(rounds),
                      "rows of all lengths up to the longest, several block sizes"),
                proved(f"the launch's rows have {length:.0f} elements", "code", every,
                       "threads that loaded, counted, the same in each pass"),
                reads("the passes go over the same elements", "one head, one index, nothing of it changed between"),
                *not_written(setting.code, every),
                Condition(holds=f"no row has more than {rounds} elements a thread", state="check",
                          why="a longer one traps, and is not taken short"),
            ],
            proof=[
                Proof(what="times that a row is loaded", before=len(found.loops), after=1,
                      how=f"{bytes_} bytes of a block stay in registers"),
            ],
            costs=[f"{more} registers a thread",
                   f"an SM holds {counted(will.blocks, 'block')}: {will.blocks * bytes_} bytes of rows"],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def passes(setting: Setting) -> float:
    """Loops of a kernel that load from global memory."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    return len({code.cfg.loop_of[i] for i in loads} - {None})


def _of_all_blocks(code: str, name: str, found: _Passes) -> bool:
    """Whether a row's length is one of the launch, no other of another block."""
    head = re.search(rf"\b{re.escape(name)}\s*\(([^{{]*)\{{", code)
    given = set(re.findall(r"(?<![*&]) (\w+)\s*(?=[,)])", head[1])) if head is not None else set()
    words = set(re.findall(r"[A-Za-z_]\w*", plain(found.loops[0].end, code)))
    of_template = set(re.findall(r"\bint\s+(\w+)\s*[,>]", code[: head.start()] if head is not None else ""))
    return "[" not in found.loops[0].end and words <= given | of_template


def _found(code: str, threads: int) -> _Passes | None:
    """The loops of a thread's elements, where there are several over the same."""
    heads: dict[tuple[str, str], list[Loop]] = {}
    for loop in loops(code):
        step = plain(loop.step.partition("+=")[2], code)
        dealt = plain(loop.start, code) == "threadIdx.x" and step in ("blockDim.x", str(threads))
        if dealt and loop.kind in ("int", "unsigned", "size_t") and _stands(code, loop.span[0]):
            heads.setdefault((loop.end, step), []).append(loop)
    for (end, _), mine in heads.items():
        if len(mine) < 2 or any(_FLOW.search(code[slice(*x.body)]) or _inner(code, x) for x in mine):
            continue
        for match in _USE.finditer(code, *mine[0].body):
            one = _same(code, mine, match, end)
            if one is not None:
                return one
    return None


def _stands(code: str, at: int) -> bool:
    """Whether a statement begins there that every thread of the block comes to."""
    before = _PRAGMA.sub("", code[:at]).rstrip()
    return before[-1:] in (";", "{", "}") and before.count("{") - before.count("}") == 1 and "return" not in before


def _inner(code: str, loop: Loop) -> bool:
    return bool(loops(code[slice(*loop.body)]))


def _same(code: str, mine: Sequence[Loop], match: re.Match[str], end: str) -> _Passes | None:
    """The loops, if all of them use `name[index]` and nothing changes what it is made of."""
    name, first = match["name"], mine[0]
    index = _by_counter(match["at"], first.name)
    element = re.search(rf"\b(?P<type>\w+)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?{name}\b(?!\s*\()", code)
    taken = re.search(rf"\b{name}_(?:row|n)\b", code)
    if index is None or element is None or element["type"] not in SIZES or taken is not None:
        return None
    if re.search(r"\bif\b|\bcase\b|\?|&&|\|\|", code[first.body[0] : match.start()]):
        return None  # not every element is loaded
    uses = []
    for loop in mine:
        spans = [m.span() for m in _USE.finditer(code, *loop.body)
                 if m["name"] == name and _by_counter(m["at"], loop.name) == index]  # fmt: skip
        uses.append(tuple(spans))
    names = {*re.findall(r"[A-Za-z_]\w*", f"{index} {end}"), name}
    behind = outside(code, [(0, first.span[0]), *(x.span for x in mine)])
    every = "|".join({name} | into_the_same(code, name))
    stores = (
        rf"(?<![\w.])(?<!->)(?:{every})\s*\[[^;]*?\]\s*(?:\.\s*\w+)*{MODIFIED}|(?:\+\+|--)\s*(?:{every})\s*\[|"
        rf"(?<!&)&\s*(?:{every})\b|(?:[;{{}})]|\belse|[+]{{2}}|--)\s*\*\s*\(?\s*(?:{every})\b[^;=,]*{MODIFIED}"
    )
    stored = re.search(stores, code)
    counters = any(written(x.name, code[slice(*x.body)]) for x in mine)
    if not all(uses) or any(written(n, behind) for n in names - {first.name}) or stored is not None or counters:
        return None
    return _Passes(tuple(mine), name, element["type"], match["at"].strip(), tuple(uses))


def _by_counter(index: str, counter: str) -> str | None:
    """An index with the counter's place marked; None where it has none, or more than names, numbers and sums."""
    if not re.fullmatch(r"[\w\s.+*()-]+", index) or not re.search(rf"\b{counter}\b", index):
        return None
    return re.sub(r"\s+", "", re.sub(rf"\b{counter}\b", "#", index))


def _loads(setting: Setting, text: Text, loop: Loop) -> list[int]:
    """Global loads of a loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    return [i for i in loads if any(first <= p.number <= last for p in places(setting, [i]))]


def _length(setting: Setting, loads: Sequence[Sequence[int]]) -> float:
    """Elements of a row, as threads were counted that loaded from what all passes load from; 0 where the passes differ,
    or nothing was counted."""
    threads, launch = getattr(setting.code, "threads", None), setting.launch
    if threads is None or launch is None or not all(loads):
        return 0.0
    code, lengths = setting.code, set()
    for of in {pointer(code, i) for i in loads[0]}.intersection(*({pointer(code, i) for i in one} for one in loads)):
        lengths |= {total(threads, [i for i in one if pointer(code, i) == of]) / launch.blocks for one in loads}
    return lengths.pop() if len(lengths) == 1 else 0.0


def _spans(code: str, found: _Passes, rounds: int) -> list[Span]:
    row, n = f"{found.name}_row", f"{found.name}_n"
    spans: list[Span] = []
    for number, loop in enumerate(found.loops):
        step = loop.step.partition("+=")[2].strip()
        pragma = _PRAGMA.search(code[: loop.span[0]])
        if pragma is not None:
            spans.append((pragma.start(), code.index("\n", pragma.start()), ""))
        each = f"\n  #pragma unroll\n  for (int {n} = 0; {n} < {rounds}; {n}++) {{ {loop.kind} {loop.name} = "
        each += f"{loop.start} + {n} * {step}; if ({loop.name} < {loop.end}) "
        if not number:
            trap = f"if ({loop.end} > {rounds} * {step}) __trap();  // a longer row has more elements a thread"
            use = code[slice(*found.uses[0][0])]
            first = f"{trap}\n  {found.element} {row}[{rounds}];{each}{row}[{n}] = {use}; }}"
            spans.append((loop.span[0], loop.span[1], first + each))
        else:
            spans.append((loop.span[0], loop.span[1], each.lstrip("\n ") if pragma else each))
        spans += [(a, b, f"{row}[{n}]") for a, b in found.uses[number]]
        spans.append((loop.body[1], loop.body[1], " }"))
    return spans


def _played(rounds: int) -> int:
    """How many rows were written out, if each of their elements was taken once; 0 otherwise."""
    lengths = 0
    for threads in (1, 3, 8)[:TRIED]:
        for length in range(rounds * threads + 1):
            taken = [i for t in range(threads) for n in range(rounds) if (i := t + n * threads) < length]
            if sorted(taken) != list(range(length)):
                return 0
            lengths += 1
    return lengths
