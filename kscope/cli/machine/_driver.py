"""The driver API and NVRTC through ctypes, as far as _roofs.py needs them: the standard library alone."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

ATTRIBUTES = {"cc_major": 75, "cc_minor": 76, "sms": 16, "clock_khz": 13, "l2_bytes": 38, "memory_clock_khz": 36,
              "bus_bits": 37}  # fmt: skip
"""CUdevice_attribute of cuda.h."""


class Fault(Exception):
    def __init__(self, status: int, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.status, self.code, self.hint = status, code, hint


def library(names: list[str], what: str, hint: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Fault(4, f"no-{what}", f"{what} cannot be loaded", hint)


def nvrtc_names() -> list[str]:
    """Where NVRTC may be: beside torch or in nvidia's wheels, in a toolkit, wherever the loader looks."""
    names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
    named = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")]
    toolkits = [*named, *sorted(glob.glob("/usr/local/cuda*"))]
    found: list[str] = []
    for folder in [p for p in sys.path if p]:
        found += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so.*[0-9]")), reverse=True)
        found += sorted(glob.glob(os.path.join(folder, "torch", "lib", "libnvrtc*.so*")), reverse=True)
    for root in filter(None, toolkits):
        found += glob.glob(os.path.join(root, "lib64", "libnvrtc.so*"))
        found += glob.glob(os.path.join(root, "targets", "*", "lib", "libnvrtc.so*"))
    return [f for f in found if "builtins" not in f] + names


def compiled(nvrtc: ctypes.CDLL, source: str, cc: int) -> bytes:
    """A cubin for one target. Raises Fault with the first line of the compiler's log."""
    program = c_void_p()
    nvrtc.nvrtcCreateProgram(byref(program), source.encode(), b"roofs.cu", 0, None, None)
    options = [f"--gpu-architecture=sm_{cc}".encode(), b"--std=c++17"]
    result = nvrtc.nvrtcCompileProgram(program, len(options), (c_char_p * len(options))(*options))
    if result:
        size = c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, byref(size))
        log = ctypes.create_string_buffer(max(size.value, 1))
        nvrtc.nvrtcGetProgramLog(program, log)
        lines = [line for line in log.value.decode(errors="replace").splitlines() if line.strip()]
        raise Fault(3, "nvrtc", f"NVRTC does not compile for sm_{cc}: {lines[0] if lines else f'error {result}'}",
                    "use an NVRTC that knows this GPU (pip install --upgrade nvidia-cuda-nvrtc)")  # fmt: skip
    size = c_size_t()
    if nvrtc.nvrtcGetCUBINSize(program, byref(size)) or not size.value:
        raise Fault(3, "nvrtc", f"NVRTC gives no code for sm_{cc}", "use NVRTC 11.1 or later")
    code = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(byref(program))
    return code.raw


class Gpu:
    """The driver API as far as it is needed. Every call that fails raises Fault."""

    def __init__(self, number: int) -> None:
        self.cu = library(["libcuda.so.1", "libcuda.so", "nvcuda.dll"], "driver",
                          "run on a machine with an NVIDIA GPU and its driver")  # fmt: skip
        if (result := self.cu.cuInit(0)) != 0:
            raise Fault(4, "no-gpu", f"the driver finds no GPU that it can use ({self.words(result)})",
                        "check nvidia-smi; in a container, start it with its GPUs")  # fmt: skip
        count = c_int()
        self.call("cuDeviceGetCount", byref(count))
        if number >= count.value:
            raise Fault(4, "no-gpu", f"there is no GPU {number}: {count.value} found", "give --device a lower number")
        self.device = c_int()
        self.call("cuDeviceGet", byref(self.device), c_int(number))
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, c_int(256), self.device)
        self.name = name.value.decode(errors="replace")
        self.has = {}
        for key, attribute in ATTRIBUTES.items():
            value = c_int()
            self.call("cuDeviceGetAttribute", byref(value), c_int(attribute), self.device)
            self.has[key] = value.value
        total = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(total), self.device)
        self.memory = total.value
        self.cc = 10 * self.has["cc_major"] + self.has["cc_minor"]
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), self.device)  # the one that torch uses
        self.call("cuCtxSetCurrent", context)
        self.events = [c_void_p(), c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", byref(event), c_uint(0))
        self.module = c_void_p()

    def words(self, result: int) -> str:
        text = c_char_p()
        self.cu.cuGetErrorString(c_int(result), byref(text))
        return text.value.decode() if text.value else f"error {result}"

    def call(self, name: str, *args: Any) -> None:
        if (result := getattr(self.cu, name)(*args)) != 0:
            hint = "is the GPU in use by others, or its memory full?"
            raise Fault(3, "driver", f"{name} failed: {self.words(result)}", hint)

    def load(self, cubin: bytes) -> None:
        self.call("cuModuleLoadData", byref(self.module), cubin)

    def allocate(self, size: int) -> c_uint64:
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        self.call("cuMemsetD32_v2", pointer, c_uint(0x3F800001), c_size_t(size // 4))
        return pointer

    def free(self, pointer: c_uint64) -> None:
        self.call("cuMemFree_v2", pointer)

    def read(self, pointer: c_uint64, count: int) -> list[int]:
        """Unsigned 64-bit values."""
        values = (c_uint64 * count)()
        self.call("cuMemcpyDtoH_v2", values, pointer, c_size_t(8 * count))
        return list(values)

    def launch(self, kernel: str, blocks: int, threads: int, *args: Any) -> float:
        """Milliseconds of one launch."""
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), self.module, kernel.encode())
        pointers = (c_void_p * len(args))(*(ctypes.addressof(a) for a in args))
        self.call("cuEventRecord", self.events[0], None)
        one = c_uint(1)
        self.call("cuLaunchKernel", function, c_uint(blocks), one, one, c_uint(threads), one, one, c_uint(0), None,
                  pointers, None)  # fmt: skip
        self.call("cuEventRecord", self.events[1], None)
        self.call("cuEventSynchronize", self.events[1])
        elapsed = c_float()
        self.call("cuEventElapsedTime", byref(elapsed), *self.events)
        return elapsed.value
