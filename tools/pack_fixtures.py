"""Pack captures into fixtures/: one folder a case, with the report as .xz and CAPTURE.toml saying how it was made.

    python tools/pack_fixtures.py CAPTURES SOURCES fixtures/h200

CAPTURES holds *.ncu-rep, SOURCES the CUDA files, and of the new captures labels.toml (a table a case: regime, accept,
fixed, no_gain, next) and times.txt (lines `TIME name variant 12.3 us`). Toolkit headers are taken out of the reports
(tools/strip_sources.py). Everything in CAPTURE.toml comes from the report itself, the labels or the measured times;
what the report does not record is left out. Then tools/solid_fixtures.py puts the reports into archives and these
tables into captures/*.toml, which alone say it from then on: correct labels there.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import tomllib
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import ncu_report
from strip_sources import strip

NEUTRAL = (b"/corpus/", b"/usr/", b"/opt/nvidia/", b"/opt/torch/", b"/proc/", b"/dev/")
OURS = ("/corpus/",)
PATH = re.compile(rb"(?<![\w./:<-])/[a-z]+/[\w./-]{4,}")
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 16 << 20, "lc": 4, "pb": 0}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    labels = tomllib.loads((args.sources / "labels.toml").read_text())
    times = dict(read_times(args.sources / "times.txt"))
    kernels = args.out.parent / "kernels"
    for file in sorted(args.sources.iterdir()):
        if file.suffix in (".cu", ".cuh", ".py"):
            kernels.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, kernels / file.name)
    sources = {f.name: f.read_text() for f in sorted(kernels.iterdir()) if f.suffix in (".cu", ".py")}
    reports = sorted(args.captures.glob("*.ncu-rep"))
    with ProcessPoolExecutor() as pool:
        sizes = list(pool.map(partial(pack, out=args.out, labels=labels, times=times, sources=sources), reports))
    print(f"{len(sizes)} captures, {sum(sizes) / 1e6:.1f} MB")


def pack(report: Path, out: Path, labels: dict[str, Any], times: dict[str, float], sources: dict[str, str]) -> int:
    """Write one case; returns the packed bytes."""
    data = strip(report.read_bytes(), OURS)
    if found := next((p for p in PATH.findall(data) if not p.startswith(NEUTRAL)), None):
        raise SystemExit(f"{report}: holds the path {found.decode()}")
    case = report.name.removesuffix(".ncu-rep")
    folder = out / case
    folder.mkdir(parents=True, exist_ok=True)
    packed = lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=FILTERS)
    (folder / "report.ncu-rep.xz").write_bytes(packed)
    (folder / "CAPTURE.toml").write_text(capture(report, case, data, labels, times, sources))
    return len(packed)


def capture(
    report: Path, case: str, data: bytes, labels: dict[str, Any], times: dict[str, float], sources: dict[str, str]
) -> str:
    action = ncu_report.load_report(str(report))[0][0]

    def metric(name: str) -> Any:
        found = action.metric_by_name(name)
        return None if found is None else found.value()

    def recorded(pattern: bytes) -> str | None:
        found = re.search(pattern, data)
        return found.group(1).decode() if found else None

    file = next((f for f, text in sources.items() if line_of(action.name(), text)), None)
    command = recorded(rb"(/[\w./-]+/ncu --[ -!#-~]+)")
    clock = re.search(r"--clock-control (\S+)", command or "")
    label = labels.get(case)
    if label is None:
        slow = next((k for k, v in labels.items() if v.get("fixed") == case), None)
        note = f"the version of {slow} without the planted cause" if slow else "no planted cause"
        about: dict[str, Any] = {"cause": [], "note": note}
    else:
        note = "nothing to gain: the limit is elsewhere" if label.get("no_gain") else None
        about = {
            "regime": label["regime"], "cause": label["accept"], "fixed_by": label.get("fixed"),
            "no_gain": label.get("no_gain"), "next": label.get("next"), "note": note,
        }  # fmt: skip
    capability = ".".join(str(metric(f"device__attribute_compute_capability_{part}")) for part in ("major", "minor"))
    tables: dict[str, dict[str, Any]] = {
        "device": {
            "gpu": metric("device__attribute_display_name"),
            "compute_capability": capability,
            "sms": metric("device__attribute_multiprocessor_count"),
        },
        "tools": {
            "cuda": recorded(rb"CUDA Version[^\d]{1,3}(\d+\.\d+)"),
            "nvcc": recorded(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)"),
            "ncu": recorded(rb"(\d{4}\.\d+\.\d+\.\d+ \(build \d+\))"),
        },
        "capture": {
            "command": command.strip() if command else None,
            "clock_control": clock.group(1) if clock else None,
            "passes": int(metric("profiler__replayer_passes") or 0) or None,
        },
        "kernel": {
            "name": action.name(),
            "source": f"fixtures/kernels/{file}" if file else None,
            "line": line_of(action.name(), sources[file]) if file else None,
        },
        "planted": about,
        "measured": {
            "time_us": times.get(case),
            "how": "median of 15 launches without the profiler" if case in times else None,
            "profiled_us": round(metric("gpu__time_duration.sum") / 1e3, 3),
        },
        "measured.unprofiled_us": {f'"{other}"': us for other, us in unprofiled(case, label, times, report.parent)},
    }  # fmt: skip
    tables = {name: table for name, table in tables.items() if table}
    return "\n\n".join(f"[{name}]\n" + "\n".join(entries(table)) for name, table in tables.items()) + "\n"


def unprofiled(
    case: str, label: dict[str, Any] | None, times: dict[str, float], captures: Path
) -> list[tuple[str, float]]:
    """The version without the fault, if it was timed and not captured."""
    fixed = (label or {}).get("fixed")
    return [(fixed, times[fixed])] if fixed in times and not (captures / f"{fixed}.ncu-rep").exists() else []


def entries(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {toml(value)}" for key, value in table.items() if value is not None]


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'
    return repr(value)


def line_of(function: str, source: str) -> int | None:
    """1-based line of a kernel's definition, in CUDA or Triton."""
    name = re.escape(function)
    found = re.search(rf"__global__[^;{{]*?\b{name}\s*\(|^def {name}\(", source, re.MULTILINE)
    return None if found is None else source.count("\n", 0, source.index(function, found.start())) + 1


def read_times(path: Path) -> list[tuple[str, float]]:
    """(case, microseconds) of `TIME name variant 12.3 us` lines."""
    rows = [line.split() for line in path.read_text().splitlines() if line.startswith("TIME")]
    return [(f"{name}.{variant}", float(us)) for _, name, variant, us, _ in rows]


if __name__ == "__main__":
    main()
