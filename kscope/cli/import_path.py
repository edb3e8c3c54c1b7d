"""Which folders Python looks in for modules. Imports nothing that a file of the current folder could stand in for."""

from __future__ import annotations

import os
import sys


def leave_out_current_folder() -> None:
    """Take the current folder out of sys.path, where `python -m` and an empty entry of PYTHONPATH put it: reports are
    analysed in folders that others fill, and a click.py there would be run.

    An absolute path that PYTHONPATH names stays, and so does what stands behind the standard library: site-packages
    may well be the current folder. The entry that `python -m` made is `__main__`'s to take out.
    """
    named = [] if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(os.pathsep)
    library = os.path.dirname(os.__file__)
    before = sys.path.index(library) if library in sys.path else len(sys.path)
    relative = {os.path.abspath(one) for one in named if not os.path.isabs(one)} if _here() else set()
    kept = [one for one in sys.path[:before] if os.path.isabs(one) and (one in named or one not in relative)]
    sys.path[:before] = kept


def _here() -> bool:
    """Whether there is a current folder: it may have been removed."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True
