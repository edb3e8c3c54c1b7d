"""Captures analysed with the text of their kernels, which some reports do not hold."""

from __future__ import annotations

import os
import pickle
from functools import cache
from pathlib import Path

from kscope.engine.code.programs import sources_below
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.contract.analysis import Fix, KernelAnalysis
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from tests.support.patches import FIXTURES
from tests.support.reports import fixture

ABOVE, BELOW = sources_below(FIXTURES / "kernels"), sources_below(FIXTURES / "kernels" / "unseen")


SHARED = "KSCOPE_TEST_SHARED"
"""Variable that names the folder of a run of the tests: what one worker has worked out others read there."""


@cache
def diagnosed(case: str) -> KernelAnalysis:
    folder = os.environ.get(SHARED)
    kept = Path(folder, f"{case}.with_sources") if folder else None
    if kept is not None and kept.is_file():
        known: KernelAnalysis = pickle.loads(kept.read_bytes())
        return known
    with open_input(fixture(case)) as path:
        made = analyze_kernel(next(iter(read_kernels(path))), case, lines=lambda file: ABOVE(file) or BELOW(file))
    if kept is not None:
        whole = kept.with_suffix(f".{os.getpid()}")
        whole.write_bytes(pickle.dumps(made))
        whole.replace(kept)
    return made


def changes(case: str, code: str) -> list[Fix]:
    """What is proposed for a finding, refusals apart."""
    return [fix for f in diagnosed(case).findings if f.code == code for fix in f.fixes if not fix.refused]
