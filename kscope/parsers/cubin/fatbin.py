"""Device code inside other files: objects, shared libraries, executables, archives, fatbins, by NVIDIA's cuobjdump."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kscope.model.errors import KscopeError
from kscope.parsers import toolchain

_MEMBER = re.compile(r"^(?:ELF file\s+\d+:\s+)?(\S+\.(sm_\d+[af]?)\.cubin)$")


def members(path: Path, plain: Path) -> list[tuple[str, str]]:
    """(name, target) of every device code image in a file, in its order; `plain` is where its bytes are.

    Raises KscopeError: "no-device-code", "no-tool" (status 4).
    """
    tool = toolchain.find("cuobjdump")
    done = toolchain.run(tool, ["-lelf", str(plain.absolute())])
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found = [(m[1], m[2]) for line in lines if (m := _MEMBER.match(line.strip()))]
    if not found:
        said = done.fault.removesuffix(".")
        why = f" (cuobjdump: {said})" if said and "does not contain device code" not in said else ""
        hint = "give the .o, .so, executable or .cubin that nvcc made; PTX alone has no machine code"
        raise KscopeError("no-device-code", f"{path}: no GPU machine code inside{why}", hint)
    return found


def extract(path: Path, plain: Path, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of some images of a file."""
    tool = toolchain.find("cuobjdump")
    with tempfile.TemporaryDirectory(prefix="kscope-") as folder:
        for name in names:
            done = toolchain.run(tool, ["-xelf", name, str(plain.absolute())], folder=Path(folder))
            file = Path(folder, name)
            if not file.is_file():
                message = f"{path}: cuobjdump did not extract {name}: {done.fault or f'status {done.status}'}"
                raise KscopeError("extraction", message, toolchain.INSTALL["cuobjdump"])
            yield name, file.read_bytes()
            file.unlink()
