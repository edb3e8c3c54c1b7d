"""The half of the .ncu-rep reader that touches NVIDIA's native library: one IAction to plain Python values.

It runs in a process of its own (kscope.parsers.ncu.worker) and imports nothing heavy besides ncu_report: what it
returns is built from str, int, float, list, dict and array, cheap to send to the parent, which meanwhile imports the
rules. kscope.parsers.ncu.kernels turns it into a Kernel.

Lazy by `Want`: the library decodes a part only when it is asked for. Its disassembler takes 0.4 s to start and
0.1 ms an instruction, so it is asked only for code that the cache does not hold. Costs measured by `make bench`.
"""

from __future__ import annotations

import re
from array import array

from kscope.model.errors import KscopeError
from kscope.model.faults import NO_CODE
from kscope.model.metric_names import is_read
from kscope.model.quoted import quoted
from kscope.parsers.ncu.metric_values import Unreadable, direct_calls
from kscope.parsers.ncu.nvidia_rules import rules
from kscope.parsers.ncu.old_names import STALLS, per_pc, stall_columns, today
from kscope.parsers.ncu.other_disassembler import by_another
from kscope.parsers.ncu.raw_metrics import described
from kscope.parsers.ncu.timed import timed

TYPE_CHECKING = False  # the typing module itself takes 9 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kscope.parsers.ncu.frames import Want
    from kscope.parsers.ncu.sass_cache import SassCache

Raw = dict[str, "Any"]
"""Plain values of one IAction; the keys are the fields of kscope.model.kernel.Kernel."""

PER_PC = (
    "inst_executed",
    "thread_inst_executed",
    "thread_inst_executed_true",
    "smsp__pcsamp_sample_count",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "memory_l2_theoretical_sectors_local",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l1_tag_requests_global",
    "memory_access_size_type",
    "smsp__branch_targets_threads_divergent",
)
WORKLOADS = {0: "kernel", 1: "range", 2: "cmdlist", 3: "graph", 4: "subgrid"}  # IAction.WorkloadType_*
ADDRESS = re.compile(r"0x[0-9a-f]{9,16}\b")
SERIES_STARTS = ("TPC.", "SM_A.", "SM_B.", "SM_C.", "LTS.", "FBSP.", "pmsampling:", "warpsampling:")
SERIES = (
    "sm__cycles_active.avg", "sm__pipe_tensor_cycles_active", "sm__pipe_tc_cycles_active", "sm__mem_tensor_cycles",
    "lts__throughput", "dramc__throughput", "dram__throughput",
)  # fmt: skip
"""PM-sampled series that are read: where SMs have work, the units that asynchronous kernels keep busy."""
ASYNCHRONOUS = ("SYNCS.", "UTMA", "UBLKCP", "WARPGROUP", "USETMAXREG", "UTCBAR", "HGMMA", "LDGDEPBAR")
UNKNOWN = "???"  # what the disassembler prints for a chip that it no longer reads (sm_70)
RUN_GAP = 4096  # bytes: code further apart than this belongs to another function; the gap is not disassembled


def extract(action: Any, index: int, want: Want, cache: SassCache | None = None) -> Raw:
    """One IAction as plain values. A part that fails to decode is left out and named in `notes`; none is fatal. Raises
    KscopeError where there is nothing at all: the library decodes late, and opens what it cannot read."""
    notes: list[str] = []

    def part(what: str, read: Callable[[], Any], default: Any) -> Any:
        try:
            return read()
        except Exception as e:  # the native wrapper raises bare RuntimeError, ValueError, KeyError, ...
            said = str(e) if isinstance(e, Unreadable) else quoted(str(e) or type(e).__name__)
            notes.append(f"{what} could not be read: {said}")
            return default

    name = part("name", action.name, "")
    metrics = part("metrics", lambda: _metrics(action, want.metrics), ({}, {}))
    if name is None and not metrics[0]:
        raise KscopeError("damaged", "it decodes to nothing", "the file is damaged, or has changed meanwhile")
    mangled = part("mangled name", lambda: action.name(action.NameBase_MANGLED), "")
    entry = part("entry address", lambda: _entry(action), 0)
    counters = part("per-instruction counters", lambda: _counters(action), {}) if want.counters else {}
    pcs = sorted(set().union(*{id(column): column for column, _ in counters.values()}.values()))
    entry = pcs[0] if pcs and (not entry or entry > pcs[-1]) else entry  # 2019 names another address
    rows = part("SASS", lambda: _sass(action, entry, pcs, mangled, cache), []) if want.sass and pcs else []
    return {
        "index": index,
        "name": name,
        "demangled": part("demangled name", lambda: action.name(action.NameBase_DEMANGLED), ""),
        "mangled": mangled, "metrics": metrics, "entry": entry,
        "workload": WORKLOADS.get(part("workload type", lambda: action.workload_type(), 0), "kernel"),
        "pcs": pcs, "counters": counters,
        "rows": rows,
        "opcodes": part("opcode counts", lambda: _opcodes(action), {}),
        "timelines": part("timelines", lambda: _timelines(action), {}) if want.timelines and _works_ahead(rows) else {},
        "timed": part("warp samples", lambda: timed(action), None) if want.timelines and _works_ahead(rows) else None,
        "charts": part("chart data", lambda: _charts(action), {}) if want.charts else {},
        "nvtx": part("NVTX ranges", lambda: _nvtx(action), []),
        "nvidia": part("NVIDIA's rule results", lambda: rules(action), []) if want.nvidia else [],
        "sections": part("sections", lambda: [s.identifier() for s in action.sections()], []),
        "described": part("metrics", lambda: described(action, want), (0, [])),
        "notes": notes,
    }


def _metrics(action: Any, every: bool) -> tuple[dict[str, float], dict[str, str]]:
    """(numbers, texts) of the whole-kernel metrics that kscope asks for somewhere, or of all."""
    numbers: dict[str, float] = {}
    texts: dict[str, str] = {}
    direct = direct_calls()
    texts_kind, none = direct.string, direct.none
    for name in action.metric_names():
        now = today(name)
        if not (every or is_read(now)) or now in numbers:
            continue
        metric = action.metric_by_name(name)
        handle = direct.handle(metric)
        kind = direct.kind(handle)
        if kind == texts_kind:
            texts[now] = metric.as_string()
        elif kind not in none:
            value = direct.as_double(handle)
            if value == value:  # NaN: collected, but without a result
                numbers[now] = value
    return numbers, texts


def _entry(action: Any) -> int:
    metric = action.metric_by_name("launch__function_pcs")
    return int(metric.as_uint64(0)) if metric is not None and metric.num_instances() else 0


def _counters(action: Any) -> dict[str, tuple[list[int], array[float]]]:
    """(absolute addresses, values) a counter. Counters of one family share their address list."""
    raw: dict[str, tuple[list[int], array[float]]] = {}
    stalls = stall_columns(list(action.metric_names()))
    shared: dict[tuple[int, int, int], list[int]] = {}
    direct = direct_calls()
    for name in (*PER_PC, *stalls):
        metric = action.metric_by_name(stalls[name]) if name in stalls else per_pc(action, name)
        n = metric.num_instances() if metric is not None else 0
        if not n or not metric.has_correlation_ids():
            continue
        if name.startswith(STALLS) and not metric.value():
            continue  # a reason that was never sampled: its zeros need no reading
        ids = metric.correlation_ids()
        get_id = ids.as_uint64
        # The stall columns come from one collection and share their addresses: reading them once halves the calls.
        family = (n, get_id(0), get_id(n - 1))
        pcs = shared.get(family) if name.startswith("smsp__pcsamp") else None
        if pcs is None:
            pcs = direct.integers(ids, n)
            if name.startswith("smsp__pcsamp"):
                shared[family] = pcs
        raw[name] = (pcs, direct.doubles(metric, n))
    return raw


def _sass(
    action: Any, entry: int, pcs: list[int], mangled: str, cache: SassCache | None
) -> list[tuple[int, str, str | None, int | None]]:
    """(offset, text, file, line) for every instruction between the first and last counted address of each run of
    code: instructions that never executed are part of the control flow too."""
    runs: list[list[int]] = [[pcs[0], pcs[0]]]
    for pc in pcs[1:]:
        if pc - runs[-1][1] > RUN_GAP:
            runs.append([pc, pc])
        runs[-1][1] = pc
    wanted = [pc - entry for first, last in runs for pc in range(first, last + 16, 16)]
    known = cache.load(mangled) if cache is not None else None
    if known is None or any(offset not in known for offset in wanted):
        known = {offset: _instruction(action, entry, offset) for offset in wanted}
        texts = [text for text, _, _ in known.values()]
        if not any(texts):
            raise Unreadable(NO_CODE)
        if texts.count(UNKNOWN) > len(texts) / 2:
            known = by_another(mangled, [(first - entry, last - entry) for first, last in runs], cache)
        if cache is not None:
            cache.store(mangled, known)
    return [(offset, *known[offset]) for offset in wanted if offset in known]


def _instruction(action: Any, entry: int, offset: int) -> tuple[str, str | None, int | None]:
    text = _relative(action.sass_by_pc(entry + offset).strip(), entry)
    info = action.source_info(entry + offset)
    return (text, info.file_name() or None, int(info.line()) or None) if info else (text, None, None)


def _relative(text: str, entry: int) -> str:
    """Absolute code addresses as offsets from the entry, as every other SASS listing prints them."""

    def offset(m: re.Match[str]) -> str:
        d = int(m[0], 16) - entry
        return hex(d) if abs(d) < 1 << 32 else m[0]

    return ADDRESS.sub(offset, text) if "0x" in text else text


def _opcodes(action: Any) -> dict[str, float]:
    """Executed warp instructions by opcode with its modifiers."""
    metric = action.metric_by_name("sass__inst_executed_per_opcode_with_modifier_all")
    n = metric.num_instances() if metric is not None else 0
    if not n or not metric.has_correlation_ids():
        return {}
    ids = metric.correlation_ids()
    return {ids.as_string(i): metric.as_double(i) for i in range(n)}


class Sources:
    """Text of the imported source files that the code's lines come from. Apart from `extract`: asking takes 13 to 45
    ms, in which the parent can analyse already, and is done once for all kernels of one binary."""

    def __init__(self, cache: SassCache) -> None:
        self._cache = cache
        self._known: dict[bytes, dict[str, str]] = {}

    def texts(self, action: Any, raw: Raw) -> dict[str, str]:
        try:
            files = {file for _, _, file, _ in raw["rows"] if file}
            if not files:
                return {}
            image = self._cache.image(raw["mangled"])
            every = self._known.get(image) if image is not None else None
            if every is None:
                every = {f: text for f, text in action.source_files().items() if text}
                if image is not None:
                    self._known[image] = every
        except Exception:  # as in `extract`: what the native wrapper raises has no common type
            return {}
        return {f: text for f, text in every.items() if f in files}


def _works_ahead(rows: list[tuple[int, str, str | None, int | None]]) -> bool:
    """Whether the code hands work to asynchronous units: only such kernels are judged by their time lines."""
    every = "\n".join([text for _, text, _, _ in rows])
    return any(map(every.__contains__, ASYNCHRONOUS))


def _timelines(action: Any) -> dict[str, tuple[list[int], array[float]]]:
    """PM-sampled series: (ns from the series' own first sample, values). Stamps are absolute and differ between
    pass groups, so each series starts at its own zero; the silence behind the kernel is left out."""
    lines = action.timelines()
    out: dict[str, tuple[list[int], array[float]]] = {}
    if lines is None:
        return out
    direct = direct_calls()
    shared: dict[tuple[int, int], list[int]] = {}
    for name in action.metric_names():
        if not name.startswith(SERIES_STARTS) or not any(map(name.__contains__, SERIES)):
            continue
        metric = action.metric_by_name(name)
        aligned = lines.aligned_metric(metric) if metric is not None and metric.num_instances() else None
        n = aligned.num_instances() if aligned is not None else 0
        if aligned is None or not n:
            continue
        values = direct.doubles(aligned, n)
        if not any(values):
            out[name] = ([], array("d"))
            continue
        last = max(i for i, v in enumerate(values) if v) if "cycles_active.avg" in name else n - 1
        ids = aligned.correlation_ids()
        start = ids.as_uint64(0)
        key = (start, n)
        if key not in shared:
            shared[key] = [t - start for t in direct.integers(ids, n)]
        out[name] = (shared[key][: last + 1], values[: last + 1])
    longest = max((len(t) for n, (t, _) in out.items() if "sm__cycles_active.avg" in n), default=0)
    return {n: (t[: longest + 1], v[: longest + 1]) if longest else (t, v) for n, (t, v) in out.items()}


def _charts(action: Any) -> Raw:
    from kscope.parsers.ncu.charts import charts

    return charts(action)


def _nvtx(action: Any) -> list[str]:
    """Names of the NVTX ranges open at the launch: push/pop from the outermost in, then start/end, by domain."""
    state = action.nvtx_state()
    if state is None:
        return []
    names: list[str] = []
    for key in state.domains():
        domain = state.domain_by_id(key)
        names += [str(r) for r in domain.push_pop_ranges()] + [str(r) for r in domain.start_end_ranges()]
    return names
