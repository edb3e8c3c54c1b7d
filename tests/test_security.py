"""SECURITY.md says what the code does: its variables and figures are those of the code, the tests it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from kscope.parsers import toolchain
from kscope.parsers.files import cachefiles, decompress, inputs, ncu_container
from kscope.parsers.ncu import sass_cache, worker
from kscope.parsers.timeline import chrome_events, nsys_export, nsys_tables
from kscope.parsers.warp_trace import files

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "SECURITY.md").read_text("utf-8")
MIB = 1 << 20


def test_every_variable_is_named_and_read() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "kscope").rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"(KSCOPE_\w+)"', code))
    read |= set(re.findall(r'"(KSCOPE_(?:NVDISASM|CUOBJDUMP))"', code)) | {"KSCOPE_NVDISASM", "KSCOPE_CUOBJDUMP"}
    assert set(re.findall(r"KSCOPE_[A-Z_]+", TEXT)) == read


def test_figures_are_those_of_the_code() -> None:
    rows = {key.strip("`"): value for key, value in re.findall(r"^\| ([^|]+?) \| (.+?) \|", TEXT, re.MULTILINE)}

    def row(start: str) -> str:
        return next(value for key, value in rows.items() if key.startswith(start))

    assert rows["KSCOPE_UNPACK_LIMIT"] == str(decompress.UNPACK_LIMIT)
    for variable, seconds in (("KSCOPE_TOOL_TIMEOUT", toolchain.SECONDS), ("KSCOPE_NSYS_TIMEOUT", nsys_export.SECONDS)):
        assert rows[variable].startswith(str(seconds))
    patience = f"{toolchain._AT_LEAST:g} and one for each {toolchain._BYTES_A_SECOND:,} bytes"
    assert patience in rows["KSCOPE_TOOL_TIMEOUT"]
    assert row("layers").startswith(f"{inputs._LAYERS}, of at most {decompress._WINDOW // MIB} MiB")
    assert f"beyond {decompress._MEMORY // MIB} MiB" in row("layers")
    assert row("one event") == f"{chrome_events.LARGEST // MIB} MiB"
    assert row("a text or blob") == (
        f"{nsys_tables.LONGEST // MIB} MiB; all texts together {nsys_tables._TEXT_A_BYTE} bytes a byte of the file, at "
        f"least {nsys_tables._TEXT_AT_LEAST // MIB} MiB"
    )
    work = f"{nsys_tables._STEPS_A_BYTE} steps of SQLite's machine a byte of the file, at least 50 million"
    assert row("work on") == work and nsys_tables._STEPS_AT_LEAST == 50_000_000
    assert row("an in-kernel trace") == f"{files.LIMIT >> 30} GiB"
    assert row("a block's header") == f"{ncu_container._HEADER_LIMIT // MIB} MiB"
    assert row("the reader of") == (
        f"{worker.SILENCE:g} s of silence, of small reports {worker._SILENCE_AT_LEAST:g} and one for each "
        f"{worker._BYTES_A_SECOND:,} bytes; replaced beyond {worker.MEMORY_BOUND // MIB} MiB"
    )
    assert row("an entry of") == f"{cachefiles.LARGEST // MIB} MiB; {sass_cache.KEEP:,} entries"


def test_what_it_names_is_there() -> None:
    named = re.findall(r"\btests/[\w/]+\.py\b", TEXT)
    assert len(named) > 5 and all((ROOT / name).is_file() for name in named)
    assert "SECURITY.md" in (ROOT / "README.md").read_text("utf-8")
