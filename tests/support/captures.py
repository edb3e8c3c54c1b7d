"""What captures were made to show, and how long their kernels take: CAPTURE.toml beside each, nowhere else."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLANTED = {"regime": "regime", "cause": "accept", "fixed_by": "fixed", "no_gain": "no_gain", "next": "next"}
"""Key of the table [planted] -> key of a label, as the tools call it."""


def tables(folder: Path) -> dict[str, dict[str, Any]]:
    """Case -> its CAPTURE.toml, sorted."""
    files = sorted(folder.glob("*/CAPTURE.toml"))
    return {file.parent.name: tomllib.loads(file.read_text(encoding="utf-8")) for file in files}


def labels(captures: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Case -> regime (any of these), accept (slugs that name the cause), and perhaps fixed (the case without it),
    no_gain, next (rung of a ladder). Of the cases that have a label: those that say a regime."""
    return {
        case: {short: table["planted"][key] for key, short in PLANTED.items() if key in table["planted"]}
        for case, table in captures.items()
        if "regime" in table["planted"]
    }


def times(captures: Mapping[str, dict[str, Any]]) -> dict[str, float]:
    """Case -> microseconds without the profiler; also of the versions that were timed and not captured."""
    out: dict[str, float] = {}
    for case, table in captures.items():
        out |= table["measured"].get("unprofiled_us", {})
        if "time_us" in table["measured"]:
            out[case] = table["measured"]["time_us"]
    return out
