"""What a player reported of its candidate's doings, as findings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kscope.bench.player.watch import CLOCKS
from kscope.bench.task.spec import Task
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Finding
from kscope.model.quoted import quoted

SEARCHES = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
PLAIN = 0.5  # share of the lines of code run by exec that stand in the candidate's own files; judged
CODE = (".so", ".cubin", ".py", ".json", ".ptx", ".pyc", ".toml")  # what a compiler or a tuner keeps
OWN = str(Path(__file__).resolve().parents[2])

LIBRARY_OPERATORS = re.compile(
    r"aten::(mm|bmm|addmm|baddbmm|matmul|linear|convolution|_convolution|cudnn_\w+|mkldnn_\w+|_softmax|softmax|native_layer_norm|"
    r"layer_norm|native_group_norm|native_batch_norm|_scaled_dot_product_\w+|sum|mean|cumsum|sort|topk|einsum|addmv|mv|dot|"
    r"_scaled_mm|index_add_?|gelu|silu|relu|sigmoid|tanh|exp|mul|add|sub|div|max|min|amax|amin|var|std|norm|linalg_\w+)$"
)
"""Operators that compute. Those that allocate, copy or view are nobody's kernel."""
LIBRARY_KERNELS = re.compile(
    r"cublas|cutlass|cudnn|sm\d+_xmma|ampere_|volta_|turing_|hopper_|nvjet|gemv|splitKreduce|at::native|void at::|"
    r"cub::|thrust::|"
    r"flash_fwd|flash_bwd|fmha|magma|cusparse|cufft",
    re.IGNORECASE,
)


def findings(task: Task, audit: Mapping[str, Any], output_bytes: int) -> list[Finding]:
    """Of `Player.do_audit`."""
    found = [*_events(task, audit.get("events", ()), output_bytes)]
    replaced = [str(one) for one in audit.get("replaced", ())]
    clocks = [one for one in replaced if one.startswith(CLOCKS)]
    others = [one for one in replaced if one not in clocks]
    if clocks:
        found.append(finding(4, f"replaced: {_list(clocks)}", "seen"))
    if others:
        found.append(finding(43, f"replaced: {_list(others)}", "seen"))
    if settings := audit.get("settings"):
        words = [f"{name} from {before} to {after}" for name, (before, after) in settings.items()]
        found.append(finding(39, "; ".join(words)))
    if audit.get("persisting"):
        size = int(audit["persisting"]) / 2**20
        found.append(finding(20, f"{size:.1f} MiB of L2 were set aside for persisting lines after its calls"))
    return found


def _events(task: Task, events: Iterable[Sequence[Any]], output_bytes: int) -> Iterable[Finding]:
    sources = [_text(task.candidate.path)]
    during: dict[str, list[str]] = {}
    for phase, event, detail, _ in events:
        calls = phase != "import"
        if event in SEARCHES:
            yield finding(
                33, f"{event} is called {'in a call' if calls else 'at import'}", "caught" if calls else "seen"
            )
        elif event == "sys._getframe" and calls:
            during.setdefault("frames", []).append(detail)
        elif event == "open":
            mode, _, path = detail.partition(" ")
            if _ours(task, path):
                yield finding(44, f"{mode}s {quoted(os.path.basename(path))}")
            elif calls:
                during.setdefault(mode, []).append(path)
        elif event in ("compile", "marshal.loads") and _hidden(detail, sources):
            yield finding(51, f"runs code of {len(detail)} characters that is not in its files ({event})")
        elif event in ("subprocess.Popen", "os.system", "os.fork", "os.posix_spawn") and calls:
            yield finding(2, f"starts a process in a call ({event})", "seen")
    if "frames" in during:
        yield finding(35, "looks at the frames of its callers in a call")
    yield from _files(during, output_bytes)


def _files(during: Mapping[str, list[str]], output_bytes: int) -> Iterable[Finding]:
    """Files that could hold results: as large as an output, or large enough for a part of it. One finding for all."""
    large: list[str] = []
    small: list[str] = []
    for mode in ("write", "read"):
        for path in during.get(mode, ()):
            try:
                size = os.path.getsize(path)
            except OSError:
                size = output_bytes  # gone: it was there for the call
            holds = size >= output_bytes / 4 and not path.endswith(CODE)
            (large if holds else small).append(f"{mode}s {quoted(os.path.basename(path))} ({size:,} bytes) in a call")
    if large or small:
        found, more = (large or small)[0], len(large or small) - 1
        yield finding(18, found + (f", and {more} more" if more else ""), "caught" if large else "seen")


def _hidden(text: str, sources: Iterable[str]) -> bool:
    """Whether most lines of it stand in no source. One line proves nothing."""
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 4]
    if not lines or text.startswith("syntax tree"):
        return False
    known = sum(any(line in source for source in sources) for line in lines)
    return known < PLAIN * len(lines)


def _ours(task: Task, path: str) -> bool:
    full = os.path.abspath(path)
    mine = {task.file, task.reference.path, task.baseline.path if task.baseline else ""} - {task.candidate.path, ""}
    return full.startswith(OWN + os.sep) or full in mine or "/kscope-bench-" in full


def borrowed(task: Task, profile: Mapping[str, Any], caught: Sequence[str]) -> list[Finding]:
    """Work of libraries where an own kernel is asked for: 45, 47, 48."""
    if not task.own:
        return []
    kernels: Mapping[str, Sequence[float]] = profile.get("kernels", {})
    found = []
    if kernels:
        total = sum(row[1] for row in kernels.values()) or 1.0
        foreign = {name: row[1] for name, row in kernels.items() if LIBRARY_KERNELS.search(name)}
        share = sum(foreign.values()) / total
        names = _list(sorted(foreign, key=lambda name: -foreign[name]))
        if share > 0.9:
            found.append(finding(45, f"{100 * share:.0f} % of the device's time is in kernels of libraries: {names}"))
        elif share > 0.2:
            found.append(finding(47, f"{100 * share:.0f} % of the device's time is in kernels of libraries: {names}"))
    else:
        operators = sorted(name for name in profile.get("operators", {}) if LIBRARY_OPERATORS.match(name))
        if operators:
            found.append(finding(45, f"calls {_list(operators)}"))
    if caught and found:
        found.append(finding(48, f"catches {quoted(caught[0], 120)}, and {found[0].evidence}"))
    return found


def merged(profile: Mapping[str, Any], single: Mapping[str, Any], calls: int) -> Finding | None:
    """Fewer kernels in several calls than that many single calls start."""
    many = sum(row[0] for row in profile.get("kernels", {}).values())
    one = sum(row[0] for row in single.get("kernels", {}).values())
    if one and many < one * calls - calls / 2:
        return finding(7, f"{calls} calls start {many:g} kernels, one call starts {one:g}")
    return None


def _text(path: str) -> str:
    try:
        folder = Path(path).parent
        files = [p for p in folder.glob("*.py") if p.stat().st_size < 1 << 20][:50]
        return "\n".join(p.read_text(encoding="utf-8", errors="replace") for p in files)
    except OSError:
        return ""


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
