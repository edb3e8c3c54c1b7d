"""Seeds by parser: small fixtures as they are and cut down, files of a folder that was named, and listings made of our
own cubins where nvdisasm is there."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from tests.support import dials, patches

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
LARGEST = 600_000  # bytes of a seed from a named folder: what takes a second to read is for the tests
EVENTS = 150  # of a trace that was cut down
INSTRUCTIONS = 160  # of a function in a listing
SUFFIXES = {
    ".json": "kineto", ".sqlite": "nsys", ".ncu-rep": "ncu", ".cubin": "cubin", ".sass": "sass", ".ktrace": "ktrace",
    ".chrome_trace": "proton",
}  # fmt: skip


class Seed(Struct, frozen=True):
    name: str
    data: bytes


def seeds(parser: str, more: Path | None = None) -> list[Seed]:
    """The seeds of one parser, in an order of their own; `more` is a folder of further inputs, told by their suffix."""
    own = SOURCES[parser]()
    return [*own, *(_of_folder(parser, more) if more is not None else ())]


def _unpacked(pattern: str, most: int = LARGEST) -> Iterator[Seed]:
    """Files of fixtures/ and of its archives."""
    files = {path.relative_to(FIXTURES).as_posix(): path for path in FIXTURES.glob(pattern)}
    files |= {name: patches.built(name) for name in patches.archived() if PurePosixPath(name).match(pattern)}
    for _, path in sorted(files.items()):
        data = lzma.decompress(path.read_bytes())
        if len(data) <= most:
            yield Seed(path.name.removesuffix(".xz"), data)


def _kineto() -> list[Seed]:
    out = []
    for seed in _unpacked("traces/*.json.xz", 1_000_000):
        document = json.loads(seed.data)
        events = document["traceEvents"]
        start = max(0, (len(events) - EVENTS) // 2)
        names = [e for e in events if e.get("ph") == "M"]
        document["traceEvents"] = names[:20] + events[start : start + EVENTS]
        out.append(Seed(f"part-{seed.name}", json.dumps(document).encode()))
        if len(seed.data) < 130_000:
            out.append(seed)
    return out


def _proton() -> list[Seed]:
    out = []
    for seed in _unpacked("traces_kernel/*.chrome_trace.xz"):
        document = json.loads(seed.data)
        document["traceEvents"] = document["traceEvents"][:EVENTS]
        out.append(Seed(f"part-{seed.name}", json.dumps(document).encode()))
    return out


def _ktrace() -> list[Seed]:
    small = [data for case in dials.TRACED if len(data := dials.plain_dump(case)) <= 120_000]
    return [Seed(f"{i}.ktrace", data) for i, data in enumerate(small)]


def _ncu() -> list[Seed]:
    small = [data for name in patches.names("sections") if len(data := patches.plain(name)) <= 400_000]
    whole = [patches.plain(f"h200/{case}/report") for case in ("bank_conflict.slow", "ws_gemm.k256")]
    return [Seed(f"{i}.ncu-rep", data) for i, data in enumerate([*small, *whole])]  # the last with specialised warps


def _cubin() -> list[Seed]:
    names = "separate.sm_80.cubin separate.sm_90a.cubin roles.sm_90a.cubin strong.sm_80.cubin tma.sm_100a.cubin".split()
    out = [seed for name in names for seed in _unpacked(f"sass/{name}.xz")]
    return out + list(_unpacked("sass/twins/libtwins.*.xz", 4_000_000))


def _sass() -> list[Seed]:
    """Listings of our cubins, one function each, as nvdisasm prints them; a small one where that is not installed."""
    from kscope.model.errors import KscopeError
    from kscope.parsers import toolchain

    out = [Seed("small.sass", SMALL.encode())]
    try:
        tool = toolchain.find("nvdisasm", 90)
    except KscopeError:
        return out
    for name in ("banks.sm_80", "strong.sm_90a", "rings.sm_90a", "memory.sm_75", "tcgen05.sm_100a", "wgmma.sm_90a"):
        (cubin,) = _unpacked(f"sass/{name}.cubin.xz")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, cubin.name)
            path.write_bytes(cubin.data)
            done = subprocess.run([tool.path, "-c", "-hex", "-gi", path], capture_output=True, text=True, check=False)
        for i, text in enumerate(_functions(done.stdout)):
            out.append(Seed(f"{name}.{i}.sass", text.encode()))
    return out


def _functions(text: str) -> Iterator[str]:
    """The listing's functions that are short, each with the lines that come before all of them."""
    head, *parts = re.split(r"(?m)^(?=\s*\.section\s+\.text\.)", text)
    target = "\n".join(line for line in head.splitlines() if ".target" in line)
    for part in parts:
        body = re.split(r"(?m)^(?=\s*\.section\s+(?!\.text\.))", part)[0]
        if 4 <= body.count(";") <= INSTRUCTIONS:
            yield f"{target}\n{body}"


def _of_folder(parser: str, folder: Path) -> Iterator[Seed]:
    for path in sorted(folder.iterdir()):
        plain = path.name.removesuffix(".xz")
        if SUFFIXES.get(Path(plain).suffix) != parser or not path.is_file():
            continue
        data = path.read_bytes()
        data = lzma.decompress(data) if plain != path.name else data
        if len(data) <= LARGEST:
            yield Seed(plain, data)


SMALL = """\t.target\tsm_90
\t.section\t.text.axpy,"ax",@progbits
.text.axpy:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   LDG.E R4, desc[UR4][R2.64+0x10] ;
.L_x_1:
        /*0020*/                   IADD3 R4, R4, R5, RZ ;
        /*0030*/                   ISETP.GE.U32.AND P0, PT, R4, 0x40, PT ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/                   STG.E desc[UR4][R2.64], R4 ;
        /*0060*/                   EXIT ;
"""

SOURCES: Mapping[str, Callable[[], list[Seed]]] = {
    "kineto": _kineto, "proton": _proton, "ktrace": _ktrace, "nsys": lambda: list(_unpacked("traces/*.sqlite.xz")),
    "sass": _sass, "ncu": _ncu, "cubin": _cubin,
}  # fmt: skip
