"""Many variants: each checked, then timed; those that cannot run or cannot win are not run, and it is said why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from kscope.bench.session.journal import Journal, key, product
from kscope.bench.session.run import bench
from kscope.bench.session.state import Options
from kscope.bench.task import expressions
from kscope.bench.task.spec import Task, sizes
from kscope.bench.values.numbers import dtype
from kscope.bench.values.result import Result, Variant
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.parsers import scratch

THREADS = 1024  # of a block (CUDA C++ Programming Guide, "Compute Capabilities", every capability)
SHARED = 227 << 10  # bytes of a block on 9.0 and 10.0, the most of all
AT_ROOF = 1.02  # times the floor: what is left to win is less than is measured. Judged


def parse(text: str) -> tuple[str, tuple[str, ...]]:
    """`BLOCK=64,128` or `n=256..4096`, which doubles. Raises KscopeError (status 2)."""
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise KscopeError("usage", f"{text!r} is no sweep", "write KEY=V1,V2 or n=256..4096", EXIT_USAGE)
    if match := re.fullmatch(r"(\d+)\.\.(\d+)", values):
        low, high = int(match[1]), int(match[2])
        if not 0 < low <= high:
            raise KscopeError("usage", f"{text!r} holds nothing", "write n=256..4096", EXIT_USAGE)
        found = []
        while low <= high:
            found.append(str(low))
            low *= 2
        return name, tuple(found)
    return name, tuple(one for one in values.split(",") if one)


def sweep(task: Task, swept: Sequence[tuple[str, Sequence[str]]], options: Options, journal: Path,
          say: Callable[[str], None]) -> tuple[list[Variant], Result | None]:  # fmt: skip
    """Variants in order, and the result of the best that was run now. Raises KscopeError."""
    with scratch.folder("kscope-bench-") as folder:  # a library serves all shapes
        return _swept(task, product(swept), replace(options, libraries=options.libraries or str(folder)), journal, say)


def _swept(task: Task, todo: Sequence[dict[str, str]], options: Options, journal: Path,
           say: Callable[[str], None]) -> tuple[list[Variant], Result | None]:  # fmt: skip
    book = Journal(journal)
    rows: list[Variant] = []
    best: Result | None = None
    for i, values in enumerate(todo):
        one = _variant(task, values)
        name = key(one, values)
        say(f"variant {i + 1} of {len(todo)}: {' '.join(f'{k}={v}' for k, v in values.items())}")
        if name in book.done:
            rows.append(book.done[name])
            continue
        if why := unfit(one) or _at_roof(rows, one):
            variant = Variant(values=values, verdict="not run", says=why, dims=one.cases[0])
        else:
            variant, result = _run(one, values, options)
            if result is not None and (best is None or _us(result) < _us(best)):
                best = result
        book.add(name, variant)
        rows.append(variant)
    return rows, best


def unfit(task: Task) -> str:
    """Why a launch cannot be: more threads or shared memory than a block may have; empty where that is not seen."""
    match = re.search(r"<<<(.*)>>>", task.launch)
    if not match:
        return ""
    parts = _split(match[1])
    known = {**task.cases[0], **{k: int(v) for k, v in task.keywords.items() if v.isdigit()}}
    for index, limit, what in ((1, THREADS, "threads a block"), (2, SHARED, "bytes of shared memory a block")):
        if index < len(parts):
            try:
                found = expressions.value(parts[index], known)
            except KscopeError:
                continue
            if found > limit:
                return f"does not fit: {found:g} {what}, {limit} at most"
    return ""


def _at_roof(rows: Sequence[Variant], task: Task) -> str:
    """A variant of the same shape that leaves nothing to win."""
    for one in rows:
        if one.dims == task.cases[0] and one.says.startswith("at the floor"):
            return f"cannot win: {' '.join(f'{k}={v}' for k, v in one.values.items())} is at the floor of this shape"
    return ""


def _run(task: Task, values: dict[str, str], options: Options) -> tuple[Variant, Result | None]:
    try:
        result = bench(task, options)
    except KscopeError as error:
        if error.code not in ("compile", "reference"):
            raise
        return Variant(values=values, verdict="failed", says=error.message, dims=task.cases[0]), None
    timing = next((one for one in result.timings if one.cache == "cold"), result.timings[0] if result.timings else None)
    says = "" if timing is not None else result.sentence
    if timing is not None and timing.floor_us and timing.candidate_us <= AT_ROOF * timing.floor_us:
        says = f"at the floor of {timing.floor_us:.4g} us"
    return Variant(values=values, verdict=result.verdict, candidate_us=timing.candidate_us if timing else None,
                   ratio=timing.ratio if timing else None, says=says, dims=task.cases[0]), result  # fmt: skip


def _variant(task: Task, values: dict[str, str]) -> Task:
    """The task with one value of every key: a dimension, `dtype`, a keyword or macro."""
    dims, keywords, chosen = dict(task.cases[0]), dict(task.keywords), task.dtypes
    for name, value in values.items():
        if name in dims:
            dims |= sizes(f"{name}={value}")
        elif name == "dtype":
            chosen = (dtype(value).name,)
        else:
            keywords[name] = value
    return replace(task, cases=(dims,), keywords=keywords, dtypes=chosen)


def _us(result: Result) -> float:
    return result.timings[0].candidate_us if result.timings else float("inf")


def _split(text: str) -> list[str]:
    """At commas outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
