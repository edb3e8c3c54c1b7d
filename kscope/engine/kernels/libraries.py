"""Kernels that a library brought: whose they are, and what somebody who only calls them can change."""

from __future__ import annotations

import re
from functools import cache

from kscope.arch import table
from kscope.engine.comparing.kernel_names import without_parameters
from kscope.model.contract.analysis import LibraryKernel

LONGEST = 400
"""Characters of a name that are looked at. Templates make names long, and a stranger can make them hard: the patterns
have three open ends, so that the time grows with the third power of this."""
SAYS = {
    "m": "", "k": "steps of {} along K", "stages": "{} stages", "cluster": "clusters of {}", "split": "split along K",
    "layout": "layout {}", "align": "aligned to {} elements",
}  # fmt: skip


def library_of(demangled: str) -> LibraryKernel | None:
    """By the name alone; None for a kernel that no scheme of arch/libraries.toml knows."""
    name = without_parameters(demangled[:LONGEST])
    for pattern, entry in _schemes():
        if found := pattern.search(name):
            said = {key: value for key, value in found.groupdict().items() if value}
            return LibraryKernel(
                library=entry["library"], scheme=entry["scheme"], says=said, change=entry["change"],
                tensor=entry.get("tensor", ""),
            )  # fmt: skip
    return None


def note(kernel: LibraryKernel) -> str:
    """One sentence: the library, what the name says, what a caller can change."""
    says = kernel.says
    words = [f"tile {says['m']} x {says['n']}"] if "m" in says and "n" in says else []
    shown = {**says, "layout": says.get("layout", "").upper()}
    words += [text.format(shown[key]) for key, text in SAYS.items() if text and key in says]
    told = f" ({', '.join(words)})" if words else ""
    return f"a kernel of {kernel.library}, {kernel.scheme}{told}. Its caller can change: {kernel.change}"


@cache
def _schemes() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    return [(re.compile(entry["match"]), entry) for entry in table("libraries")["scheme"]]
