"""The rule book, the guides, the commands, the contract and the Python API as a web site to read without a network.

    python -m tools.website [FOLDER]

Pages of the repository are taken as they are; pages on commands, on the JSON and on the Python API are made from the
code. What a page links to in this repository comes along as a file. Writes FOLDER (default: build/site); opens from
disk, search too. Needs the docs extra.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.website import commands, contract, links, reference
from tools.website.pages import NAVIGATION, ROOT, Navigation


def navigation(entries: Navigation) -> list[Any]:
    """As mkdocs wants it: [{title: page or list}]."""
    out: list[Any] = []
    for title, what in entries:
        inner = commands.navigation() if what == "commands" else what
        out.append({title: inner if isinstance(inner, str) else navigation(inner)})
    return out


def sources(folder: Path) -> None:
    """Write the sources of all pages."""
    for path, text in (commands.pages() | contract.pages() | reference.pages()).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    links.copy(folder, NAVIGATION)


def config(folder: Path, target: Path, nav: list[Any]) -> dict[str, Any]:
    """The configuration of mkdocs. No font and no script comes from elsewhere (theme.font, offline)."""
    return {
        "site_name": "kscope", "docs_dir": str(folder), "site_dir": str(target), "nav": nav,
        "use_directory_urls": False,
        "theme": {
            "name": "material", "font": False,
            "features": ["navigation.tabs", "navigation.indexes", "navigation.top", "toc.follow", "content.code.copy",
                         "search.highlight"],
            "palette": [
                {"media": f"(prefers-color-scheme: {scheme})", "scheme": name, "primary": "indigo",
                 "toggle": {"icon": icon, "name": f"to {other}"}}
                for scheme, name, icon, other in (("light", "default", "material/weather-night", "dark"),
                                                  ("dark", "slate", "material/weather-sunny", "light"))
            ],
        },
        "plugins": [
            "search", "offline",
            {"mkdocstrings": {"handlers": {"python": {
                "paths": [str(ROOT)], "inventories": [],
                "options": {"show_source": False, "show_root_heading": True, "heading_level": 3,
                            "members_order": "source",
                            "show_if_no_docstring": True, "docstring_style": "google", "separate_signature": True,
                            "show_signature_annotations": True, "line_length": 100},
            }}}},
        ],
        "markdown_extensions": ["admonition", "attr_list", "tables", "toc", "pymdownx.superfences",
                                "pymdownx.highlight"],
        "validation": {"links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn",
                                 "unrecognized_links": "warn"}},
        "extra": {"generator": False},
    }  # fmt: skip


FOLDER = re.compile(r'href="(\.\.?(?:/\.\.)*)/?"')
SHIM = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"></script>')


def from_disk(target: Path) -> None:
    """Pages work where no server finds an index: links to a folder name its page, and the script that search needs is
    ours and lies beside the pages, where mkdocs-material would load one from elsewhere."""
    name = "assets/javascripts/worker.js"
    shutil.copyfile(Path(__file__).with_name("worker.js"), target / name)
    for path in target.rglob("*.html"):
        up = "../" * (len(path.relative_to(target).parts) - 1)
        text, count = SHIM.subn(f'<script src="{up}{name}"></script>', path.read_text("utf-8"))
        if count != 1:
            raise SystemExit(f"{path}: {count} scripts for search where one was expected")
        path.write_text(FOLDER.sub(r'href="\1/index.html"', text), "utf-8")


def main(argv: list[str]) -> int:
    target = Path(argv[0]).resolve() if argv else ROOT / "build" / "site"
    folder = target.with_name(f"{target.name}-sources")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = target.with_name(f"{target.name}.json")
    sources(folder)
    settings.write_text(json.dumps(config(folder, target, navigation(NAVIGATION))), "utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(settings)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, env=quiet)
    if done.returncode == 0:
        from_disk(target)
        print(f"{len(list(target.rglob('*.html')))} pages in {target}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
