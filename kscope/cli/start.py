"""The process's first step: `kscope analyze report.ncu-rep` starts the reader of that report, and only then imports
the command line. NVIDIA's library takes 0.1 s to decode a kernel, about as long as all imports together.
"""

from __future__ import annotations

import gc
import sys

from kscope.engine import ahead

TYPE_CHECKING = False  # the typing module itself takes 9 ms
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """The console script: kscope.cli.main, with the first report opened ahead."""
    gc.disable()  # one command and out: what is garbage goes by its reference counts
    argv = sys.argv[1:]
    if argv[:1] == ["analyze"]:
        report = next((a for a in argv if a.endswith(".ncu-rep")), None)
        if report is not None:
            ahead.start(report)
    try:
        from kscope.cli.main import main as run

        run(argv)
    finally:
        ahead.close()
