"""Machine code from any file that holds it, as programs: cubins, fatbins in host binaries, listings, ncu reports."""

from __future__ import annotations

import contextlib
import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, structs

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import fenced
from kscope.model.program import UNIFORM_BASE, Cubin, Instruction, Program
from kscope.model.quoted import quoted
from kscope.parsers import scratch
from kscope.parsers.cubin import elf, fatbin, packed
from kscope.parsers.cubin.demangle import demangle
from kscope.parsers.files.inputs import HEAD, open_input, sniff
from kscope.parsers.sass import control_fields, listing
from kscope.parsers.sass.instructions import decode

HINT = "give a .cubin, a binary, wheel or folder with device code, PTX, the text of nvdisasm, or an .ncu-rep"
OLDEST = 75
_PTX = re.compile(rb"^\s*\.version\s+\d", re.MULTILINE)


def read_programs(path: str | Path, arch: str | None = None, function: str | None = None) -> list[Cubin]:
    """Every device code image in a file, with the functions whose (mangled or C++) name matches `function`, a regular
    expression; `arch` (`sm_90`, `90a`) keeps the images of one target. The file may be compressed; `-` is standard
    input.

    Raises KscopeError: status 2 where no function matches, 3 for a file that holds no machine code or damaged one, 4
    for a missing tool.
    """
    path = Path(path)
    if path.is_dir():
        with fenced(path):
            return _several(path, packed.below(path), arch, function)
    with fenced(path), open_input(path) as plain:
        if plain.startswith("/proc/self/fd/"):  # an unpacked file without a name: NVIDIA's tools open it too
            plain = f"/proc/{os.getpid()}/{plain.removeprefix('/proc/self/')}"
        source = _Source(path, Path(plain), target_of(arch), re.compile(function or ""))
        with open(plain, "rb") as file:
            if packed.is_archive(file.read(HEAD)):
                return _several(path, packed.inside(path, Path(plain)), arch, function)
        with _uncollected():
            found = [image for image in _read(source) if image.functions]
    if not found and function:
        message = f"{path}: no function matches {function!r}"
        raise KscopeError("no-match", message, "run without --function to see their names", EXIT_USAGE)
    if not found:
        raise KscopeError("no-function", f"{path}: no function in its machine code", HINT)
    return found


def _several(
    path: Path, members: Iterator[tuple[str, Path]], arch: str | None, function: str | None
) -> list[Cubin]:
    """The images of all members that hold any, named by them. A member that cannot be read is left out where others
    can; else its fault is the answer."""
    found: list[Cubin] = []
    first: KscopeError | None = None
    for name, file in members:
        try:
            images = read_programs(file, arch, function)
        except KscopeError as error:
            if error.code not in ("no-match", "no-function", "no-arch", "unknown-kind", "no-device-code"):
                said = error.message.replace(str(file), f"{path}: {name}")
                first = first or KscopeError(error.code, said, error.hint, error.status)
            continue
        for one in images:
            inner = f"{quoted(name)}: {quoted(one.member)}" if one.member else name
            found.append(structs.replace(one, member=inner))
    if not found and first is not None:
        raise first
    if not found and function:
        raise KscopeError("no-match", f"{path}: no function matches {function!r}", "run without --function", EXIT_USAGE)
    if not found:
        raise KscopeError("no-function", f"{path}: no machine code in any of its files", HINT)
    return found


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: it would look again and again at hundreds of thousands of live instructions."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Source(Struct, frozen=True):
    """A file as the user named it and as it can be opened, and what is wanted of it."""

    path: Path
    plain: Path
    arch: str | None
    function: re.Pattern[str]

    def wants(self, name: str) -> bool:
        return not self.function.pattern or bool(self.function.search(name) or self.function.search(demangle(name)))

    def takes(self, target: str) -> bool:
        """Whether an image is for the target asked for; `sm_90` accepts sm_90a too."""
        return self.arch is None or not target or target == self.arch or target.rstrip("af") == self.arch

    def no_target(self, there: list[str]) -> KscopeError:
        known = ", ".join(sorted(set(there), key=lambda t: int(t.strip("sm_af") or 0)))
        return KscopeError("no-arch", f"{self.path}: no code for {self.arch}", f"it has {known}")


def _read(source: _Source) -> Iterator[Cubin]:
    with source.plain.open("rb") as file:
        head = file.read(HEAD)
    kind = sniff(head)
    if kind == "empty":
        raise KscopeError("empty-file", f"{source.path}: the file is empty", HINT)
    if kind == "ncu":
        yield from _from_report(source)
    elif elf.is_cuda(head):
        yield _from_cubin(source, "", source.plain.read_bytes())
    elif kind in ("elf", "fatbin") or head.startswith((b"!<arch>\n", b"MZ")):
        yield from _from_container(source)
    elif kind == "text" and _PTX.search(head):
        with scratch.folder() as folder:
            made, words = packed.assembled(source.path, source.plain, source.arch, Path(folder))
            yield _from_cubin(source, words, made.read_bytes())
    elif kind == "text":
        yield from _from_listing(source)
    else:
        raise KscopeError("unknown-kind", f"{source.path}: no machine code that is known here", HINT)


def target_of(arch: str | None) -> str | None:
    """The target that --arch names: sm_90 for 90, sm_90, compute_90. Raises KscopeError (status 2) for other words."""
    if arch is None:
        return None
    match = re.fullmatch(r"(?:sm_|compute_)?(\d+[af]?)", arch.strip().lower())
    if match is None:
        raise KscopeError("usage", f"--arch {arch}: no GPU target", "write it as sm_90 or sm_90a", 2)
    return f"sm_{match[1]}"


def _from_container(source: _Source) -> Iterator[Cubin]:
    there = fatbin.members(source.path, source.plain)
    chosen = [name for name, target in there if source.takes(target)]
    if not chosen:
        raise source.no_target([target for _, target in there])
    for name, image in fatbin.extract(source.path, source.plain, chosen, [name for name, _ in there]):
        yield _from_cubin(source, name, image)


def _from_cubin(source: _Source, member: str, data: bytes) -> Cubin:
    from kscope.parsers.cubin import disassembly

    try:
        image = elf.read_image(data)
    except elf.Damage as error:
        raise KscopeError("damaged", f"{source.path}: {error}", "compile or copy it again") from None
    if not source.takes(image.arch):
        raise source.no_target([image.arch])
    if image.sm < OLDEST:
        message = f"{source.path}: sm_{image.sm} is not supported: kscope reads sm_75 (Turing) and later"
        raise KscopeError("old-arch", message, "the nvdisasm of a CUDA 12.x toolkit prints it (13.1 and later do not)")
    chosen = [f for f in image.functions if source.wants(f.name)]
    try:
        texts = disassembly.texts(image, data, chosen) if chosen else {}
    except KscopeError as error:
        raise KscopeError(error.code, f"{source.path}: {error.message}", error.hint, error.status) from None
    programs = tuple(_program(image, f, texts[f.name]) for f in chosen)
    return Cubin(image.arch, image.sm, programs, member, image.toolkit)


def _program(image: elf.Image, function: elf.Function, texts: list[str]) -> Program:
    instructions: list[Instruction] = []
    hidden = _descriptors(function.code, texts) if 80 <= image.sm < 90 else {}
    for index, (text, control) in enumerate(zip(texts, control_fields.controls(function.code), strict=True)):
        fields = decode(text)
        if index in hidden:
            fields = (*fields[:6], (*fields[6], *hidden[index]), fields[7])
        row = function.lines.at(16 * index) if function.lines is not None else None
        if row is None:
            ins = Instruction(index, 16 * index, *fields, None, None, control)
        else:
            ins = Instruction(index, 16 * index, *fields, row.place.file, row.place.line, control, row.inlined)
        instructions.append(ins)
    return Program(
        function.name, image.sm, tuple(instructions), image.arch, function.entry, function.resources, function.branches,
        function.spills, function.symbols, demangle(function.name), image.marks_spills, image.tile,
    )  # fmt: skip


_GLOBAL = ("LD.", "LDG.", "ST.", "STG.", "ATOM.", "ATOMG.", "RED.", "LDGSTS.")


def _descriptors(code: bytes, texts: list[str]) -> dict[int, tuple[int, int]]:
    """Uniform registers that accesses read although the text of sm_80 to sm_89 does not show them."""
    words = control_fields.words(code)
    found: dict[int, tuple[int, int]] = {}
    for index, text in enumerate(texts):
        if text.partition(" ")[2 if text[0] == "@" else 0].startswith(_GLOBAL):
            number = control_fields.descriptor(words[2 * index], words[2 * index + 1])
            if number is not None:
                found[index] = (UNIFORM_BASE + number, UNIFORM_BASE + number + 1)
    return found


def _from_listing(source: _Source) -> Iterator[Cubin]:
    text = source.plain.read_text("utf-8", "replace")
    listed = listing.parse_listing(text.splitlines())
    if not listed:
        raise KscopeError("unknown-kind", f"{source.path}: text, but no SASS listing", HINT)
    by_arch: dict[str, list[listing.Listed]] = {}
    for one in listed:
        by_arch.setdefault(one.arch, []).append(one)
    chosen = {target: found for target, found in by_arch.items() if source.takes(target)}
    if not chosen:
        raise source.no_target(list(by_arch))
    for target, functions in chosen.items():
        sm = int(re.sub(r"\D", "", target) or 0)
        yield Cubin(target, sm, tuple(_listed(f, sm) for f in functions if source.wants(f.name)))


def _listed(function: listing.Listed, sm: int) -> Program:
    instructions = tuple(
        Instruction(index, row.pc, *decode(row.text), row.place.file if row.place else None,
                    row.place.line if row.place else None, row.control, row.inlined)
        for index, row in enumerate(function.rows)
    )  # fmt: skip
    return Program(
        function.name, sm, instructions, function.arch, function.entry, None, listing.branches(function),
        frozenset(), function.symbols, demangle(function.name),
    )  # fmt: skip


def _from_report(source: _Source) -> Iterator[Cubin]:
    """The images that a report embeds, each once."""
    from kscope.parsers.files.ncu_images import embedded_images, target

    images = [bytes(image) for image in embedded_images(str(source.plain)).values()]
    found = [(f"sm_{target(image)[0]}", image) for image in images if elf.is_cuda(image)]
    if not found:
        hint = "profile again with Nsight Compute 2022.2 or later"
        raise KscopeError("no-sass", f"{source.path}: the report embeds no machine code", hint)
    chosen = [image for name, image in found if source.takes(name)]
    if not chosen:
        raise source.no_target([name for name, _ in found])
    for number, image in enumerate(chosen):
        yield _from_cubin(source, f"image {number}" if len(chosen) > 1 else "", image)
