"""A task: which code, on which inputs, how right, against what."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from kscope.bench.task import expressions
from kscope.bench.values.numbers import Dtype, dtype
from kscope.model.errors import EXIT_USAGE, KscopeError

Language = Literal["python", "native"]
Framework = Literal["numpy", "torch", "raw"]
Device = Literal["cpu", "cuda"]
NATIVE = {".cu": "nvcc", ".cpp": "c++", ".cc": "c++", ".c": "cc"}
"""Suffix of a native source -> its compiler."""
T = "T"  # the data type that is varied


class Source(Struct, frozen=True):
    """Code: a function (or class, or Triton kernel) of a Python file or module, or a native source with its launch."""

    text: str
    language: Language
    path: str = ""
    module: str = ""
    name: str = ""


class Param(Struct, frozen=True):
    """An array: shape in expressions over dimensions, dtype `T` or a name. low, high: its values lie there. below:
    whole numbers from 0 up to this expression, such as indices. constant: the same data in every call, so that what is
    made of it may be kept."""

    name: str
    shape: tuple[str, ...] = ()
    dtype: str = T
    low: float | None = None
    high: float | None = None
    below: str = ""
    constant: bool = False
    scalar: bool = False
    value: str = ""

    def sizes(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(expressions.whole(side, dims) for side in self.shape)

    def kind(self, chosen: str) -> Dtype:
        return dtype(chosen if self.dtype == T else self.dtype)


class Task(Struct, frozen=True):
    """cases: dimensions that are checked and timed. derived: also check odd, tiny and swapped ones. multiple: what a
    dimension must be a multiple of. reduction: terms that go into one output, an expression. changes: inputs that the
    function writes by design. own: library calls are no work of the candidate's. flop: expression, for the roof."""

    candidate: Source
    reference: Source
    baseline: Source | None = None
    inputs: tuple[Param, ...] = ()
    outputs: tuple[Param, ...] = ()
    cases: tuple[dict[str, int], ...] = ({},)
    dtypes: tuple[str, ...] = ("float32",)
    framework: Framework = "numpy"
    device: Device = "cpu"
    name: str = ""
    launch: str = ""
    flags: tuple[str, ...] = ()
    keywords: dict[str, str] = {}
    derived: bool = True
    multiple: dict[str, int] = {}
    layouts: bool = True
    reduction: str = ""
    accumulate: str = "float32"
    compute: str = ""
    linear: bool | None = None
    tolerance: float | None = None
    changes: tuple[str, ...] = ()
    own: bool = False
    reuses_output: bool = False
    deterministic: bool = False
    special: Literal["strict", "note", "no"] = "note"
    flop: str = ""
    modules: bool = False
    file: str = ""


def check(task: Task) -> None:
    """Raises KscopeError (status 2) for what no run can go by: bounds, multiples and expressions that are none, and
    shapes that are all empty, on which everything is right."""
    fault = ""
    known = {key for case in task.cases for key in case}
    if task.tolerance is not None and not 0 <= task.tolerance < math.inf:
        fault = f"tolerance cannot be {task.tolerance:g}"
    for name, count in task.multiple.items():
        if count < 1 or name not in known:
            fault = f"multiple: no dimension {name!r}" if name not in known else f"multiple: {name} = {count}"
    if fault:
        raise KscopeError("bad-task", fault, "docs/bench.md lists the keys of a task", EXIT_USAGE)
    if task.compute not in ("", "tf32"):
        dtype(task.compute)
    for dims in task.cases:
        for text in (task.reduction, task.flop):
            if text:
                expressions.value(text, dims)
    sides = [[math.prod(one.sizes(dims)) for one in task.inputs if not one.scalar] for dims in task.cases]
    if any(sides) and not any(map(any, sides)):
        raise KscopeError("bad-task", "every shape is empty", "name one with elements", EXIT_USAGE)


_INPUT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?(?::(\w+))?(?:=(\S+))?")


def params(text: str) -> tuple[Param, ...]:
    """`x[m,n] w[n]:float32 n alpha=0.5`: arrays with their shapes, dimensions and numbers. Raises KscopeError."""
    found = []
    for word in re.sub(r",\s+", ",", text).split():
        match = _INPUT.fullmatch(word)
        if not match:
            raise KscopeError("usage", f"{word!r} is no input", "write x[m,n], x[m]:int32, n or alpha=0.5", EXIT_USAGE)
        name, shape, kind, given = match.groups()
        if shape is None:
            found.append(Param(name, scalar=True, value=given or name))
        else:
            sides = tuple(side for side in shape.split(",") if side)
            found.append(Param(name, sides, kind or T))
            if kind:
                dtype(kind)
    return tuple(found)


def sizes(text: str) -> dict[str, int]:
    """`m=127,n=4097` or `m=127 n=4k`. Raises KscopeError (status 2)."""
    found = {}
    for word in text.replace(",", " ").split():
        key, equals, number = word.partition("=")
        match = re.fullmatch(r"(\d+)([kKmM]?)", number)
        if not equals or not key.isidentifier() or not match:
            raise KscopeError("usage", f"{word!r} is no size", "write m=127,n=4097", EXIT_USAGE)
        found[key] = int(match[1]) * {"k": 1 << 10, "m": 1 << 20}.get(match[2].lower(), 1)
    return found


def source(text: str, folder: Path) -> Source:
    """`module:function`, `file.py:function`, `file.cu`. Raises KscopeError: no such file, or nothing named in it."""
    place, colon, name = text.rpartition(":")
    if not colon:
        place, name = text, ""
    suffix = Path(place).suffix.lower()
    if suffix in NATIVE or suffix == ".py":
        path = (folder / place).absolute()
        if not path.is_file():
            raise KscopeError("missing-file", f"{place}: no such file", "name the file of the code")
        if suffix == ".py":
            return Source(text, "python", str(path), "", name)
        return Source(text, "native", str(path), "", name)
    if not colon or not re.fullmatch(r"[A-Za-z_][\w.]*", place):
        hint = "write module:function, file.py:function or file.cu"
        raise KscopeError("usage", f"{text!r} names no code", hint, EXIT_USAGE)
    return Source(text, "python", "", place, name)
