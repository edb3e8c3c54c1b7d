"""What several commands check of their options."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click


class Finite(click.FloatRange):
    """A number in a range. NaN lies in every range that click checks, and nothing is ever above NaN or infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{found} is no number to compare with.", param, ctx)
        return found


def check_regex(pattern: str | None, option: str) -> None:
    """Raises click.BadParameter that names the option."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is no regular expression: {error}", param_hint=option) from None


def format_of(output: Path | None, formats: Collection[str]) -> str:
    """The format among a command's that the suffix of -o asks for; text on standard output. Raises click.UsageError."""
    if output is None:
        return "text"
    from kscope.reports import SUFFIXES

    return by_suffix(output, {suffix: name for suffix, name in SUFFIXES.items() if name in formats})


def by_suffix(output: Path | None, suffixes: Mapping[str, str]) -> str:
    """The same among a command's own suffixes. Raises click.UsageError."""
    if output is None:
        return "text"
    if (format_ := suffixes.get(output.suffix.lower())) is None:
        known = ", ".join(suffixes)
        raise click.UsageError(f"Cannot tell the format from '{output}' ({known} are known): give --format.")
    return format_
