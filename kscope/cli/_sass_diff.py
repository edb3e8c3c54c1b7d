"""What `kscope sass --diff`, `kscope sass --fail-on` and `kscope diff` of binaries share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.model.analysis import Finding

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


Limits = tuple[list[str], "str | None"]
"""Rule codes that fail, and the lowest severity that does."""


def compared(
    before: str,
    after: str,
    *,
    limits: Limits = ([], None),
    arch: str | None = None,
    function: str | None = None,
    format_: str = "text",
    verbose: bool = False,
    width: int = 0,
    color: bool = False,
    unicode: bool = True,
) -> tuple[str, bool]:
    """The diff of two binaries as text, JSON or HTML; whether a finding that only the new one has meets the limits."""
    from kscope.engine.sassdiff import sass_diff
    from kscope.parsers.cubin.programs import read_programs

    comparison = sass_diff(before, after, *(read_programs(side, arch, function) for side in (before, after)))
    failed = met((f.new for f in comparison.functions), limits)
    if format_ == "json":
        from kscope.reports.jsonv1 import encode

        return encode(comparison).decode(), failed
    if format_ == "html":
        from kscope.reports import html

        return html.render_sass_diff(comparison), failed
    from kscope.reports import Options
    from kscope.reports._sass_diff import render_sass_diff

    return render_sass_diff(comparison, Options(width=width, color=color, unicode=unicode, verbose=verbose)), failed


def thresholds(fail_on: Sequence[str]) -> Limits:
    """--fail-on as limits. Raises KscopeError for an unknown word."""
    if not fail_on:
        return [], None
    from kscope.cli.analyze import SEVERITIES, _thresholds

    codes, level = _thresholds(tuple(fail_on))
    return codes, SEVERITIES[level] if level is not None else None


def met(findings: Iterable[Sequence[Finding]], limits: Limits) -> bool:
    """Whether a finding is of one of the rules, or at least as grave as the severity."""
    codes, severity = limits
    if not codes and severity is None:
        return False
    from kscope.cli.analyze import SEVERITIES

    grave = SEVERITIES[SEVERITIES.index(severity) :] if severity else ()
    return any(f.code in codes or f.severity in grave for group in findings for f in group)
