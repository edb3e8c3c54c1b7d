"""Ways round of math functions: functions of the library that special arguments (zero, subnormal, infinite) are sent
to, of floats and of doubles. They touch no memory, and the branch around their call belongs to the math function."""

from __future__ import annotations

from kscope.features.patterns.accurate_math import accurate_calls, ways_round
from kscope.features.patterns.double_math import of_doubles
from kscope.features.patterns.math_functions import DOUBLE
from kscope.features.sass.listing import Listing


def slow_paths(code: Listing) -> set[int]:
    """The instructions on these ways that ran, the call and what the caller does for it among them."""
    functions = {i for call in accurate_calls(code) for i in call.members}
    functions.update(of_doubles(code, code.where(lambda ins, op: ins.opcode in DOUBLE)))
    found: set[int] = set()
    for block, way in ways_round(code):
        branch = code.cfg.blocks[block].end - 1
        if branch in functions and not any(code.classes[i].access and code.classes[i].space != "constant" for i in way):
            found.update(code.ran(way))
    return found
