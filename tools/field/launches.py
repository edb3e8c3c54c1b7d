"""What one run of a program says: its checker's verdict, its kernels' launches as ncu logged them."""

from __future__ import annotations

import csv
import io
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

BAD = re.compile(
    r"\bfail(ed|ure)?\b|\b(non-match|mismatch)|\bincorrect|\berror(:(?! *[+-]?[\d.])|!)|\bwrong\b", re.IGNORECASE
)
GOOD = re.compile(
    r"\bpass(ed)?\b|\bcorrect\b|\bsuccess|\ball results match\b|\btest ok\b|\bno faults counted\b", re.IGNORECASE
)
# "0 wrong", "mismatches: 0", PolyBench's "Non-Matching CPU-GPU Outputs Beyond Error Threshold of 0.05 Percent: 0".
NONE_BAD = re.compile(
    r"\b0 (of [\d,]+ )?(wrong|mismatch\w*|errors)\b|\b(non-match|mismatch|wrong)[^:=\n]*[:=] *0\b(?!\.)", re.IGNORECASE
)
NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?")
TIMED = re.compile(r"time|second|\b[mun]?s\b|B/s|flop|speed|took|throughput|elapsed|perf", re.IGNORECASE)
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
MICROSECONDS |= {"nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6}


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    said = NONE_BAD.sub("no faults counted", done.stdout + done.stderr)
    bad, good = BAD.search(said), GOOD.search(said)
    verdict = "failed" if done.returncode not in (0, 124) or bad else "passed" if good else "says nothing"
    row = {"check": "ran too long" if done.returncode == 124 else verdict}
    return row | {"said": said[-300:]} if verdict == "failed" else row


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What a run prints that another run of the same work should print again: lines that speak of time left out, and
    bare numbers below them."""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    timed = [bool(TIMED.search(line)) for line in lines]
    below = [False, *timed]
    return [
        line for line, spoken, under in zip(lines, timed, below, strict=False)
        if not spoken and not (under and NUMBER.fullmatch(line))
    ]  # fmt: skip


def read_launches(log: Path) -> list[dict[str, Any]]:
    """The launches of one ncu log in CSV: function, name in full, grid, block, microseconds."""
    if not log.is_file():
        return []
    text = log.read_text(errors="replace")
    start = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:]))) if start >= 0 else []
    if len(rows) < 2:
        return []
    scale = MICROSECONDS[rows[0]["gpu__time_duration.sum"]]
    out = []
    for row in rows[1:]:
        full = row["Kernel Name"]
        out.append({
            "function": function_of(full), "name": full, "grid": row["Grid Size"], "block": row["Block Size"],
            "us": float(row["gpu__time_duration.sum"].replace(",", "")) * scale,
        })  # fmt: skip
    return out


def function_of(name: str) -> str:
    """`void ns::kernel<float, 4>(int *)` -> `kernel`, as --kernel-name-base function matches it."""
    bare = re.sub(r"\(anonymous namespace\)|<unnamed>", "", name)
    while (shorter := re.sub(r"<[^<>]*>", "", bare)) != bare:
        bare = shorter
    return bare.partition("(")[0].split()[-1].rpartition("::")[2]


def hot(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """The kernel and launch shape that takes the most time, and the middle one of its launches."""
    total: dict[tuple[str, str, str], float] = {}
    for x in launches:
        key = (x["name"], x["grid"], x["block"])
        total[key] = total.get(key, 0.0) + x["us"]
    name, grid, block = max(total, key=lambda k: total[k])
    function = next(x["function"] for x in launches if x["name"] == name)
    same = [x for x in launches if x["function"] == function]
    mine = [i for i, x in enumerate(same) if (x["name"], x["grid"], x["block"]) == (name, grid, block)]
    return {
        "kernel": name, "name": name, "function": function, "grid": grid, "block": block, "skip": mine[len(mine) // 2],
        "launches": len(mine), "us": round(statistics.median(same[i]["us"] for i in mine), 3),
        "share": round(total[name, grid, block] / sum(total.values()), 3),
        "others": [[k[0][:60], round(v, 1)] for k, v in sorted(total.items(), key=lambda kv: -kv[1])[1:5]],
    }  # fmt: skip
