"""The process that reads reports: one question a line on standard input, one answer a line on standard output.

It is apart from the server because reading forks, may meet native code that crashes, and can be ended when it takes too
long. Frames are JSON: [name, arguments] in, {"answer": ...} or {"error": "one line"} out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any

import msgspec

from kscope.model.errors import KscopeError, one_line
from kscope.model.faults import in_words, show_traceback
from kscope.reports.escape import json_line


def main(folders: list[str]) -> None:
    """Answer until standard input ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not write into the frames
    from kscope.mcp.desk import Desk
    from kscope.mcp.roots import Roots

    serve(sys.stdin.buffer, out, Desk(Roots([Path(one) for one in folders])))


def serve(questions: IO[bytes], out: IO[bytes], desk: Any) -> None:
    for line in questions:
        name, given = msgspec.json.decode(line)
        out.write(answered(desk, name, given) + b"\n")
        out.flush()


def answered(desk: Any, name: str, given: object) -> bytes:
    """One frame. Never raises but for what ends the process."""
    from kscope.mcp.catalogue import TOOLS
    from kscope.mcp.pages import checked, tidy
    from kscope.mcp.tools import RUN

    try:
        tool = next(tool for tool in TOOLS if tool.name == name)
        asked = msgspec.convert(given, tool.takes)
        answer = msgspec.to_builtins(RUN[name](desk, asked))
        return checked(json_line(msgspec.json.encode({"answer": answer if name == "explain" else tidy(answer)})))
    except msgspec.ValidationError as error:
        return _error(f"wrong arguments: {error}")
    except KscopeError as error:
        return _error(str(error))
    except Exception as error:
        show_traceback(error)
        return _error(f"internal error ({in_words(error)}); please report, with the traceback of KSCOPE_DEBUG=1")


def _error(text: str) -> bytes:
    return json_line(msgspec.json.encode({"error": one_line(text.encode("utf-8", "replace").decode())}))


if __name__ == "__main__":
    main(sys.argv[1:])
