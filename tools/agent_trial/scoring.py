"""Scores of answers: built, checked against the reference and timed beside the first version, by `kscope bench`.

Where the task needs a GPU and there is none, an answer is built for sm_90a and its machine code looked at; the score
then says `built`, never that it is right.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from kscope.model.errors import KscopeError, one_line
from tools.agent_trial import answers
from tools.agent_trial.tasks import Trial

ROOT = Path(__file__).resolve().parents[2]
ARCH = "sm_90a"
PATIENCE = 1800.0  # seconds for one answer: compiling, checks, clocks
WORDS = ("faster", "slower", "inconclusive", "incorrect", "not comparable", "correct")

Status = Literal[
    "faster", "slower", "inconclusive", "incorrect", "not comparable", "correct", "built", "refused", "unbuilt",
    "failed",
]  # fmt: skip
"""The verdict of `kscope bench`; or built (nothing was run), refused (no file can be meant), unbuilt (it does not
compile), failed (`kscope bench` ended otherwise)."""


class Score(Struct, frozen=True):
    """One answer. speedup: of the timed shapes, geometric mean, over the version to start from; None unless it is right
    and was timed. why: a line. code: what its machine code shows, kernel by kernel, where it was only built."""

    task: str
    arm: str
    repeat: str
    step: str
    status: Status
    speedup: float | None = None
    why: str = ""
    device: str = ""
    code: list[str] = []

    def line(self) -> str:
        gain = f" {self.speedup:.2f}x" if self.speedup is not None else ""
        return f"{self.arm:8} {self.task:12} {self.repeat:>3} {self.status}{gain}  {self.why}".rstrip()


def stored(out: Path) -> list[Score]:
    """What was scored; of an answer that was scored again, the last. Raises KscopeError."""
    file = out / "scores.jsonl"
    if not file.is_file():
        raise KscopeError("missing-file", f"{file}: nothing was scored", "agent_trial score OUT")
    found: dict[tuple[str, str, str], Score] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            one = msgspec.json.decode(line, type=Score)
        except msgspec.DecodeError as error:
            raise KscopeError("corrupt", f"{file}:{number}: {error}", "remove the line, and score again") from None
        found[one.task, one.arm, one.repeat] = one
    return list(found.values())


def score(trials: Sequence[Trial], out: Path, seconds: float, *, again: bool = False) -> Iterator[Score]:
    """Score OUT/answers/ARM/TASK.N.*, each added to OUT/scores.jsonl when it is done."""
    known = set()
    if not again and (out / "scores.jsonl").is_file():
        known = {(one.task, one.arm, one.repeat) for one in stored(out)}
    by_name = {trial.name: trial for trial in trials}
    for file in sorted((out / "answers").glob("*/*")):
        task, repeat = file.name.split(".")[0], (file.name.split(".")[1:-1] or ["1"])[0]
        if task not in by_name or (task, file.parent.name, repeat) in known:
            continue
        one = scored(by_name[task], file, file.parent.name, repeat, out / "work", seconds)
        with (out / "scores.jsonl").open("ab") as lines:
            lines.write(msgspec.json.encode(one) + b"\n")
        yield one


def scored(trial: Trial, file: Path, arm: str, repeat: str, work: Path, seconds: float) -> Score:
    """One answer. Never raises but for what ends the process."""
    suffix = Path(trial.start).suffix
    answer = answers.read(file, trial.entry, suffix)

    def of(status: Status, why: str = "", **more: object) -> Score:
        return Score(trial.name, arm, repeat, trial.step, status, why=one_line(why)[:300], **more)  # type: ignore[arg-type]

    if answer.refused:
        return of("refused", answer.refused)
    folder = work / arm / f"{trial.name}.{repeat}"
    placed(trial, answer.code, folder)
    from kscope.bench.session.machine import gpu

    if suffix == ".cu" and gpu() is None:
        try:
            return of("built", "no GPU here: built and looked at, not run", device="none", code=built(folder))
        except KscopeError as error:
            return of("unbuilt", str(error))
    command = [sys.executable, "-m", "kscope", "bench", "task.toml", "--format", "json", "--no-worklog", "--seconds",
               str(seconds)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return of("failed", f"took more than {PATIENCE:.0f} s")
    try:
        found = json.loads(done.stdout or done.stderr)  # an error is JSON too, where errors go
    except ValueError:
        return of("failed", (done.stderr or done.stdout).decode("utf-8", "replace")[-300:])
    if "error" in found:
        error = found["error"]
        return of("unbuilt" if error.get("code") == "compile" else "failed", str(error.get("message", "")))
    verdict = found["verdict"] if found.get("verdict") in WORDS else "failed"
    right = verdict in ("faster", "slower", "inconclusive")
    return of(verdict, str(found.get("sentence", "")), device=str(found.get("device", "")),
              speedup=found.get("geomean") if right else None)  # fmt: skip


def placed(trial: Trial, code: str, folder: Path) -> None:
    """The task anew in a folder of its own, with the answer as its candidate."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(trial.folder, folder)
    name = f"answer{Path(trial.start).suffix}"
    (folder / name).write_text(code, encoding="utf-8")
    task = folder / "task.toml"
    text = task.read_text(encoding="utf-8")
    changed, count = re.subn(rf'^(candidate = "){re.escape(trial.start)}((?::\w+)?")', rf"\g<1>{name}\g<2>", text,
                             flags=re.MULTILINE)  # fmt: skip
    if count != 1:
        raise KscopeError("bad-task", f"{task}: its candidate is not {trial.start}", 'write candidate = "FILE"')
    task.write_text(changed, encoding="utf-8")


MARK = "kscope_bench_mark"


def built(folder: Path) -> list[str]:
    """Compile the candidate as `kscope bench` would; a line for each kernel: registers, spills, findings of the code
    alone. Raises KscopeError: it does not compile."""
    from kscope.bench.task.build import library
    from kscope.bench.task.file import read
    from kscope.engine.code.programs import binary_analysis
    from kscope.parsers.cubin.programs import read_programs

    task = read(folder / "task.toml")
    path = library(task, task.candidate, "float32", folder, ARCH)
    looked = binary_analysis(str(path), read_programs(path), annotate=False)
    lines = []
    for function in (f for program in looked.programs for f in program.functions):
        if function.name and MARK in function.name:
            continue  # what kscope bench links beside the candidate
        spills = (function.spill_stores or 0) + (function.spill_loads or 0)
        codes = ", ".join(f.code for f in function.findings if f.severity != "info")
        lines.append(
            f"{function.demangled or function.name}: {function.instructions} instructions, "
            f"{function.registers} registers, {spills} spills; {codes or 'no finding of code alone'}"
        )
    return lines
