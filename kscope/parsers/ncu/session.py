"""What the container of a report says before anything of it is decoded: who wrote it, how, and of which functions."""

from __future__ import annotations

import os


def functions(path: str, count: int) -> list[str]:
    """The mangled name of each kernel; [] where the container does not tell which they are."""
    from kscope.parsers.files.ncu_images import result_names

    names = result_names(path)
    return names if len(names) == count else []


def earlier(names: list[str]) -> list[int]:
    """Launches of the same function before each."""
    met: dict[str, int] = {}
    return [met.update({name: met.get(name, -1) + 1}) or met[name] for name in names]


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
