"""Code of Blackwell that no chip here runs: our own kernels as nvcc compiles them (fixtures/sass)."""

from __future__ import annotations

import pytest

from kscope.features.specialized.roles import EPILOGUE, MMA, PRODUCER, find_roles
from kscope.features.specialized.wait_sites import find_waits
from kscope.isa.families import family
from tests.features.specialized.test_roles import static
from tests.support import sass
from tests.support.thorough import some

DATACENTER = ["sm_100a", "sm_103a", "sm_110a"]
OWN = [(unit["source"], arch) for unit in sass.MANIFEST["unit"] for arch in unit["archs"]]


@pytest.mark.parametrize(("source", "arch"), some([pair for pair in OWN if int(pair[1][3:].rstrip("a")) >= 100], 5))
def test_every_opcode_has_its_place(source: str, arch: str) -> None:
    for name, program in sass.functions(source, arch).items():
        code = static(program)
        unknown = {ins.name for ins, op in zip(code, code.classes, strict=True) if not op.known}
        assert not unknown, name


@pytest.mark.parametrize("arch", DATACENTER)
def test_roles_of_a_pair_of_blocks(arch: str) -> None:
    """Both blocks load, one thread of the first multiplies for both, four warps of each store. The copies of both
    signal the first block's barriers: their addresses have the peer's bit masked off."""
    code = static(sass.functions("clusters.cu", arch)["pair_gemm"], 8)
    roles = find_roles(code)
    assert roles is not None and [r.name for r in roles.roles] == [PRODUCER, MMA, EPILOGUE]
    waits = find_waits(code, roles)
    assert (waits.stages, waits.stage_bytes) == (4, 32768)
    ends = {(w.role, w.unit, w.signallers) for w in waits.sites if w.kind == "mbarrier" and w.role != "all"}
    assert ends == {
        (PRODUCER, "tensor", (MMA,)), (MMA, "memory", (PRODUCER,)), (EPILOGUE, "tensor", (MMA,)),
    }  # fmt: skip
    assert {w.unit for w in waits.sites if w.kind == "cluster"} == {"cluster"}


@pytest.mark.parametrize("arch", [*DATACENTER])
def test_a_block_waits_for_whose_work_it_takes(arch: str) -> None:
    """Cluster launch control: the answer completes the barrier, not the arrival that announces its bytes."""
    code = static(sass.functions("clusters.cu", arch)["scale_clc"], 4)
    assert find_roles(code) is None
    (wait,) = (w for w in find_waits(code, None).sites if w.kind == "mbarrier")
    assert wait.unit == "work"


@pytest.mark.parametrize("arch", DATACENTER)
def test_products_wait_for_operands_in_tensor_memory(arch: str) -> None:
    code = static(sass.functions("clusters.cu", arch)["from_tmem"], 4)
    sites = find_waits(code, None).sites
    assert {w.unit for w in sites if w.kind == "tmem"} == {"tensor"}  # what STTM wrote, before the product reads it
    assert {w.unit for w in sites if w.kind == "mbarrier"} == {"tensor"}


@pytest.mark.parametrize(("name", "bits"), [("scaled_nvfp4", "OMMA"), ("scaled_mxfp8", "QMMA"), ("plain_fp8", "QMMA")])
@pytest.mark.parametrize("arch", ["sm_120a", "sm_121a"])
def test_scaled_products_of_a_warp_are_matrix_instructions(name: str, bits: str, arch: str) -> None:
    program = sass.functions("scaled.cu", arch)[name]
    code = static(program)
    products = [i for i, ins in enumerate(code) if ins.opcode == bits]
    assert products and all("tensor" in code.classes[i].kind for i in products)
    assert bits in family("packed_mma_sync") and bits in family("tile_use")
    assert ("SF" in program.instructions[products[0]].mods) == name.startswith("scaled")
    assert find_roles(code) is None
