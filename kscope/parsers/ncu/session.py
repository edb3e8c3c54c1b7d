"""What the container of a report says before anything of it is decoded: who wrote it, how, and of which functions."""

from __future__ import annotations

import os


def order(path: str, count: int, *, code: bool) -> tuple[dict[int, int], dict[int, str], dict[int, int]]:
    """Of each kernel the launches of the same function before it, the mangled names of those whose code is worth
    sending before they are decoded: the first launch of each function of a source, and the number of each one's source.
    {} where the container does not tell."""
    from kscope.parsers.files.ncu_images import results

    found = results(path)
    if len(found) != count:
        return {}, {}, {}
    met: dict[str, int] = {}
    before = {}
    first: dict[tuple[str, int], int] = {}
    for index, (name, _, source) in enumerate(found):
        before[index] = met.get(name, 0)
        met[name] = before[index] + 1
        first.setdefault((name, source), index)
    names = {index: name for (name, _), index in first.items() if name} if code else {}
    return before, names, {index: source for index, (_, _, source) in enumerate(found)}


def version(path: str) -> str | None:
    """The version of Nsight Compute that wrote the report, if its session block names it."""
    from kscope.parsers.files import ncu_container

    try:
        with open(path, "rb") as file:
            return ncu_container.tool_version(file, os.fstat(file.fileno()).st_size)
    except (OSError, ncu_container.Damage):
        return None


def recorded(path: str) -> dict[str, str]:
    """How the report was recorded, as far as it says."""
    from kscope.parsers.files import ncu_command, ncu_container

    try:
        with open(path, "rb") as file:
            return dict(ncu_command.options(file, os.fstat(file.fileno()).st_size))
    except (OSError, ncu_container.Damage):
        return {}
