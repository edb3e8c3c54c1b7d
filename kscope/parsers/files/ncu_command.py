"""How a report was recorded: the options of the `ncu` that its session names. Text of a stranger: only the options
listed here are taken from it, and only values of letters, digits and `-`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO

from kscope.parsers.files.ncu_container import blocks

WANTED = {
    "--clock-control": "clock-control", "--cache-control": "cache-control", "--replay-mode": "replay-mode",
    "--set": "set", "--launch-skip": "launch-skip", "-s": "launch-skip", "--kernel-name": "kernel-name",
    "-k": "kernel-name",
}  # fmt: skip
FLAGS = frozenset({
    "-f", "--force-overwrite", "--nvtx", "-q", "--quiet", "--verbose", "--csv", "--call-stack",
    "--disable-profiler-start-stop",
})  # fmt: skip
"""Options without a value: what follows one may be the program."""
COMMAND = re.compile(rb"[/\\]ncu(?:\.exe)?\"? +(-[\x20-\x7e]+)")
VALUE = re.compile(r"[\w-]{1,40}")
HELD = 1 << 16  # bytes of a session block that are looked at: they hold some hundred


def options(file: IO[bytes], size: int) -> Mapping[str, str]:
    """Options by their long names without dashes; "" where a value is no plain word (`kernel-name`: a filter). Empty
    where the report does not say how it was recorded: reports of 2021 and before, exports of the interface. Raises
    Damage for a file that is not whole."""
    for block in reversed(list(blocks(file, size))):
        if block.end != block.payload:
            continue
        file.seek(block.start)
        found = COMMAND.search(file.read(min(HELD, block.end - block.start)))
        if found:
            return _parsed(found[1].decode("ascii", "replace").split())
    return {}


def _parsed(words: list[str]) -> dict[str, str]:
    """Options up to the program: the first word that is neither an option nor the value of one."""
    out: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, joined, value = words[at].partition("=")
        at += 1
        if not joined and name not in FLAGS and at < len(words):
            value, at = words[at], at + 1
        if name in WANTED:
            out[WANTED[name]] = value if VALUE.fullmatch(value) else ""
    return out
