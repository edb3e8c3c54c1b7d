"""Machine code of our own kernels for seven targets against nvdisasm itself, and what is no machine code at all."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.model.errors import KscopeError
from kscope.model.program import Instruction, Program, Site
from kscope.parsers import toolchain
from kscope.parsers.cubin import disassembly, elf
from kscope.parsers.cubin.programs import read_programs
from kscope.parsers.sass import control_fields, listing
from kscope.parsers.sass.instructions import decode, parse_program
from tests.cli.running import kscope
from tests.support import reports
from tests.support.examples import FEWER
from tests.support.sass import FOLDER, SOURCES, image
from tests.support.thorough import some

CUBINS = sorted(FOLDER.glob("*.cubin.xz"))
LINKED = [path for path in CUBINS if not path.name.startswith("separate.")]
each_cubin = pytest.mark.parametrize("path", some(CUBINS, 7), ids=lambda path: path.name.removesuffix(".cubin.xz"))
each_linked = pytest.mark.parametrize("path", some(LINKED, 7), ids=lambda path: path.name.removesuffix(".cubin.xz"))


@cache
def data(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes())


def plain(path: Path, folder: Path) -> Path:
    file = folder / path.name.removesuffix(".xz")
    file.write_bytes(data(path))
    return file


def named(path: Path, function: str) -> Program:
    return next(program for program in image(path).functions if program.name == function)


def nvdisasm(*arguments: str | Path) -> str:
    tool = toolchain.find("nvdisasm")
    done = subprocess.run([tool.path, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cubin(name: str) -> Path:
    return FOLDER / f"{name}.cubin.xz"


# --- against nvdisasm


@each_cubin
def test_same_instructions_text_and_control_fields_as_the_listing(path: Path, tmp_path: Path) -> None:
    listed = {f.name: f for f in listing.parse_listing(nvdisasm("-c", "-hex", plain(path, tmp_path)).splitlines())}
    programs = image(path).functions
    assert set(listed) == {program.name for program in programs}
    for program in programs:
        rows = listed[program.name].rows
        ours = [(ins.pc, ins.text, ins.control) for ins in program.instructions]
        assert ours == [(row.pc, row.text, row.control) for row in rows]
        assert program.branches == listing.branches(listed[program.name])


@each_linked
def test_distinct_encodings_give_the_text_that_json_gives(path: Path, tmp_path: Path) -> None:
    file = plain(path, tmp_path)
    found, tool = elf.read_image(data(path)), toolchain.find("nvdisasm")
    patience = toolchain.Patience(len(data(path)))
    fast = disassembly._by_encoding(tool, found, found.functions, tmp_path, patience)
    slow, _ = disassembly._by_json(tool, [str(file)], patience)
    assert fast == slow
    assert sum(map(len, fast.values())) * 16 == sum(len(f.code) for f in found.functions) > 0


@each_cubin
def test_reuse_flags_equal_the_reuse_text(path: Path) -> None:
    """Slot A, B and C are the first, second and third register operand; the text marks those kept for reuse."""
    for program in image(path).functions:
        for ins in program.instructions:
            assert ins.control is not None
            assert ins.control.reuse.bit_count() == ins.text.count(".reuse"), ins.text


@pytest.mark.parametrize("path", [cubin(f"calls.{a}") for a in ("sm_75", "sm_90a", "sm_120a")], ids=lambda p: p.name)
def test_source_lines_and_call_sites_equal_nvdisasm_gi(path: Path, tmp_path: Path) -> None:
    """nvdisasm prints a chain only where the innermost line changes, so chains are compared there."""
    inlined = 0
    for function in listing.parse_listing(nvdisasm("-c", "-gi", plain(path, tmp_path)).splitlines()):
        before: tuple[object, ...] = ()
        for row, ins in zip(function.rows, named(path, function.name).instructions, strict=True):
            theirs = row.place and (row.place.file, row.place.line)
            assert (ins.file, ins.line) == (theirs or (None, None))
            if (row.place, row.inlined) != before:
                assert [(s.file, s.line) for s in ins.inlined] == [(s.file, s.line) for s in row.inlined]
                inlined += len(row.inlined) == 2
            before = (row.place, row.inlined)
    assert inlined > 4


# --- what is read


def test_call_sites_name_their_functions() -> None:
    program = named(cubin("calls.sm_90a"), "inlined_twice")
    root = next(ins for ins in program.instructions if ins.name == "MUFU.RSQ")
    assert (root.file, root.line) == ("/corpus/sass/calls.cuh", 5)
    chain = [(site.line, site.function) for site in root.inlined]
    assert chain == [(10, "_Z5outerfi"), (22, None)]
    assert isinstance(root.inlined[0], Site)


def test_resources_of_a_kernel_that_spills() -> None:
    program = named(cubin("calls.sm_90a"), "spilled")
    found = program.resources
    assert found is not None
    assert (found.registers, found.max_registers, found.max_threads) == (64, 64, (1024, 1, 1))
    assert found.parameters == 20 and found.shared == 0 and found.barriers == 0
    spills = [ins for ins in program.instructions if ins.pc in program.spills]
    assert {ins.opcode for ins in spills} == {"STL", "LDL"}
    assert found.frame == found.stack
    assert found.frame is not None and 0 < found.frame <= 4 * sum(ins.opcode == "STL" for ins in spills)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_target_toolkit_and_indirect_branches(target: str) -> None:
    found = image(cubin(f"calls.{target}"))
    assert (found.arch, found.toolkit) == (target, "13.0.88")
    program = named(cubin(f"calls.{target}"), "switched")
    indirect = [ins.pc for ins in program.instructions if ins.opcode in ("BRX", "BRXU")]
    assert indirect and set(program.branches) == set(indirect)
    assert all(len(targets) > 2 for targets in program.branches.values())


def test_functions_inside_a_kernel_are_known_by_name() -> None:
    program = named(cubin("calls.sm_90a"), "call_twice")
    names = [name for _, name in program.symbols]
    assert any("polynomial" in name for name in names)
    assert program.entry and program.demangled == "call_twice"


def test_objects_of_separate_compilation() -> None:
    programs = {program.name: program for program in image(cubin("separate.sm_90a")).functions}
    assert programs["calls_elsewhere"].entry
    device = programs["_Z5twicefi"]
    assert (device.entry, device.demangled) == (False, "twice(float, int)")
    assert any("elsewhere" in ins.text for ins in programs["calls_elsewhere"].instructions if ins.opcode == "CALL")


def test_descriptors_that_the_text_of_sm_80_does_not_show() -> None:
    for target in ("sm_80", "sm_89"):
        loads = [ins for ins in named(cubin(f"calls.{target}"), "spilled").instructions if ins.opcode == "LDG"]
        assert loads and all(sum(r >= 256 for r in ins.uses) == 2 for ins in loads), target


def test_one_function_by_its_mangled_or_its_cpp_name() -> None:
    (found,) = read_programs(cubin("separate.sm_90a"), function=r"^twice\(float")
    assert [program.name for program in found.functions] == ["_Z5twicefi"]
    (found,) = read_programs(cubin("calls.sm_90a"), function="^spilled$")
    assert [program.name for program in found.functions] == ["spilled"]


# --- other containers


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object with device code for two targets, as nvcc makes it."""
    folder = tmp_path_factory.mktemp("host")
    source = SOURCES / "separate.cu"
    out = folder / "separate.o"
    nvcc = toolchain.locate("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not here")
    arches = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ("80", "90a")]
    done = subprocess.run([nvcc, "-rdc=true", "-c", *arches, source, "-o", out], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


def test_device_code_in_an_object_file(host: Path) -> None:
    found = read_programs(host)
    assert sorted(cubin.arch for cubin in found) == ["sm_80", "sm_90a"]
    assert all(cubin.member for cubin in found)
    (only,) = read_programs(host, arch="90")
    assert only.arch == "sm_90a"
    with pytest.raises(KscopeError, match="no code for sm_120") as caught:
        read_programs(host, arch="sm_120")
    assert "sm_80, sm_90" in caught.value.hint


def test_device_code_in_an_archive(host: Path, tmp_path: Path) -> None:
    archive = tmp_path / "lib.a"
    done = subprocess.run(["ar", "rcs", archive, host], capture_output=True, timeout=60)
    assert done.returncode == 0
    assert sorted(cubin.arch for cubin in read_programs(archive)) == ["sm_80", "sm_90a"]


def test_listings_of_both_tools_with_and_without_encodings(tmp_path: Path) -> None:
    path = cubin("calls.sm_90a")
    file = plain(path, tmp_path)
    tool = toolchain.find("cuobjdump")
    dump = subprocess.run(
        [tool.path, "-sass", file], capture_output=True, text=True, timeout=60, env=toolchain.environment()
    ).stdout
    hexed = nvdisasm("-c", "-hex", "-gi", file)
    for text, controlled in ((nvdisasm("-c", file), False), (hexed, True), (nvdisasm(file), False), (dump, True)):
        source = tmp_path / "kernel.sass"
        source.write_text(text)
        (found,) = read_programs(source)
        assert found.arch == "sm_90a"
        for program in found.functions:
            ours = named(path, program.name).instructions
            if text is not dump:  # cuobjdump prints the callee's offset where nvdisasm prints its name
                assert [ins.text for ins in program.instructions] == [ins.text for ins in ours]
            assert [(ins.pc, ins.name) for ins in program.instructions] == [(ins.pc, ins.name) for ins in ours]
            known = [ins.control for ins in ours] if controlled else [None] * len(ours)
            assert [ins.control for ins in program.instructions] == known


def test_code_that_a_report_embeds_has_control_fields() -> None:
    found = read_programs(reports.FIXTURES / "bank_conflict.slow" / "report.ncu-rep.xz")
    assert {cubin.arch for cubin in found} == {"sm_90a"}
    instructions = [ins for cubin in found for program in cubin.functions for ins in program.instructions]
    assert instructions and all(ins.control is not None for ins in instructions)


# --- parse, print, parse


def everything() -> Iterator[Instruction]:
    for path in CUBINS:
        for program in image(path).functions:
            yield from program.instructions


@cache
def distinct() -> list[str]:
    return sorted({ins.text for ins in everything()})


def printed(text: str) -> str:
    """An instruction put together again from its parsed parts."""
    opcode, mods, guard, negated, operands, *_ = decode(text)
    mark = text.partition(" ")[0] + " " if text.startswith("@") else ""
    assert (guard is not None or "PT" in mark) == bool(mark) and negated == mark.startswith("@!")
    return f"{mark}{'.'.join((opcode, *mods))} {', '.join(map(str, operands))}".strip()


@FEWER
@given(st.data())
def test_parse_print_parse_is_stable(draw: st.DataObject) -> None:
    text = draw.draw(st.sampled_from(distinct()))
    again = printed(text)
    assert decode(again)[:7] == decode(text)[:7]
    assert printed(again) == again
    assert re.sub(r"[\s,]+", " ", again) == re.sub(r"[\s,]+", " ", text)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=8))
def test_odd_text_never_raises(lines: list[str]) -> None:
    listing.parse_listing(lines)
    parse_program("x", 90, [(16 * i, line, None, None) for i, line in enumerate(lines)])


@given(st.integers(0, 2000), st.integers(0, 255), st.integers(0, 60_000))
def test_damaged_images_are_refused_or_read(at: int, byte: int, cut: int) -> None:
    whole = bytearray(data(cubin("separate.sm_80")))
    whole[at % len(whole)] = byte
    try:
        elf.read_image(bytes(whole[: len(whole) - cut % len(whole)]))
    except elf.Damage as damage:
        assert str(damage)


def test_control_words_of_known_encodings() -> None:
    found = control_fields.of_words(0x000FE20000000800)
    assert (found.stall, found.yields, found.waits, found.reuse) == (1, False, (), 0)
    assert (found.write_barrier, found.read_barrier) == (None, None)
    found = control_fields.of_words(0x001FCC00078E0204)
    assert (found.stall, found.yields, found.waits, found.reuse) == (6, True, (0,), 0)


# --- bad input, through the command


def refused(path: Path, *words: str, arguments: tuple[str, ...] = (), status: int = 3) -> None:
    done = kscope("sass", str(path), *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1), done.stderr
    assert path.name in done.stderr and all(word in done.stderr for word in words), done.stderr


def test_bad_input_is_status_3_and_one_line(tmp_path: Path) -> None:
    whole = data(cubin("calls.sm_90a"))

    def file(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    refused(tmp_path / "absent.cubin", "no such file")
    refused(file("empty.cubin", b""), "empty")
    refused(file("header.cubin", whole[:40]), "shorter than an ELF header")
    refused(file("cut.cubin", whole[: len(whole) // 2]), "truncated")
    old = bytearray(whole)
    old[48:52] = (70 << 8 | 0x0A000004).to_bytes(4, "little")
    refused(file("volta.cubin", bytes(old)), "sm_70", "CUDA 12.x")
    wrong = bytearray(whole)
    wrong[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
    refused(file("wrong.cubin", bytes(wrong)), "no GPU machine code")
    refused(Path("/bin/sh").resolve(), "no GPU machine code")
    refused(file("notes.sass", b"What a listing would look like:\n/*0000*/\n"), "no SASS listing")
    refused(file("kernel.ptx", b"//\n// PTX\n.version 8.8\n.target sm_90a\n.entry k() { no; }\n"), "ptxas")
    refused(file("noise.cubin", bytes(range(256)) * 4), "no machine code")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no machine code in any of its files")
    refused(cubin("calls.sm_90a"), "no function matches", arguments=("--function", "nothing_like_it"), status=2)
    refused(cubin("calls.sm_90a"), "no code for sm_120", arguments=("--arch", "sm_120"))


def test_bad_input_as_json(tmp_path: Path) -> None:
    path = tmp_path / "empty.cubin"
    path.touch()
    done = kscope("sass", str(path), "--format", "json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"]) == (3, "empty-file")
    assert error["message"] and error["hint"]


def test_a_missing_tool_is_status_4(tmp_path: Path) -> None:
    done = kscope("sass", str(cubin("calls.sm_90a")), env={"KSCOPE_NVDISASM": str(tmp_path / "nvdisasm")})
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1 and "pip install nvidia-cuda-nvdisasm" in done.stderr


def test_wrong_usage_is_status_2() -> None:
    path = str(cubin("calls.sm_90a"))
    assert kscope("sass", path, "--arch", "ampere").returncode == 2
    assert kscope("sass", path, "--function", "(").returncode == 2
