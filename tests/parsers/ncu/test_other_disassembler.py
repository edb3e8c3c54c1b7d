"""Code that NVIDIA's reader cannot disassemble comes from the report's own image, by nvdisasm."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.model.kernel import Kernel
from kscope.parsers import toolchain
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.metric_values import Unreadable
from kscope.parsers.ncu.other_disassembler import BYTES, PADDING, by_another
from kscope.parsers.ncu.sass_cache import SassCache
from tests.support import reports

Read = Callable[[str], Kernel]
CASES = ("bank_conflict.slow", "row_stats.thread", "int_division.slow")


def without_names(text: str) -> str:
    """nvdisasm marks reuse where the reader does not, and names labels and functions."""
    if re.search(r"\b(CALL|RET)\.", text):
        return text.split()[0]
    return " ".join(re.sub(r"`\(.*?\)|0x[0-9a-f]+$|\.reuse", "", text).split())


@pytest.mark.parametrize("case", CASES)
def test_the_same_code_as_the_readers(case: str, kernel: Read) -> None:
    program = kernel(case).program
    assert program is not None
    own = {ins.pc: (without_names(ins.text), ins.line) for ins in program.instructions}
    with open_input(reports.fixture(case)) as path:
        found = by_another(program.name, [(0, max(own))], SassCache(path))
    told = {pc: (without_names(text), line) for pc, (text, _, line) in found.items()}
    assert len(own) > 20 and {pc: told.get(pc) for pc in own} == own


def test_the_kernel_behind_what_it_calls(kernel: Read) -> None:
    """Functions that a kernel calls may lie before it: the stretch as long as the kernel is its own."""
    program = kernel(CASES[0]).program
    assert program is not None
    last = max(ins.pc for ins in program.instructions)
    with open_input(reports.fixture(CASES[0])) as path:
        cache = SassCache(path)
        found = by_another(program.name, [(0, 8 * BYTES), (0x4000, 0x4000 + last)], cache)
        assert min(found) == 0x4000
        with pytest.raises(Unreadable, match="which of the counted code"):
            by_another(program.name, [(0, 8 * BYTES)], cache)
        with pytest.raises(Unreadable, match="which of the counted code"):
            by_another(program.name, [(0, last), (0x9000, 0x9000 + last)], cache)
        assert last > PADDING * BYTES


def test_the_remedy_is_named(kernel: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    program = kernel(CASES[0]).program
    assert program is not None
    monkeypatch.setattr(toolchain, "reads", lambda tool, sm: False)
    with open_input(reports.fixture(CASES[0])) as path, pytest.raises(Unreadable, match="nvdisasm"):
        by_another(program.name, [(0, 0)], SassCache(Path(path)))
    with pytest.raises(Unreadable, match="does not know the chip"):
        by_another("no_such_function", [(0, 0)], None)
