"""Many inputs: workers that take turns, a tally by parser, and a folder with what was found."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn

from msgspec import Struct, field

from tools.fuzz import child, judge
from tools.fuzz.inputs import Input, Maker

KEPT = 3  # inputs of one kind of finding that are written out; more of them only count


class Tally(Struct):
    """What came of one parser's inputs. Times in seconds, memory in KiB of one process."""

    inputs: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    contained: Counter[str] = field(default_factory=Counter)
    cpu: float = 0.0
    slowest: float = 0.0
    memory: int = 0


class Found(Struct, frozen=True):
    """One finding: the input, what kind it is and what was seen."""

    parser: str
    number: int
    kind: str
    seen: str


def preload() -> None:
    """Import all that a command may import, so that its fork does not. One thread: forks carry no others."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import kscope

    for module in pkgutil.walk_packages(kscope.__path__, "kscope."):
        if not module.name.endswith(("__main__", "_launcher", "reports.plot", "reports.notebook")):
            importlib.import_module(module.name)
    for name in ("ncu_report", "rich.console", "rich.table", "zstandard", "lzma", "elftools.elf.elffile", "decimal"):
        with_it = importlib.util.find_spec(name.partition(".")[0])
        if with_it is not None:
            importlib.import_module(name)
    from kscope.rules.registry import all_lints, all_rules

    all_rules()
    all_lints()


def run(
    plan: Sequence[tuple[str, int]], seed: int, *, jobs: int, keep: Path, more: Path | None = None,
    show: IO[str] | None = None,
) -> tuple[dict[str, Tally], list[Found]]:  # fmt: skip
    """Run (parser, number) after (parser, number). keep: the folder that findings are written to. show: progress.
    Ctrl-C ends it with what there is so far."""
    preload()
    makers = {parser: Maker(parser, seed, more) for parser in sorted({parser for parser, _ in plan})}
    gc.collect()
    gc.freeze()
    tallies: dict[str, Tally] = {}
    found: list[Found] = []
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(KeyboardInterrupt):
        for done, line in enumerate(_lines(plan, makers, jobs), 1):
            parser, number = line["parser"], line["number"]
            tally = tallies.setdefault(parser, Tally())
            _count(tally, line)
            if show and tally.contained[line["contained"]] == 1:
                print(f"{parser} {number}: kept by a fence: {line['contained']}", file=show, flush=True)
            for kind, seen in line["findings"]:
                one = Found(parser, number, kind, seen)
                if sum(_alike(one) == _alike(other) for other in found) < KEPT:
                    write(makers[parser].make(number), kind, seen, keep)
                    if show:
                        print(f"{parser} {number}: {kind}: {seen[:300]}", file=show, flush=True)
                found.append(one)
            if show and done % 500 == 0:
                print(f"{done} of {len(plan)} inputs, {len(found)} findings", file=show, flush=True)
    return tallies, found


def _count(tally: Tally, line: dict) -> None:
    tally.inputs += 1
    tally.statuses[line["status"]] += 1
    tally.cpu += line["cpu"]
    tally.slowest = max(tally.slowest, line["wall"])
    tally.memory = max(tally.memory, line["memory"])
    tally.findings.update(kind for kind, _ in line["findings"])
    if line["contained"]:
        tally.contained[line["contained"]] += 1


def _alike(found: Found) -> str:
    """The same for findings of one kind, whatever the figures in what was seen."""
    return f"{found.parser} {found.kind} {re.sub(r'[0-9a-fx]*[0-9][0-9a-f]*', '#', found.seen)[:80]}"


def write(one: Input, kind: str, seen: str, keep: Path) -> Path:
    """An input with the command that repeats it, in a folder of its own."""
    folder = keep / f"{one.parser}-{one.seed}-{one.number}"
    if not folder.exists():
        folder.mkdir(parents=True)
        child.lay_out(one, folder)
    with (folder / "COMMAND").open("a", encoding="utf-8") as file:
        print(f"# {kind}: {seen!a}", file=file)
        print(f"python -m kscope {shlex.join(one.words)}", file=file)
        print(f"# python -m tools.fuzz --parser {one.parser} --seed {one.seed} --only {one.number}", file=file)
    return folder


def _lines(plan: Sequence[tuple[str, int]], makers: dict[str, Maker], jobs: int) -> Iterator[dict]:
    """What the workers report, as it comes."""
    pipes: dict[int, tuple[int, bytearray]] = {}
    for worker in range(jobs):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            for other in (reading, *pipes):  # or a worker would not see that nobody listens to it any more
                os.close(other)
            _work(plan[worker::jobs], makers, writing)
        os.close(writing)
        pipes[reading] = pid, bytearray()
    import select

    while pipes:
        for reading in select.select(list(pipes), [], [])[0]:
            pid, buffer = pipes[reading]
            data = os.read(reading, 1 << 16)
            buffer += data
            while (end := buffer.find(b"\n")) >= 0:
                yield json.loads(buffer[:end])
                del buffer[: end + 1]
            if not data:
                os.close(reading)
                del pipes[reading]
                _, state = os.waitpid(pid, 0)
                if state:
                    raise RuntimeError(f"a worker ended with {os.waitstatus_to_exitcode(state)}")


def _work(plan: Sequence[tuple[str, int]], makers: dict[str, Maker], writing: int) -> NoReturn:
    status = 1
    try:
        child.adopt()
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, os.fdopen(writing, "w") as out:
            for parser, number in plan:
                one = makers[parser].make(number)
                ended = child.run(one, Path(folder, "run"))
                told = {
                    "parser": parser, "number": number, "status": str(ended.status), "wall": ended.wall,
                    "cpu": ended.cpu, "memory": ended.memory, "findings": judge.findings(one, ended),
                    "contained": judge.contained(ended),
                }  # fmt: skip
                print(json.dumps(told), file=out, flush=True)
        status = 0
    except BrokenPipeError:  # whoever asked is gone
        pass
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)
