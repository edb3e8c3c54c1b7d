"""`kscope mcp`: the analysis as a server of the Model Context Protocol."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("roots", metavar="[ROOT]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--print-config", is_flag=True, help="Print what a client's configuration needs, and exit.")
def mcp(roots: tuple[Path, ...], print_config: bool) -> None:
    """Serve diagnoses as tools to an agent, over the Model Context Protocol.

    Only regular files below the ROOTs (default: the current folder) are read, wherever links lead; nothing is written
    there. Needs the SDK: pip install 'kscope-gpu[mcp]'

    \b
    kscope mcp reports/ build/
    kscope mcp reports/ --print-config > .mcp.json
    """
    from kscope.mcp.roots import Roots

    folders = [str(folder) for folder in Roots(roots or (Path(),)).folders]
    if print_config:
        return _print(folders)
    import gc

    from kscope.model.errors import EXIT_TOOL, KscopeError

    try:
        from kscope.mcp.server import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        message, hint = "the MCP SDK (mcp 2.3 or later) is not installed", "install it: pip install 'kscope-gpu[mcp]'"
        raise KscopeError("missing-tool", message, hint, EXIT_TOOL) from None

    gc.enable()  # one command and out is another command
    serve(folders)


def _print(folders: list[str]) -> None:
    """As Claude Code, Cursor, Gemini CLI and others read it; with this interpreter, whatever the client's PATH is."""
    import json

    from kscope.cli.shared._output import write_stdout

    entry = {"command": sys.executable, "args": ["-m", "kscope", "mcp", *folders]}
    write_stdout(json.dumps({"mcpServers": {"kscope": entry}}, indent=2) + "\n")
