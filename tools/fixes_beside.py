"""The layouts that another program computes from machine code, beside those of `kscope fix`.

Kernels: those of fixtures/fixes/layouts.cu, and captures whose shared memory conflicts, compiled anew as they are
(nvcc must be there). The other program is run, nothing of it is used.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from kscope.engine.code.fixing import Subject, subjects
from kscope.engine.code.programs import sources_below
from kscope.model.contract.analysis import Fix
from tests.support import reports
from tools.fixes_built import alone, compiled, instance, lines_of, source_of

HERE = Path(__file__).resolve().parent.parent / "fixtures" / "fixes"
BESIDE = HERE / "beside.toml"
SHAPES = ("256", "32,8")  # of the blocks that the kernels of layouts.cu are launched with
CAPTURES = (
    "bank_conflict.slow", "fft1024.packed", "gemm_bf16.mma", "gemm_f32.vector", "gemm_f32.reg2d", "mha.plain",
    "digits.thread_rows",
)  # fmt: skip


def beside_table(data: dict[str, Any]) -> list[str]:
    out = [
        "## Layouts beside cuxray", "",
        f"cuxray {data['version']} (`solve`: {data['seconds_theirs']:.1f} s for the kernels of one block shape) and",
        f"`kscope fix` ({data['seconds_ours']:.1f} s for all) on the kernels of fixtures/fixes/layouts.cu, without a",
        "profile: so neither prices them. Cleared: a layout under which no access of the kernel conflicts. Edits:",
        "lines of the source.",
        "", "| kernel | cuxray: cleared | kscope: cleared by padding | by XOR | edits | wavefronts by ncu after it |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in data["kernels"].items():
        edits = "yes" if row["edits"] else "no"
        out.append(f"| {name} | {row['theirs']} | {row['pad']} | {row['swizzle']} | {edits} | {row['counted']} |")
    rows = data.get("captures", {})
    sums = {who: [sum(r[f"{what}_{who}"] == "yes" for r in rows.values()) for what in ("solved", "proved", "priced")]
            for who in ("theirs", "ours")}  # fmt: skip
    out += [
        "", "Captures whose shared memory conflicts: cuxray on the kernel compiled anew, kscope on its report. Solved:",
        "a layout under which conflicts go or at least halve. Proved: none is left, by running the lanes of all",
        "accesses. Seconds of kscope: the whole analysis of the report.",
        f"cuxray: {sums['theirs'][0]} of {len(rows)} solved, {sums['theirs'][1]} proved, {sums['theirs'][2]} priced; "
        f"kscope: {sums['ours'][0]} solved, {sums['ours'][1]} proved, {sums['ours'][2]} priced.",
        "", "| capture | solved: cuxray | kscope | proved: cuxray | kscope | priced: cuxray | kscope | seconds: cuxray "
        "| kscope |", "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, r in rows.items():
        words = " | ".join(f"{r[f'{w}_theirs']} | {r[f'{w}_ours']}" for w in ("solved", "proved", "priced"))
        out.append(f"| {name} | {words} | {r['seconds_theirs']:.1f} | {r['seconds_ours']:.1f} |")
    return out


def on_captures(program: str) -> list[str]:
    """What both say of captures, as lines of beside.toml."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in CAPTURES:
            begun = time.perf_counter()
            (old, *_) = subjects(str(reports.fixture(case)), None, lines_of)
            seconds_ours = time.perf_counter() - begun
            found = [x for f in old.findings if f.code == "MEM103" for x in f.fixes if not x.refused]
            said, seconds = _theirs(program, case, old, Path(scratch))
            ours = {
                "solved": bool(found), "proved": any(map(cleared, found)),
                "priced": any(x.price is not None for x in found),
            }  # fmt: skip
            lines.append(f"[captures.\"{case}\"]")
            for what, yes in ours.items():
                lines.append(f'{what}_theirs = "{said[what]}"')
                lines.append(f'{what}_ours = "{"yes" if yes else "no"}"')
            lines += [f"seconds_theirs = {seconds:.2f}", f"seconds_ours = {seconds_ours:.2f}", ""]
    return lines


def _theirs(program: str, case: str, old: Subject, folder: Path) -> tuple[dict[str, str], float]:
    """What the other program says of a capture's kernel, compiled as it is, and how long it takes for that."""
    file = source_of(Fix(kind="none", title=""), case)
    nothing = dict.fromkeys(("solved", "proved", "priced"), "no answer")
    if file is None or old.setting.launch is None:
        return nothing, 0.0
    kernel = old.setting.name
    text = alone(file.read_text("utf-8"), [kernel])
    text += f"\nvoid* kept() {{ return (void*)&{instance(old.name, kernel, kernel)}; }}\n"
    cubin, complaint = compiled(text, folder, case)
    if cubin is None:
        return dict.fromkeys(nothing, complaint), 0.0
    x, y, z = old.setting.launch.block
    command = [sys.executable, "-m", program, "solve", str(cubin), "--threads", f"{x},{y},{z}", "--json"]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    seconds = time.perf_counter() - begun
    try:
        mine = [r for r in json.loads(done.stdout)["results"] if kernel in r["kernel"]]
    except (ValueError, KeyError):
        return nothing, seconds
    clear = any(r.get("global") for r in mine)
    priced = any("speedup" in str(r) for r in mine)
    words = {"solved": clear, "proved": clear, "priced": priced}  # it prints only what it has verified
    return {k: "yes" if v else "no" for k, v in words.items()}, seconds


def beside(program: str) -> None:
    """Run both and keep what they said."""
    measured: dict[str, Any] = tomllib.loads((HERE / "measured.toml").read_text("utf-8"))["layouts"]
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "layouts.cubin"
        cubin.write_bytes(lzma.decompress((HERE / "layouts.sm_90.cubin.xz").read_bytes()))
        begun = time.perf_counter()
        found = subjects(str(cubin), None, sources_below(HERE))
        ours = {s.name: [x for f in s.findings for x in f.fixes] for s in found}
        seconds_ours = time.perf_counter() - begun
        theirs: dict[str, str] = {}
        seconds_theirs = 0.0
        for shape in SHAPES:
            begun = time.perf_counter()
            command = [sys.executable, "-m", program, "solve", str(cubin), "--threads", shape, "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds_theirs = max(seconds_theirs, time.perf_counter() - begun)
            for one in json.loads(done.stdout)["results"]:
                flat = "threadIdx.y" not in _source(one["kernel"])
                if flat == (shape == "256"):
                    theirs[one["kernel"]] = "yes" if one.get("global") else "no"
        asked = [sys.executable, "-m", program, "--version"]
        version = subprocess.run(asked, capture_output=True, text=True, check=False)
    lines = [
        "# Written by tools/fixes.py --beside: what another program says of the kernels of layouts.cu.",
        f'version = "{version.stdout.split()[-1]}"', f"seconds_theirs = {seconds_theirs:.2f}",
        f"seconds_ours = {seconds_ours:.2f}", "",
    ]  # fmt: skip
    for name, row in measured.items():
        fixes = {x.kind: x for x in ours.get(name, ()) if not x.refused}
        said = {k: ("yes" if k in fixes and cleared(fixes[k]) else "no") for k in ("pad", "swizzle")}
        edits = str(any(x.edits for x in fixes.values())).lower()
        after = min(v["wavefronts"] for k, v in row.items() if k != "plain")
        ideal = row["plain"]["ideal"]
        lines += [
            f"[kernels.{name}]", f'theirs = "{theirs.get(name, "no answer")}"', f'pad = "{said["pad"]}"',
            f'swizzle = "{said["swizzle"]}"', f"edits = {edits}", f'counted = "{after:,} of at least {ideal:,}"', "",
        ]  # fmt: skip
    BESIDE.write_text("\n".join(lines + on_captures(program)), encoding="utf-8")


def cleared(fix: Fix) -> bool:
    return any(c.holds == "no access conflicts" and c.state == "proved" for c in fix.conditions)


def _source(kernel: str) -> str:
    text = (HERE / "layouts.cu").read_text("utf-8")
    return text[text.index(f"void {kernel}(") :].partition("\n}")[0]
