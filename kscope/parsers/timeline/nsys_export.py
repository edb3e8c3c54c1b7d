"""Nsight Systems reports (.nsys-rep, .qdrep): exported by NVIDIA's own `nsys`, which alone knows their format."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from kscope.model.errors import EXIT_TOOL, KscopeError
from kscope.model.timeline import Timeline
from kscope.parsers import scratch, toolchain

SECONDS = 600
"""Time that an export may take; the environment variable KSCOPE_NSYS_TIMEOUT (seconds) overrides it."""


def read(path: Path | str) -> Timeline:
    """The Timeline of a report. Raises KscopeError: "no-nsys" (status 4) where there is no nsys, "export-failed"."""
    from kscope.parsers.timeline import nsys

    path = Path(path)
    tool = toolchain.locate("nsys")
    if tool is None:
        message = f"{path}: reading a .nsys-rep needs NVIDIA's nsys, which is neither on PATH nor in CUDA's folders"
        hint = f"where it is installed: nsys export --type sqlite --output report.sqlite {path.name}, then analyze that"
        raise KscopeError("no-nsys", message, hint, EXIT_TOOL)
    with scratch.folder() as folder:
        target = Path(folder, "report.sqlite")
        command = [str(tool), "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target),
                   str(path.absolute())]  # fmt: skip
        limit = os.environ.get("KSCOPE_NSYS_TIMEOUT", "")
        seconds = int(limit) if limit.isdecimal() else SECONDS
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            message = f"{path}: nsys export took more than {seconds} s"
            raise KscopeError("export-failed", message, "export it by hand, or raise KSCOPE_NSYS_TIMEOUT") from None
        except OSError as e:
            raise KscopeError("export-failed", f"{path}: nsys cannot be run ({e.strerror})", "", EXIT_TOOL) from None
        if done.returncode or not target.is_file():
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-1:]
            message = f"{path}: nsys export failed: {said[0] if said else f'status {done.returncode}'}"
            raise KscopeError("export-failed", message, "a newer nsys reads older reports, not the other way round")
        return msgspec.structs.replace(nsys.read(target), path=str(path))
