"""A slice of `make fuzz`, the same inputs each time, and the harness itself: it sees what must not be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import environment, python
from tests.support import thorough
from tests.support.thorough import ALL, often
from tools.fuzz.inputs import PARSERS, SHARES

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux alone tells what is left of a process")
COUNT, SEED = often(350, 60), 12
MAY_FAIL = {"folder"}  # nearly all of them have a good file


def test_the_slice(tmp_path: Path) -> None:
    """Inputs of all parsers end as promised, and the mutations leave some of each that can be read."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--count", str(COUNT), "--seed", str(SEED), "--jobs", "1", "--keep",
         str(tmp_path / "found")], capture_output=True, text=True, timeout=900, env=environment(None), check=False,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    rows = {row[0]: list(map(int, row[1:9])) for line in done.stdout.splitlines()[1:-1] if (row := line.split())}
    assert set(rows) == set(PARSERS) and not (tmp_path / "found").exists()
    for parser, (inputs, fine, _, _, unreadable, *_, other, findings) in rows.items():
        assert inputs == round(COUNT * SHARES[parser]) and (other, findings) == (0, 0)
        assert not ALL or (fine and (unreadable or parser in MAY_FAIL)), (parser, rows[parser])


MADE = f"COUNT = {often(8, 3)}" + """
import hashlib, sys
from tools.fuzz.inputs import PARSERS, Maker
for parser in PARSERS:
    maker = Maker(parser, 3)
    for number in range(COUNT):
        print(hashlib.sha256(repr(maker.make(number)).encode()).hexdigest())
"""


@thorough.only
def test_an_input_is_its_parser_seed_and_number() -> None:
    first, second = (python("-c", MADE, env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2"))
    assert first == second and len(set(first.split())) == often(8, 3) * len(PARSERS)


ENDS = """
import json, os, subprocess, sys, tempfile
from pathlib import Path
from tools.fuzz import child, judge
from tools.fuzz.inputs import Input
from kscope.cli import start

def says(text, status=0, stream=1):
    os.write(stream, text)
    os._exit(status)

def takes(size):
    print(len(bytearray(size)))

def starts():
    if os.fork() == 0:
        os.setsid()
        import time
        time.sleep(60)
    says(b"fine")

ENDS = {
    "fine": lambda: says(b"fine"),
    "internal error": lambda: says(b"kscope: internal error", 70, 2),
    "uncaught": lambda: 1 / 0,
    "crash": os.abort,
    "endless": lambda: os.read(os.pipe()[0], 1),
    "greedy": lambda: says(b"kscope: it asks for more memory than there is", 3, 2),
    "refused memory": lambda: takes(1 << 33),
    "left a process": starts,
    "left a file": lambda: (tempfile.mkstemp(), says(b"fine")),
    "changed its input": lambda: (os.unlink("a"), says(b"fine")),
    "left in the cache": lambda: (Path(os.environ["KSCOPE_CACHE_DIR"], "x.tmp").touch(), says(b"fine")),
    "escape": lambda: says(b"\\x1b[31m"),
    "not UTF-8": lambda: says(b"\\xff"),
    "warning": lambda: (os.write(2, b"a.py:7: RuntimeWarning\\n"), says(b"fine")),
    "no JSON": lambda: says(b"{"),
    "without a word": lambda: says(b"", 3),
    "two lines": lambda: says(b"kscope: a\\nkscope: b\\n", 3, 2),
    "nothing": lambda: says(b""),
}
child.adopt()
child.GRACE = 0.2
found = {}
for name, end in ENDS.items():
    start.main = end
    one = Input("kineto", 0, 0, {"a": b""}, ["analyze", "a", *(["--format", "json"] if name == "no JSON" else [])])
    with tempfile.TemporaryDirectory() as folder:
        ended = child.run(one, Path(folder, "run"), seconds=2 if name == "endless" else 60, memory=4 << 30)
    found[name] = sorted({kind for kind, _ in judge.findings(one, ended)})
print(json.dumps(found))
"""


def test_whatever_must_not_be_is_a_finding() -> None:
    done = python("-c", ENDS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("fine") == []
    kinds = {
        "internal error": "status", "uncaught": "status", "crash": "signal", "endless": "time", "greedy": "memory",
        "refused memory": "status", "left a process": "orphan", "left a file": "leftover",
        "changed its input": "leftover", "left in the cache": "leftover",
    }  # fmt: skip
    for name, seen in found.items():
        assert kinds.get(name, "output") in seen, (name, seen)
