"""What is said about the cache of disassembled code where it is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis


def warn(*analyses: Analysis) -> None:
    """One line on standard error where reports were read without the cache, because others can write to its folder."""
    if not any(one.kind == "ncu" for analysis in analyses for one in analysis.inputs):
        return
    from kscope.cli.shared import _output
    from kscope.parsers.files import cachefiles
    from kscope.parsers.ncu import sass_cache

    folder = sass_cache.cache_dir()
    trouble = cachefiles.trouble(folder) if folder is not None else ""
    if trouble:
        _output.say(f"kscope: the cache of disassembled code is not used: {trouble}")
