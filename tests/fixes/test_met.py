"""Atomics of lanes that meet at one place: which ones are found in texts, and what they become."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.atomics import regions
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Text
from kscope.fixes.shared_sums import lanes, met
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import ABOVE, BELOW, changes, diagnosed
from tools.fixes_pairs import facts


def found(code: str) -> list[tuple[str, str]]:
    """(what stands in its place, its address) of each atomic of a text."""
    return [(met._name(one), one.address) for one in met._atomics(Text("f.cu", 1, code))]


def met_in(case: str) -> list[Fix]:
    """Of a capture, whatever else is proposed for it."""
    (finding,) = [f for f in diagnosed(case).findings if f.code == "MEM109"]
    return met.fixes(Asked(setting_of(facts(case), lambda file: ABOVE(file) or BELOW(file)), finding))


def test_a_table_that_blocks_add_to() -> None:
    (fix,) = met_in("atomics.slow")
    assert fix.edits and all("_lanes(" in e.becomes for e in fix.edits)
    assert fix.proof[0].before >= 2 * fix.proof[0].after > 0
    assert "__match_any_sync" in fix.code and fix.price is not None


def test_what_a_block_puts_together_goes_first() -> None:
    (fix,) = changes("best.each", "MEM109")
    assert fix.title != met_in("best.each")[0].title


def test_lanes_that_do_not_meet_are_left() -> None:
    assert not met_in("embed_grad.scatter")


def test_what_stands_alone_and_what_is_used() -> None:
    code = "__global__ void k() {\n  if (a) atomicAdd(&n[b[i]], 1u);\n  else { p = atomicAdd(next + c, w[i]); }\n"
    code += "  q[atomicAdd(&m, 1)] = 2;\n  atomicAdd(&s[c], v);\n"
    code += "  for (;;) atomicMax(&t[c], v);\n  r = atomicMax(&t[c], v);\n}"
    assert found(code) == [
        ("count_lanes", "&n[b[i]]"), ("places_of_lanes", "next + c"), ("place_of_lane", "&m"),
        ("add_of_lanes", "&s[c]"), ("max_of_lanes", "&t[c]"),
    ]  # fmt: skip


def test_other_names_of_the_atomic() -> None:
    code = "__global__ void k() {\n  at::native::gpuAtomicAdd(out + i, v);\n  ::atomicAdd(&n[c], 1);\n}"
    met_here = met._atomics(Text("f.cu", 1, code))
    assert {code[one.start : one.end].split("(")[0] for one in met_here} == {"at::native::gpuAtomicAdd", "::atomicAdd"}
    assert {met._name(one) for one in met_here} == {"add_of_lanes", "count_lanes"}


def test_a_reference_that_the_host_has_too() -> None:
    code = "__host__ __device__ void f(unsigned& n) {\n  x::device_atomic_ref<unsigned> all(n);\n"
    code += "  at =\n      all.fetch_add(2);\n}"
    (one,) = met._atomics(Text("f.cu", 1, code))
    assert (one.kind, one.address, met._name(one)) == ("unsigned", "&(n)", "place_of_lane")


def test_shared_memory_is_named() -> None:
    code = "__global__ void k() {\n  extern __shared__ int table[];\n  int* own = table + 4;\n  int* far = out + 4;\n}"
    assert regions.shared_names([Text("f.cu", 1, code)]) == {"table", "own"}


def test_functions_are_found_once() -> None:
    code = "template <class T>\n__device__ void put(T* a) { atomicAdd(a, 1); }\nvoid put2() { put(x); }\n"
    (one,) = regions._defined("f.cu", code, "put")
    assert one.first == 1 and one.code.endswith("1); }")
    assert not list(regions._defined("f.cu", "__global__ void put(int* a) { }", "put"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_helpers_compile(tmp_path: Path) -> None:
    names = [lanes.combining(f) for f in lanes.STEPS]
    uses = "".join(f"  {s}_of_lanes(n + i % 3, i);\n" for s, _ in lanes.STEPS.values())
    code = "\n".join([*names, *lanes.COUNTING, lanes.PLACING])
    code += "\n__global__ void k(unsigned* n, float* f, double* d, unsigned long long* u) {\n"
    code += f"  int i = threadIdx.x;\n{uses}"
    code += "  count_lanes(u + i % 2, 1);\n  add_of_lanes(f, 0.5 * i);\n  add_of_lanes(d, i);\n"
    code += "  u[i] = places_of_lanes(n, i) + place_of_lane(n, 1);\n}\n"
    (tmp_path / "k.cu").write_text(code)
    subprocess.run(["nvcc", "-arch=sm_90", "-c", "-o", "k.o", "k.cu"], cwd=tmp_path, check=True)


def test_numbers_that_lanes_have_of_their_own_are_no_constants() -> None:
    """What looks like a type's value may be an element's, or a function's."""
    code = "__global__ void k() {\n  atomicAdd(&s[c], own(0)); atomicAdd(&s[c], float(2)); atomicAdd(&s[c], T(1));\n}"
    assert [name for name, _ in found(code)] == ["add_of_lanes", "count_lanes", "count_lanes"]
