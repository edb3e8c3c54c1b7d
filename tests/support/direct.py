"""Reads reports with NVIDIA's own library alone, without any of kscope: what the tests compare kscope with.

It runs in a process of its own, as a script: `python direct.py values REPORT` or `python direct.py units REPORT...`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PER_PC = (
    "inst_executed", "thread_inst_executed", "memory_l1_wavefronts_shared", "memory_l2_theoretical_sectors_global",
    "smsp__pcsamp_sample_count", "smsp__pcsamp_warps_issue_stalled_long_scoreboard",
    "smsp__pcsamp_warps_issue_stalled_barrier",
)  # fmt: skip


def ask(*arguments: str | Path) -> Any:
    """Run this file with arguments; the parsed JSON that it prints."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # the library prints too


def values(path: str) -> list[dict[str, Any]]:
    """Every kernel of a report."""
    import ncu_report

    context = ncu_report.load_report(path)
    return [kernel(context[r][a]) for r in range(len(context)) for a in range(len(context[r]))]


def kernel(action: Any) -> dict[str, Any]:
    metrics = {}
    for name in action.metric_names():
        value = action.metric_by_name(name).value()
        if value == value:  # no NaN in JSON
            metrics[name] = value
    entry = action.metric_by_name("launch__function_pcs").as_uint64(0)
    counters: dict[str, dict[int, float]] = {}
    for name in PER_PC:
        metric = action.metric_by_name(name)
        if metric is not None and metric.num_instances():
            ids = metric.correlation_ids()
            counters[name] = {ids.as_uint64(i) - entry: metric.as_double(i) for i in range(metric.num_instances())}
    pcs = sorted({pc for column in counters.values() for pc in column})
    lines: dict[int, tuple[str, int]] = {}
    for pc in pcs:
        info = action.source_info(entry + pc)
        if info is not None:
            lines[pc] = (info.file_name(), info.line())
    return {
        "name": action.name(),
        "demangled": action.name(action.NameBase_DEMANGLED),
        "mangled": action.name(action.NameBase_MANGLED),
        "metrics": metrics,
        "entry": entry,
        "counters": counters,
        "sass": {pc: action.sass_by_pc(entry + pc) for pc in pcs},
        "lines": lines,
        "sources": dict(action.source_files()),
        "nvidia": [
            [r["rule_identifier"], r["rule_message"]["title"], (r.get("speedup_estimation") or {}).get("speedup")]
            for r in action.rule_results_as_dicts() if r.get("rule_message")
        ],
    }  # fmt: skip


def units(paths: list[str]) -> dict[str, str]:
    """Unit of every metric that any of the reports' first kernels has, by the library's own word."""
    import ncu_report

    out: dict[str, str] = {}
    for path in paths:
        action = ncu_report.load_report(path)[0][0]
        for name in action.metric_names():
            if name not in out:
                out[name] = action.metric_by_name(name).unit()
    return out


if __name__ == "__main__":
    print("\n" + json.dumps(values(sys.argv[2]) if sys.argv[1] == "values" else units(sys.argv[2:])))
