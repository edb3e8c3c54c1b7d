"""Real kernels with parts changed or taken away, as a report would give them that was collected with less."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kscope.model.kernel import Counters, Device, Kernel, Launch, Metrics


def with_metrics(kernel: Kernel, values: Mapping[str, float]) -> Kernel:
    return msgspec.structs.replace(kernel, metrics=Metrics({**kernel.metrics, **values}, {}))


def without_metrics(kernel: Kernel, drop: Callable[[str], bool]) -> Kernel:
    kept = {name: value for name, value in kernel.metrics.items() if not drop(name)}
    assert len(kept) < len(kernel.metrics), "the test removes something that is there"
    return msgspec.structs.replace(kernel, metrics=Metrics(kept, {}))


def without_columns(kernel: Kernel, drop: Callable[[str], bool]) -> Kernel:
    assert kernel.counters is not None
    kept = {name: column for name, column in kernel.counters.by_name.items() if not drop(name)}
    assert len(kept) < len(kernel.counters.by_name), "the test removes something that is there"
    return msgspec.structs.replace(kernel, counters=Counters(kernel.counters.offsets, kept))


def made(metrics: Mapping[str, float], grid: int = 1, block: int = 32, sms: int = 132, **launch: object) -> Kernel:
    """A kernel of nothing but the given metrics and launch."""
    shape: dict[str, object] = {
        "grid": (grid, 1, 1), "block": (block, 1, 1), "cluster": (1, 1, 1), "registers": 32, "shared_static": 0,
        "shared_dynamic": 0, "waves": None, **launch,
    }  # fmt: skip
    return Kernel(
        index=0, name="k", demangled="k()", mangled="_Z1kv", workload="kernel", path="k.ncu-rep",
        device=Device("NVIDIA H200", (9, 0), sms), launch=msgspec.convert(shape, Launch),
        metrics=Metrics(dict(metrics), {}),
    )  # fmt: skip
