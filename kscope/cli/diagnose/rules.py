"""`kscope rules`: the catalogue."""

from __future__ import annotations

import click


@click.command()
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def rules(format_: str) -> None:
    """List the rules."""
    from kscope.cli.shared._output import stdout_unicode, stdout_width, write_stdout
    from kscope.rules.registry import all_rules

    found = all_rules()
    if format_ == "json":
        import json

        rows = [{"code": r.code, "slug": r.slug, "title": r.title, "regime": r.regime} for r in found]
        return write_stdout(json.dumps(rows) + "\n")
    from kscope.reports.terminal import Page

    page = Page(stdout_width(), color=False, unicode=stdout_unicode())
    slug = max(len(r.slug) for r in found)
    for one in found:
        page.paragraph(one.title, lead=(f"{one.code}  {one.slug:{slug}}  ", ""), indent=slug + 10)
    page.blank()
    page.line(f"{len(found)} rules; `kscope explain CODE` prints a page.")
    write_stdout(page.text())
