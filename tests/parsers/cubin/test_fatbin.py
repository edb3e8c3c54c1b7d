"""Device code in libraries whose sources share a name: every image is read, each once."""

from __future__ import annotations

import json
import lzma
import subprocess
from pathlib import Path

import pytest

from kscope.model.errors import KscopeError
from kscope.parsers import toolchain
from kscope.parsers.cubin import fatbin
from kscope.parsers.cubin.programs import read_programs
from tests.cli.running import kscope
from tests.support import thorough
from tests.support.sass import SOURCES as FOLDER

LIBRARIES = ("libtwins.a", "libtwins.so")
OPCODES = {"scale": "FMUL", "shift": "FADD"}
MAGIC = bytes.fromhex("50ed55ba")


def twins(name: str) -> bytes:
    return lzma.decompress((FOLDER / "twins" / f"{name}.xz").read_bytes())


def code(path: Path) -> dict[str, tuple[str, bool]]:
    """function -> (image, it has its own opcode)."""
    return {
        f.name: (cubin.member, any(ins.opcode == OPCODES[f.name] for ins in f.instructions))
        for cubin in read_programs(path) for f in cubin.functions
    }  # fmt: skip


@pytest.mark.parametrize("name", LIBRARIES)
def test_two_sources_of_one_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(twins(name))
    images = {"scale": ("kernel.sm_90.cubin", True), "shift": ("kernel.sm_90.cubin#2", True)}
    assert code(path) == images
    assert code(FOLDER / "twins" / f"{name}.xz") == images
    (only,) = read_programs(path, function="shift")
    assert [f.name for f in only.functions] == ["shift"] and only.member == "kernel.sm_90.cubin#2"


def test_each_program_of_the_json_is_another(tmp_path: Path) -> None:
    done = kscope("sass", FOLDER / "twins" / "libtwins.a.xz", "--format", "json")
    found = [(p["member"], [f["name"] for f in p["functions"]]) for p in json.loads(done.stdout)["programs"]]
    assert found == [("kernel.sm_90.cubin", ["scale"]), ("kernel.sm_90.cubin#2", ["shift"])], done.stderr


def test_images_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    """One fatbin with two images of one name: none is shown twice, none is left out in silence."""
    whole = twins("libtwins.so")
    first = whole.index(MAGIC)
    second = whole.index(MAGIC, first + 4)
    sizes = [int.from_bytes(whole[at + 8 : at + 16], "little") for at in (first, second)]
    images = [whole[at + 16 : at + 16 + size] for at, size in zip((first, second), sizes, strict=True)]
    path = tmp_path / "both.fatbin"
    path.write_bytes(whole[first : first + 8] + sum(sizes).to_bytes(8, "little") + b"".join(images))
    with pytest.raises(KscopeError, match=r"2 images are called kernel\.sm_90\.cubin, and 1 of them") as caught:
        read_programs(path)
    assert caught.value.status == 3 and str(path) in caught.value.message


def test_an_image_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "cuobjdump"
    tool.write_text("#!/bin/sh\necho 'ELF file    1: a.sm_90.cubin'; echo 'ELF file    2: something else'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("KSCOPE_CUOBJDUMP", str(tool))
    with pytest.raises(KscopeError, match="lists 2 images, 1 of them without a known name"):
        fatbin.members(tmp_path / "x.so", tmp_path / "x.so")


def test_a_magic_number_in_other_bytes_is_no_fatbin(tmp_path: Path) -> None:
    """Neither at the end of the file, nor with a size beyond it, nor across the pieces that are searched."""
    whole = twins("libtwins.a")
    noise = MAGIC + b"\1\0\x10\0" + b"\xff" * 8
    path = tmp_path / "noisy.a"
    path.write_bytes(noise + bytes(fatbin._PIECE - len(noise) - whole.index(MAGIC) - 2) + whole + MAGIC)
    with path.open("rb") as file:
        assert [size for _, size in fatbin._fatbins(file)] == [5560, 5560]


@thorough.only
@pytest.mark.slow
def test_linked_code_and_the_objects_it_was_linked_of(tmp_path: Path) -> None:
    """An executable keeps unlinked objects beside the linked image: those are not shown, whatever they are called."""
    nvcc = toolchain.locate("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not here")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "kernel.cu").write_text("__global__ void linked(float* x) { x[0] = 1; }\n")
    (tmp_path / "main.cu").write_text("int main() { return 0; }\n")
    sources = ["main.cu", *(str(FOLDER / "twins" / name / "kernel.cu") for name in OPCODES)]
    commands = [[nvcc, "-arch=sm_90", "-lineinfo", "-c", s, "-o", f"{i}.o"] for i, s in enumerate(sources)]
    commands.append([nvcc, "-arch=sm_90", "-lineinfo", "-rdc=true", "-c", "part/kernel.cu", "-o", "3.o"])
    commands.append([nvcc, "-arch=sm_90", *(f"{i}.o" for i in range(4)), "-o", "program"])
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
    found = read_programs(tmp_path / "program")
    names = sorted(f.name for cubin in found for f in cubin.functions)
    assert names == ["_Z6linkedPf", "scale", "shift"]
