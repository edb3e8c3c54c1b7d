"""What all reporters of several versions say in the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.model.contract.versions import Standing, Versions
from kscope.model.errors import one_line
from kscope.reports import words

SPARKS = "▁▂▃▄▅▆▇█"


def labels(found: Versions) -> list[str]:
    """Short names of the versions: the last parts of their paths, with as many folders as it takes to differ."""
    whole = [one_line(v.inputs[0].path).rstrip("\\/") if v.inputs else "-" for v in found.versions]
    paths = [re.split(r"[\\/]+", path) for path in whole]
    names = whole
    for count in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-count:]) for parts in paths]
        if len(set(names)) == len(set(whole)):
            break
    more = [len(v.inputs) - 1 for v in found.versions]
    return [name + (f" and {n} more" if n > 0 else "") for name, n in zip(names, more, strict=True)]


def headline(found: Versions) -> str:
    """3 versions of 2 kernels: 2.41x faster than the first, 1.05x slower than the one before"""
    kernels = sum(line.kind == "kernel" for line in found.lines)
    recordings = len(found.lines) - kernels
    what = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((kernels, "kernel"), (recordings, "recording")) if n]
    last = found.versions[-1]
    said = [
        f"{faster(speedup)} {whom}"
        for speedup, whom in ((last.on_first, "the first"), (last.on_before, "the one before"))
        if speedup
    ]
    end = f"; the last is {', '.join(said)}" if said else ""
    return f"{len(found.versions)} versions of {' and '.join(what) or 'nothing'}{end}"


def faster(speedup: float) -> str:
    """1.20x faster than, 1.31x slower than, as fast as."""
    if round(speedup, 2) == 1:
        return "as fast as"
    return f"{speedup:.2f}x faster than" if speedup > 1 else f"{1 / speedup:.2f}x slower than"


def ratio(speedup: float | None) -> str:
    return f"{speedup:.2f}x" if speedup else ""


def moved(one: Standing) -> str:
    """fixed MEM103 CMP208, new MEM107"""
    parts = [f"fixed {' '.join(one.fixed)}" if one.fixed else "", f"new {' '.join(one.new)}" if one.new else "",
             "a guess" if one.guess else ""]  # fmt: skip
    return ", ".join(part for part in parts if part)


def limit(one: Standing) -> str:
    return f"{one.regime}, {words.limiter(one.limiter)}" if one.regime != "unknown" else "unknown"


def spark(values: Sequence[float | None]) -> str:
    """Figures as a row of bars from nothing to the largest; a gap where there is none."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0)
    if top <= 0:
        return "".join(" " if value is None else SPARKS[0] for value in values)
    last = len(SPARKS) - 1
    return "".join(" " if v is None else SPARKS[min(last, max(0, round(v / top * last)))] for v in values)
