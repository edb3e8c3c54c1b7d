"""Measures what a GPU attains and prints it as JSON: `kscope arch --measure`.

    python _roofs.py [--device N] [--no-torch] [--cubin FILE]

Runs in any interpreter, where kscope need not be installed: the standard library, the driver (libcuda) and NVRTC
through ctypes; torch, where it is there, for the peaks that cuBLAS reaches. What is measured is the median of RUNS
launches of about RUN_MS each, after a warm-up that lets clocks and power settle. Exit status: 0 measured, 3 a call
of the driver failed, 4 no driver, GPU or NVRTC; the fault is then JSON too: {"error": {"code", "message", "hint"}}.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from ctypes import byref, c_int, c_uint64
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

HERE = os.path.realpath(os.path.dirname(__file__))
if __name__ == "__main__" and sys.path and os.path.realpath(sys.path[0] or ".") == HERE:
    del sys.path[0]

SCHEMA = "kscope.roofs/1"
RUNS = 15
RUN_MS = 20.0
WARM_MS = 500.0
KERNELS = Path(__file__).with_name("_roofs.cu")


def beside(name: str) -> ModuleType:
    """A module of this folder, which is on no path: its other modules must not shadow the interpreter's."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from kscope.cli.machine._driver import Fault, Gpu, compiled, library, nvrtc_names
else:
    driver = beside("_driver")
    Fault, Gpu, compiled, library, nvrtc_names = (
        driver.Fault, driver.Gpu, driver.compiled, driver.library, driver.nvrtc_names
    )  # fmt: skip


def median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def rate(gpu: Gpu, kernel: str, blocks: int, threads: int, amount: float, *args: Any) -> float:
    """amount a second, amount being what one repetition does; the kernel's last argument is how many it does."""
    once = max(gpu.launch(kernel, blocks, threads, *args, c_int(1)) for _ in range(2))
    repeat = max(1, min(1 << 20, round(RUN_MS / max(once, 1e-3))))
    for _ in range(2):  # a single repetition is mostly launch
        took = gpu.launch(kernel, blocks, threads, *args, c_int(repeat))
        repeat = max(1, min(1 << 24, round(repeat * RUN_MS / max(took, 1e-3))))
    warm = 0.0
    while warm < WARM_MS:
        warm += gpu.launch(kernel, blocks, threads, *args, c_int(repeat))
    times = [gpu.launch(kernel, blocks, threads, *args, c_int(repeat)) for _ in range(RUNS)]
    return amount * repeat / (median(times) / 1e3)


def bandwidths(gpu: Gpu, out: c_uint64, rates: dict[str, float]) -> None:
    sms, l2 = gpu.has["sms"], max(gpu.has["l2_bytes"], 1 << 20)
    size = min(4 << 30, gpu.memory // 8) // (1 << 20) * (1 << 20)  # so big that L2 answers next to nothing
    a, b = gpu.allocate(size), gpu.allocate(size)
    lines = c_uint64(size // 16)
    rates["dram_bytes_per_s"] = max(
        rate(gpu, "read_all", sms * per, 512, float(size), a, lines, out) for per in (4, 8, 16)
    )
    rates["dram_copy_bytes_per_s"] = max(
        rate(gpu, "copy_all", sms * per, 512, 2.0 * size, a, b, lines) for per in (4, 16)
    )
    small = l2 // 4 // (1 << 20) * (1 << 20) or l2 // 4
    rates["l2_bytes_per_s"] = rate(gpu, "read_l2", sms * 2, 1024, float(small), a, c_uint64(small // 16), out)
    gpu.free(a)
    gpu.free(b)
    per_block = 256 * 16.0 * 64  # threads, bytes, loads a repetition
    rates["shared_bytes_per_s"] = rate(gpu, "read_shared", sms * 4, 256, sms * 4 * per_block, out)


def arithmetic(gpu: Gpu, out: c_uint64, rates: dict[str, float], clocks: dict[str, float]) -> None:
    """Multiply-adds on the CUDA cores and mma.sync; the clock under each load, from the kernel itself."""
    blocks = gpu.has["sms"] * 4
    work = 2.0 * 512 * 8 * 64  # FLOP of a block and repetition: threads, chains, steps
    for kernel, name in (("fma_fp32", "fp32"), ("fma_fp64", "fp64")):
        rates[name] = rate(gpu, kernel, blocks, 512, blocks * work, out)
        clocks[name] = clock(gpu, out)
    if gpu.cc >= 80:
        tensor = 2.0 * 16 * 8 * 16 * 8 * 16 * 16  # m, n, k, accumulators, steps, warps of a block
        rates["bf16_mma_sync"] = rate(gpu, "mma_bf16", blocks, 512, blocks * tensor, out)
        clocks["bf16_mma_sync"] = clock(gpu, out)


def clock(gpu: Gpu, out: c_uint64) -> float:
    """Hz of the SM during the last launch: its cycle counter over the global timer."""
    cycles, nanoseconds = gpu.read(out, 2)
    return 1e9 * cycles / nanoseconds if nanoseconds else 0.0


def latencies(gpu: Gpu, out: c_uint64) -> dict[str, float]:
    """Cycles of a load by the level that answers it: a chain of addresses through a buffer, in the order of a linear
    congruential generator of full period, a line of 128 bytes each."""
    found = {}
    biggest = 1 << 24
    while biggest * 128 > gpu.memory // 4:
        biggest //= 2
    levels = (("l1", 1 << 7, 1 << 12, 1), ("l2", 1 << 14, 1 << 14, 1), ("dram", biggest, 1 << 14, 0))
    for level, lines, hops, around in levels:
        buffer = gpu.allocate(lines * 128)
        gpu.launch("make_chain", 1024, 256, buffer, c_uint64(lines))
        cached = c_int(1 if level == "l1" else 0)
        taken = []
        for run in range(5):
            gpu.launch("chase", 1, 1, buffer, c_uint64((run * 7919) % lines), c_int(hops), c_int(around), cached, out)
            taken.append(gpu.read(out, 1)[0] / hops)
        found[level] = round(median(taken), 1)
        gpu.free(buffer)
    return found


def products(device: int, cc: int, rates: dict[str, float], notes: list[str]) -> None:
    """Peaks of cuBLAS through torch, the best of some shapes."""
    try:
        import torch
    except ImportError:
        notes.append("torch is not installed here: tensor peaks are mma.sync's, which newer chips exceed; name an "
                     "interpreter that has it with --python")  # fmt: skip
        return
    if not torch.cuda.is_available():
        notes.append(f"torch {torch.__version__} cannot use the GPU: no peaks of cuBLAS")
        return
    torch.cuda.set_device(device)
    shapes = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 13312), (6144, 17920, 2816))
    since = {"fp64_tensor": 80, "tf32": 80, "fp16": 70, "bf16": 80, "int8": 75, "fp8": 89}
    for name, first in since.items():
        if cc < first or (name == "fp64_tensor" and cc not in (80, 90, 100)):
            continue
        best, fault = 0.0, ""
        for shape in shapes[: 1 if name == "fp64_tensor" else None]:
            try:
                best = max(best, product(torch, name, *shape))
            except Exception as e:  # a type that this chip or this torch lacks
                fault = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:160]
                break
        if best:
            rates[name] = best
        else:
            notes.append(f"{name} products were not measured: {fault}")


def product(torch: Any, name: str, m: int, n: int, k: int) -> float:
    """FLOP/s of m x n x k, the median over at least 0.5 s after as much warm-up."""
    kinds = {"fp64_tensor": torch.float64, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    torch.backends.cuda.matmul.allow_tf32 = True
    if name in kinds:
        a, b = (torch.randn(s, device="cuda", dtype=kinds[name]) for s in ((m, k), (k, n)))

        def run() -> Any:
            return a @ b
    elif name == "int8":
        a = torch.randint(-8, 8, (m, k), device="cuda", dtype=torch.int8)
        b = torch.randint(-8, 8, (n, k), device="cuda", dtype=torch.int8).t()

        def run() -> Any:
            return torch._int_mm(a, b)
    else:
        a = torch.randn((m, k), device="cuda").to(torch.float8_e4m3fn)
        b = torch.randn((n, k), device="cuda").to(torch.float8_e4m3fn).t()
        one = torch.tensor(1.0, device="cuda")

        def run() -> Any:
            return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[float] = []
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        run()
        torch.cuda.synchronize()
    begun = time.monotonic()
    while time.monotonic() - begun < 0.5 or (len(times) < RUNS and time.monotonic() - begun < 3.0):
        begin.record()
        for _ in range(4):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 4)
    return 2.0 * m * n * k / (median(times) / 1e3)


def code_for(gpu: Gpu, cubin: str | None) -> bytes:
    """The kernels for the GPU: by NVRTC, or compiled beforehand (nvcc -cubin -arch=sm_90 _roofs.cu)."""
    if cubin is not None:
        try:
            return Path(cubin).read_bytes()
        except OSError as e:
            raise Fault(3, "unreadable", f"{cubin}: {e.strerror}", "name the cubin that nvcc wrote") from None
    nvrtc = library(nvrtc_names(), "NVRTC", "pip install nvidia-cuda-nvrtc, or set CUDA_HOME to a CUDA toolkit")
    return compiled(nvrtc, KERNELS.read_text(encoding="utf-8"), gpu.cc)


def measure(device: int, *, use_torch: bool, cubin: str | None = None) -> dict[str, Any]:
    gpu = Gpu(device)
    gpu.load(code_for(gpu, cubin))
    out = gpu.allocate(1 << 20)
    rates: dict[str, float] = {}
    clocks: dict[str, float] = {}
    notes: list[str] = []
    bandwidths(gpu, out, rates)
    arithmetic(gpu, out, rates, clocks)
    waits = latencies(gpu, out)
    if use_torch:
        products(device, gpu.cc, rates, notes)
    legacy = rates.pop("bf16_mma_sync", 0.0)
    if legacy and "bf16" not in rates and not 90 <= gpu.cc < 120:  # wgmma and tcgen05 are faster than mma.sync there
        rates["bf16"] = legacy
    version = c_int()
    gpu.call("cuDriverGetVersion", byref(version))
    return {
        "schema": SCHEMA, "device": gpu.name, "cc": gpu.cc, "day": time.strftime("%Y-%m-%d"), "rates": rates,
        "mma_sync_bf16": legacy or None, "clocks_hz": clocks, "latency_cycles": waits, "attributes": gpu.has,
        "driver": version.value, "notes": notes,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a GPU attains; prints JSON.")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--cubin", metavar="FILE", help="The kernels, compiled by nvcc, where there is no NVRTC.")
    given = parser.parse_args()
    try:
        print(json.dumps(measure(given.device, use_torch=not given.no_torch, cubin=given.cubin), indent=1))
    except Fault as fault:
        print(json.dumps({"error": {"code": fault.code, "message": str(fault), "hint": fault.hint}}))
        return fault.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
