"""What `kscope sass --diff` and `kscope diff` of binaries share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.engine.comparing.pairing import Rule
    from kscope.model.contract.sass_diff import SassComparison
    from kscope.reports import Options

SUFFIXES = (".cubin", ".sass", ".fatbin", ".o", ".so", ".a", ".obj", ".dll", ".exe")
PACKED = (".gz", ".xz", ".zst")


def is_code(path: str) -> bool:
    """Whether a file is machine code rather than a report or recording: by its first bytes, or, packed, its name."""
    from kscope.model.errors import KscopeError
    from kscope.parsers.files.inputs import HEAD, sniff
    from kscope.parsers.files.regular_files import opened

    name = Path(path).name.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    if name.endswith(SUFFIXES):
        return True
    if path == "-":
        return False
    try:
        with opened(Path(path)) as file:
            head = file.read(HEAD)
    except (KscopeError, OSError):
        return False  # whoever opens it says what is wrong
    return sniff(head) in ("elf", "fatbin") or head.startswith((b"!<arch>\n", b"MZ"))


def compared(
    before: str,
    after: str,
    *,
    arch: str | None = None,
    function: str | None = None,
    format_: str = "text",
    verbose: bool = False,
    width: int = 0,
    color: bool = False,
    unicode: bool = True,
    rules: Sequence[Rule] = (),
) -> tuple[str, SassComparison]:
    """The diff of two binaries as text, JSON or HTML, and as it is. rules: functions paired by hand."""
    from kscope.engine.code.sassdiff import sass_diff
    from kscope.model.faults import fenced
    from kscope.parsers.cubin.programs import read_programs
    from kscope.reports import Options

    old, new = (read_programs(side, arch, function) for side in (before, after))
    with fenced(f"{before}, {after}"):
        comparison = sass_diff(before, after, old, new, rules)
        options = Options(width=width, color=color, unicode=unicode, verbose=verbose)
        return _text(comparison, format_, options), comparison


def _text(comparison: SassComparison, format_: str, options: Options) -> str:
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(comparison).decode()
    if format_ == "html":
        from kscope.reports.html import page as html

        return html.render_sass_diff(comparison)
    from kscope.reports.text.sass_diff import render_sass_diff

    return render_sass_diff(comparison, options)
