"""Clocks, power and throttling of a GPU while it is timed: NVIDIA's management library, by ctypes, where it is."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

from kscope.bench.values.result import Clocks

THROTTLES = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""nvmlClocksEventReasons (nvml.h); idle and no reason are not named."""
MOST = 64  # samples that are kept


class Watcher:
    """Samples of one device; on a machine without a GPU an empty record with the processor's name."""

    def __init__(self, device: str) -> None:
        self.rows: list[tuple[float, float, float, float]] = []
        self.reasons: dict[str, int] = {}
        self.samples = 0
        self.name, self.note = _processor(), ""
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        if device == "cuda":
            self._open()

    def sample(self) -> None:
        if self._library is None:
            return
        self.samples += 1
        sm, memory, power, heat = (ctypes.c_uint() for _ in range(4))
        get, ref, at = self._library, ctypes.byref, self._handle
        get.nvmlDeviceGetClockInfo(at, 1, ref(sm))
        get.nvmlDeviceGetClockInfo(at, 2, ref(memory))
        get.nvmlDeviceGetPowerUsage(at, ref(power))
        get.nvmlDeviceGetTemperature(at, 0, ref(heat))
        mask = ctypes.c_ulonglong()
        get.nvmlDeviceGetCurrentClocksThrottleReasons(at, ref(mask))
        for bit, word in THROTTLES.items():
            if mask.value & bit:
                self.reasons[word] = self.reasons.get(word, 0) + 1
        if len(self.rows) < MOST:
            self.rows.append((float(sm.value), float(memory.value), power.value / 1e3, float(heat.value)))

    def record(self) -> Clocks:
        def span(i: int) -> list[float]:
            return [min(row[i] for row in self.rows), max(row[i] for row in self.rows)] if self.rows else []

        throttled = [f"{word} in {count} of {self.samples} samples" for word, count in self.reasons.items()]
        return Clocks(device=self.name, sm_mhz=span(0), memory_mhz=span(1), power_w=span(2), temperature_c=span(3),
                      throttled=throttled, note=self.note)  # fmt: skip

    def _open(self) -> None:
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._handle)):
                raise OSError
        except (OSError, AttributeError):
            self.note = "NVML is not here: clocks and throttling are not known"
            return
        name = ctypes.create_string_buffer(96)
        library.nvmlDeviceGetName(self._handle, name, 96)
        self.name, self._library = name.value.decode("utf-8", "replace"), library


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
