"""`kscope arch --measure`: runs _roofs.py, keeps what it found in the folder of state, says how it compares."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from kscope.arch.chips import Chip, of_device
from kscope.arch.user import RATES, file_of
from kscope.cli.shared import _output
from kscope.model.errors import EXIT_INPUT, EXIT_TOOL, KscopeError, one_line

LIMIT_S = 600
RECIPE = "see guides/napkin.md"


def measure_here(device: int, interpreter: str | None) -> str | None:
    """Measure, keep, tell on standard error. The chip's key for the sheet that follows, None where the table has no
    such chip (the rates are printed then). Raises KscopeError: status 4 where something is missing, 3 where a call
    failed."""
    python = _interpreter(interpreter)
    _output.say(f"kscope: measuring GPU {device}, about half a minute ...")
    data = _run([python, str(Path(__file__).with_name("_roofs.py")), "--device", str(device)])
    chip = of_device(str(data["device"]))
    path = keep(data)
    for note in data.get("notes", []):
        _output.say(f"kscope: {note}")
    _output.say(f"Wrote {path}" if path else "KSCOPE_STATE_DIR is empty: nothing was kept")
    if chip is not None and path:
        return chip.key


    _output.write_stdout(summary(data, chip))
    return None


def keep(data: dict[str, Any]) -> Path | None:
    """Write a measurement beside its siblings; the newest of a device replaces the one before. Raises KscopeError."""
    path = file_of(str(data["device"]))
    if path is None:
        return None
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise KscopeError("unwritable", f"{path}: {error.strerror or type(error).__name__}",
                          "set KSCOPE_STATE_DIR to a folder that can be written", EXIT_INPUT) from None  # fmt: skip
    return path


def summary(data: dict[str, Any], chip: Chip | None) -> str:
    """The rates, and the share of the published peak where there is one."""
    from kscope.reports.words import percent, si

    lines = [f"{one_line(str(data['device']))} (sm_{data['cc']})"]
    for name in RATES:
        if (value := data["rates"].get(name)) is None:
            continue
        published = (chip.peak.get(name) or getattr(chip, name, None)) if chip is not None else None
        share = f"  {percent(value / published)} of the published peak" if published else ""
        unit = "B/s" if name.endswith("bytes_per_s") else "op/s" if name == "int8" else "FLOP/s"
        lines.append(f"  {name.removesuffix('_bytes_per_s').replace('_', ' '):14} {si(value, unit)}{share}")
    for level, cycles in data.get("latency_cycles", {}).items():
        lines.append(f"  {level + ' latency':14} {cycles:g} cycles")
    for load, hertz in data.get("clocks_hz", {}).items():
        lines.append(f"  {'clock':14} {hertz / 1e9:.3f} GHz under {load.replace('_', ' ')}")
    return "\n".join(lines) + "\n"


def _interpreter(name: str | None) -> str:
    chosen = name or os.environ.get("KSCOPE_TORCH_PYTHON") or sys.executable
    if (found := shutil.which(chosen)) is None:
        hint = "name one with torch after --python"
        raise KscopeError("no-python", f"{chosen}: no such interpreter", hint, EXIT_TOOL)
    return found


def _run(command: list[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise KscopeError("timeout", f"the measurement took longer than {LIMIT_S} s",
                          "is the GPU busy with other work?") from None  # fmt: skip
    except OSError as error:
        raise KscopeError("no-python", f"{command[0]}: {error.strerror or error}",
                          "name an interpreter after --python", EXIT_TOOL) from None  # fmt: skip
    try:
        data = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"exit status {done.returncode}"
        raise KscopeError("measurement", f"the measurement ended without a result: {why}", RECIPE) from None
    if "error" in data:
        fault = data["error"]
        status = EXIT_TOOL if done.returncode == EXIT_TOOL else EXIT_INPUT
        raise KscopeError(fault["code"], fault["message"], fault["hint"], status)
    found: dict[str, Any] = data
    return found
