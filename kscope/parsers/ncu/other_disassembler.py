"""Machine code of a chip that NVIDIA's reader no longer disassembles, or not yet: the report embeds its image, and an
nvdisasm of another CUDA toolkit (KSCOPE_NVDISASM, or any that is installed) reads that.

Checked on public reports of a V100, which the reader of 2026 refuses: with the nvdisasm of CUDA 12.8 instructions and
lines are those of the reader of 2025.3 but for marks of reuse and the names of called functions.
"""

from __future__ import annotations

from kscope.model.errors import KscopeError
from kscope.parsers.ncu.metric_values import Unreadable

BYTES = 16  # of an instruction, since Volta

TYPE_CHECKING = False  # see kscope.parsers.ncu.worker
if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.parsers.ncu.sass_cache import Row, SassCache


PADDING = 16
"""Instructions at the end of a function that never run: a branch to itself, then NOP up to a multiple of 128 bytes."""


def by_another(function: str, runs: Sequence[tuple[int, int]], cache: SassCache | None) -> dict[int, Row]:
    """Code of the mangled function at the offsets that the counters use. runs: first and last offset of each stretch of
    counted code; where functions that the kernel calls lie before it, its own is not the first of them: it is the one
    as long as the function, and without one such nothing is said. What it calls is left out. Raises Unreadable, with
    the remedy in its words."""
    data = cache.image_of(function) if cache is not None else None
    if data is None:
        raise Unreadable("NVIDIA's disassembler of this version does not know the chip")
    try:
        known = rows(data, function)
    except KscopeError as error:
        raise Unreadable(str(error)) from None
    own = [first for first, last in runs if 0 <= len(known) - ((last - first) // BYTES + 1) <= PADDING]
    if len(own) != 1:
        raise Unreadable("which of the counted code is the kernel's cannot be told without NVIDIA's disassembler")
    return {own[0] + offset: row for offset, row in known.items()}


def rows(data: bytes, function: str) -> dict[int, Row]:
    """{offset from the entry: (text, file, line)} of a function of an ELF image.

    Raises KscopeError: no nvdisasm that reads the chip ("no-tool", "old-tool"), an image that it refuses
    ("disassembly"), a damaged image or one without the function ("damaged").
    """
    from kscope.parsers.cubin import elf
    from kscope.parsers.cubin.disassembly import texts

    try:
        image = elf.read_image(data)
    except elf.Damage as error:
        raise KscopeError("damaged", f"the machine code in the report is damaged ({error})") from None
    found = next((f for f in image.functions if f.name == function), None)
    if found is None:
        raise KscopeError("damaged", "the machine code in the report lacks the kernel")
    out: dict[int, Row] = {}
    for index, text in enumerate(texts(image, data, [found])[function]):
        offset = BYTES * index
        place = found.lines.at(offset) if found.lines is not None else None
        file, line = (place.place.file or None, place.place.line or None) if place is not None else (None, None)
        out[offset] = (text, file, line)
    return out
