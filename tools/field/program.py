"""One program of a public suite: how it is copied, built, run under its own checker and measured with ncu."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from launches import hot, outcome, printed, read_launches

HERE = Path(__file__).resolve().parent
NCU = ["ncu", "--clock-control", "none", "--kernel-name-base", "function"]
MAX_SCAN = 16  # launches looked at to find the hot kernel: each costs ncu 0.1 to 0.2 s


@cache
def harnesses() -> dict[str, dict[str, str]]:
    """name -> {file: text} of the programs of ours that run one kernel of a library each. "@name" as a file's text is
    that of shared.toml."""
    read = {f.stem: tomllib.loads(f.read_text(encoding="utf-8")) for f in sorted((HERE / "harness").glob("*.toml"))}
    shared = {f"@{name}": entry["text"] for name, entry in read.pop("shared").items()}
    return {
        program: {file: shared.get(text, text) for file, text in files.items()}
        for programs in read.values() for program, files in programs.items()
    }  # fmt: skip


class Program:
    """One program of a suite: where it is copied, how it is built and run."""

    def __init__(
        self, name: str, checkouts: dict[str, Path], plans: dict[str, Any], arch: str, work: Path, kept: Path | None
    ):  # fmt: skip
        suite = suite_of(name)
        plan = {**plans["suite"][suite], **plans.get(name, {})}
        self.name, self.slug = name, name.replace("/", "_")
        short = name.rpartition("/")[2]
        self.source = checkouts[suite] / plan["folder"].format(name=short)
        self.harness = harnesses().get(short, {}) if plan.get("harness") else {}
        self.root = work / self.slug
        self.folder = self.root / self.source.parent.name / self.source.name
        self.build_command = plan["build"].format(arch=arch, checkout=checkouts[suite], name=short)
        self.kept = kept / self.slug if kept is not None else None
        self.run_command: str | None = plan.get("run")
        self.edits: list[list[str]] = plan.get("edits", [])
        self.skip: int = plan.get("skip", 0)
        self.env = dict(os.environ, NVCC_APPEND_FLAGS=f"-lineinfo -arch={arch} {plan.get('flags', '')}")
        self.row: dict[str, Any] = {"program": name}
        self.printed: list[str] = []

    def copy(self, replaced: Path | None = None) -> None:
        """The program's folder, its neighbours (for shared headers) as links, and a variant's files over it."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.kept is not None and self.kept.is_dir():
            shutil.copytree(self.kept, self.folder, symlinks=True)
            return
        if not self.harness and not self.source.is_dir():
            return
        for file, text in self.harness.items():
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text(text, encoding="utf-8")
        if not self.harness:
            shutil.copytree(self.source, self.folder, symlinks=True)  # some lead to files that are not there
            self.link_neighbours()
        if replaced is not None:
            shutil.copytree(replaced, self.folder, dirs_exist_ok=True)
        for name, old, new in self.edits:
            text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
            (self.folder / name).write_text(text.replace(old, new), encoding="utf-8")

    def link_neighbours(self) -> None:
        for neighbour in self.source.parent.iterdir():
            link = self.folder.parent / neighbour.name
            if not link.exists():
                link.symlink_to(neighbour)

    def build(self) -> bool:
        """Whether there is something to run: what an earlier call kept, or what the build command makes now."""
        if not self.folder.is_dir():
            self.row["fault"] = "not in the checkout"
            return False
        was_kept = self.kept is not None and self.kept.is_dir()
        done = None if was_kept else self.shell(self.build_command, 300)
        if self.run_command is None:
            listed = self.shell("make -n run LAUNCHER=", 20)
            lines = [line.strip() for line in listed.stdout.splitlines() if line.strip().startswith("./")]
            self.run_command = lines[0] if lines else None
        if (done and done.returncode) or self.run_command is None:
            self.row["fault"] = "does not build: " + ((done.stderr.strip() if done else "") or "no run line")[-400:]
            return False
        self.row["command"] = self.run_command
        if self.kept is not None and not was_kept:
            left = shutil.ignore_patterns("*.o", "*.cu", "*.cuh")
            shutil.copytree(self.folder, self.kept, symlinks=True, ignore=left, dirs_exist_ok=True)
        return True

    def shell(self, command: str, limit_s: float) -> subprocess.CompletedProcess[str]:
        """Run in the program's folder; a program that outlasts its limit comes back with status 124."""
        try:
            return subprocess.run(
                ["timeout", "-k", "2", str(limit_s), "bash", "-c", command], cwd=self.folder, env=self.env, text=True,
                errors="replace", capture_output=True, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except OSError as e:
            return subprocess.CompletedProcess(command, 127, "", str(e))

    def check(self, limit_s: float) -> None:
        """One run under the program's own checker."""
        begin = time.monotonic()
        done = self.shell(self.run_command or "", limit_s)
        self.row |= outcome(done)
        self.printed = printed(done)
        self.row["run_s"] = round(time.monotonic() - begin, 1)

    def scan(self, limit_s: float) -> None:
        """The first launches, one pass each: which kernel is hot."""
        log = self.root / "scan.csv"
        done = self.shell(profiled(self.run_command, log, ["-c", str(MAX_SCAN), "--kill", "yes"]), limit_s)
        launches = read_launches(log)
        if launches:
            self.row |= hot(launches)
        else:
            said = log.read_text(errors="replace") if log.is_file() else done.stdout + done.stderr
            self.row["fault"] = f"no launch measured: {said[-300:]}"

    def time(self, limit_s: float, function: str, skip: int) -> float | None:
        """Median microseconds of the launches of a function around its launch number `skip`, in a run of its own."""
        log = self.root / "time.csv"
        options = ["-k", function, "--launch-skip", str(max(0, skip - 2)), "-c", "5", "--kill", "yes"]
        self.shell(profiled(self.run_command, log, options), limit_s)
        rows = read_launches(log)
        return hot(rows)["us"] if rows else None

    def time_cold(self, limit_s: float, function: str, skip: int) -> float | None:
        """Microseconds of that launch alone, with caches flushed before it: as a report holds the original's time."""
        log = self.root / "time.csv"
        options = ["-k", function, "--launch-skip", str(skip), "-c", "1", "--kill", "yes"]
        self.shell(profiled(self.run_command, log, options, "all"), limit_s)
        rows = read_launches(log)
        return rows[0]["us"] if rows else None

    def capture(self, report: Path, limit_s: float) -> None:
        options = ["--set", "full", "--import-source", "no", "-k", self.row["function"]]
        options += ["--launch-skip", str(self.row["skip"]), "-c", "1", "--kill", "yes", "-f", "-o", str(report)]
        begin = time.monotonic()
        done = self.shell(" ".join([*NCU, *options, self.run_command or ""]), limit_s)
        self.row["capture_s"] = round(time.monotonic() - begin, 1)
        written = report.with_name(report.name + ".ncu-rep")
        if written.is_file():
            self.row["report"] = written.name
        else:
            self.row["fault"] = f"no report: {(done.stdout + done.stderr)[-300:]}"


def profiled(command: str | None, log: Path, options: list[str], caches: str = "none") -> str:
    base = [*NCU, "--metrics", "gpu__time_duration.sum", "--cache-control", caches, "--csv", "--page", "raw"]
    return " ".join([*base, "--log-file", str(log), *options, command or ""])


class Changed:
    """One optimised version of a program: its files, and what variant.json says of them."""

    def __init__(self, original: Program, version: Program, folder: Path) -> None:
        self.original, self.version, self.folder = original, version, folder
        self.spec: dict[str, Any] = json.loads((folder / original.slug / "variant.json").read_text())

    def build(self) -> bool:
        self.version.copy(self.folder / self.version.slug)
        done = self.version.build()
        if done:
            self.version.run_command = self.spec.get("run", self.version.run_command)
        return done

    def check(self, limit_s: float) -> None:
        if "fault" not in self.version.row:
            self.version.check(limit_s)

    def verdict(self) -> str | None:
        """Of the version's own check; where the program has none, whether it prints what the original prints."""
        said = self.version.row.get("check")
        if said == "says nothing" and self.original.printed:
            return "as before" if self.version.printed == self.original.printed else "prints otherwise"
        return said


def suite_of(name: str) -> str:
    """`rodinia/nw` -> `rodinia`; names without a suite are HeCBench's."""
    return name.partition("/")[0] if "/" in name else "hecbench"
