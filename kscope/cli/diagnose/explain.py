"""`kscope explain`: the page of a rule, on the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import click

from kscope.cli.shared._complete import codes


@click.command()
@click.argument("code", shell_complete=codes)
@click.option("--format", "format_", type=click.Choice(["text", "json", "md"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def explain(code: str, format_: str, output: Path | None, force: bool) -> None:
    """Print the page of a rule: what it sees, why it costs, how to fix it.

    CODE is a code (MEM103) or a slug (shared-bank-conflicts).
    """
    from kscope.cli.shared._output import put, stdout_width
    from kscope.rules.registry import page, rule

    found = rule(code)
    if format_ == "json":
        import json

        row = {"code": found.code, "slug": found.slug, "title": found.title, "page": page(found)}
        return put(json.dumps(row) + "\n", output, force=force)
    text = page(found) if format_ == "md" else plain(page(found), stdout_width())
    return put(text, output, force=force)


def plain(page: str, width: int) -> str:
    """Markdown as a terminal shows it best: headings underlined, code indented, paragraphs wrapped, no marks left."""
    out: list[str] = []
    words: list[str] = []
    hang = ""
    in_code = False

    def flush() -> None:
        nonlocal hang
        if words:
            from kscope.reports.terminal import wrap

            lines = wrap(" ".join(words), width - len(hang), width - len(hang))
            out.extend((hang if i else hang.replace("  ", "- ", 1)) + line for i, line in enumerate(lines))
            words.clear()
        hang = ""

    for line in page.splitlines():
        if line.lstrip().startswith("```"):
            flush()
            in_code = not in_code
        elif in_code or (line.startswith("    ") and not words):
            out.append(f"    {line.removeprefix('    ')}".rstrip())
        elif heading := re.match(r"(#+) +(.*)", line):
            flush()
            out += [heading[2], ("=" if len(heading[1]) == 1 else "-") * len(heading[2])]
        elif not line.strip():
            flush()
            out.append("")
        elif line.startswith("|"):
            flush()
            out.append(line)
        else:
            if re.match(r"[-*] ", line):
                flush()
                hang, line = "  ", line[2:]
            words.append(_unmark(line.strip()))
    flush()
    return "\n".join(out).strip("\n") + "\n"


def _unmark(text: str) -> str:
    """Inline code and emphasis without their marks, a link as its text and address."""
    text = re.sub(r"\[([^\]]+)\]\((https?://[^)]+)\)", r"\1 (\2)", text)
    return re.sub(r"(`+|\*\*)(\S(?:.*?\S)?)\1", r"\2", text)
