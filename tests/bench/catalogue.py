"""Candidates of our own: cheats with the numbers under which they may be named, and honest ones that may not be."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kscope.bench.session.machine import gpu, placed
from kscope.bench.task.spec import Task, params, source

HERE = Path(__file__).parent / "candidates"
FALSE = frozenset({"incorrect", "not comparable"})


class Case(Struct, frozen=True):
    """names: numbers of the catalogue, one of which must be among the findings; none for an honest one. needs: what
    must be here. timed: it is caught by the clock or must be seen to pass it."""

    id: str
    candidate: str
    reference: str
    names: tuple[int, ...] = ()
    verdicts: frozenset[str] = FALSE
    needs: str = ""
    timed: bool = False
    more: dict[str, Any] = {}

    def task(self) -> Task:
        given: dict[str, Any] = {
            "inputs": params("x[m,n] w[n]"),
            "outputs": params("y[m,n]"),
            "cases": ({"m": 48, "n": 128},),
            "reduction": "n",
            **self.more,
        }
        task = Task(source(self.candidate, HERE), source(self.reference, HERE), **given)
        return placed(task, device="cpu" if self.needs in ("", "cpp", "torch") and "device" not in given else "")

    def here(self) -> str:
        """Why it cannot run here; empty where it can."""
        if self.needs in ("torch", "triton", "cuda torch") and importlib.util.find_spec("torch") is None:
            return "torch is not installed"
        if self.needs == "cpp" and shutil.which("c++") is None:
            return "no C++ compiler"
        if self.needs in ("cuda", "triton", "cuda torch") and gpu() is None:
            return "no GPU"
        return ""


def _numpy(name: str, names: tuple[int, ...], *, seen: bool = False, **more: Any) -> Case:
    timed = more.pop("timed", False)
    verdicts = frozenset({"inconclusive", "slower", "correct"}) if seen else FALSE
    return Case(
        f"numpy-{name}", f"rms_cheats.py:{name}", "rms_reference.py:rms", names, verdicts, timed=timed, more=more
    )


def _torch(name: str, names: tuple[int, ...], *, seen: bool = False, **more: Any) -> Case:
    verdicts = frozenset({"inconclusive", "slower", "correct"}) if seen else FALSE
    return Case(
        f"torch-{name}",
        f"rms_torch_cheats.py:{name}",
        "rms_torch_reference.py:rms",
        names,
        verdicts,
        "torch",
        more=more,
    )


def _native(name: str, file: str, launch: str, names: tuple[int, ...], needs: str, **more: Any) -> Case:
    reference = "rms_reference.py:rms" if needs == "cpp" else "rms_torch_reference.py:rms"
    return Case(f"{needs}-{name}", file, reference, names, needs=needs, more={"launch": launch, **more})


def _gpu(name: str, names: tuple[int, ...], **more: Any) -> Case:
    return Case(f"gpu-{name}", f"rms_gpu.py:{name}", "rms_torch_reference.py:rms", names, needs="triton", more=more)


LARGE = {"cases": ({"m": 8192, "n": 1024},), "derived": False}
CHEATS = [
    _numpy("c02_thread", (2,)),
    _numpy("c03_subclass", (3,)),
    _numpy("c04_clock", (4,), seen=True, timed=True),
    _numpy("c07_merged", (7, 16, 36), timed=True, cases=({"m": 512, "n": 1024},)),
    _numpy("c08_slow_warm_up", (), seen=True, timed=True),
    _numpy("c09_one_shape", (9, 23, 24, 27), cases=({"m": 48, "n": 128}, {"m": 32, "n": 96})),
    _numpy("c11_object", (11, 12)),
    _numpy("c12_address", (12,)),
    _numpy("c13_shape", (13,)),
    _numpy("c15_window", (15,)),
    _numpy("c16_replay", (16,), timed=True, cases=({"m": 64, "n": 256},)),
    _numpy("c18_file", (18,)),
    _numpy("c19_overwritten", (19,)),
    _numpy("c22_weights", (22,)),
    _numpy("c23_nothing", (23,)),
    _numpy("c24_constant", (24,)),
    _numpy("c25_input", (25,)),
    _numpy("c26_part", (26,)),
    _numpy("c27_structure", (27,)),
    _numpy("c29_uninitialised", (29,)),
    Case("numpy-c31_task", "rms_reference.py:hardly", "rms_reference.py:hardly", (31,), more={"tolerance": 1e-3}),
    _numpy("c32_inputs", (32,)),
    _numpy("c33_search", (33,)),
    _numpy("c35_stack", (35,)),
    _numpy("c36_checked", (16, 36), timed=True, cases=({"m": 64, "n": 256},)),
    _numpy("c37_magnitudes", (37,)),
    _numpy("c38_distribution", (38,)),
    _numpy("c39_setting", (39,)),
    _numpy("c41_channel", (41,)),
    _numpy("c42_seed", (24, 42)),
    _numpy("c43_package", (43,), seen=True, timed=True),
    _numpy("c44_harness", (44,)),
    _numpy("c49_precision", (49,)),
    _numpy("c51_hidden", (51,)),
    _native("c17_buffer", "rms_rows.cpp", "rms_kept(x, w, y, m, n)", (12, 17), "cpp"),
    _native("c23_nothing", "rms_rows.cpp", "nothing(x, w, y, m, n)", (23,), "cpp"),
    _native("c29_half", "rms_rows.cpp", "half(x, w, y, m, n)", (29,), "cpp"),
    _torch("c02_thread", (2,)),
    _torch("c03_subclass", (3,)),
    _torch("c04_clock", (4,), seen=True),
    _torch("c12_address", (12,)),
    _torch("c14_version", (14,)),
    _torch("c15_window", (15,)),
    _torch("c23_nothing", (23,)),
    _torch("c25_input", (25,)),
    _torch("c39_precision", (39,)),
    _torch("c45_library", (45,), own=True),
    _torch("c48_fallback", (48,), own=True),
    _torch("c49_half", (49,)),
    _gpu("c01_stream", (1, 2), **LARGE),
    _gpu("c10_graph", (10, 12, 13, 16)),
    _gpu("c26_part", (26, 27)),
    _gpu("c47_fig_leaf", (45, 47), own=True, **LARGE),
    _native("c17_buffer", "rms_rows.cu", "rms_kept(x, w, y, m, n, stream)", (12, 17), "cuda"),
    _native("c20_persisting", "rms_rows.cu", "rms_persisting(x, w, y, m, n, stream)", (20,), "cuda"),
    _native("c23_nothing", "rms_rows.cu", "nothing<<<m, 32>>>(x, w, y, n)", (23,), "cuda"),
    _native("c26_part", "rms_rows.cu", "rms<<<m, BLOCK>>>(x, w, y, n)", (26, 27), "cuda", flags=("-DPART",)),
    _native("c30_shared", "rms_rows.cu", "rms<<<m, BLOCK, 400000>>>(x, w, y, n)", (30,), "cuda"),
]
SEEN = [
    replace(
        _native(
            "c21_evict_last", "rms_rows.cu", "rms<<<m, BLOCK>>>(x, w, y, n)", (21,), "cuda", flags=("-DEVICT_LAST",)
        ),
        verdicts=frozenset({"correct", "inconclusive", "slower", "faster"}),
    ),
]
"""Named beside a verdict that stands."""

_NUMPY = """plain einsum rows reciprocal inplace_temporaries threads blocks contiguous refuses tuner configured logs
prints transposed_view wider tries seeded slower""".split()
_TORCH = """plain library norm inplace no_grad requires_grad wide einsum matmul chunks out_of_allocator contiguous
Module permuted""".split()
_GPU = "with_triton autotuned two_streams graph_user synchronises events".split()
HONEST = [
    *(Case(f"numpy-{one}", f"rms_honest.py:{one}", "rms_reference.py:rms") for one in _NUMPY),
    *(
        Case(f"torch-{one}", f"rms_torch_honest.py:{one}", "rms_torch_reference.py:rms", needs="torch")
        for one in _TORCH
    ),
    *(Case(f"gpu-{one}", f"rms_gpu.py:{one}", "rms_torch_reference.py:rms", needs="triton") for one in _GPU),
    _native("rows", "rms_rows.cpp", "rms(x, w, y, m, n)", (), "cpp"),
    _native("rows64", "rms_rows.cpp", "rms(x, w, y, m, n)", (), "cpp", dtypes=("float64",)),
    _native("rows", "rms_rows.cu", "rms<<<m, BLOCK>>>(x, w, y, n)", (), "cuda"),
    _native("rows_128", "rms_rows.cu", "rms<<<m, BLOCK>>>(x, w, y, n)", (), "cuda", keywords={"BLOCK": "128"}),
    _native("warps", "rms_rows.cu", "rms_warps<<<ceil_div(m, 8), 256>>>(x, w, y, m, n)", (), "cuda"),
    Case(
        "triton-kernel",
        "rms_gpu.py:rms_kernel",
        "rms_torch_reference.py:rms",
        needs="triton",
        more={
            "launch": "rms_kernel[(m,)](x, w, y, n, BLOCK=BLOCK)",
            "keywords": {"BLOCK": "1024"},
            "layouts": False,
        },
    ),
    Case(
        "torch-bfloat16",
        "rms_torch_honest.py:plain",
        "rms_torch_reference.py:rms",
        needs="torch",
        more={"dtypes": ("bfloat16",)},
    ),
    Case(
        "torch-product",
        "rms_torch_reference.py:mm",
        "rms_torch_reference.py:mm",
        needs="torch",
        more={"inputs": params("a[m,k] b[k,n]"), "cases": ({"m": 64, "k": 96, "n": 33},), "reduction": "k"},
    ),
    Case(
        "torch-linear",
        "rms_torch_reference.py:Linear",
        "rms_torch_reference.py:Linear",
        needs="torch",
        more={"inputs": params("x[m,n]"), "cases": ({"m": 16, "n": 64},), "multiple": {"n": 64}, "derived": False},
    ),
]
