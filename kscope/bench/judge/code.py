"""What the machine code of a candidate says: evict_last, operands of tensor cores against the declared format."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kscope.bench.judge.seat import Seat
from kscope.bench.task.build import library
from kscope.bench.task.spec import Task
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Finding
from kscope.model.errors import KscopeError
from kscope.parsers import toolchain

NARROWER = {
    "float32": re.compile(
        r"\b(?:HMMA|HGMMA)\.\S*(?:F16|BF16)\b(?!\S*TF32)|\bmma\.\S*\.(?:f16|bf16|e4m3|e5m2)\.|\bwgmma\.\S*\.(?:f16|bf16|e4m3|e5m2)\."
    ),
    "float16": re.compile(r"\b(?:QMMA|QGMMA)\.|\b(?:wg)?mma\.\S*\.(?:e4m3|e5m2)\."),
    "bfloat16": re.compile(r"\b(?:QMMA|QGMMA)\.|\b(?:wg)?mma\.\S*\.(?:e4m3|e5m2)\."),
    "float64": re.compile(r"\b(?:HMMA|HGMMA|QMMA|QGMMA)\."),
}
"""Declared format -> tensor opcodes (SASS of cuobjdump, PTX of Triton) whose operands are narrower."""
KEEPS = re.compile(r"\b(?:LDG|LD|LDGSTS|UBLKCP)\S*\.EL\b|evict_last", re.IGNORECASE)


def findings(task: Task, candidate: Seat, libraries: Path) -> list[Finding]:
    """Of a library its SASS, of Triton kernels their PTX; nothing where neither is there."""
    texts = _texts(task, candidate, libraries)
    found = []
    kept = sum(len(KEEPS.findall(text)) for text in texts)
    if kept:
        found.append(
            finding(
                21,
                f"evict_last in {kept} places of its code; buffers rotate, so it keeps nothing for the next call",
                "seen",
            )
        )
    pattern = NARROWER.get(task.dtypes[0])
    if pattern is not None and not task.compute:
        narrow = [match[0] for text in texts for match in pattern.finditer(text)]
        if narrow:
            what = narrow[0].strip().rstrip(".")
            found.append(
                finding(
                    49, f"{len(narrow)} tensor instructions on narrower operands than {task.dtypes[0]}, such as {what}"
                )
            )
    return found


def _texts(task: Task, candidate: Seat, libraries: Path) -> list[str]:
    if candidate.source.path.endswith(".cu"):
        built = library(task, candidate.source, candidate.chosen, libraries, candidate.where.arch, candidate.keywords)
        try:
            tool = toolchain.find("cuobjdump")
            done = subprocess.run(
                [str(tool.path), "-sass", "-ptx", str(built)], capture_output=True, timeout=120, check=False
            )
        except (KscopeError, OSError, subprocess.TimeoutExpired):
            return []
        return [done.stdout.decode("utf-8", "replace")]
    if (
        candidate.what in ("triton", "function", "launch", "module")
        and candidate.where.device == "cuda"
        and candidate.hold
    ):
        return [str(text) for text in candidate.hold.ask("code")["kernels"].values()]
    return []
