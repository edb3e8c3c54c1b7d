"""A CUDA ELF image (a cubin): its functions with their code bytes, and what .nv.info says about them.

Layout: one section `.text.NAME` a kernel (device functions that were not inlined lie behind it in the same section,
or have their own where the code was compiled with -rdc); `.nv.info` holds records for the whole image, `.nv.info.NAME`
those of one function. A record is u8 format, u8 attribute, u16 value or size, then the payload when format is 4.
Attributes are named as nvdisasm prints them (EIATTR_...).
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from kscope.model.program import Resources
from kscope.parsers.cubin.line_table import Table, read_lines
from kscope.parsers.files.ncu_images import target

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

MACHINE = 190  # EM_CUDA
_ENTRY = 0x10  # STO_CUDA_ENTRY in st_other
_TEXT, _INFO = ".text.", ".nv.info"
_MAX_THREADS, _FRAME, _MIN_STACK, _PARAM_SIZE, _MAXREG, _REGCOUNT, _BRANCHES, _BARRIERS, _ANNOTATIONS = (
    0x05, 0x11, 0x12, 0x19, 0x1B, 0x2F, 0x34, 0x4C, 0x55,
)  # fmt: skip
_SPILL = 1  # kind of an annotation: SpillRefill
_TARGET = re.compile(r"-arch[ =](sm_\d+[af]?)")
TILE = ".nv.tileir"
"""Sections that `tileiras` (CUDA 13.1 on) leaves: .nv.tileir.debug_line and .nv.tileir.debug_txt, lines and text of the
tile IR. Lines of the source lie in .debug_line, as of every compiler. Seen in cubins of cuTile 1.7, CUDA 13.5."""
_RELEASE = re.compile(r"release [\d.]+, V([\d.]+)")


class Damage(ValueError):
    """The bytes are no readable CUDA ELF image; the text says why."""


class Function(Struct, frozen=True):
    """One code section.

    `symbol` is the number of its symbol (what nvdisasm -fun wants), `entry` True for a kernel. `symbols` are (offset,
    name) of the device functions inside, `lines` is its line table, if it was compiled with one; `relocated` says that
    a linker still has to fill in addresses.
    """

    name: str
    code: bytes
    symbol: int
    entry: bool
    resources: Resources
    branches: dict[int, tuple[int, ...]]
    spills: frozenset[int]
    symbols: tuple[tuple[int, str], ...]
    lines: Table | None = None
    relocated: bool = False


class Image(Struct, frozen=True):
    """One cubin. `arch` is its target as precisely as the image tells (`sm_90a`), `abi` 7 or 8, `relocatable` True for
    an object of separate compilation (-rdc); `tile` for a tile program."""

    sm: int
    arch: str
    abi: int
    relocatable: bool
    toolkit: str | None
    functions: tuple[Function, ...]
    tile: bool = False

    @property
    def marks_spills(self) -> bool:
        """Whether its compiler marks spills: those that say who they are (from 12.9 on) do (from 12.8 on)."""
        return self.toolkit is not None


def is_cuda(data: bytes) -> bool:
    """Whether bytes start an ELF file for NVIDIA GPUs."""
    return data[:4] == b"\x7fELF" and len(data) >= 20 and int.from_bytes(data[18:20], "little") == MACHINE


def read_image(data: bytes) -> Image:
    """The image in `data`. Raises Damage for anything that is not a whole CUDA ELF image."""
    if len(data) < 64:
        raise Damage("shorter than an ELF header")
    if not is_cuda(data):
        raise Damage("not an ELF file for NVIDIA GPUs")
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile

    try:
        return _read(ELFFile(io.BytesIO(data)), data)
    except (ELFError, ConstructError, struct.error, ValueError, IndexError, KeyError, TypeError,
            AttributeError, AssertionError, OverflowError, UnicodeError) as error:  # fmt: skip
        if isinstance(error, Damage):
            raise
        raise Damage(f"the ELF image is damaged or truncated ({type(error).__name__})") from None


def _read(elf: ELFFile, data: bytes) -> Image:
    sections = list(elf.iter_sections())
    if not sections:
        raise Damage("the ELF image has no sections (truncated?)")
    last = max(s["sh_offset"] + s["sh_size"] for s in sections if s["sh_type"] != "SHT_NOBITS")
    if last > len(data):
        raise Damage(f"the ELF image is truncated: {len(data)} of {last} bytes")
    sm, abi = target(data)
    options, toolkit = _provenance(sections)
    match = _TARGET.search(options)
    suffix = "a" if abi < 8 and elf["e_flags"] & 0x800 else ""
    arch = match[1] if match and match[1].rstrip("af") == f"sm_{sm}" else f"sm_{sm}{suffix}"
    functions = tuple(_functions(sections))
    tile = any(s.name.startswith(TILE) for s in sections)
    return Image(sm, arch, abi, elf["e_type"] == "ET_REL", toolkit, functions, tile)


def _provenance(sections: list[Any]) -> tuple[str, str | None]:
    """Options and version of the compiler, from the note that CUDA 12.9 and later leave."""
    for section in sections:
        if section.name == ".note.nv.tkinfo":
            text = section.data().decode("utf-8", "replace")
            release = _RELEASE.search(text)
            return text, release[1] if release else None
    return "", None


def _functions(sections: list[Any]) -> Iterator[Function]:
    symbols = _symbols(sections)
    overall = _overall(sections, {number: name for some in symbols.values() for _, number, name, _ in some})
    shared = {s.name: s["sh_size"] for s in sections if s.name.startswith((".nv.shared.", ".nv.constant0."))}
    lines = _lines(sections)
    moved = {s["sh_info"] for s in sections if s["sh_type"] in ("SHT_REL", "SHT_RELA") and s["sh_size"]}
    infos = {s["sh_info"]: s for s in sections if s.name.startswith(f"{_INFO}.")}
    for index, section in enumerate(sections):
        if not section.name.startswith(_TEXT) or not section["sh_size"]:
            continue
        name = section.name.removeprefix(_TEXT)
        info = infos.get(index)
        records = list(_records(info.data())) if info is not None else []
        inside = sorted(symbols.get(index, ()))
        own = next((s for s in inside if s[2] == name), inside[0] if inside else (0, 0, name, 0))
        resources = structs.replace(
            _resources(records, overall.get(name, {})),
            shared=shared.get(f".nv.shared.{name}", 0),
            constants=shared.get(f".nv.constant0.{name}"),
        )
        code = section.data()
        yield Function(
            name, code, own[1], _is_entry(records), resources, dict(_branches(records)), _spills(records),
            tuple((value, other) for value, _, other, _ in inside if other != name and value < len(code)),
            lines.get(section.name), index in moved,
        )  # fmt: skip


def _symbols(sections: list[Any]) -> dict[int, list[tuple[int, int, str, int]]]:
    """Index of a section -> its functions: (offset, number, name, what st_other says beside visibility)."""
    table = next((s for s in sections if s.name == ".symtab"), None)
    out: dict[int, list[tuple[int, int, str, int]]] = {}
    for number, symbol in enumerate(table.iter_symbols() if table is not None else ()):
        if symbol["st_info"]["type"] == "STT_FUNC":
            other = symbol.entry["st_other"]
            entry = (other["local"] << 5) | other["visibility_bits"] if "visibility_bits" in other else 0
            out.setdefault(symbol["st_shndx"], []).append((symbol["st_value"], number, symbol.name, entry))
    return out


def _is_entry(records: list[tuple[int, int, bytes]]) -> bool:
    """Kernels alone have a bank of parameters."""
    return any(attribute in (_PARAM_SIZE, 0x0A) for attribute, _, _ in records)


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(attribute, value, payload) of an .nv.info section."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = data[at : at + value] if form == 4 else b""
        at += len(payload)
        yield attribute, value, payload


def _overall(sections: list[Any], names: dict[int, str]) -> dict[str, dict[int, int]]:
    """Attributes that the image's own .nv.info gives by function: {name: {attribute: value}}."""
    found: dict[str, dict[int, int]] = {}
    for section in sections:
        if section.name == _INFO:
            for attribute, _, payload in _records(section.data()):
                if attribute in (_REGCOUNT, _FRAME, _MIN_STACK) and len(payload) >= 8:
                    symbol, value = struct.unpack_from("<II", payload)
                    found.setdefault(names.get(symbol, ""), {})[attribute] = value
    return found


def _resources(records: list[tuple[int, int, bytes]], overall: dict[int, int]) -> Resources:
    values = {attribute: value for attribute, value, payload in records if not payload}
    threads = next((p for a, _, p in records if a == _MAX_THREADS and len(p) >= 12), None)
    x, y, z = struct.unpack_from("<III", threads) if threads else (0, 0, 0)
    limit = values.get(_MAXREG)
    return Resources(
        registers=overall.get(_REGCOUNT),
        stack=overall.get(_MIN_STACK),
        frame=overall.get(_FRAME),
        parameters=values.get(_PARAM_SIZE),
        barriers=values.get(_BARRIERS, 0) & 0xFF,
        max_threads=(x, y, z) if threads else None,
        max_registers=limit if limit not in (None, 0xFF) else None,
    )


def _branches(records: list[tuple[int, int, bytes]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """EIATTR_INDIRECT_BRANCH_TARGETS: u32 pc, u32 0, u32 count, u32 targets, again and again."""
    for attribute, _, payload in records:
        at = 0
        while attribute == _BRANCHES and at + 12 <= len(payload):
            pc, _, count = struct.unpack_from("<III", payload, at)
            at += 12
            count = min(count, (len(payload) - at) // 4)
            yield pc, tuple(dict.fromkeys(struct.unpack_from(f"<{count}I", payload, at)))
            at += 4 * count


def _spills(records: list[tuple[int, int, bytes]]) -> frozenset[int]:
    """EIATTR_ANNOTATIONS: u32 kind, u32 pc. Written by ptxas 12.8 and later."""
    found: set[int] = set()
    for attribute, _, payload in records:
        if attribute == _ANNOTATIONS:
            pairs = struct.unpack_from(f"<{len(payload) // 4 // 2 * 2}I", payload)
            found.update(pc for kind, pc in zip(pairs[::2], pairs[1::2], strict=True) if kind == _SPILL)
    return frozenset(found)


def _lines(sections: list[Any]) -> dict[str, Table]:
    """Line tables by code section."""
    by_name = {s.name: s for s in sections}
    table = by_name.get(".debug_line")
    if table is None or not table["sh_size"]:
        return {}
    strings = by_name.get(".debug_str")
    relocated: dict[int, tuple[str, int]] = {}
    for name in (".rel.debug_line", ".rela.debug_line"):
        if name in by_name:
            symbols = sections[by_name[name]["sh_link"]]
            for entry in by_name[name].iter_relocations():
                target = symbols.get_symbol(entry["r_info_sym"])
                where = target["st_shndx"]
                add = entry["r_addend"] + target["st_value"] if name.startswith(".rela") else target["st_value"]
                if isinstance(where, int) and where < len(sections):
                    relocated[entry["r_offset"]] = sections[where].name, add
    return read_lines(table.data(), strings.data() if strings is not None else b"", relocated)
