"""What nothing reads is taken out of reports before they are packed: tools/solid_fixtures.py.

A report of `ncu --set full` holds some 2,300 metrics of a kernel, of which rules, features and the outputs read a
third (kscope/model/metric_names.py, generated from what the code asks for); values by instruction of 60 metrics, of
which they read half; and the program with all its kernels, each also as PTX. Kept is what kscope reads: those metrics,
those values, the code of kernels that are captured and of what they call, lines, sources, texts of NVIDIA's rules.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha256

from strip_sources import fields, framed, key, messages, replaced_payload, u32, varint

from kscope.model.metric_names import is_read
from kscope.parsers.ncu import charts, native, old_names
from tests.support import reports, solid_images

METRICS, NAME, INSTANCES = 13, 1, 3  # fields: of a result, and of each of its metrics
FUNCTION, IMAGE = 5, 4  # fields: of a result, of a source
TABLE = 4  # field of a block's header: names of metrics, which later blocks go on using
SAMPLED = re.compile(r"\w+\.TriageCompute\.|pmsampling:|warpsampling:")
SETTINGS = ("launch__", "device__", "profiler__")
"""Beginnings of what describes the launch and the machine: short, and the library itself asks for some."""
BY_ADDRESS = frozenset({
    *native.PER_PC, *old_names.PER_PC.values(), *charts.OCCUPANCY.values(),
    "launch__function_pcs", "sass__inst_executed_per_opcode_with_modifier_all",
})  # fmt: skip
"""Metrics of which kscope reads the values by instruction, besides the samples of each reason to wait."""
COMPARED = frozenset({"sm__maximum_warps_per_active_cycle_pct"})
"""What tests hold kscope's own figures against."""
DOUBLE = b"\x12\x09\x19"
"""Before the eight bytes of a double at the end of an instance: field 2, of nine bytes, which is a field 3."""
BITS = 24
"""Kept of the 52 behind a sample's first one, three parts in a hundred million: with 16 the last digit of a figure
differed in 24 of 318 reports, where two runs differ by per cents."""
PTX = (".nv_debug_ptx_txt", ".nv_debug_line_sass", ".nv.merc.nv_debug_ptx_txt")
"""Sections of an image: the program as PTX, and which line of that an instruction is of."""
CODE, ENTRY = ".text.", ".nv.constant0."
"""Beginnings of names of sections that a function has, the second one only if it is a kernel."""


def metric_kept(name: str, series: Callable[[str], bool]) -> bool:
    if SAMPLED.match(name):
        return series(name)
    return is_read(old_names.today(name)) or name in BY_ADDRESS | COMPARED or name.startswith(SETTINGS)


def instances_kept(name: str, series: Callable[[str], bool]) -> bool:
    if SAMPLED.match(name):
        return series(name)
    return name in BY_ADDRESS or bool(old_names.stall_columns([name])) or name.startswith("profiler__")


class Images:
    """The images of many reports with the code of those kernels that one of them is of. Reports share images, and
    shall go on doing so."""

    def __init__(self) -> None:
        self._functions: defaultdict[bytes, set[str]] = defaultdict(set)
        self._stripped: dict[bytes, bytes] = {}

    def seen(self, data: bytes) -> None:
        """Take note of a report: whose code it holds, and of which kernels it is."""
        functions, images = set(), set()
        for header, payload in _blocks(data):
            for message in messages(payload):
                wanted = FUNCTION if _has_results(header) else IMAGE
                value = next((v for n, v, _ in fields(message) if n == wanted and isinstance(v, bytes)), b"")
                (functions if wanted == FUNCTION else images).add(value)
        for image in images:
            self._functions[sha256(image).digest()] |= {name.decode() for name in functions}

    def stripped(self, image: bytes) -> bytes:
        """Without PTX and without the code of kernels that no report seen is of: zeros stand there."""
        known = sha256(image).digest()
        if known not in self._stripped:
            self._stripped[known] = without(image, self._functions[known])
        return self._stripped[known]


def without(image: bytes, functions: Iterable[str] | None = None) -> bytes:
    """An ELF image with zeros for its PTX, and for the code of kernels that are none of these functions."""
    out, kept = bytearray(image), set(functions or ())
    found = {name: (at, size) for name, at, size in solid_images.sections(image)}
    for name, (at, size) in found.items():
        function = name.removeprefix(CODE)
        entry = functions is not None and f"{ENTRY}{function}" in found
        code = entry and name.startswith(CODE) and function not in kept
        if code or name in PTX:
            out[at : at + size] = bytes(size)
    return bytes(out)


def stripped(
    data: bytes, series: Callable[[str], bool], images: Images | None = None, bits: int = BITS
) -> bytes:
    """The report without what nothing reads. series: whether what the PM sampler saw of this metric is read; bits: of
    its values."""
    at = 8 + u32(data, 4)
    out, names = [data[:at]], list[str]()
    metric, instances = (cache(lambda n, of=of: of(n, series)) for of in (metric_kept, instances_kept))
    for header, payload in _blocks(data):
        if _has_results(header):
            names += _table(header)
            parts = [_result(message, names, metric, instances, bits) for message in messages(payload)]
        else:
            parts = [_source(message, images.stripped) if images else message for message in messages(payload)]
        payload = b"".join(map(framed, parts))
        out += [framed(replaced_payload(header, len(payload))), payload]
    return b"".join(out)


def without_ptx(data: bytes) -> bytes:
    """The report with zeros for the PTX of its images, all else as it is."""
    out = [data[: 8 + u32(data, 4)]]
    for header, payload in _blocks(data):
        if not _has_results(header):
            payload = b"".join(framed(_source(message, without)) for message in messages(payload))
        out += [framed(replaced_payload(header, len(payload))), payload]
    return b"".join(out)


def _result(
    message: bytes, names: list[str], metric: Callable[[str], bool], instances: Callable[[str], bool], bits: int
) -> bytes:
    parts = []
    for number, value, raw in fields(message):
        if number == METRICS and isinstance(value, bytes):
            inner, name = list(fields(value)), names[_number(value)]
            if not metric(name):
                continue
            if not instances(name):
                raw = _field(METRICS, b"".join(part for n, _, part in inner if n != INSTANCES))
            elif SAMPLED.match(name):
                rows = (_rounded(v, bits) if n == INSTANCES and isinstance(v, bytes) else part for n, v, part in inner)
                raw = _field(METRICS, b"".join(rows))
        parts.append(raw)
    return b"".join(parts)


def _rounded(instance: bytes, bits: int) -> bytes:
    """A sample over time with so many bits of its value, where that is a double."""
    if instance[-11:-8] == DOUBLE:
        (number,) = struct.unpack("<Q", instance[-8:])
        number = (number + (1 << 52 - bits >> 1)) >> 52 - bits << 52 - bits
        instance = instance[:-8] + struct.pack("<Q", number)
    return _field(INSTANCES, instance)


def metric_names(data: bytes) -> Iterator[str]:
    """Names of the metrics that a report holds of its kernels, in its order."""
    names = list[str]()
    for header, payload in _blocks(data):
        if _has_results(header):
            names += _table(header)
            for message in messages(payload):
                yield from (names[_number(v)] for n, v, _ in fields(message) if n == METRICS and isinstance(v, bytes))


def _table(header: bytes) -> list[str]:
    table = next((v for n, v, _ in fields(header) if n == TABLE and isinstance(v, bytes)), b"")
    return [v.decode() for n, v, _ in fields(table) if n == 1 and isinstance(v, bytes)]


def _number(metric: bytes) -> int:
    """Of its name in the table."""
    return next(int(v) for n, v, _ in fields(metric) if n == NAME and isinstance(v, int))


def _source(message: bytes, changed: Callable[[bytes], bytes]) -> bytes:
    return b"".join(
        _field(IMAGE, changed(value)) if number == IMAGE and isinstance(value, bytes) else raw
        for number, value, raw in fields(message)
    )


def _field(number: int, value: bytes) -> bytes:
    return key(number, 2) + varint(len(value)) + value


def _blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Header and payload of each block."""
    for _, raw in reports.parts(data)[1]:
        end = 4 + u32(raw, 0)
        yield raw[4:end], raw[end:]


def _has_results(header: bytes) -> bool:
    return any(n == 2 and v for n, v, _ in fields(header))
