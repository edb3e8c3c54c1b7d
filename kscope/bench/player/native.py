"""A shared library as a candidate: pointers to host memory, or to device memory through the CUDA runtime, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kscope.bench.task.build import ENTRY, MANY, MARK

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3  # cudaMemcpyKind
POISON = 0xFF  # every byte: NaN in all floating formats


class LaunchFailed(Exception):
    """The runtime reported an error after a launch."""


class Block:
    """An array in memory of a device or of the host. shift: bytes after an aligned address where it begins."""

    def __init__(self, side: Memory, shape: Sequence[int], dtype: str, shift: int) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype("uint16" if dtype == "bfloat16" else dtype)
        self.name = dtype
        self.bytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self.base = side.allocate(self.bytes + 512)
        self.address = self.base + shift

    @property
    def ndim(self) -> int:
        return len(self.shape)


class Memory:
    """Memory for a library on the host (`cpu`) or a CUDA device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.held: list[Any] = []
        self.runtime: Any = None
        if device == "cuda":
            self.runtime = runtime()
            self.runtime.cudaGetErrorString.restype = ctypes.c_char_p
            self._sync = self.runtime.cudaDeviceSynchronize

    def allocate(self, count: int) -> int:
        if self.runtime is None:
            space = np.zeros(count + 256, np.uint8)
            self.held.append(space)
            return int(space.ctypes.data + 255) & ~255
        pointer = ctypes.c_void_p()
        self.check(self.runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(count)))
        self.held.append(pointer)
        return int(pointer.value or 0)

    def free(self) -> None:
        if self.runtime is not None:
            for pointer in self.held:
                self.runtime.cudaFree(pointer)
        self.held = []

    def check(self, status: int) -> None:
        if status:
            raise LaunchFailed(self.runtime.cudaGetErrorString(status).decode())

    def started(self, status: int) -> None:
        """Raises LaunchFailed for what a library's function answers, where it is not 0."""
        if status:
            raise LaunchFailed(self.runtime.cudaGetErrorString(status).decode() if self.runtime else f"status {status}")

    def make(self, shape: Sequence[int], dtype: str, layout: str) -> Block:
        if layout in ("strided", "transposed"):
            raise TypeError("a library takes plain arrays")
        size = np.dtype("uint16" if dtype == "bfloat16" else dtype).itemsize
        return Block(self, shape, dtype, size if layout == "misaligned" else 0)

    def fill(self, array: Block, raw: np.ndarray[Any, Any], how: str) -> None:
        self._move(array.address, raw.ctypes.data, array.bytes, TO_DEVICE)

    def again(self, array: Block) -> Block:
        return array

    def sync(self) -> None:
        if self.runtime is not None:
            self.check(self._sync())

    def raw(self, array: Block) -> tuple[np.ndarray[Any, Any], str]:
        out = np.empty(array.shape, array.dtype)
        self._move(out.ctypes.data, array.address, array.bytes, TO_HOST)
        return out, array.name

    def poison(self, array: Block) -> None:
        if self.runtime is None:
            ctypes.memset(array.address, POISON, array.bytes)
        else:
            self.check(self.runtime.cudaMemset(ctypes.c_void_p(array.address), POISON, ctypes.c_size_t(array.bytes)))

    def plain(self, found: Any) -> bool:
        return isinstance(found, Block)

    def copy(self, array: Block) -> Block:
        copy = Block(self, array.shape, array.name, 0)
        self._move(copy.address, array.address, array.bytes, ON_DEVICE)
        return copy

    def restore(self, array: Block, pristine: Block) -> None:
        self._move(array.address, pristine.address, array.bytes, ON_DEVICE)

    def _move(self, to: int, of: int, count: int, kind: int) -> None:
        if self.runtime is None:
            ctypes.memmove(to, of, count)
        else:
            self.check(self.runtime.cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(of), ctypes.c_size_t(count), kind))


def entry(path: str) -> Any:
    """The function that `kscope.bench.task.build` has put into a library."""
    library = ctypes.CDLL(path)
    found: Any = library[ENTRY]
    found.restype = ctypes.c_int
    found.many, found.mark = library[MANY], library[MARK] if hasattr(library, MARK) else None
    return found


def bound(
    call: Any, blocks: Sequence[Block], dims: Sequence[int], side: Memory, stream: Any = None
) -> Callable[[], None]:
    """A call with its arguments made once: nothing is converted while it is timed."""
    pointers = (ctypes.c_void_p * max(len(blocks), 1))(*[block.address for block in blocks])
    sizes = (ctypes.c_longlong * max(len(dims), 1))(*dims)
    where = ctypes.c_void_p(stream)

    def once() -> None:
        side.started(call(pointers, sizes, where))

    once.given = pointers, sizes, where  # type: ignore[attr-defined]
    return once


def many(side: Any, call: Any, bound: Sequence[Any], order: Sequence[int]) -> Callable[[], None] | None:
    """Calls of a library one after another in a loop of its own language; None for what is no library."""
    if not isinstance(side, Memory) or not order:
        return None
    table = (ctypes.c_void_p * len(bound))(*[ctypes.addressof(one.given[0]) for one in bound])
    turns = (ctypes.c_int * len(order))(*order)
    _, sizes, where = bound[0].given
    return lambda: side.started(call.many(table, sizes, where, turns, len(order)))


def runtime() -> Any:
    """The CUDA runtime that libraries of nvcc are linked with. Raises OSError."""
    import glob
    import os
    import sys

    homes = [os.environ[key] for key in ("CUDA_HOME", "CUDA_PATH") if key in os.environ]
    named = [os.path.join(home, "lib64", "libcudart.so") for home in homes]
    named += ["libcudart.so", "libcudart.so.13", "libcudart.so.12"]
    named += sorted(glob.glob("/usr/local/cuda*/lib64/libcudart.so"))
    for folder in sys.path:  # that of a framework, which brings its own
        named += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libcudart.so.*")))
    for name in named:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise OSError("libcudart.so is not on the path of libraries: set LD_LIBRARY_PATH")
