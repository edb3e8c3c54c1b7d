"""Rates measured on the user's own GPUs (`kscope arch --measure`), kept in the folder of state.

The folder: KSCOPE_STATE_DIR, else $XDG_STATE_HOME/kscope, else ~/.local/state/kscope; `roofs/DEVICE.json` is one GPU.
KSCOPE_STATE_DIR= (empty) keeps and reads nothing.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

SCHEMA = "kscope.roofs/1"
RATES = ("dram_bytes_per_s", "dram_copy_bytes_per_s", "l2_bytes_per_s", "shared_bytes_per_s", "fp32", "fp64",
         "fp64_tensor", "tf32", "fp16", "bf16", "fp8", "int8")  # fmt: skip
"""What is measured in byte/s and FLOP/s; other keys of a file are kept but not used."""


class Measured(Struct, frozen=True):
    """device: as it calls itself; chip: its key in chips.toml, "" where it has none; day: ISO date; rates: by RATES."""

    device: str
    chip: str
    day: str
    rates: dict[str, float]
    path: Path


def state_folder() -> Path | None:
    """The one folder of what kscope keeps for a user, whether it exists or not; None where state is turned off."""
    configured = os.environ.get("KSCOPE_STATE_DIR")
    if configured is not None:
        return Path(configured) if configured else None
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "kscope"


def folder() -> Path | None:
    """The folder of measured roofs, whether it exists or not; None where state is turned off."""
    where = state_folder()
    return where / "roofs" if where is not None else None


def file_of(device: str) -> Path | None:
    """Where the rates of a device are kept."""
    where = folder()
    name = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return where / f"{name or 'gpu'}.json" if where is not None else None


def all_measured() -> list[Measured]:
    """Every readable file of the folder, newest first. A file that is no measurement is passed over."""
    where = folder()
    found: list[tuple[float, Measured]] = []
    for path in sorted(where.glob("*.json")) if where is not None and where.is_dir() else []:
        try:
            one, at = _read(path), path.stat().st_mtime
        except (OSError, ValueError):
            continue
        if one is not None:
            found.append((at, one))
    return [one for _, one in sorted(found, key=lambda row: -row[0])]


def latest() -> Measured | None:
    """The GPU measured last, of those in the chip table."""
    return next((one for one in all_measured() if one.chip), None)


def measured(chip: str) -> Measured | None:
    """The newest measurement of a chip."""
    return next((one for one in all_measured() if one.chip == chip), None)


def _read(path: Path) -> Measured | None:
    from kscope.arch.chips import of_device

    data: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("rates"), dict):
        return None
    device = str(data.get("device", ""))
    chip = of_device(device)
    rates = {k: float(v) for k, v in data["rates"].items() if k in RATES and isinstance(v, (int, float)) and v > 0}
    return Measured(device, chip.key if chip else "", str(data.get("day", ""))[:10], rates, path)
