"""Nsight Compute reports (.ncu-rep, .ncu-repz): the plain values of kscope.parsers.ncu.native as `Kernel`s."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from kscope.model.faults import in_words, show_traceback
from kscope.model.kernel import (
    Charts,
    Counters,
    Device,
    Kernel,
    Launch,
    Metrics,
    NvidiaRule,
    NvidiaTable,
    TimedSamples,
    Timelines,
)
from kscope.model.program import Program
from kscope.parsers.sass.instructions import parse_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kscope.parsers.ncu.native import Raw


Parse = Callable[[str, int, list[tuple[int, str, "str | None", "int | None"]]], Program]
"""`parse_program`, or what remembers its answers: (name, sm, rows) to a Program."""


def to_kernel(raw: Raw, path: str, parse: Parse = parse_program) -> Kernel:
    """A Kernel from what ncu_native.extract returned. Never raises: what does not parse is named in `notes`."""
    metrics = Metrics(*raw["metrics"])
    device = _device(metrics)
    notes = list(raw["notes"])
    program = None
    if raw["rows"]:
        try:
            program = parse(raw["mangled"] or raw["name"], device.sm, raw["rows"])
        except Exception as e:
            show_traceback(e)
            notes.append(f"SASS could not be parsed ({in_words(e)})")
    return Kernel(
        index=raw["index"],
        name=raw["name"],
        demangled=raw["demangled"] or raw["name"],
        mangled=raw["mangled"],
        workload=raw["workload"],
        path=path,
        device=device,
        launch=_launch(metrics),
        metrics=metrics,
        counters=_counters(raw),
        opcodes=raw["opcodes"],
        program=program,
        sources=raw["sources"],
        timelines=_timelines(raw),
        timed=_timed(raw),
        charts=_charts(raw),
        nvtx=tuple(raw["nvtx"]),
        nvidia=tuple(
            NvidiaRule(rule, title, message, pct, kind, tuple(NvidiaTable(*t) for t in tables))
            for rule, title, message, pct, kind, tables in raw["nvidia"]
        ),
        sections=tuple(raw["sections"]),
        notes=tuple(notes),
        tool_version=raw.get("tool_version"),
        recorded=raw.get("recorded") or {},
    )


def read_kernels(path: str) -> Iterator[Kernel]:
    """Every kernel of a report with all of its metrics, in this process (tests, notebooks). Raises KscopeError for an
    unreadable file."""
    from kscope.parsers.ncu import worker

    for raw in worker.extract_all(path, worker.Want(metrics=True)):
        yield to_kernel(raw, path)


def _counters(raw: Raw) -> Counters | None:
    """Columns over the union of all addresses, as offsets from the kernel's entry."""
    if not raw["pcs"]:
        return None
    pcs = raw["pcs"]
    place = {pc: i for i, pc in enumerate(pcs)}
    columns: dict[str, list[float]] = {}
    for name, (ids, values) in raw["counters"].items():
        if ids == pcs:
            columns[name] = array("d", values).tolist()
            continue
        column = [0.0] * len(pcs)
        for pc, value in zip(ids, array("d", values), strict=True):
            column[place[pc]] = value
        columns[name] = column
    return Counters([pc - raw["entry"] for pc in pcs], columns)


def _timelines(raw: Raw) -> Timelines | None:
    series = raw["timelines"]
    if not series:
        return None
    return Timelines(
        {name: t for name, (t, _) in series.items()},
        {name: array("d", values) for name, (_, values) in series.items()},
    )


def _timed(raw: Raw) -> TimedSamples | None:
    found = raw.get("timed")
    if not found:
        return None
    times, pcs, numbers, names = found
    return TimedSamples(list(times), [pc - raw["entry"] for pc in pcs], [names[n] for n in numbers])


def _charts(raw: Raw) -> Charts | None:
    found = raw.get("charts")
    if not found:
        return None
    series = {name: (t, array("d", values)) for name, (t, values) in found["series"].items()}
    return Charts(found["occupancy"], series)


def _device(metrics: Metrics) -> Device:
    prefix = "device__attribute_"
    major = int(metrics.get(prefix + "compute_capability_major") or 0)
    minor = int(metrics.get(prefix + "compute_capability_minor") or 0)
    return Device(
        name=metrics.text(prefix + "display_name") or "unknown GPU",
        cc=(major, minor),
        sms=int(metrics.first("launch__sm_count", prefix + "multiprocessor_count") or 0),
        attributes={n.removeprefix(prefix): v for n, v in metrics.items() if n.startswith(prefix)},
    )


def _launch(metrics: Metrics) -> Launch:
    """Reports of 2022 and before hold the size of grid and block and not their shape: they count as one-dimensional."""

    def shape(what: str) -> tuple[tuple[int, int, int], bool]:
        sides = [metrics.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
        whole_ = metrics.get(f"launch__{what}_size")
        if any(side is not None for side in sides):
            return (int(sides[0] or 1), int(sides[1] or 1), int(sides[2] or 1)), True
        return (int(whole_ or 1), 1, 1), whole_ is not None

    def whole(name: str) -> int:
        return int(metrics.get(name) or 0)

    (grid, grid_known), (block, block_known) = shape("grid"), shape("block")
    return Launch(
        grid=grid,
        block=block,
        cluster=shape("cluster")[0],
        registers=whole("launch__registers_per_thread"),
        shared_static=whole("launch__shared_mem_per_block_static"),
        shared_dynamic=whole("launch__shared_mem_per_block_dynamic"),
        waves=metrics.get("launch__waves_per_multiprocessor"),
        known=grid_known and block_known,
        carved=whole("launch__shared_mem_config_size") or None,
    )
