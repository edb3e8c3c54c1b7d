"""Golden texts of gates: reports/gates.txt, what each command says on standard error, and its exit status.

    python tools/golden_gates.py [--check] [FILE]

`--check` writes nothing and exits 1 where the file differs.
"""

from __future__ import annotations

import json
import lzma
import os
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import reports, sass, traces  # noqa: E402

FILE = ROOT / "reports" / "gates.txt"
COMMANDS = (
    "analyze conflicts.ncu-rep.xz --fail-on MEM103",
    "analyze conflicts.ncu-rep.xz --fail-on 'gain>1.2'",
    "analyze conflicts.ncu-rep.xz --fail-on critical --format json",
    "analyze conflicts.ncu-rep.xz --fail-on MEM104",
    "analyze conflicts.ncu-rep.xz --fail-on OVH601",
    "analyze conflicts.ncu-rep.xz --kernel gemm",
    "analyze conflicts.ncu-rep.xz --format json -o known.json",
    "analyze conflicts.ncu-rep.xz --fail-on major --baseline known.json",
    "analyze launches.json.xz --fail-on major",
    "analyze host_only.json --fail-on major",
    "analyze no_cuda.sqlite --fail-on major",
    "analyze no_cuda.sqlite --fail-on major --format json",
    "analyze broken.ncu-rep padded.ncu-rep.xz --fail-on MEM104",
    "sass conflicts.ncu-rep.xz --fail-on MEM103",
    "sass memory.cubin.xz --fail-on MEM104",
    "sass memory.cubin.xz --fail-on MEM101",
    "sass memory.cubin.xz --function gemm",
    "diff padded.ncu-rep.xz conflicts.ncu-rep.xz --fail-if-slower 5",
    "diff conflicts.ncu-rep.xz padded.ncu-rep.xz --fail-if-slower 5",
    "diff rows.ncu-rep.xz conflicts.ncu-rep.xz --fail-if-slower 5",
    "diff rows.ncu-rep.xz conflicts.ncu-rep.xz --fail-if-slower 5 --allow-unmatched",
    "diff rows.ncu-rep.xz conflicts.ncu-rep.xz --fail-if-slower 5 --match csr_warp=transpose_tile",
    "diff rows.ncu-rep.xz conflicts.ncu-rep.xz --match gemm=transpose_tile",
    "diff memory.cubin.xz memory.cubin.xz --fail-if-slower 5",
)
INPUTS = {
    "conflicts.ncu-rep.xz": lambda: reports.plain("bank_conflict.slow"),
    "padded.ncu-rep.xz": lambda: reports.plain("bank_conflict.fast"),
    "rows.ncu-rep.xz": lambda: reports.plain("csr.warp"),
    "launches.json.xz": lambda: traces.plain("launch_bound"),
    "memory.cubin.xz": lambda: lzma.decompress(sass.path("memory.cu", "sm_90a").read_bytes()),
}


def started(words: tuple[str, ...], env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "kscope", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False, env=env)


def golden(run: Callable[..., subprocess.CompletedProcess[str]] = started) -> str:
    """All commands with what they print on standard error, in a folder that holds their inputs; run: as `started`."""
    out = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        for command in COMMANDS:
            env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
            done = run(tuple(shlex.split(command)), env, folder)
            out.append(f"$ kscope {command}\n{done.stderr}exit status {done.returncode}\n")
    return "\n".join(out)


def _fill(folder: Path) -> None:
    for name, source in INPUTS.items():
        (folder / name).write_bytes(lzma.compress(source(), preset=0))
    (folder / "broken.ncu-rep").write_bytes(b"NVR\0")
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 0, "tid": 1, "ts": 0, "dur": 5, "args": {}}
    (folder / "host_only.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    db = sqlite3.connect(folder / "no_cuda.sqlite")
    db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    db.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
    db.executemany("INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', ?)", [("OSRuntime",), ("NvtxEvents",)])
    db.commit()
    db.close()


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    named = [a for a in arguments if a != "--check"]
    if len(named) > 1 or any(a.startswith("-") for a in named):
        print(f"usage: {Path(__file__).name} [--check] [FILE]", file=sys.stderr)
        return 2
    file = Path(named[0]) if named else FILE
    now = golden()
    before = file.read_text("utf-8") if file.is_file() else ""
    if not check:
        file.write_text(now, "utf-8")
    print(f"{file.name} {'differs' if before != now else 'is what kscope says'}", file=sys.stderr)
    return int(check and before != now)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
