"""What the container of a report says before anything of it is decoded: who wrote it, how, and of which functions."""

from __future__ import annotations

import os


def order(path: str, count: int, *, code: bool) -> tuple[dict[int, int], dict[int, str]]:
    """Of each kernel the launches of the same function before it, and the mangled names of those whose code is worth
    sending before they are decoded: the first launch of each function. {} where the container does not tell."""
    from kscope.parsers.files.ncu_images import result_names

    names = result_names(path)
    if len(names) != count:
        return {}, {}
    met: dict[str, int] = {}
    before = {}
    for index, name in enumerate(names):
        before[index] = met.get(name, 0)
        met[name] = before[index] + 1
    return before, {i: name for i, name in enumerate(names) if name and not before[i]} if code else {}


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
