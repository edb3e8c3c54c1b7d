"""Device code inside other files: objects, shared libraries, executables, archives, fatbins, by NVIDIA's cuobjdump.

An image is called after the source it was compiled from, so two sources of one name give two images of one name, and
`cuobjdump -xelf` writes the second over the first. Those are taken out of the fatbins that hold them, one by one: a
fatbin is u32 magic, u16 version, u16 size of this header, u64 size of what follows.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from kscope.model.errors import KscopeError
from kscope.parsers import scratch, toolchain

_MEMBER = re.compile(r"^(?:ELF file\s+\d+:\s+)?(\S.*\.(sm_\d+[af]?)\.cubin)$")
_EXTRACTED = re.compile(r"^Extracting ELF file\s+\d+:\s+(\S.*\.cubin)$", re.MULTILINE)
_HEADER = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
_PIECE = 256 << 10  # bytes that are searched at a time


def members(path: Path, plain: Path) -> list[tuple[str, str]]:
    """(name, target) of every device code image in a file, in its order; `plain` is where its bytes are. Names may be
    there more than once.

    Raises KscopeError: "no-device-code", "extraction" where one has no name, "no-tool" (status 4).
    """
    tool = toolchain.find("cuobjdump")
    done = toolchain.run(tool, ["-lelf", str(plain.absolute())], patience=_patience(plain))
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found = [(m[1], m[2]) for line in lines if (m := _MEMBER.match(line.strip()))]
    if not found:
        said = done.fault.removesuffix(".")
        why = f" (cuobjdump: {said})" if said and "does not contain device code" not in said else ""
        hint = "give the .o, .so, executable or .cubin that nvcc made; PTX alone has no machine code"
        raise KscopeError("no-device-code", f"{path}: no GPU machine code inside{why}", hint)
    listed = sum(line.startswith("ELF file") for line in lines)
    if listed > len(found):
        message = f"{path}: cuobjdump lists {listed} images, {listed - len(found)} of them without a known name"
        raise KscopeError("extraction", message, toolchain.INSTALL["cuobjdump"])
    return found


def extract(path: Path, plain: Path, names: Sequence[str], every: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of some images of a file, in its order; `every` are the names of all (`members`), and `names` has
    each that it has as often as `every` does. The second image of a name is called `name#2`."""
    tool = toolchain.find("cuobjdump")
    # cuobjdump takes a comma for the end of a name
    often = {name for name, count in Counter(every).items() if count > 1 or "," in name}
    apart = _apart(tool, path, plain, [name for name in every if name in often]) if often.intersection(names) else {}
    seen: Counter[str] = Counter()
    patience = _patience(plain)
    with scratch.folder() as folder:
        for name in names:
            seen[name] += 1
            if name in often:
                yield name if seen[name] == 1 else f"{name}#{seen[name]}", apart[name][seen[name] - 1]
                continue
            words = ["-xelf", name, str(plain.absolute())]
            done = toolchain.run(tool, words, folder=Path(folder), patience=patience)
            file = Path(folder, name)
            if not file.is_file():
                message = f"{path}: cuobjdump did not extract {name}: {done.fault or f'status {done.status}'}"
                raise KscopeError("extraction", message, toolchain.INSTALL["cuobjdump"])
            yield name, file.read_bytes()
            file.unlink()


def _apart(tool: toolchain.Tool, path: Path, plain: Path, wanted: list[str]) -> dict[str, list[bytes]]:
    """The images of these names, in the order of the file. Raises KscopeError where they are not as many as listed."""
    with plain.open("rb") as file:
        fatbins, patience = list(_fatbins(file)), _patience(plain)
        found = [
            (place, one) for place in fatbins for one in _inside(tool, file, *place, patience) if one[0] in wanted
        ]
        if len(found) > len(wanted):  # cuobjdump lists what is linked, and unlinked code only where it is alone
            begin, end = _unlinked(file)
            found = [(place, one) for place, one in found if not begin <= place[0] < end]
    out: dict[str, list[bytes]] = {name: [] for name in wanted}
    for _, (name, image) in found:
        out[name].append(image)
    counts = Counter(wanted)
    for name, images in out.items():
        if len(images) != counts[name]:
            message = f"{path}: {counts[name]} images are called {name}, and {len(images)} of them can be told apart"
            raise KscopeError("extraction", message, "name the objects that it was made of, one by one")
    return out


def _patience(plain: Path) -> toolchain.Patience:
    return toolchain.Patience(os.path.getsize(plain) if os.path.exists(plain) else 0)


def _fatbins(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """(offset, size) of the fatbins in a file. It is read, not mapped: another process may cut it short meanwhile."""
    whole = file.seek(0, io.SEEK_END)
    magic = struct.pack("<I", _MAGIC)
    at = 0
    while at < whole:
        file.seek(at)
        piece = file.read(_PIECE + len(magic) - 1)
        place = piece.find(magic)
        if place < 0:
            at += _PIECE
            continue
        at += place
        file.seek(at)
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return
        _, version, header, size = _HEADER.unpack(head)
        sound = version == 1 and header >= _HEADER.size and at + header + size <= whole
        if sound:
            yield at, header + size
        at += header + size if sound else len(magic)


def _inside(
    tool: toolchain.Tool, file: BinaryIO, at: int, size: int, patience: toolchain.Patience
) -> list[tuple[str, bytes]]:
    """(name, bytes) of the images in one fatbin; of a name that is there twice the last, as cuobjdump leaves it."""
    file.seek(at)
    with scratch.folder() as folder:
        Path(folder, "one.fatbin").write_bytes(file.read(size))
        done = toolchain.run(tool, ["-xelf", "all", "one.fatbin"], folder=Path(folder), patience=patience)
        names = dict.fromkeys(_EXTRACTED.findall(done.stdout.decode("utf-8", "replace")))
        return [(name, Path(folder, name).read_bytes()) for name in names if Path(folder, name).is_file()]


def _unlinked(file: BinaryIO) -> tuple[int, int]:
    """Where the code for separate compilation lies in an executable that has linked code as well; (0, 0) elsewhere."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        sections = {section.name: section for section in ELFFile(file).iter_sections()}
    except (ELFError, ValueError, struct.error):
        return 0, 0
    one = sections.get("__nv_relfatbin")
    if one is None or ".nv_fatbin" not in sections:
        return 0, 0
    return one["sh_offset"], one["sh_offset"] + one["sh_size"]
