"""What a kernel of two factors and one result is given: its parameters, and the sizes that its text names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.c_types import HALVES
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import blanked, loops
from kscope.fixes.rows.function import Function, function

SIZES = tuple(range(256, 1025, 128))  # that are played for those the text names: whole tiles of 64 and of 128
PLAYED = 256  # a size that the file says is played as it is up to here
SMALLEST = 16  # rows, columns or depth of a matrix of fragments
_TYPES = {"half": "__half", "nv_bfloat16": "__nv_bfloat16", "bf16": "__nv_bfloat16", "half2": "__half2",
          "nv_bfloat162": "__nv_bfloat162", "bfloat162": "__nv_bfloat162", "bf162": "__nv_bfloat162"}  # fmt: skip
_ALIAS = re.compile(
    r"^\s*(?:typedef\s+(?P<type>\w+)\s+(?P<name>\w+)|using\s+(?P<name2>\w+)\s*=\s*(?P<type2>\w+))\s*;"
)
_DEFINED = re.compile(r"^\s*#\s*define\s+(\w+)\s+\(?(\d+)\)?\s*$")
_DECLARED = re.compile(r"\S")
_IS = r"(?:\s*=\s*|\s+\(?)\d+(?=\s*[,;)]|\s*$)"
_INT = r"(?:int|unsigned|unsigned int|size_t|long|long long|u?int(?:32|64)_t)"


class Given(Struct, frozen=True):
    """`body`: types of two-byte numbers by their own names. `kind`: the factors' type as it stands there; `kinds`: of
    all pointers. `sizes`: names of whole numbers that may be any; `real`: what the file says that they are.
    `fractions`: parameters that are floats. `literals`: numbers in the text that may be a size. `lines`: what the file
    declares outside of functions. `fixed`: numbers of the template."""

    name: str
    parameters: str
    body: str
    factors: tuple[str, str]
    out: str
    kind: str
    kinds: Mapping[str, str]
    sizes: tuple[str, ...]
    real: Mapping[str, int]
    fractions: tuple[str, ...]
    literals: frozenset[int]
    lines: tuple[str, ...]
    fixed: Mapping[str, int]

    def numbers(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """What names of the text stand for where sizes are these."""
        lines = list(self.lines)
        for name, size in sizes.items():
            lines = [re.sub(rf"\b{name}(\s*=\s*|\s+\(?)\d+(?=\s*[,;)]|\s*$)", rf"{name}\g<1>{size}", x) for x in lines]
        return {**_numbers(lines), **self.fixed, **sizes}

    def small(self, numbers: Mapping[str, int]) -> set[int]:
        """Sizes that the file says and nobody changes."""
        used = {n for name, n in numbers.items() if name not in self.sizes and _has(self.body, name)}
        return {n for n in used if n >= SMALLEST and not n % SMALLEST}


def given_product(setting: Setting) -> Given | None:
    """None where the text is not at hand, or the kernel is none of two factors of two-byte numbers."""
    fn = function(setting)
    return read(fn, setting.lines(fn.file)) if fn is not None and fn.call is None else None


def read(fn: Function, file: Sequence[str]) -> Given | None:
    """What the text of a kernel says. file: all its lines."""
    lines = [blanked(x) for x in file]
    alias = types(lines)
    head = re.search(rf"\b{re.escape(fn.name)}\s*\((?P<all>[^()]*)\)\s*$", fn.code[: fn.opened])
    if head is None or "__global__" not in fn.code[: fn.opened]:
        return None
    parameters = [" ".join(p.split()) for p in head["all"].split(",")]
    kinds = {name: alias.get(kind, kind) for name, kind in fn.pointers.items()}
    matrices = _matrices(parameters, kinds)
    whole, fractions = (_of_type(parameters, fn.numbers, kind) for kind in (_INT, "float"))
    if matrices is None or len(whole) + len(fractions) != len(fn.numbers):
        return None
    body = with_types(fn.body, alias)
    outside = tuple(filter(_DECLARED.match, lines))
    own = set(re.findall(r"\b(\w+)\s*=(?!=)", body))  # what the body declares is its own
    known = {n: v for n, v in _numbers(outside).items() if n not in own and _has(body, n)}
    sizes = [n for n in whole if _has(body, n)] + [n for n in _plain(known, outside) if known[n] > PLAYED]
    return Given(
        fn.name, " ".join(head["all"].split()), body, matrices[:2], matrices[2], fn.pointers[matrices[0]], kinds,
        tuple(_loops_first(body, sizes)), {n: v for n, v in known.items() if n in sizes},
        tuple(fractions), _literals(body), outside, fn.values,
    )  # fmt: skip


def with_types(text: str, alias: Mapping[str, str]) -> str:
    """Types by their own names."""
    return re.sub(r"\b[A-Za-z_]\w*", lambda m: alias.get(m[0], m[0]), text)


def _has(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _of_type(parameters: Sequence[str], names: Sequence[str], kind: str) -> list[str]:
    return [n for n in names if any(re.fullmatch(rf"(?:const )?{kind} {n}", p) for p in parameters)]


def _plain(names: Iterable[str], lines: Sequence[str]) -> list[str]:
    """Those that a number stands for, and no expression."""
    return [n for n in names if any(re.search(rf"\b{n}{_IS}", x) for x in lines)]


def _literals(body: str) -> frozenset[int]:
    """Numbers that may be sizes."""
    found = map(int, re.findall(r"\b\d{2,4}\b", body))
    return frozenset(n for n in found if n <= max(SIZES) and not n % SMALLEST)


def _matrices(parameters: Sequence[str], kinds: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Both factors, of one type of two bytes, and what is written, of it or of floats."""
    factors = [n for n in kinds if any(re.match(rf"const .*\*.*\b{n}$", p) for p in parameters)]
    outs = [n for n in kinds if n not in factors]
    halves = {kinds[n] for n in factors}
    if len(factors) != 2 or len(outs) != 1 or len(halves) != 1 or not halves <= {*HALVES}:
        return None
    return (factors[0], factors[1], outs[0]) if kinds[outs[0]] in ("float", *halves) else None


def fitting(given: Given, side: int = 1) -> list[int]:
    """Sizes to play that the text has no other use for, multiples of one."""
    taken = {*given.literals, *given.small(given.numbers({})), *given.fixed.values()}
    return [n for n in SIZES if n not in taken and not n % side]


def _loops_first(body: str, names: Sequence[str]) -> list[str]:
    """Sizes that loops end at in front: those are played shortest."""
    ends = " ".join(loop.end for loop in loops(body))
    return sorted(names, key=lambda n: (not re.search(rf"\b{n}\b", ends), names.index(n)))


def types(lines: Sequence[str]) -> dict[str, str]:
    """Names for types of two-byte numbers, those of a file too."""
    return {**_TYPES, **_aliases(lines)}


def _aliases(lines: Sequence[str]) -> dict[str, str]:
    found = {m["name"] or m["name2"]: m["type"] or m["type2"] for x in lines if (m := _ALIAS.match(x)) is not None}
    return {name: known for name, kind in found.items() if (known := _TYPES.get(kind, kind)).startswith(HALVES)}


def _numbers(lines: Sequence[str]) -> dict[str, int]:
    defined = {m[1]: int(m[2]) for x in lines if (m := _DEFINED.match(x)) is not None}
    return {**defined, **constants(lines)}
