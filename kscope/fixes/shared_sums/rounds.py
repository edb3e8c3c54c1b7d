"""How often a thread goes round a loop of a kernel's text, by what its instructions ran."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from kscope.features.patterns.loop_parallelism import trips
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text, statement_end

_LOOP = re.compile(r"\b(?:for|while)\s*\(|\bdo\b")


def rounds(setting: Setting, text: Text, bodies: Sequence[tuple[int, int]], heads: Sequence[int] = ()) -> float:
    """Of the loop with most of them, each time that a thread comes to it. heads: where the loops begin, whose lines
    tell where their own have no instruction."""
    made = machine_loops(setting, text, bodies, heads)
    return max((trips(setting.code, n) * times for n, times in made.items()), default=0.0)


def machine_loops(
    setting: Setting, text: Text, bodies: Sequence[tuple[int, int]], heads: Sequence[int] = ()
) -> dict[int, int]:  # fmt: skip
    """Of each body the machine's loops that most of its own instructions are in, not those of loops within, with how
    many rounds one of theirs is."""
    out = dict[int, int]()
    for n, (start, end) in enumerate(bodies):
        inner = _inner(text.code, start, end)
        lines = {_line(text, at) for at in range(start, end) if not any(a <= at < b for a, b in inner)}
        lines -= {_line(text, a) for a, _ in inner}
        found = _of(setting, text, lines)
        if not found and heads:
            found = _of(setting, text, {_line(text, heads[n])} - {_line(text, a) for a, _ in inner})
        out |= found
    return out


def _inner(code: str, start: int, end: int) -> list[tuple[int, int]]:
    out = list[tuple[int, int]]()
    for match in _LOOP.finditer(code, start, end):
        stop = statement_end(code, match.start())
        if stop is not None and not any(a <= match.start() < b for a, b in out):
            out.append((match.start(), stop))
    return out


def _line(text: Text, at: int) -> int:
    return text.first + text.code.count("\n", 0, at)


def _of(setting: Setting, text: Text, lines: Collection[int]) -> dict[int, int]:
    """The loops that instructions of these lines are in, at the depth of most of them."""
    code = setting.code
    own = Counter(code.cfg.loop_of[i] for i in code.ran(range(len(code)))
                  if code[i].file == text.file and code[i].line in lines)  # fmt: skip
    number = next((n for n, _ in own.most_common() if n is not None), None)
    if number is None:
        return {}
    depth = code.cfg.loops[number].depth  # one that is made for each of several cases is there as often
    alike = [n for n in own if n is not None and code.cfg.loops[n].depth == depth]
    return {n: _copies(setting, n, lines) for n in alike}


def _copies(setting: Setting, number: int, lines: Collection[int]) -> int:
    """How many rounds the compiler has put side by side: each access of a line is there as often."""
    code = setting.code
    met = Counter((code[i].line, code[i].opcode) for i in code.ran(range(len(code)))
                  if code.cfg.loop_of[i] == number and code[i].line in lines and code.classes[i].access)  # fmt: skip
    return min(met.values(), default=1)
