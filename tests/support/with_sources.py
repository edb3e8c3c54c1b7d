"""Captures analysed with the text of their kernels, which some reports do not hold."""

from __future__ import annotations

from functools import cache

from kscope.engine.code.programs import sources_below
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.contract.analysis import Fix, KernelAnalysis
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from tests.support.once_a_run import once_a_run
from tests.support.patches import FIXTURES
from tests.support.reports import fixture

ABOVE, BELOW = sources_below(FIXTURES / "kernels"), sources_below(FIXTURES / "kernels" / "unseen")


@cache
def diagnosed(case: str) -> KernelAnalysis:
    return once_a_run(f"{case}.with_sources", lambda: _diagnosed(case))


def _diagnosed(case: str) -> KernelAnalysis:
    with open_input(fixture(case)) as path:
        return analyze_kernel(next(iter(read_kernels(path))), case, lines=lambda file: ABOVE(file) or BELOW(file))


def changes(case: str, code: str) -> list[Fix]:
    """What is proposed for a finding, refusals apart."""
    return [fix for f in diagnosed(case).findings if f.code == code for fix in f.fixes if not fix.refused]
