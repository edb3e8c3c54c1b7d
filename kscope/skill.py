"""The page that tells an agent how to work with kscope: `kscope skill`, and a resource of `kscope mcp`."""

from __future__ import annotations

from pathlib import Path


def text() -> str:
    """Markdown with a front matter of name and description, as agent tools read it (SKILL.md)."""
    return Path(__file__).with_name("skill.md").read_text(encoding="utf-8")
