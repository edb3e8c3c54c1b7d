"""Pages of the repository on the site: they keep their paths, so that links between them hold; what they link to beside
pages comes along as a file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.website.pages import ROOT, Navigation

LARGEST = 400_000
"""Bytes of a file that comes along: pictures, tables, listings; reports of megabytes are named only."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]+`", re.S | re.M)


def members(entries: Navigation) -> Iterator[str]:
    for _, what in entries:
        if isinstance(what, str):
            yield what
        else:
            yield from members(what)


def copy(folder: Path, entries: Navigation) -> None:
    """Write the pages of the navigation that the repository has, and the files that they link to."""
    pages = [name for name in members(entries) if (ROOT / name).is_file()]
    for name in pages:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rewritten(name, (ROOT / name).read_text("utf-8"), set(pages), folder), "utf-8")


def rewritten(name: str, text: str, pages: set[str], folder: Path) -> str:
    """The text of a page with links that hold on the site. Code is left as it is."""
    out, last = [], 0
    for code in FENCE.finditer(text):
        out += [_linked(name, text[last:code.start()], pages, folder), code[0]]
        last = code.end()
    return "".join([*out, _linked(name, text[last:], pages, folder)])


def _linked(name: str, text: str, pages: set[str], folder: Path) -> str:
    def replaced(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        if LINK.search(label):  # a picture that is a link
            label = LINK.sub(replaced, label)
        path, _, _anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return f"{mark}[{label}]({target})"
        where = (ROOT / name).parent.joinpath(path).resolve()
        if not where.is_relative_to(ROOT):
            return label
        inside = where.relative_to(ROOT).as_posix()
        if where.is_dir() and f"{inside}/README.md" in pages:
            return f"{mark}[{label}]({path.rstrip('/')}/README.md)"
        if inside in pages:
            return f"{mark}[{label}]({target})"
        if where.is_file() and where.stat().st_size <= LARGEST:
            return _brought(mark, label, target, inside, where, name, folder)
        return label  # what is only in the repository is named

    return LINK.sub(replaced, text)


def _brought(mark: str, label: str, target: str, inside: str, where: Path, name: str, folder: Path) -> str:
    """A file beside the pages. Markdown that is no page of the navigation comes as text, so that mkdocs leaves it."""
    plain = where.suffix == ".md"
    goal = folder / (f"{inside}.txt" if plain else inside)
    goal.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(where, goal)
    return f"{mark}[{label}]({target.partition('#')[0]}.txt)" if plain else f"{mark}[{label}]({target})"
