"""Makes a fixture of a torch profiler's trace: without the events and arguments that kscope does not read, times
counted from a moment shared by the ranks of a job, packed by xz.

    python tools/pack_ranks.py OUT NAME.rank0.json NAME.rank1.json     writes OUT/NAME.rank0.json.xz, ...rank1.json.xz

Left out: flows (ac2g, fwdbwd), metadata of processes, instants, what the profiler projects onto the GPU
(gpu_user_annotation), and arguments such as occupancy, external ids and evaluation indices. What is analysed of the
result and of the recording itself is the same but for the path (`--check` analyses both, one rank at a time).
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

READ = {"cpu_op", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "user_annotation", "overhead",
        "cuda_sync"}  # fmt: skip
ARGS = {
    "device", "stream", "correlation", "bytes", "grid", "block", "graph node id", "graph id", "kernel_file",
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name",
    "Process Group Description", "Process Group Ranks", "Src Rank", "Dst Rank",
}  # fmt: skip
ON_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
HEADER = ("schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds")
DEVICE = ("id", "name", "numSms", "computeMajor", "computeMinor")


def packed(trace: dict[str, Any], since: int) -> dict[str, Any]:
    """The trace without what is not read; `since` us are moved from every time to the base."""
    events = []
    for event in trace["traceEvents"]:
        if event.get("ph") != "X" or event.get("cat") not in READ:
            continue
        args = {k: v for k, v in event.get("args", {}).items() if k in ARGS}
        if event["cat"] == "cpu_op":
            args = {k: v for k, v in args.items() if k == "kernel_file"}
        if event["cat"] in ON_GPU:  # what the row says twice
            args = {k: v for k, v in args.items() if (k, v) not in (("device", event["pid"]), ("stream", event["tid"]))}
        kept = {k: event[k] for k in ("ph", "cat", "name", "pid", "tid")}
        kept |= {"ts": event["ts"] - since, "dur": event["dur"]}
        events.append(kept | ({"args": args} if args else {}))
    header = {k: trace[k] for k in HEADER if k in trace}
    header["deviceProperties"] = [{k: d[k] for k in DEVICE} for d in trace["deviceProperties"]]
    header["baseTimeNanoseconds"] += since * 1000
    return {**header, "traceEvents": events}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"), parse_float=Decimal)


def write(trace: dict[str, Any]) -> bytes:
    """As JSON, an event a line, times with the digits that they were recorded with."""

    def plain(value: Any) -> str:
        return json.dumps(_numbers(value), separators=(",", ":"))

    rows = []
    for event in sorted(trace["traceEvents"], key=lambda e: (e["cat"], e["ts"])):
        times = f'"ts":{event["ts"]},"dur":{event["dur"]}'
        rest = plain({k: v for k, v in event.items() if k not in ("ts", "dur", "args")})
        args = f',"args":{plain(event["args"])}' if "args" in event else ""
        rows.append(f"{rest[:-1]},{times}{args}}}")
    head = plain({k: v for k, v in trace.items() if k != "traceEvents"})
    events = ",\n".join(rows)
    return f'{head[:-1]},"traceEvents":[\n{events}\n]}}'.encode()


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return float(value) if isinstance(value, Decimal) else value


def same(before: Path, after: Path) -> bool:
    """Whether kscope says the same of both but for their paths."""
    from kscope.engine.run import analyze_paths
    from kscope.reports import render

    texts = [render("json", analyze_paths([p])).replace(json.dumps(str(p))[1:-1], "TRACE") for p in (before, after)]
    return texts[0] == texts[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("ranks", type=Path, nargs="+", help="the traces of one job")
    parser.add_argument("--check", action="store_true", help="analyse both, and fail where a figure differs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    traces = [read(p) for p in options.ranks]
    since = int(min(e["ts"] for t in traces for e in t["traceEvents"] if "ts" in e and e["ph"] == "X"))
    for path, trace in zip(options.ranks, traces, strict=True):
        target = options.out / f"{path.name}.xz"
        text = write(packed(trace, since))
        target.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        print(f"{target.name}: {path.stat().st_size:,} -> {target.stat().st_size:,} bytes", flush=True)
        if options.check:
            with tempfile.TemporaryDirectory() as folder:
                plain = Path(folder) / path.name
                plain.write_bytes(text)
                if not same(path, plain):
                    print(f"{path}: what kscope says differs", file=sys.stderr)
                    return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
