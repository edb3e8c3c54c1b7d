"""Our own kernels as machine code (fixtures/sass): what was compiled, and what the lints must say of it."""

from __future__ import annotations

import lzma
import tomllib
from functools import cache
from pathlib import Path

from kscope.model.program import Program
from kscope.parsers.cubin import elf
from kscope.parsers.cubin.programs import Cubin, read_programs
from tests.support import patches
from tests.support.once_a_run import once_a_run

SOURCES = patches.FIXTURES / "sass"
MANIFEST = tomllib.loads((SOURCES / "FIXTURES.toml").read_text("utf-8"))


def _unpacked() -> Path:
    """The folder with all cubins, packed: those of the archive, and what lies beside the sources."""
    for name in patches.archived():
        if name.startswith("sass/"):
            patches.built(name)
    folder = patches.BUILD / "sass"
    for file in SOURCES.glob("*.cubin.xz"):
        if not (folder / file.name).is_file():
            patches.put(folder / file.name, lzma.decompress(file.read_bytes()), file.stat().st_mtime_ns)
    return folder


FOLDER = _unpacked()


def _expected() -> dict[tuple[str, str, str], frozenset[str]]:
    out = {}
    for unit in MANIFEST["unit"]:
        for arch in unit["archs"]:
            kernels = unit["expects"] | unit.get("on", {}).get(arch, {})
            read = elf.read_image(lzma.decompress(path(unit["source"], arch).read_bytes()))  # nothing is disassembled
            known = {function.name for function in read.functions}
            for name, codes in kernels.items():
                if name in known:
                    out[unit["source"], arch, name] = frozenset(codes)
    return out


def path(source: str, arch: str) -> Path:
    """The packed cubin of one source for one target."""
    return FOLDER / f"{Path(source).stem}.{arch}.cubin.xz"


@cache
def image(file: Path) -> Cubin:
    """All of one of these cubins, disassembled once a run."""

    def read() -> Cubin:
        (found,) = read_programs(file)
        return found

    return once_a_run(f"{file.name}.image", read)


@cache
def functions(source: str, arch: str) -> dict[str, Program]:
    """The functions of one cubin by name."""
    return {program.name: program for program in image(path(source, arch)).functions}


EXPECTED = _expected()
"""(source, target, kernel) -> the codes that fire on it, all others being silent."""
