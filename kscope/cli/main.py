"""Entry point: a group whose commands are imported only when run, and the one place where faults become messages."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from itertools import pairwise
from typing import NoReturn

import click

from kscope._version import __version__
from kscope.model.errors import EXIT_OK, EXIT_USAGE, KscopeError, one_line

COMMANDS = {
    "analyze": "Diagnose profiler reports: what is slow, which instruction, what to change.",
    "arch": "Show a chip: peaks, bandwidths, limits, latencies, instructions, each with its source.",
    "bench": "Check a kernel against a reference, look for cheats, time it beside a baseline.",
    "checklist": "Show what can be tried on a kernel, from easiest to hardest, with its state.",
    "diff": "Compare versions: what a change did, kernel by kernel, and whether the promise held.",
    "doctor": "Show which tools, versions and permissions are here, and what each missing one costs.",
    "explain": "Print the page of a rule: what it sees, why it costs, how to fix it.",
    "fix": "Print the change that a finding asks for: code, conditions, proof, worth.",
    "fleet": "Keep thousands of reports as one dataset of causes: what costs most, what got slower, why.",
    "init": "Write a folder to start a kernel from: naive kernel, reference, task file.",
    "log": "Keep the versions of a kernel: time, verdict, promises, the code, beside the report itself.",
    "mcp": "Serve diagnoses as tools to an agent, over the Model Context Protocol.",
    "metrics": "Show the raw metrics of a report: values, units, what they count, per instruction too.",
    "napkin": "Estimate an operation: bytes, FLOP and the floor in time, before a line is written.",
    "rules": "List the rules.",
    "run": "Record a program with what the rules need, then diagnose it.",
    "sass": "Show the machine code of a binary: listing, loops, resources, what each instruction waits for.",
    "skill": "Print the page that tells an agent how to work with kscope.",
    "trace": "Show what each role of a kernel did with its time, from what its warps recorded.",
}
"""Command name -> short help."""
ROOMS = {
    "diagnose": "analyze diff explain fix metrics napkin rules sass trace", "machine": "arch doctor run",
    "worklog": "checklist log", "fleet": "fleet", "bench": "bench init", "agents": "mcp skill", "dev": "dev",
}  # fmt: skip
"""Room of kscope.cli -> its commands, each the function of its name in a module of its name."""
HIDDEN = frozenset({"dev"})
"""Commands for people who work on kscope itself: called like the others, not listed."""

UNWRITABLE = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
"""What writing to standard output can end with; files that are opened have a name in their errors."""
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


def module_of(command: str) -> str:
    """The module that a command is imported from when it is called."""
    room = next(room for room, commands in ROOMS.items() if command in commands.split())
    return f"kscope.cli.{room}.{command}"


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return None
        command = getattr(importlib.import_module(module_of(cmd_name)), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kscope", message="%(prog)s %(version)s")
def cli() -> None:
    """Why is this GPU kernel slow, which instruction is responsible, what should the next version do?

    Start with: kscope analyze report.ncu-rep
    """


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with the status of the contract (0 ok, 1 threshold, 2 usage, 3 input, 4 tool)."""
    argv = sys.argv[1:] if args is None else args
    sys.exit(_run(argv, json_errors=_wants_json(argv)))


def _run(argv: list[str], *, json_errors: bool) -> int:
    try:
        status = cli.main(argv, prog_name="kscope", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else EXIT_OK
    except click.UsageError as error:
        if json_errors:
            _report_json("usage", error.format_message(), "kscope --help")
        else:
            shown = io.StringIO()
            error.show(file=shown)
            for line in shown.getvalue().rstrip("\n").split("\n"):
                _say(line)
        return EXIT_USAGE
    except KscopeError as error:
        if json_errors:
            _report_json(error.code, error.message, error.hint)
        else:
            _say(f"kscope: {error}")
        return error.status
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the flush at exit finds an open stream
        return EXIT_OK
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            return _internal(error, json_errors=json_errors)
        return _unwritable(error.strerror or "", json_errors=json_errors)
    except Exception as error:
        return _internal(error, json_errors=json_errors)


def _unwritable(reason: str, *, json_errors: bool) -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer goes nowhere at exit
    message, hint = f"standard output cannot be written: {reason}", "write to a file elsewhere with -o"
    if json_errors:
        _report_json("unwritable", message, hint)
    else:
        _say(f"kscope: {message}; {hint}")
    return EXIT_USAGE


def _internal(error: Exception, *, json_errors: bool) -> int:
    if os.environ.get("KSCOPE_DEBUG") == "1":
        import traceback

        traceback.print_exc()
        return EXIT_INTERNAL
    what = one_line(f"{type(error).__name__}: {error}")
    hint = "please report; run with KSCOPE_DEBUG=1 for the traceback"
    if json_errors:
        _report_json("internal", what, hint)
    else:
        _say(f"kscope: internal error ({what}): {hint}")
    return EXIT_INTERNAL


def _say(text: str) -> None:
    from kscope.cli.shared._output import say  # --help imports no module of a command

    say(text)


def _wants_json(argv: list[str]) -> bool:
    """Whether errors go out as JSON. Read from the raw arguments: it must hold for a usage error as well."""
    return "--format=json" in argv or ("--format", "json") in pairwise(argv)


def _report_json(code: str, message: str, hint: str) -> None:
    import json

    _say(json.dumps({"error": {"code": code, "message": one_line(message), "hint": hint}}))
