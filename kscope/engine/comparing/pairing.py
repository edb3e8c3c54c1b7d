"""Which kernel became which: by hand, by name and signature, by code, and by place alone only as a guess."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence

from msgspec import Struct

from kscope.features.sass.align import ALIKE, likeness
from kscope.features.views.footprint import Footprint
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.contract.comparison import MatchedBy
from kscope.model.errors import EXIT_USAGE, KscopeError

Key = Callable[[KernelAnalysis], Hashable]
Paired = tuple[KernelAnalysis, KernelAnalysis, MatchedBy]

GUESSES: tuple[MatchedBy, ...] = ("elimination", "position")
"""Ways of pairing that nothing but the place supports."""


class Rule(Struct, frozen=True):
    """`--match OLD=NEW`: a kernel that OLD finds before became the one that NEW finds after. Both are regular
    expressions on the name; NEW may quote groups of OLD (`\\\\1`)."""

    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.old}={self.new}"


def parse_rule(text: str) -> Rule:
    """`OLD=NEW`. The first `=` divides that is neither escaped nor part of a group like `(?=`. Raises ValueError with
    the reason."""
    old, *new = re.split(r"(?<![\\?<])=", text, maxsplit=1)
    if not new or not old or not new[0]:
        raise ValueError("write it as OLD=NEW, two regular expressions")
    for part in (old, re.sub(r"\\(\d|g<\w+>)", "", new[0])):
        try:
            re.compile(part)
        except re.error as error:
            raise ValueError(f"{part!r} is no regular expression: {error}") from None
    return Rule(old, new[0])


def name_of(kernel: KernelAnalysis) -> str:
    return kernel.demangled or kernel.name


def bare(name: str) -> str:
    """The name without template arguments, parameters and return type: what stays when a version is tuned."""
    return name.split("(")[0].split("<")[0].split(" ")[-1]


def parameters(name: str) -> str:
    """The parameter list of a demangled name, spaces left out; empty where it has none."""
    return name[name.rindex("(") :].replace(" ", "") if name.endswith(")") and "(" in name else ""


def pair(
    before: Sequence[KernelAnalysis],
    after: Sequence[KernelAnalysis],
    rules: Sequence[Rule] = (),
    old: Mapping[str, Footprint] | None = None,
    new: Mapping[str, Footprint] | None = None,
) -> tuple[list[Paired], list[KernelAnalysis], list[KernelAnalysis]]:
    """(pairs in the order of `before`, what is left before, what is left after).

    One name pairs kernels where it names as many on both sides, the n-th with the n-th in order of time; a part of the
    name only where it names one on either. old, new: footprints by kernel id, for the likeness of code. Raises
    KscopeError (status 2) where a rule finds no kernel.
    """
    left, right = list(before), list(after)
    pairs = _by_hand(left, right, rules)
    pairs += _by_key(left, right, "name and launch", _launched)
    pairs += _by_key(left, right, "name", name_of)
    pairs += _by_part(left, right)
    pairs += _by_code(left, right, old or {}, new or {})
    pairs += _by_part(left, right)  # of several with one name, code may have left one
    if left and len(left) == len(right):
        how: MatchedBy = "elimination" if len(left) == 1 else "position"
        pairs += [(a, b, how) for a, b in zip(left, right, strict=True)]
        left, right = [], []
    place = {id(k): i for i, k in enumerate(before)}
    return sorted(pairs, key=lambda p: place[id(p[0])]), left, right


def _launched(kernel: KernelAnalysis) -> Hashable:
    return name_of(kernel), kernel.launch.grid, kernel.launch.block, tuple(kernel.nvtx)


def _by_hand(left: list[KernelAnalysis], right: list[KernelAnalysis], rules: Sequence[Rule]) -> list[Paired]:
    pairs: list[Paired] = []
    for rule in rules:
        found = [(k, match) for k in left if (match := re.search(rule.old, name_of(k)))]
        made: list[Paired] = []
        for kernel, match in found:
            wanted = filled(rule, match)
            matching = [k for k in right if wanted.search(name_of(k))]
            if matching:
                mine = next((k for k in matching if k.launch == kernel.launch), matching[0])
                made.append((kernel, mine, "by hand"))
                left.remove(kernel)
                right.remove(mine)
        if not made:
            side = f"no kernel after that {rule.new!r} names" if found else f"no kernel before that {rule.old!r} names"
            raise KscopeError("no-match", f"--match {rule}: {side}", "kscope diff -v shows the names", EXIT_USAGE)
        pairs += made
    return pairs


def filled(rule: Rule, match: re.Match[str]) -> re.Pattern[str]:
    """NEW with the groups that it quotes. Raises KscopeError (status 2) for a group that OLD does not have."""
    try:
        return re.compile(
            re.sub(r"\\(?:(\d)|g<(\w+)>)", lambda m: re.escape(match[int(m[1]) if m[1] else m[2]] or ""), rule.new)
        )
    except (re.error, IndexError) as error:
        raise KscopeError("usage", f"--match {rule}: {error}", "groups of OLD count from 1", EXIT_USAGE) from None


def _by_part(left: list[KernelAnalysis], right: list[KernelAnalysis]) -> list[Paired]:
    """By the function's own name, with its parameters and without."""
    signed = _by_key(
        left, right, "name and signature", lambda k: (bare(name_of(k)), parameters(name_of(k))), alone=True
    )
    return signed + _by_key(left, right, "name without arguments", lambda k: bare(name_of(k)), alone=True)


def _by_key(
    left: list[KernelAnalysis], right: list[KernelAnalysis], how: MatchedBy, key: Key, *, alone: bool = False
) -> list[Paired]:
    """Takes what it pairs from both lists. alone: only keys that one kernel of either side has."""
    pairs: list[Paired] = []
    for value in dict.fromkeys(key(k) for k in left):
        a, b = [k for k in left if key(k) == value], [k for k in right if key(k) == value]
        if len(a) == len(b) and (len(a) == 1 or not alone):
            pairs += [(x, y, how) for x, y in zip(a, b, strict=True)]
            gone = {id(k) for k in (*a, *b)}
            left[:] = [k for k in left if id(k) not in gone]
            right[:] = [k for k in right if id(k) not in gone]
    return pairs


def _by_code(
    left: list[KernelAnalysis], right: list[KernelAnalysis], old: Mapping[str, Footprint], new: Mapping[str, Footprint]
) -> list[Paired]:
    """The most alike first; a kernel as alike to several is left to the next way of telling."""
    scores = [
        (likeness(old[a.id].shape, new[b.id].shape), i, j)
        for i, a in enumerate(left) for j, b in enumerate(right) if a.id in old and b.id in new
    ]  # fmt: skip
    scores = sorted((s for s in scores if s[0] >= ALIKE), key=lambda s: -s[0])
    pairs: list[Paired] = []
    a_done: set[int] = set()
    b_done: set[int] = set()
    for score, i, j in scores:
        free = i not in a_done and j not in b_done
        rivals = [s for s in scores if s[0] == score and (s[1] == i) != (s[2] == j)]
        if free and not any(r[1] not in a_done and r[2] not in b_done for r in rivals):
            pairs.append((left[i], right[j], "code"))
            a_done.add(i)
            b_done.add(j)
    left[:] = [k for i, k in enumerate(left) if i not in a_done]
    right[:] = [k for j, k in enumerate(right) if j not in b_done]
    return pairs
