"""Arrays of a case as a framework holds them, and what came back as bytes. One side a framework: numpy, torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

GUARD = 64  # elements before and after a misaligned array; any number above 1 does


class Slot(Struct):
    """Arrays of one call, by position; scalars among them are numbers. pristine: copies of what a call changes."""

    arrays: list[Any]
    outputs: list[Any] = []
    pristine: dict[int, Any] = {}


class Side(Protocol):
    def make(self, shape: Sequence[int], dtype: str, layout: str) -> Any: ...
    def fill(self, array: Any, raw: np.ndarray[Any, Any], how: str) -> None: ...
    def again(self, array: Any) -> Any: ...
    def sync(self) -> None: ...
    def raw(self, array: Any) -> tuple[np.ndarray[Any, Any], str]: ...
    def poison(self, array: Any) -> None: ...
    def plain(self, found: Any) -> bool: ...
    def copy(self, array: Any) -> Any: ...
    def restore(self, array: Any, pristine: Any) -> None: ...


class Numpy:
    """Arrays of numpy."""

    def make(self, shape: Sequence[int], dtype: str, layout: str) -> Any:
        if dtype == "bfloat16":
            raise TypeError("numpy has no bfloat16: use torch")
        return _laid(np.zeros, tuple(shape), np.dtype(dtype), layout)

    def fill(self, array: Any, raw: np.ndarray[Any, Any], how: str) -> None:
        np.copyto(array, raw)

    def again(self, array: Any) -> Any:
        return array.view()

    def sync(self) -> None: ...

    def raw(self, array: Any) -> tuple[np.ndarray[Any, Any], str]:
        found = np.asarray(array)
        return np.ascontiguousarray(found), found.dtype.name

    def poison(self, array: Any) -> None:
        array.fill(_poison(array.dtype))

    def plain(self, found: Any) -> bool:
        return type(found) is np.ndarray or isinstance(found, np.generic | float | int)

    def copy(self, array: Any) -> Any:
        return array.copy()

    def restore(self, array: Any, pristine: Any) -> None:
        np.copyto(array, pristine)


class Torch:
    """Tensors on one device."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        self._sync = torch.cuda.synchronize  # before a candidate can put another in its place
        self._copy, self._type = torch.Tensor.copy_, torch.Tensor

    def make(self, shape: Sequence[int], dtype: str, layout: str) -> Any:
        def zeros(size: Any, kind: Any) -> Any:
            return self.torch.zeros(size, dtype=kind, device=self.device)

        return _laid(zeros, tuple(shape), getattr(self.torch, dtype), layout)

    def fill(self, array: Any, raw: np.ndarray[Any, Any], how: str) -> None:
        torch = self.torch
        if raw.dtype == np.uint16:
            came = torch.from_numpy(raw.view(np.int16)).view(torch.bfloat16)
        else:
            came = torch.from_numpy(raw)
        with torch.no_grad():  # `.data` has a version counter of its own: the tensor's stays as it was
            self._copy(array.data if how == "raw" else array, came.reshape(array.shape))

    def again(self, array: Any) -> Any:
        return array.detach()

    def sync(self) -> None:
        if self.device == "cuda":
            self._sync()

    def raw(self, array: Any) -> tuple[np.ndarray[Any, Any], str]:
        torch = self.torch
        if not isinstance(array, self._type):
            return Numpy().raw(array)
        name = str(array.dtype).removeprefix("torch.")
        with torch.no_grad():
            plain = array.detach().to("cpu").contiguous()
            if array.dtype == torch.bfloat16:
                return plain.view(torch.int16).numpy().view(np.uint16), name
            return plain.numpy(), name

    def poison(self, array: Any) -> None:
        torch = self.torch
        with torch.no_grad():
            if array.dtype.is_floating_point:
                array.fill_(float("nan"))
            elif array.dtype == torch.bool:
                array.fill_(True)
            else:
                array.fill_(torch.iinfo(array.dtype).max - 85)

    def plain(self, found: Any) -> bool:
        return type(found) in (self._type, float, int) or type(found) is sys.modules["torch"].nn.Parameter

    def copy(self, array: Any) -> Any:
        return array.clone()

    def restore(self, array: Any, pristine: Any) -> None:
        with self.torch.no_grad():
            self._copy(array, pristine)


def _laid(zeros: Any, shape: tuple[int, ...], dtype: Any, layout: str) -> Any:
    """strided: every second element of a larger array. misaligned: begins one element after an aligned address.
    transposed: stored with its last two dimensions exchanged."""
    if layout == "strided" and shape:
        return zeros((*shape[:-1], shape[-1] * 2), dtype)[..., ::2]
    if layout == "transposed" and len(shape) > 1:
        stored = zeros((*shape[:-2], shape[-1], shape[-2]), dtype)
        return stored.swapaxes(-1, -2)
    if layout == "misaligned" and shape:
        count = int(np.prod(shape))
        return zeros((count + GUARD,), dtype)[1 : 1 + count].reshape(shape)
    return zeros(shape, dtype)


def _poison(dtype: Any) -> Any:
    if np.issubdtype(dtype, np.floating):
        return np.nan
    return True if dtype == np.bool_ else np.iinfo(dtype).max - 85
