"""Equal code is one under any name; other code is another."""

from __future__ import annotations

from msgspec.structs import replace

from kscope.features.sass.code_identity import code_identity
from kscope.model.program import Program
from kscope.parsers.ncu.kernels import read_kernels
from kscope.parsers.sass.instructions import parse_program
from tests.support import patches

BODY = ["S2R R0, SR_TID.X", "FFMA R2, R0.reuse, R1, R2", "CALL.REL.NOINC `(helper_a)`", "CALL.REL.NOINC `(helper_b)`",
        "EXIT"]  # fmt: skip


def made(lines: list[str], name: str = "k", line: int | None = None) -> Program:
    return parse_program(name, 90, [(16 * i, text, "a.cu", line) for i, text in enumerate(lines)])


def test_names_padding_lines_and_flags_do_not_count() -> None:
    one = code_identity(made(BODY))
    renamed = [text.replace("helper_a", "f1").replace("helper_b", "f2").replace(".reuse", "") for text in BODY]
    assert code_identity(made([*renamed, "BRA 0x50", "NOP", "NOP"], "other", 7)) == one


def test_what_it_does_counts() -> None:
    one = code_identity(made(BODY))
    swapped = [BODY[i] for i in (0, 1, 3, 3, 4)]
    for other in (
        [*BODY[:1], "FFMA R2, R0, R1, R3", *BODY[2:]], [*BODY[:2], *BODY[3:]], swapped, BODY[1:],
    ):  # fmt: skip
        assert code_identity(made(other)) != one
    assert code_identity(replace(made(BODY), sm=100)) != one
    assert code_identity(made([])) == ""


def test_two_captures_of_one_kernel() -> None:
    def of(case: str) -> str:
        (kernel,) = read_kernels(str(patches.built(f"h200/{case}/report")))
        assert kernel.program is not None
        return code_identity(kernel.program)

    assert of("interpret.sorted") == of("interpret.as_they_come"), "one kernel, other data"
    assert of("triton_matmul.stage1") != of("triton_matmul.stage4"), "one name, other code"
