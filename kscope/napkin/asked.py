"""An operation as it is asked for: words to sizes, options and a type, and those to a Problem."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from kscope.napkin.operations import OPERATIONS
from kscope.napkin.problem import ALIASES, BYTES, Problem, wrong

MOST = 1e18  # a size; above it is a slip of the hand


class Asked(Struct, frozen=True):
    """An operation with its sizes and options by name, before anything is counted."""

    op: str
    dims: Mapping[str, float]
    options: Mapping[str, float | str]
    dtype: str

    def build(self) -> Problem:
        """Count it. Raises KscopeError (status 2) for sizes that it cannot have."""
        spec = OPERATIONS[self.op]
        everything = {**self.dims, **{k: v for k, v in self.options.items() if isinstance(v, float)}}
        may_be_zero = {*spec.rates, *(k for k, v in spec.options.items() if v == 0.0)}
        for key, value in everything.items():
            whole = key in spec.rates or value == math.floor(value) if math.isfinite(value) else False
            if not whole or value < 0 or value > MOST or (value == 0 and key not in may_be_zero):
                raise wrong(f"{key} of {self.op} cannot be {value:g}", "sizes are whole and positive")
        problem = spec.build(self.dims, self.options, self.dtype)
        if not problem.bytes and not problem.flop:
            raise wrong(f"{problem.text} moves and computes nothing", "give it bytes or FLOP")
        return problem

    def having(self, name: str, value: float) -> Asked:
        """The same with one size or option set. Raises KscopeError (status 2) where it has none of that name."""
        if name in self.dims:
            return replace(self, dims={**self.dims, name: value})
        if isinstance(self.options.get(name), float):
            return replace(self, options={**self.options, name: value})
        numbers = [*self.dims, *(k for k, v in self.options.items() if isinstance(v, float))]
        raise wrong(f"{self.op} has no size {name!r}", f"it has {', '.join(numbers)}")


def ask(words: Iterable[str] | str, dtype: str | None = None) -> Asked:
    """An operation from words: its name, its sizes in order (`4096`, `4k`, `1e6`, `128x512`), a data type, flags
    (`causal`) and options (`kv_heads=8`), in any order after the name. dtype: counts before one among the words.
    Raises KscopeError (status 2)."""
    given = [w for word in ([words] if isinstance(words, str) else words) for w in word.lower().split()]
    if not given:
        raise wrong("no operation named", _known())
    name, rest = given[0].replace("_", "-"), given[1:]
    if (spec := OPERATIONS.get(name)) is None:
        raise wrong(f"no operation {given[0]!r}", _known())
    sizes: list[float] = []
    options = dict(spec.options)
    for word in rest:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if equals:
            if key not in options:
                raise wrong(f"{name} has no option {key!r}", _usage(name))
            options[key] = _typed(name, key, value, options[key])
        elif (kind := ALIASES.get(word, word)) in BYTES:
            dtype = dtype or kind
        elif options.get(key) == 0.0:
            options[key] = 1.0
        else:
            sizes += [number(part, word) for part in word.split("x")]
    dtype = ALIASES.get((dtype or spec.dtype).lower(), (dtype or spec.dtype).lower())
    if dtype not in BYTES:
        raise wrong(f"no data type {dtype!r}", f"known are {', '.join(BYTES)}")
    if len(sizes) != len(spec.sizes):
        raise wrong(f"{name} takes {len(spec.sizes)} sizes ({' '.join(spec.sizes)}), not {len(sizes)}", _usage(name))
    return Asked(name, dict(zip(spec.sizes, sizes, strict=True)), options, dtype)


def build(words: Iterable[str] | str, dtype: str | None = None) -> Problem:
    """The problem that the words ask for (see `ask`). Raises KscopeError (status 2)."""
    return ask(words, dtype).build()


def number(text: str, within: str = "") -> float:
    """A size: 4096, 4k (4096), 1e6, 64M (67108864). within: the word it stands in. Raises KscopeError (status 2)."""
    units = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30}
    plain = text.replace(",", "").replace("_", "").lower()
    factor = units.get(plain[-1:], 1.0)
    try:
        return float(plain[:-1] if factor > 1 else plain) * factor
    except ValueError:
        raise wrong(f"{within or text!r} is no size", "give a number such as 4096, 4k or 1e6, or 128x512") from None


def _typed(name: str, key: str, value: str, like: float | str) -> float | str:
    if isinstance(like, float):
        return number(value)
    kind = ALIASES.get(value, value)
    if kind not in BYTES and kind != like:
        raise wrong(f"{key} of {name} cannot be {value!r}", f"known are {', '.join(BYTES)}")
    return kind


def _usage(name: str) -> str:
    spec = OPERATIONS[name]
    options = "".join(f" {key}={_shown(value)}" for key, value in spec.options.items())
    return f"write {name} {' '.join(spec.sizes)}{options} {spec.dtype}"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _known() -> str:
    return f"known are {', '.join(OPERATIONS)}"
