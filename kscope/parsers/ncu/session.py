"""What the container of a report says before anything of it is decoded: who wrote it, how, and of which functions."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from kscope.parsers.ncu.sass_cache import SassCache


def expected(path: str, cache: SassCache, count: int) -> dict[int, str]:
    """Kernels whose code is worth sending before they are decoded: the first launch of each function. {} where the
    container does not tell which they are."""
    from kscope.parsers.files.ncu_images import result_names

    names = result_names(path)
    first = {name: index for index, name in reversed(list(enumerate(names)))}
    return {index: name for name, index in first.items() if name} if len(names) == count else {}


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
