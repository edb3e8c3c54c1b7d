"""Statements of several cases that are the same but for numbers, as one: the numbers by case and, where statements
repeat each other, by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kscope.fixes.cases.folded import of
from kscope.fixes.given.grammar import Node, Unplayable

LEAST = 4  # rounds that are written as a loop (judged)
LONGEST = 64  # statements of a round (judged)
Words = list[list[str]]
"""By case, by round."""


class Hole(Struct, frozen=True):
    """Where a number stands: its type, what it is in each case, by round."""

    kind: str
    words: Words


class Body(Struct, frozen=True):
    """statements: of the grammar, ("hole", n) where numbers differ, ("rounds", count, [statements])."""

    statements: list[Node]
    holes: list[Hole]


def outline(node: Any) -> Any:
    """What a tree is but for the values of its numbers."""
    if isinstance(node, list):
        return tuple(map(outline, node))
    if not isinstance(node, tuple):
        return node
    if node[:1] == ("number",):
        one = of(node)
        return ("number", one.kind) if one is not None else node
    return tuple(map(outline, node))


def numbers(node: Any) -> Iterator[str]:
    """The values, in the order of the text."""
    if isinstance(node, tuple) and node[:1] == ("number",):
        yield str(node[1])
    elif isinstance(node, (list, tuple)):
        for one in node:
            yield from numbers(one)


def body(cases: Sequence[Sequence[Node]]) -> Body:
    """Of cases with one outline."""
    outlines = [outline(one) for one in cases[0]]
    words = [[list(numbers(one)) for one in case] for case in cases]
    holes: list[Hole] = []
    return Body(_rolled(list(cases[0]), outlines, words, holes), holes)


def _rolled(
    statements: list[Node], outlines: Sequence[Any], words: Sequence[Sequence[list[str]]], holes: list[Hole]
) -> list[Node]:
    """words: by case, by statement."""
    start, period, rounds = _run(outlines)
    if not rounds:
        return [
            _inner(one, outlines[n], [case[n] for case in words], holes) for n, one in enumerate(statements)
        ]  # fmt: skip
    end = start + period * rounds
    before = _rolled(statements[:start], outlines[:start], [case[:start] for case in words], holes)
    inside = []
    for n in range(start, start + period):
        turns = [[case[n + period * r] for r in range(rounds)] for case in words]
        inside.append(_with_holes(statements[n], iter(_columns(turns)), holes))
    after = _rolled(statements[end:], outlines[end:], [case[end:] for case in words], holes)
    return [*before, ("rounds", rounds, inside), *after]


def _inner(one: Node, shape: Any, words: Sequence[list[str]], holes: list[Hole]) -> Node:
    """A statement that repeats none; what stands in its braces may repeat."""
    if one[0] != "block":
        made: Node = _with_holes(one, iter(_columns([[row] for row in words])), holes)
        return made
    counts = [len(list(numbers(x))) for x in one[1]]
    parted = []
    for row in words:
        at, mine = 0, []
        for count in counts:
            mine.append(row[at : at + count])
            at += count
        parted.append(mine)
    return ("block", _rolled(list(one[1]), shape[1], parted, holes))


def _columns(turns: Sequence[Sequence[list[str]]]) -> list[Words]:
    """Of numbers by case, round and place those of each place."""
    return [[[row[n] for row in case] for case in turns] for n in range(len(turns[0][0]))]


def _with_holes(node: Any, columns: Iterator[Words], holes: list[Hole]) -> Any:
    if isinstance(node, list):
        return [_with_holes(one, columns, holes) for one in node]
    if not isinstance(node, tuple):
        return node
    if node[:1] != ("number",):
        return tuple(_with_holes(one, columns, holes) for one in node)
    words = next(columns)
    one = of(node)
    if all(w == words[0][0] for row in words for w in row):
        return ("number", words[0][0])
    if one is None:
        raise Unplayable("a number of another kind")
    holes.append(Hole(one.kind, words))
    return ("hole", len(holes) - 1)


def _run(outlines: Sequence[Any]) -> tuple[int, int, int]:
    """(first statement, statements a round, rounds) of the longest repetition; no rounds where there is none."""
    ids: dict[Any, int] = {}
    # What declares a name, or leaves, is in no round.
    keys = [(n,) if one[0] in ("declare", "leave") else one for n, one in enumerate(outlines)]
    text = [ids.setdefault(key, len(ids)) for key in keys]
    best = (0, 0, 0)
    for period in range(1, min(LONGEST, len(text) // LEAST) + 1):
        same = 0
        for n in range(period, len(text) + 1):
            if n < len(text) and text[n] == text[n - period]:
                same += 1
                continue
            rounds = same // period + 1
            if rounds >= LEAST and rounds * period > best[1] * best[2]:
                best = (n - same - period, period, rounds)
            same = 0
    return best


def grouped(cases: Mapping[int, Sequence[Node]], least: int) -> list[list[int]]:
    """Runs of labels, one after the other, whose cases have one outline; those of fewer than `least` are left out."""
    shapes = {label: tuple(map(outline, case)) for label, case in cases.items()}
    runs: list[list[int]] = []
    for label in sorted(cases):
        if runs and runs[-1][-1] == label - 1 and shapes[runs[-1][-1]] == shapes[label]:
            runs[-1].append(label)
        else:
            runs.append([label])
    return [run for run in runs if len(run) >= least]
