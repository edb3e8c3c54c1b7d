"""A kernel's text and the same whose rounds blocks take in turn, played on numbers: whether both leave the same, and no
two rounds use one place but by atomics."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kscope.fixes.given.c_types import TYPES
from kscope.fixes.given.called import Function, functions
from kscope.fixes.given.functions import CALLS
from kscope.fixes.given.grammar import Parser, Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.leaving import statements
from kscope.fixes.given.played import Played, Rules, play
from kscope.fixes.given.rewrite import PURE
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import SIZES as BYTES
from kscope.fixes.given.source import constants as named
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Text, closing, declared_at
from kscope.fixes.given.whole_numbers import NUMBERS, REAL
from kscope.fixes.rows.function import constants
from kscope.fixes.rows.regrouped import applied
from kscope.fixes.tiling.carried import effects
from kscope.fixes.tiling.turns import Turn, spans
from kscope.model.kernel import Launch
from kscope.model.lazily import np

DRAWS, ENOUGH, LEAST = 28, 6, 4  # launches with numbers of their own: tried, played at most, at least (judged)
PARTS = (2, 5)  # blocks for each of now
CELLS, STEPS = 1 << 16, 6_000_000
THREADS = 32  # of a block, where the text asks for its size
TOGETHER = 4  # threads that go through a statement at a time, for it to be shown that they leave each other alone
NARROW = 4  # numbers that data are, in every third launch: places that data pick are then often the same
NEAR = 1e-9  # of what atomics add up in another order (judged)
_PLAYED_AS = (
    (re.compile(r"\b(?:unsigned\s+char|u?int8_t|signed\s+char|uchar)\b"), "char"),
    (re.compile(r"\b(?:unsigned\s+short|u?int16_t|ushort)\b"), "short"),
    (re.compile(r"\b(?:half|at::Half|c10::Half)\b"), "__half"),
    (re.compile(r"\b(?:unsigned\s+)?long\s+long(?:\s+int)?\b|\bunsigned\s+long\b"), "long"),
    (re.compile(r"\b(?:__restrict|restrict)\b"), "__restrict__"),
)  # fmt: skip
_DYNAMIC = re.compile(r"\bextern\s+(__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?(?P<kind>[\w ]+)\s\w+)\s*\[\s*\]\s*;")
_GIVEN = re.compile(r"(?P<kind>[A-Za-z_][\w ]*?)\s*(?:(?P<star>\*)\s*|\s)(?P<name>\w+)(?P<row>\s*\[\s*\])?")
_STORES = re.compile(r"\]\s*[-+*/%&|^]?=(?!=)|\batomic\w*|(?:[;{}]\s*\*)|\bblockIdx\b|\bgridDim\b|__shared__")


class Kernel(Struct, frozen=True):
    """`opened`: where its body begins in the text; `pointers`, `numbers`, `fractions`: types of parameters by name;
    `known`: what names stand for; `types`: those of its template, by name. `fractions_added`: whether atomics may add
    what is rounded."""

    text: Text
    opened: int
    pointers: Mapping[str, str]
    numbers: Mapping[str, str]
    fractions: Mapping[str, str]
    known: Mapping[str, int]
    called: Mapping[str, Function]
    types: Mapping[str, str]
    fractions_added: bool

    @property
    def kinds(self) -> dict[str, str]:
        return {**self.pointers, **self.numbers, **self.fractions}

    def plainly(self, text: str) -> str:
        """A text with types that can be played."""
        for name, kind in self.types.items():
            text = re.sub(rf"\b{name}\b", kind, text)
        for pattern, new in _PLAYED_AS:
            text = pattern.sub(new, text)
        return text


def kernel(setting: Setting, text: Text) -> Kernel | None:
    """None where it takes anything but pointers to numbers and numbers, or calls what may store or ask where it is."""
    code, lines = text.code, setting.lines(text.file)
    head = re.search(rf"\b{re.escape(setting.name)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    opened = code.find("{", close) if close is not None else -1
    template = _template(setting, text)
    if head is None or close is None or opened < 0 or code[close + 1 : opened].strip() or template is None:
        return None
    types, values = template
    one = Kernel(text, opened, {}, {}, {}, {}, {}, types, fractions_added=False)
    parameters = _parameters(one.plainly(code[head.end() : close]))
    called = {n: (p, one.plainly(b)) for n, (p, b) in functions(lines, code[opened:]).items()}
    if parameters is None or any(_STORES.search(body) for _, body in called.values()):
        return None
    pointers, numbers, fractions = parameters
    known = {**named(lines), **constants(lines, code), **values, "warpSize": 32}
    used = set(re.findall(r"[A-Za-z_]\w*", code))
    added = "atomic" in code and bool({*pointers.values(), *types.values()} & {*FLOATS})
    return Kernel(text, opened, pointers, numbers, fractions,
                  {n: v for n, v in known.items() if n in used}, called, types, added)  # fmt: skip


def _parameters(head: str) -> tuple[dict[str, str], dict[str, str], dict[str, str]] | None:
    """Pointers with their types, numbers, and fractions; None where there is anything else."""
    pointers, numbers, fractions = dict[str, str](), dict[str, str](), dict[str, str]()
    for part in split_declarators(head):
        bare = " ".join(re.sub(r"\b(?:const|__restrict__)\b", " ", part.partition("=")[0]).split())
        made = _GIVEN.fullmatch(bare)
        if made is None or not all(word in TYPES for word in made["kind"].split()):
            return None
        if made["star"] or made["row"]:
            pointers[made["name"]] = made["kind"]
        else:
            (fractions if made["kind"] in FLOATS else numbers)[made["name"]] = made["kind"]
    return (pointers, numbers, fractions) if pointers else None


def _template(setting: Setting, text: Text) -> tuple[dict[str, str], dict[str, int]] | None:
    """Types and numbers of a template; None where one of them is not known."""
    lines = setting.lines(text.file)
    above = " ".join(lines[declared_at(lines, text.first) - 1 : text.first])
    found = re.search(r"\btemplate\s*<([^<>]*)>", above)
    if found is None:
        return {}, {}
    given = list(split_declarators(setting.instance.partition("<")[2].rpartition(">")[0]))
    types, values = dict[str, str](), dict[str, int]()
    for n, part in enumerate(split_declarators(found[1])):
        words = part.partition("=")[0].split()
        said = given[n].strip() if n < len(given) else ""
        number = re.fullmatch(r"(?:\([\w ]+\))?(\d+)[uUlL]*", said)
        if len(words) == 2 and words[0] in ("typename", "class"):
            types[words[1]] = said if said in BYTES and said in TYPES else "float"
        elif words[:-1] and all(w in TYPES for w in words[:-1]) and number is not None:
            values[words[-1]] = int(number[1])
        else:
            return None
    return types, values


def same(setting: Setting, one: Kernel, found: Sequence[Turn], axis: str) -> int:
    """How many results were written and compared, if both texts leave the same; 0 otherwise."""
    launch, code = setting.launch, one.text.code
    assert launch is not None
    was = _body(setting, one, code)
    now = _body(setting, one, applied(code, spans(list(found), axis)))
    block, blocks, leaves = *_launched(launch, code), _leaves(was)
    if launch.block[2] > 1 or leaves is None:
        return 0
    grids = [tuple(parts if a == axis else size for a, size in zip("xyz", blocks, strict=True)) for parts in PARTS]
    compared, played, shared, gone = 0, 0, 0, set[int]()
    for n in range(DRAWS):
        left = _left(one, was, (*blocks,), block, n)
        if left is None:
            continue
        for grid in grids:
            new = _left(one, now, grid, block, n)
            if new is None or not all(_alike(left[0][p], new[0][p]) for p in one.pointers):
                return 0
            gone |= _together(new[1])
            shared += shared < LEAST and _short(one, now, grid, block, n, left[0], axis)
        compared, played = compared + _written(one, left[0], n), played + 1
        if played >= ENOUGH and shared >= LEAST and leaves <= gone:
            break
    return compared if played >= LEAST and shared >= LEAST and leaves <= gone else 0


def _together(played: Played) -> set[int]:
    """Statements that several threads went through at a time."""
    return {number for number, threads in played.gone.items() if threads >= TOGETHER}


def _launched(launch: Launch, code: str) -> tuple[tuple[int, int], list[int]]:
    """Threads of a block, and blocks, that are played."""
    sized = re.search(r"\bblockDim\b", code) is not None and max(launch.block[1:]) == 1
    blocks = [2 if launch.grid[n] > 1 or re.search(rf"\bblockIdx\s*\.\s*{a}\b", code) else 1
              for n, a in enumerate("xyz")]  # fmt: skip
    return (min(THREADS, launch.threads), 1) if sized else launch.block[:2], blocks


def _body(setting: Setting, one: Kernel, code: str) -> str:
    """As it is played: what the launch gives of shared memory is declared."""
    assert setting.launch is not None
    dynamic = setting.launch.shared_dynamic
    text = one.plainly(code[one.opened :].rstrip())
    return _DYNAMIC.sub(lambda m: f"{m[1]}[{max(1, dynamic // BYTES.get(' '.join(m['kind'].split()), 4))}];", text)


def _leaves(body: str) -> set[int] | None:
    """Numbers of the statements that leave something in memory."""
    try:
        tree = Parser(body, NUMBERS["drawn"]).body()
        return {n for n, node in enumerate(statements(tree)) if node[0] == "do" and effects(node[1])}
    except (Unplayable, RecursionError):
        return None


def _short(
    one: Kernel, body: str, grid: tuple[int, ...], block: tuple[int, int], n: int, whole: Mapping[str, Any], axis: str
) -> bool:  # fmt: skip
    """Whether the other blocks have rounds to take: without them something is missing."""
    stride = {"x": 1, "y": grid[0], "z": grid[0] * grid[1]}[axis]
    along = grid["xyz".index(axis)]
    first = tuple(b for b in range(grid[0] * grid[1] * grid[2]) if b // stride % along == 0)
    some = _left(one, body, grid, block, n, only=first)
    return some is not None and not all(_alike(whole[p], some[0][p]) for p in one.pointers)


def _left(
    one: Kernel, body: str, grid: tuple[int, ...], block: tuple[int, int], n: int, only: tuple[int, ...] = ()
) -> tuple[dict[str, Any], Played] | None:  # fmt: skip
    """What a launch leaves in memory; None where it cannot be played on the n-th numbers."""
    real, draw, words = n % 2 == 1, random.Random(f"{one.text.first} {n}"), set(re.findall(r"\w+(?=\s*\()", body))
    sizes = (1, 2, 3, 5, 9, 3 * block[0] * block[1] + 7, 40)
    numbers: dict[str, float] = {name: draw.choice(sizes) for name in one.numbers}
    numbers |= {name: draw.uniform(0.1, 1.5) if real else draw.randrange(1, 150) for name in one.fractions}
    opaque = (words & {*PURE, *REAL}) - {*CALLS} - one.called.keys() - ({*REAL} if real else set()) - TYPES
    rules = Rules(literals="real" if real else "drawn", races=True, kinds=one.kinds, only=only,
                  opaque=tuple(sorted(opaque)), functions=one.called, steps=STEPS, paths=True)  # fmt: skip
    memory = {name: _first(one, name, n) for name in one.pointers}
    try:
        return memory, play(body, grid, block, memory, {**one.known, **numbers}, rules)
    except Unplayable:
        return None


def _first(one: Kernel, name: str, n: int) -> Any:
    made = np.random.default_rng([n, *map(ord, name)])
    if n % 2 and one.pointers[name] in FLOATS:
        return made.random(CELLS)
    return made.integers(0, NARROW, CELLS) if n % 3 == 2 else made.integers(1, 200, CELLS)


def _alike(a: Any, b: Any) -> bool:
    return a.tobytes() == b.tobytes() or (a.dtype.kind == "f" and bool(np.allclose(a, b, rtol=NEAR, atol=NEAR)))


def _written(one: Kernel, left: Mapping[str, Any], n: int) -> int:
    return sum(int((cells != _first(one, name, n)).sum()) for name, cells in left.items())
