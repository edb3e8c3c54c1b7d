"""A page for each command, from its own help: what is printed in the terminal, options as a table."""

from __future__ import annotations

import html
import importlib

import click

from tools.website.pages import Navigation


def every() -> dict[str, click.Command]:
    """Commands by name, in the order of `kscope --help`."""
    main = importlib.import_module("kscope.cli.main").cli
    with click.Context(main, info_name="kscope") as context:
        return {name: main.get_command(context, name) for name in main.list_commands(context)}


def pages() -> dict[str, str]:
    """Path on the site -> text."""
    found = every()
    rows = [f"| [kscope {name}]({name}.md) | {_cell(one.get_short_help_str(140))} |" for name, one in found.items()]
    index = "\n".join(["# Commands", "", "`kscope COMMAND --help` prints a page of these.", "", "| command | does |",
                       "| --- | --- |", *rows, ""])  # fmt: skip
    return {"commands/index.md": index} | {f"commands/{name}.md": page(name, one) for name, one in found.items()}


def navigation() -> Navigation:
    return [("All commands", "commands/index.md"), *((f"kscope {n}", f"commands/{n}.md") for n in every())]


def page(name: str, command: click.Command) -> str:
    """The page of one command and its subcommands."""
    root = click.Context(click.Group("kscope"), info_name="kscope")
    return "\n".join(_command(command, root, name, 1))


def _command(command: click.Command, above: click.Context, name: str, level: int) -> list[str]:
    context = click.Context(command, parent=above, info_name=name)
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"{'#' * level} {context.command_path}", "", "```", *usage.splitlines(), "```", "", *_prose(command), ""]
    options = [p for p in command.get_params(context) if isinstance(p, click.Option) and not p.hidden]
    rows = [record for option in options if (record := option.get_help_record(context))]
    if rows:
        lines += ["| option | means |", "| --- | --- |", *(f"| {_code(a)} | {_cell(b)} |" for a, b in rows), ""]
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if found is not None and not found.hidden:
                lines += _command(found, context, sub, level + 1)
    return lines


def _prose(command: click.Command) -> list[str]:
    """The help text: paragraphs run on, those that begin with \\b keep their lines."""
    out: list[str] = []
    for block in (command.help or "").replace("\f", "").split("\n\n"):
        lines = [line.rstrip() for line in block.splitlines()]
        if lines and lines[0].strip() == "\b":
            out += ["```", *lines[1:], "```", ""]
        else:
            out += [plain(" ".join(line.strip() for line in lines)), ""]
    return out


def _code(text: str) -> str:
    return f"<code>{_cell(text)}</code>"


def _cell(text: str) -> str:
    return plain(" ".join(text.split())).replace("|", "&#124;")


def plain(text: str) -> str:
    """Text that Markdown shows as it is; between backticks it is code already."""
    parts = html.escape(text, quote=False).split("`")
    return "`".join(p if i % 2 else p.replace("*", "&#42;").replace("[", "&#91;") for i, p in enumerate(parts))
