"""A native candidate becomes a shared library: its source, and a launch that is written as CUDA writes it.

`rows<<<ceil_div(m, 8), 256>>>(x, y, m, n)` or `rows(x, y, m, n, stream)` is pasted into a function of ours, in which
every array is a pointer of its type, every dimension an integer, `T` the data type that is varied, `stream` the stream.
It is the user's own task file: whoever writes it writes the code beside it, too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kscope.bench.task.spec import NATIVE, Param, Source, Task
from kscope.bench.values.numbers import dtype
from kscope.model.errors import EXIT_INPUT, EXIT_TOOL, EXIT_USAGE, KscopeError, one_line

PATIENCE = 300.0  # seconds for a compiler; CUTLASS takes minutes
ENTRY, MANY, MARK = "kscope_bench_call", "kscope_bench_calls", "kscope_bench_mark"

_CUDA = """
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void kscope_bench_marked() {}
extern "C" void kscope_bench_mark(int) { kscope_bench_marked<<<1, 1>>>(); }
"""
_FRONT = """
typedef {type} T;
#include "{path}"
template <class A, class B> static inline int ceil_div(A a, B b) {{ return (int)((a + b - 1) / b); }}
"""
_LOOP = f"""
extern "C" int {MANY}(void*** p, const long long* d, void* s, const int* order, int count) {{
    for (int i = 0; i < count; ++i)
        if (const int status = {ENTRY}(p[order[i]], d, s)) return status;
    return 0;
}}
"""


def wrapper(task: Task, one: Source, chosen: str) -> str:
    """The source that is compiled for a data type. Raises KscopeError where the task lacks a launch."""
    if not task.launch:
        hint = "give it as --launch 'name<<<grid, block>>>(x, y, n)' or name(x, y, n)"
        raise KscopeError("usage", f"{one.text}: how it is launched is not said", hint, EXIT_USAGE)
    cuda = one.path.endswith(".cu")
    lines = [
        _declared(i, param, chosen) for i, param in enumerate(p for p in (*task.inputs, *task.outputs) if not p.scalar)
    ]
    dims = sorted({key for case in task.cases for key in case})
    lines += [f"    const int {key} = (int)d[{i}]; (void){key};" for i, key in enumerate(dims)]
    lines += [f"    const float {p.name} = {p.value}; (void){p.name};" for p in task.inputs
              if p.scalar and p.name not in dims]  # fmt: skip
    stream = "cudaStream_t stream = (cudaStream_t)s; (void)stream;" if cuda else "(void)s;"
    after = "return (int)cudaGetLastError();" if cuda else "return 0;"
    return (
        (_CUDA if cuda else "") + _FRONT.format(type=dtype(chosen).c, path=one.path)
        + f'extern "C" int {ENTRY}(void** p, const long long* d, void* s) {{\n    {stream}\n'
        + "\n".join(lines) + f"\n    {task.launch};\n    {after}\n}}\n" + _LOOP
    )  # fmt: skip


def library(
    task: Task, one: Source, chosen: str, folder: Path, arch: str = "", defines: Mapping[str, str] | None = None
) -> Path:
    """Compile for a data type; the same source, flags and macros are compiled once in a folder. arch: `sm_90`. Raises
    KscopeError (status 4 without a compiler, 3 for code that does not compile)."""
    text = wrapper(task, one, chosen)
    compiler = shutil.which(NATIVE[Path(one.path).suffix] if one.path.endswith(".cu") else "c++")
    if compiler is None:
        what = "nvcc" if one.path.endswith(".cu") else "c++"
        raise KscopeError("missing-tool", f"{one.text}: {what} is not here", "install the CUDA toolkit", EXIT_TOOL)
    flags = ["-O3", "-shared", *(["-std=c++17"] if "-std" not in " ".join(task.flags) else []), *task.flags]
    flags += [f"-D{key}={value}" for key, value in (defines or {}).items()]
    if one.path.endswith(".cu"):
        flags += [
            "-Xcompiler",
            "-fPIC",
            "-cudart",
            "shared",
            "-lineinfo",
            "-default-stream",
            "per-thread",
            *([f"-arch={arch}"] if arch else []),
        ]
    else:
        flags += ["-fPIC"]
    key = hashlib.sha256("\0".join([text, *flags, *_contents(Path(one.path).parent)]).encode()).hexdigest()[:20]
    out = folder / f"{key}.so"
    if not out.is_file():
        _compile(compiler, flags, text, out, one)
    return out


def _declared(i: int, param: Param, chosen: str) -> str:
    kind = "T" if param.dtype == "T" else param.kind(chosen).c
    return f"    {kind}* {param.name} = ({kind}*)p[{i}]; (void){param.name};"


def _contents(folder: Path) -> list[str]:
    """What the source may include: files beside it, by size and time."""
    files = [p for p in sorted(folder.iterdir()) if p.suffix in (".cu", ".cuh", ".h", ".hpp", ".c", ".cc", ".cpp")]
    return [f"{p.name} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in files]


def _compile(compiler: str, flags: Sequence[str], text: str, out: Path, one: Source) -> None:
    suffix = ".cu" if one.path.endswith(".cu") else ".cpp"
    mine = f"{out.stem}.{os.getpid()}.{threading.get_ident()}"  # two may compile the same at once
    front, beside = out.with_name(f"{mine}{suffix}"), out.with_name(f"{mine}.part")
    front.write_text(text, encoding="utf-8")
    command = [compiler, *flags, "-I", str(Path(one.path).parent), "-o", str(beside), str(front)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        raise KscopeError("compile", f"{one.text}: the compiler took more than {PATIENCE:.0f} s") from None
    if done.returncode:
        said = [
            line for line in (done.stderr + done.stdout).splitlines() if "error" in line
        ] or done.stderr.splitlines()
        what = one_line(said[0])[:300] if said else f"status {done.returncode}"
        raise KscopeError(
            "compile", f"{one.text}: does not compile: {what}", "mend the source or its launch", EXIT_INPUT
        )
    beside.replace(out)
