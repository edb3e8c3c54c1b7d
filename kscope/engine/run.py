"""Inputs to one Analysis. Imports nothing heavy at module level: the readers start first, then numpy and the rules
are imported while they decode."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kscope import __version__
from kscope.model.errors import KscopeError
from kscope.parsers.compressed import collect, open_input
from kscope.parsers.ncu_native import Want
from kscope.parsers.ncu_worker import Reader, Skipped

if TYPE_CHECKING:
    from kscope.model.analysis import Analysis, Input, KernelAnalysis, SkippedInput

Progress = Callable[[str, int, "int | None"], None]
"""Called with (input, kernels done, kernels in it or None)."""


def analyze_paths(
    paths: Sequence[str | Path],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    kernel: str | None = None,
    top: int | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Analyse reports, folders of them, or both, kernels sorted by time.

    select/ignore: rule codes, slugs or code prefixes. kernel: regular expression on the demangled name. top: keep
    the longest N. With several inputs, one that cannot be read is listed in `skipped` and the others go on; raises
    KscopeError when nothing can be read, and for a lone unreadable input.
    """
    inputs = collect(paths)
    with contextlib.ExitStack() as stack:
        readers = _start(stack, inputs)
        return _analyze(readers, _codes(select, ignore), re.compile(kernel) if kernel else None, top, progress)


Started = Iterator[tuple[str, "Reader | KscopeError"]]


def _start(stack: contextlib.ExitStack, inputs: Sequence[tuple[Path, str]]) -> Started:
    """Start the first reader at once (the caller has imports to do meanwhile), the others when their turn comes."""

    def start(path: Path) -> tuple[str, Reader | KscopeError]:
        try:
            real = stack.enter_context(open_input(path))
            return str(path), Reader(real, Want(), str(path))
        except KscopeError as e:
            return str(path), e

    first = start(inputs[0][0]) if inputs else None
    if isinstance(first, tuple) and isinstance(first[1], Reader):
        stack.callback(first[1].close)

    def rest() -> Started:
        if first is not None:
            yield first
        for path, _ in inputs[1:]:
            yield start(path)

    return rest()


def _codes(select: Sequence[str], ignore: Sequence[str]) -> frozenset[str] | None:
    from kscope.rules.registry import all_rules, matching

    if not select and not ignore:
        return None
    chosen = frozenset().union(*(matching(s) for s in select)) if select else frozenset(r.code for r in all_rules())
    return chosen.difference(*(matching(i) for i in ignore)) if ignore else chosen


def _analyze(
    readers: Started,
    codes: frozenset[str] | None,
    wanted: re.Pattern[str] | None,
    top: int | None,
    progress: Progress | None,
) -> Analysis:
    from kscope.engine.group import fold
    from kscope.engine.kernel import analyze_kernel
    from kscope.model.analysis import Analysis, Input, SkippedInput
    from kscope.parsers.ncu import to_kernel

    inputs: list[Input] = []
    found: list[KernelAnalysis] = []
    skipped: list[SkippedInput] = []
    faults: list[KscopeError] = []
    for number, (path, reader) in enumerate(readers):
        version = None
        try:
            if isinstance(reader, KscopeError):
                raise reader
            done = 0
            for raw in reader.kernels():
                if isinstance(raw, Skipped):
                    skipped.append(SkippedInput(input=path, what=f"kernel {raw.index}", message=raw.message))
                else:
                    version = raw.get("tool_version") or version
                    names = (raw["demangled"] or "", raw["name"] or "")
                    if wanted is None or any(wanted.search(n) for n in names):
                        found.append(analyze_kernel(to_kernel(raw, path), f"{number}.{raw['index']}", codes))
                done += 1
                if progress is not None:
                    progress(path, done, reader.count)
            if reader.count == 0:
                raise KscopeError("no-kernels", f"{path}: the report holds no kernel", "profile one that launches any")
            inputs.append(Input(path=path, kind="ncu", tool_version=version))
        except KscopeError as e:
            faults.append(e)
            skipped.append(SkippedInput(input=path, what="report", message=str(e)))
    if faults and not inputs:
        raise faults[0]
    kernels = fold(found)
    if wanted is not None and not kernels:
        raise KscopeError(
            "no-match", f"no kernel matches {wanted.pattern!r}", "run without --kernel to see their names", 2
        )
    return Analysis(
        kscope=__version__, inputs=inputs, kernels=kernels[:top] if top else kernels, skipped=skipped
    )
