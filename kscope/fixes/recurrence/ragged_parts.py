"""Blocks that each sum up a run of rows, taken apart: what is of all runs, what of one, and what a row adds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.text import plain
from kscope.fixes.recurrence.linear import bare, names, parsed, written
from kscope.fixes.recurrence.serial import Serial, Update

NAMED = 3  # names for names that are looked up
LARGEST = 1024  # threads of a block


class Runs(Struct, frozen=True):
    """`array`: where runs begin. `stores`: arrays, places and sums of what a block stores behind its loop, if that is
    all it does there. `outs`: arrays that it stores to."""

    one: Serial
    array: str
    stores: tuple[tuple[str, str, str], ...]
    outs: tuple[str, ...]


class Shared(Struct, frozen=True):
    """Declarations in front of a loop: those for all runs, and those that are of one run. `rounds`: what a round
    declares, and what it adds to each state."""

    all_: str
    run: str
    rounds: tuple[Update | str, ...]


def put_in(expression: str, text: str) -> str:
    """With the names in it that stand for others, and what these stand for."""
    for _ in range(NAMED):
        expression = plain(expression, text)
    return expression


def parts(found: Runs) -> dict[str, str]:
    """Arrays of parts' sums, and of how many came, with their types, one behind the other."""
    name = found.one.fn.name
    sums = {f"{name}_part{n}": kind for n, kind in enumerate(found.one.states.values())}
    return {**sums, f"{name}_came": "unsigned"}


def handed(found: Runs) -> bool:
    """Whether blocks hand parts of sums to each other, and nothing is zero before."""
    return shared(found) is not None


def words(room: tuple[int, int]) -> int:
    """Of an array of parts' sums."""
    return max(LARGEST, room[0] * room[1])


def shared(found: Runs) -> Shared | None:
    """None where what a row adds depends on its run, or the text cannot be taken apart."""
    one, fn = found.one, found.one.fn
    try:
        head = parsed(f"{{{one.head}}}")[1]
        made = [(kind, name, stars, value) for node in head for kind, name, stars, value in _one_each(node)]
    except Unplayable:
        return None
    mine: set[str] = set()
    all_, run = [], []
    for kind, name, stars, value in made:
        if name in one.states:
            continue
        first = f" = {bare(written(value))}" if value is not None else ""
        text = f"{'const ' if stars else ''}{kind}{stars} {name}{first};"
        if "blockIdx" in text or (value is not None and names(value) & mine):
            mine.add(name)
            run.append((name, re.sub(r"\bblockIdx\.x\b", "of_run_n", text)))
        else:
            all_.append(text)
    rounds = _rounds(found)
    rests = " ".join(r.form.rest if isinstance(r, Update) else r for r in rounds or ())
    if rounds is None or fn.call is not None or "blockIdx" in rests:
        return None
    if any(re.search(rf"(?<![\w.]){name}\b", rests) for name in mine):
        return None
    return Shared(" ".join(all_), " ".join(_needed(one.tail, run)), rounds)


def _needed(asked: str, given: Sequence[tuple[str, str]]) -> list[str]:
    """Of names with their declarations those that a text asks for, and those that these ask for."""
    out: list[str] = []
    for name, text in reversed(given):
        if re.search(rf"(?<![\w.]){name}\b", asked):
            out.insert(0, text)
            asked += text
    return out


def _rounds(found: Runs) -> tuple[Update | str, ...] | None:
    """What a row adds, by the number of the row among all of them; None where it is also asked for that in its run."""
    one, name = found.one, found.one.loop.name
    if one.loop.start != "0":
        return one.rounds
    out: list[Update | str] = []
    for each in one.rounds:
        text = each.form.rest if isinstance(each, Update) else each
        sums = re.finditer(rf"\((\w+) \+ {name}\)|\({name} \+ (\w+)\)|\b{name}\b", text)
        if any(put_in(m[1] or m[2] or "", one.fn.body) != f"{found.array}[blockIdx.x]" for m in sums):
            return None
        text = re.sub(rf"\(\w+ \+ {name}\)|\({name} \+ \w+\)", name, text)
        out.append(Update(structs.replace(each.form, rest=text)) if isinstance(each, Update) else text)
    return tuple(out)


def _one_each(node: Node) -> list[tuple[str, str, str, Node | None]]:
    """What a statement declares; Unplayable where it does something else."""
    if node[0] != "declare" or node[3] or any(dims or stars == "&" for _, stars, dims, _ in node[2]):
        raise Unplayable("no plain declaration")
    return [(node[1], name, stars, value) for name, stars, _, value in node[2]]


def finished(found: Runs, of: Shared, run: str, sums: Mapping[str, str] | None = None) -> str:
    """What is done with a run's sums, once they are whole."""
    one = found.one
    tail = re.sub(r"\bblockIdx\.x\b", "of_run_n", re.sub(r"\s*\n\s*", " ", one.tail.strip()))
    given = " ".join(f"{kind} {s} = {(sums or own(one))[s]};" for s, kind in one.states.items())
    return f"{{ const int of_run_n = {run}; {f'{of.run} ' if of.run else ''}{given} {tail} }}"


def own(one: Serial) -> dict[str, str]:
    """What a block's sums are called."""
    return {s: f"sum{n}_n" for n, s in enumerate(one.states)}
