"""`kscope rules`: the catalogue."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def rules(format_: str, output: Path | None, force: bool) -> None:
    """List the rules."""
    from kscope.cli.shared._output import put, stdout_unicode, stdout_width
    from kscope.rules.registry import all_rules

    found = all_rules()
    if format_ == "json":
        import json

        rows = [{"code": r.code, "slug": r.slug, "title": r.title, "regime": r.regime} for r in found]
        return put(json.dumps(rows) + "\n", output, force=force)
    from kscope.reports.terminal import Page

    page = Page(stdout_width(), color=False, unicode=stdout_unicode())
    slug = max(len(r.slug) for r in found)
    for one in found:
        page.paragraph(one.title, lead=(f"{one.code}  {one.slug:{slug}}  ", ""), indent=slug + 10)
    page.blank()
    page.line(f"{len(found)} rules; `kscope explain CODE` prints a page.")
    put(page.text(), output, force=force)
