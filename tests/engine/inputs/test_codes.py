"""Code that is known before its kernel is decoded: right guesses save work, wrong ones change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.engine.inputs import codes
from kscope.engine.inputs.codes import Codes
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.engine.run import analyze_paths
from kscope.features.facts import Facts
from kscope.features.lanes import values
from kscope.features.sass.listing import Structure
from kscope.model.contract.detail import Detail, KernelDetail
from kscope.model.kernel import Kernel
from kscope.parsers.files import ncu_images
from kscope.parsers.ncu import worker
from kscope.parsers.ncu.kernels import read_kernels, to_kernel
from tests.support import reports

Rows = list[tuple[int, str, "str | None", "int | None"]]
TWICE = ("atomics.slow", "atomics.fast", "atomics.slow")
CODE: Rows = [(0, "S2R R0, SR_TID.X", None, None), (16, "IADD3 R1, R0, 0x1, RZ", None, None), (32, "EXIT", None, None)]


def read(path: Path) -> tuple[list[tuple[str, str, int, Rows]], list[worker.Raw]]:
    """What the reader expects, with what came before it ("" or the name of a kernel), and its kernels."""
    expected: list[tuple[str, str, int, Rows]] = []
    kernels: list[worker.Raw] = []
    last = [""]
    reader = worker.Reader(str(path), worker.Want())
    for raw in reader.kernels(lambda name, sm, rows: expected.append((last[0], name, sm, rows))):
        assert not isinstance(raw, worker.Skipped)
        kernels.append(raw)
        last[0] = raw["mangled"]
    return expected, kernels


@pytest.mark.parametrize("case", ["bank_conflict.slow", "sgemm.blocktile2d"])
def test_code_comes_before_its_kernel(
    case: str, report: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what the disassembly cache holds, and the very rows that the kernel has then."""
    monkeypatch.setenv("KSCOPE_CACHE_DIR", str(tmp_path))
    cold, (kernel,) = read(report(case))
    assert cold == []
    ((before, name, sm, rows),), (again,) = read(report(case))
    assert before == "" and name == kernel["mangled"] and sm == 90
    assert rows == kernel["rows"] == again["rows"]


def test_each_function_once(report: Callable[[str], Path], tmp_path: Path) -> None:
    joined = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(case) for case in TWICE], joined)
    list(read_kernels(str(joined)))
    expected, kernels = read(joined)
    assert len(kernels) == 3 and kernels[0]["mangled"] == kernels[2]["mangled"] != kernels[1]["mangled"]
    assert [name for _, name, _, _ in expected] == [kernels[0]["mangled"], kernels[1]["mangled"]]
    assert [name for name, _, _ in ncu_images.results(str(joined))] == [k["mangled"] for k in kernels]


def test_launches_of_one_function(report: Callable[[str], Path], tmp_path: Path) -> None:
    """What they share is the code: each one's diagnosis and listing are those that it has alone."""
    joined = tmp_path / "joined.ncu-rep"
    reports.join_reports([report(case) for case in TWICE], joined)
    known, found = Codes(str(joined), draws=True), []
    for raw in worker.Reader(str(joined), worker.Want(charts=True)).kernels(known.expect):
        assert not isinstance(raw, worker.Skipped)
        details: list[KernelDetail] = []
        kernel = to_kernel(raw, "x", known.parse)
        assert kernel.program is not None
        structure = known.structure(kernel.program)
        shared = analyze_kernel(kernel, "0", None, details, str(joined), structure)
        alone = analyze_kernel(to_kernel(raw, "x"), "0", None, details, str(joined))
        assert shared.findings and msgspec.json.encode(shared) == msgspec.json.encode(alone)
        assert details[0].code is not None and msgspec.json.encode(details[0]) == msgspec.json.encode(details[1])
        found.append(structure)
    assert found[0] is found[2] is not found[1]


def test_launches_that_ran_alike_share_what_no_budget_cut_short(
    kernel: Callable[[str], Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = kernel("bank_conflict.slow")
    assert one.program is not None
    structure = Structure(one.program)

    def launched(*, rounds: float = 1.0) -> Facts:
        assert one.counters is not None
        columns = {n: [rounds * x for x in c] if n == "inst_executed" else c for n, c in one.counters.by_name.items()}
        counters = msgspec.structs.replace(one.counters, by_name=columns)
        return Facts(msgspec.structs.replace(one, counters=counters), structure)

    first = launched()
    load = next(i for i, op in enumerate(structure.classes) if op.space == "global" and op.access == "load")
    steps = first.lanes.strides.here(load)
    assert steps and launched().patterns is first.patterns and launched().lanes.strides is first.lanes.strides
    assert launched(rounds=2.0).patterns is not first.patterns
    other = msgspec.structs.replace(one, launch=msgspec.structs.replace(one.launch, block=(64, 1, 1)))
    assert Facts(other, structure).lanes is not first.lanes
    monkeypatch.setattr(values, "BUDGET", 0)
    cut = launched(rounds=3.0)
    assert cut.lanes.strides.here(load) != steps and launched(rounds=3.0).lanes is not cut.lanes


def test_packed_reports_in_a_row() -> None:
    """Each is unpacked to a file without a name, at the same place: a listing shows its own report's code."""
    cases = ("bank_conflict.slow", "softmax_rows.registers")

    def listings(*chosen: str) -> dict[str, list[str]]:
        detail = Detail()
        analyze_paths([reports.fixture(case) for case in chosen], detail=detail)
        return {d.code.function: d.code.control for d in detail.kernels if d.code is not None}

    both = listings(*cases)
    assert len(both) == 2 and all(any(control) for control in both.values())
    assert both == listings(cases[0]) | listings(cases[1])


def test_result_names_of_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    whole = reports.plain("bank_conflict.slow")
    for content in (b"", b"NVR\0", whole[:400_000], whole[:-9]):
        path.write_bytes(content)
        assert ncu_images.results(str(path)) == []
    assert ncu_images.results(str(tmp_path / "none")) == []


def test_a_guess_that_is_right() -> None:
    known = Codes("", draws=False)
    known.expect("f", 90, CODE)
    program = known.parse("f", 90, list(CODE))
    structure = known.structure(program)
    assert structure.program is program and "defuse" in vars(structure), "computed ahead"
    assert known.parse("f", 90, list(CODE)) is program, "for every launch"
    assert structure.defuse.consumers(0) == (1,)


@pytest.mark.parametrize(
    ("name", "sm", "rows"),
    [("g", 90, CODE), ("f", 80, CODE), ("f", 90, CODE[1:]), ("f", 90, []), ("f", 90, [(0, "", None, None)])],
)
def test_a_guess_that_is_wrong(name: str, sm: int, rows: Rows) -> None:
    known = Codes("", draws=False)
    known.expect(name, sm, rows)
    program = known.parse("f", 90, CODE)
    assert (program.name, program.sm) == ("f", 90)
    assert [ins.text for ins in program.instructions] == [text for _, text, _, _ in CODE]
    assert known.structure(program).program is program
    other = Structure(program).program
    assert Codes("", draws=False).structure(other).program is other, "a program from elsewhere"


def test_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "KEEP", 2)
    known = Codes("", draws=False)
    first = known.parse("a", 90, CODE)
    known.parse("b", 90, CODE)
    assert known.parse("a", 90, CODE) is first
    known.parse("c", 90, CODE)
    assert known.parse("a", 90, CODE) is first, "seen after b, which went"
    assert known.structure(known.parse("b", 90, CODE)).program.name == "b"
