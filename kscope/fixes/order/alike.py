"""Two texts of one kernel played beside each other on the same numbers, where the new one has another launch: whether
every result is the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kscope.fixes.atomics.reading import Kernel
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import words
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import closing, hidden
from kscope.fixes.given.whole_numbers import REAL
from kscope.model.lazily import np

CELLS = 1 << 16  # words of each array that is played with
CONSTANT = 512  # what names of the file stand for whose number is not read: a power of two, as masks take them
MATH = (
    *REAL, "sinf", "cosf", "__sinf", "__cosf", "tanf", "atan2f", "atanf", "asinf", "acosf", "floorf", "ceilf", "rintf",
    "fmodf", "cbrtf", "erff", "expm1f", "log1pf", "__expf", "__powf", "__float_as_uint", "__uint_as_float",
    "__float_as_int", "__int_as_float", "sqrt", "exp", "log", "sin", "cos", "abs", "__saturatef", "exp10f", "hypotf",
)  # fmt: skip
"""Functions of numbers alone (CUDA math API)."""

FUNCTIONS = (*MATH, "if", "for", "while", "switch", "return", "sizeof", "min", "max", "fmaxf", "fminf", "fabsf", "fmaf")
BYTES, BYTE = ("char", "unsigned char", "uint8_t", "int8_t", "bool"), 128  # signed ones hold as much
LARGEST, FEW = 1 << 62, 40  # of the file's numbers; what larger ones are played as where there is no room for them
DRAWN = (1 << 24, CONSTANT)  # numbers below: bits of all kinds, or places that most arrays have
_IMPURE = re.compile(
    r"\b(?:atomic\w*|__shared__|static|volatile|asm|threadIdx|blockIdx|__sync\w*|__\w+_sync)\b|\*\s*\w+\s*="
)
TYPES = {"int", "unsigned", "float", "double", "char", "short", "long"}
_NAMED = re.compile(
    r"(?:\bconst(?:expr)?\b[^;(){}]*?|#\s*define\s+)\b(?P<first>[A-Za-z_]\w*)\s*(?:=|\s)(?P<more>[^;(){}]*)"
)
_MACRO = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(.*)")
_NUMBERS = re.compile(r"[\w\s+\-*/%<>&|^~().]+")


class Side(Struct, frozen=True):
    """A kernel's body, from its brace on, and the launch that it is played in. tickets: whether atomics' former values
    may be used, which threads then take in the order of their numbers. opaque: functions that are not looked into."""

    body: str
    grid: tuple[int, int]
    block: tuple[int, int]
    tickets: bool = False
    opaque: tuple[str, ...] = ()


def alike(
    kernel: Kernel, old: Side, new: Side, sizes: Sequence[Mapping[str, int]] = ({},),
    given: Mapping[str, Any] | None = None, beyond: Sequence[str] = (), instead: Mapping[str, Any] | None = None,
) -> int:  # fmt: skip
    """How many results were written and compared, if all are the same in every play that the old text allows; else 0.
    sizes: of the numbers that the launch gives, one play each. given: arrays that are not to be drawn. The new text
    may load nothing that the old one leaves alone, but of arrays in `beyond`. instead: what arrays hold for the new
    one, which only reads them."""
    if (old.grid, old.block) != (new.grid, new.block) and hidden(kernel.body, kernel.lines):
        return 0  # also where no play comes by
    compared, known_, other = 0, known(kernel), instead or {}
    for numbers in sizes:
        for below, most in ((below, most) for most in (LARGEST, CONSTANT) for below in DRAWN):
            constants_too = {n: v if v <= most else FEW for n, v in known_.items()} | dict(numbers)
            first = _made(kernel, old, constants_too, below, given or {})
            if first is None:
                continue
            second = _made(kernel, new, constants_too, below, {**(given or {}), **other})
            start = memory_of(kernel, below, given or {})
            same = _compared(kernel, start, first, second, beyond, other) if second is not None else None
            if same is None:
                return 0
            compared += same
            break
        else:
            return 0
    return compared


_Left = tuple[dict[str, Any], Mapping[str, Any]]


def _compared(
    kernel: Kernel, start: Mapping[str, Any], first: _Left, second: _Left, beyond: Sequence[str],
    instead: Mapping[str, Any],
) -> int | None:  # fmt: skip
    """How many words were written, if both texts left the same; None where they did not."""
    compared = 0
    for name, cells in first[0].items():
        wanted = instead.get(name, cells)
        width = words(pointers(kernel).get(name, ""))[0]
        loaded = [_elements(one[1][name], width) for one in (first, second)]
        more = name not in beyond and name not in instead and (loaded[1] & ~loaded[0]).any()
        kept = name not in instead or np.array_equal(cells, start[name])
        if more or not kept or not np.array_equal(second[0][name], wanted):
            return None
        compared += int((cells != start[name]).sum())
    return compared


def playable(kernel: Kernel, side: Side, numbers: Mapping[str, int], given: Mapping[str, Any]) -> bool:
    """Whether a text can be played with these numbers: without races, within the arrays."""
    return _made(kernel, side, known(kernel) | dict(numbers), DRAWN[-1], given) is not None


def _elements(cells: Any, width: int) -> Any:
    """Which elements of so many words have one that was loaded."""
    return cells[: len(cells) // width * width].reshape(-1, width).any(axis=1)


def known(kernel: Kernel) -> dict[str, int]:
    """Numbers of the names that a kernel takes from its file."""
    said, asked = constants(kernel.lines), set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", kernel.body))
    named = {m for line in kernel.lines for found in _NAMED.finditer(line)
             for m in [found["first"], *re.findall(r"\b(\w+)\s*=", found["more"])]}  # fmt: skip
    named -= {m[1] for line in kernel.lines if (m := _MACRO.match(line)) and not _of_numbers(m[2], named | TYPES)}
    return {name: said.get(name, CONSTANT) for name in named & asked - set(kernel.parameters) - TYPES}


def _of_numbers(made: str, named: set[str]) -> bool:
    """Whether a macro stands for a number: one made of numbers and of what the file names, and of no kernel's own."""
    bare = made.partition("//")[0].strip()
    words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare))
    return bool(bare) and _NUMBERS.fullmatch(bare) is not None and words <= named | {"size_t", "uint32_t", "uint64_t"}


def called(kernel: Kernel) -> tuple[str, ...] | None:
    """Functions of the file that the kernel calls; None where one may do more than compute."""
    source = "\n".join(kernel.lines)
    out = []
    for name in sorted(set(re.findall(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\(", kernel.body)) - set(FUNCTIONS)):
        for head in re.finditer(rf"__device__[^;{{}}()]*\b{name}\s*\(", source):
            opened = source.find("{", head.end())
            end = closing(source, opened + 1)
            if end is None or _IMPURE.search(source[head.end() : end]):
                return None
            out.append(name)
    return tuple(dict.fromkeys(out))


def pointers(kernel: Kernel) -> dict[str, str]:
    """What a kernel's pointers lead to, by name."""
    clean = {n: re.sub(r"\b(?:const|__restrict__|__restrict)\b", "", t) for n, t in kernel.parameters.items()}
    return {n: " ".join(t.replace("*", "").split()) for n, t in clean.items() if "*" in t}


def kinds(kernel: Kernel) -> dict[str, str]:
    """Types of numbers, and of what pointers lead to, by name."""
    return {**{n: t for n, t in kernel.parameters.items() if "*" not in t}, **pointers(kernel)}


def _made(
    kernel: Kernel, side: Side, numbers: Mapping[str, int], below: int, given: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, Any]] | None:  # fmt: skip
    """The memory that a launch leaves, and which words of it were loaded."""
    memory = memory_of(kernel, below, given)
    rules = Rules(literals="drawn", races=True, kinds=kinds(kernel), tickets=side.tickets,
                  opaque=(*MATH, *side.opaque))
    try:
        played = play(side.body, side.grid, side.block, memory, {"warpSize": 32, **numbers}, rules)
    except Unplayable:
        return None
    return memory, played.read


def memory_of(kernel: Kernel, below: int, given: Mapping[str, Any]) -> dict[str, Any]:
    out = {name: np.array(cells) for name, cells in given.items()}
    for name, kind in pointers(kernel).items():
        most = min(below, BYTE if kind in BYTES else below)
        out.setdefault(name, np.random.default_rng([below, *map(ord, name)]).integers(0, most, CELLS))
    return out
