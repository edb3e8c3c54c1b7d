"""What captures were made to show, and how long their kernels take: captures/*.toml of a folder, nowhere else."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLANTED = {"regime": "regime", "cause": "accept", "fixed_by": "fixed", "no_gain": "no_gain", "next": "next"}
"""Key of the table [planted] -> key of a label, as the tools call it."""


TABLES, NEW = "captures", "CAPTURE.toml"
"""Folder with the tables of a case each, in a file for the program that they are of; a new case's own file."""
CASE = "# "
"""Begins the line above the tables of a case, before its name."""
HEADER = re.compile(r"^\[(?=\w)", re.MULTILINE)


def tables(folder: Path) -> dict[str, dict[str, Any]]:
    """Case -> what is said of it, sorted."""
    found: dict[str, dict[str, Any]] = {}
    for file in folder.glob(f"{TABLES}/*.toml"):
        found |= _tables_of(file)
    for file in folder.glob(f"*/{NEW}"):
        found[file.parent.name] = _tables_of(file)
    return dict(sorted(found.items()))


def programs(folder: Path) -> dict[str, str]:
    """Case -> the program whose kernel it is: the name of the file of its tables, or of its source while it is new."""
    found = {case: file.stem for file in folder.glob(f"{TABLES}/*.toml") for case in _tables_of(file)}
    return found | {file.parent.name: _program(_tables_of(file)) for file in folder.glob(f"*/{NEW}")}


def _tables_of(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _program(table: Mapping[str, Any]) -> str:
    return Path(table.get("kernel", {}).get("source", "others")).stem


def gather(folder: Path) -> None:
    """Put the tables of new cases into the file of their program, in the order of names."""
    for file in sorted(folder.glob(f"*/{NEW}")):
        text, case = file.read_text(encoding="utf-8").strip(), file.parent.name
        program = _program(tomllib.loads(text))
        target = folder / TABLES / f"{program}.toml"
        target.parent.mkdir(exist_ok=True)
        kept = target.read_text(encoding="utf-8") if target.is_file() else ""
        parts = [part.strip() for part in re.split(rf"(?m)^{CASE}", kept) if part.strip()]
        mine = f'{json.dumps(case)}\n' + HEADER.sub(f"[{json.dumps(case)}.", text)
        parts = sorted([*(part for part in parts if part.partition("\n")[0] != json.dumps(case)), mine])
        target.write_text("\n\n".join(CASE + part for part in parts) + "\n", encoding="utf-8")
        file.unlink()
        if not any(file.parent.iterdir()):
            file.parent.rmdir()


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
