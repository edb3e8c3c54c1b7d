"""The text of `kscope sass --annotate`: any width, no colour unless asked, names that cannot do harm."""

from __future__ import annotations

import re
from functools import cache

import pytest
from msgspec import structs

from kscope.engine.code.programs import binary_analysis
from kscope.model.contract.analysis import Analysis, from_json, to_json
from kscope.parsers.cubin.programs import read_programs
from kscope.reports.text.machine import MachineOptions, render
from tests.support.sass import path

TMA = path("tma.cu", "sm_90a")


@cache
def analysis() -> Analysis:
    return binary_analysis("tma.cubin", read_programs(TMA), annotate=True)


@pytest.mark.parametrize("width", [60, 80, 99, 100, 120, 160, 200, 400])
def test_no_line_is_wider_than_asked(width: int) -> None:
    text = render(analysis(), MachineOptions(width=width))
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert "ASY505 missing-proxy-fence" in words and "waits for" in words and "to loop 3 (spin)" in words


def test_every_instruction_is_there_once_whatever_the_width() -> None:
    for width in (80, 160):
        text = render(analysis(), MachineOptions(width=width))
        for program in analysis().programs:
            for function in program.functions:
                body = text.partition(f"{function.name} ")[2]
                for one in function.listing[:20]:
                    assert one.sass.split()[-1].rstrip(",")[:12] in body


def test_colour_adds_nothing_to_the_words() -> None:
    plain = render(analysis(), MachineOptions(width=120))
    coloured = render(analysis(), MachineOptions(width=120, color=True))
    assert "\x1b" not in plain and "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


def test_ascii_where_the_terminal_has_nothing_else() -> None:
    assert render(analysis(), MachineOptions(width=120, unicode=False)).isascii()


def test_untrusted_names_stay_on_their_line() -> None:
    program = analysis().programs[0]
    function = program.functions[0]
    first = structs.replace(
        function.listing[0], sass="MOV R1, \x1b[2J\n", file="a\x1b]0;x\x07\nb.cu", symbol="s\x1b",
    )  # fmt: skip
    name = "k\x1b[31m\n\r"
    evil = structs.replace(function, name=name, demangled=name, listing=[first, *function.listing[1:]])
    changed = structs.replace(analysis(), programs=[structs.replace(program, functions=[evil], member="m\x1b\n")])
    text = render(changed, MachineOptions(width=120))
    assert not any(c != "\n" and not c.isprintable() for c in text)


def test_json_reads_back_with_its_annotations() -> None:
    again = from_json(to_json(analysis()))
    assert again.programs == analysis().programs
    (function,) = [f for f in again.programs[0].functions if f.name == "refill_unfenced"]
    tma = next(one for one in function.listing if one.role == "TMA")
    assert tma.findings == ["LAT310", "ASY505"] and tma.loop == 2 and tma.bytes is None
    assert function.loops[0].bounds[0].cycles <= function.loops[0].bounds[0].most
