"""Whole runs through the command: task files, formats, gates, sweeps that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kscope.bench.task import file, scaffold
from kscope.model.errors import KscopeError
from tests.support import thorough
from tests.support.thorough import often, some

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "candidates"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
REFERENCE = "def total(x):\n    return x.sum(-1)\n"


def kscope(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kscope", *arguments], cwd=folder, env=ENVIRONMENT, text=True,
                          capture_output=True, timeout=240, check=False)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ref.py").write_text(REFERENCE)
    (tmp_path / "fast.py").write_text("import numpy as np\ndef total(x):\n    return np.add.reduce(x, axis=-1)\n")
    (tmp_path / "half.py").write_text("def total(x):\n    return x[..., ::2].sum(-1) * 2\n")
    return tmp_path


ARGUMENTS = ("--reference", "ref.py:total", "--inputs", "x[m,n]", "--shapes", "m=32,n=64", "--no-worklog")


def test_formats_and_gates(folder: Path) -> None:
    done = kscope("bench", "fast.py:total", *ARGUMENTS, "--seconds", "0.3", "-o", "a.json", folder=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "a.json").read_text())
    assert found["schema"] == "kscope.bench/1" and found["verdict"] in ("faster", "slower", "inconclusive")
    assert all(one["ok"] for one in found["checks"]) and {one["cache"] for one in found["timings"]} == {"cold", "hot"}
    wrong = kscope("bench", "half.py:total", *ARGUMENTS, "--format", "junit", "--fail-if-slower", "5", folder=folder)
    assert wrong.returncode == 1 and wrong.stderr.startswith("FAIL INCORRECT half.py:total incorrect: ")
    suite = ET.fromstring(wrong.stdout)
    assert int(suite.attrib["failures"]) > 0
    for format_ in some(("md", "html", "text"), 1):
        done = kscope("bench", "half.py:total", *ARGUMENTS, "--format", format_, folder=folder)
        assert done.returncode == 0 and "incorrect" in done.stdout
    blind = kscope("bench", "fast.py:total", *ARGUMENTS, "--no-time", "--fail-if-slower", "5", folder=folder)
    assert blind.returncode == 3 and "could not look" in blind.stderr
    found["timings"] = [{**one, "candidate_us": 1e-3} for one in found["timings"]]
    (folder / "before.json").write_text(json.dumps(found))
    slower = kscope("bench", "fast.py:total", *ARGUMENTS, "--seconds", "0.3", "--fail-if-slower", "5", "--against",
                    "before.json", folder=folder)  # fmt: skip
    assert slower.returncode == 1 and "before" in slower.stderr
    assert all(line.startswith("FAIL SLOWER fast.py:total m=32 n=64 ") for line in slower.stderr.splitlines())


def test_bad_input_is_one_line(folder: Path) -> None:
    (folder / "raises.py").write_text("raise RuntimeError('no')\n")
    (folder / "broken.toml").write_text("[task]\nreference = 'ref.py:total'\nnonsense = 1\n")
    for arguments, status in (
        (("bench", "gone.py:total", *ARGUMENTS), 3),
        (("bench", "fast.py:total", "--reference", "raises.py", "--inputs", "x[m]", "--shapes", "m=3"), 3),
        (("bench", "broken.toml"), 3),
        (("bench", "fast.py:total", "--inputs", "x[m]"), 2),
        (("bench", "fast.py:total", *ARGUMENTS, "--dtype", "float7"), 2),
    ):
        done = kscope(*arguments, folder=folder)
        assert done.returncode == status, (arguments, done.stderr)
        assert "Traceback" not in done.stderr and "internal" not in done.stderr
    raises = kscope("bench", "raises.py:total", *ARGUMENTS, folder=folder)
    assert raises.returncode == 0 and raises.stdout.startswith("incorrect") and "RuntimeError" in raises.stdout


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("tolerance = nan", "tolerance cannot be nan"),
        ("tolerance = -1", "tolerance cannot be -1"),
        ("multiple = {m = 0}", "multiple: m = 0"),
        ("multiple = {q = 8}", "no dimension 'q'"),
        ("flop = 'm *'", '"m *" is no size'),
        ("reduction = '" + "(" * 5000 + "'", "..."),
        ("compute = 'float7'", "no data type 'float7'"),
    ],
)
def test_a_task_that_nothing_can_go_by(folder: Path, more: str, says: str) -> None:
    """Before anything is judged by it: a bound that is NaN would accuse whatever it is asked about."""
    (folder / "t.toml").write_text("[task]\ncandidate = 'fast.py:total'\nreference = 'ref.py:total'\n"
                                   f"inputs = 'x[m,n]'\nshapes = ['m=32,n=64']\n{more}\n")  # fmt: skip
    done = kscope("bench", "t.toml", "--no-time", "--no-worklog", folder=folder)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr
    assert done.stderr.count("\n") == 1 and len(done.stderr) < 400


def test_what_is_no_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.toml")
    os.symlink("/dev/zero", folder / "zero.json")
    for arguments in (("pipe.toml",), ("fast.py:total", *ARGUMENTS, "--fail-if-slower", "5", "--against", "zero.json")):
        done = subprocess.run([sys.executable, "-m", "kscope", "bench", *arguments], cwd=folder, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=30)  # fmt: skip
        assert done.returncode == 3 and "not a file" in done.stderr and done.stderr.count("\n") == 1


def test_shapes_without_elements_prove_nothing(folder: Path) -> None:
    arguments = ("bench", "half.py:total", "--reference", "ref.py:total", "--inputs", "x[m,n]", "--no-time")
    done = kscope(*arguments, "--shapes", "m=0,n=64", folder=folder)
    assert done.returncode == 2 and "every shape is empty" in done.stderr
    done = kscope(*arguments, "--shapes", "m=0,n=64", "--shapes", "m=4,n=64", folder=folder)
    assert done.returncode == 0 and done.stdout.startswith("incorrect")


def test_a_reference_without_an_answer_accuses_nobody(folder: Path) -> None:
    for number, returned in enumerate(("None", "(x.sum(-1), None)")):
        (folder / f"none{number}.py").write_text(f"def total(x):\n    return {returned}\n")
        done = kscope("bench", "fast.py:total", "--reference", f"none{number}.py:total", *ARGUMENTS[2:], folder=folder)
        assert done.returncode == 3 and "it returns" in done.stderr and not done.stdout, done.stdout


def test_a_name_that_is_not_there_fails_every_check(folder: Path) -> None:
    done = kscope("bench", "fast.py:sum_up", *ARGUMENTS, "--no-time", folder=folder)
    assert done.stdout.startswith("incorrect") and "fast has no 'sum_up'" in done.stdout
    assert "Unusable" not in done.stdout and "\n0 of " in done.stdout, "no special value is refused by nothing"


def test_a_task_that_its_candidate_edits(folder: Path) -> None:
    (folder / "edits.py").write_text(
        "import os\ndef total(x):\n    with open(os.path.join(os.path.dirname(__file__), 'task.toml'), 'a') as f:\n"
        "        f.write('tolerance = 9.0\\n')\n    return x.sum(-1)\n"
    )
    (folder / "task.toml").write_text(
        "[task]\ncandidate = 'edits.py:total'\nreference = 'ref.py:total'\ninputs = 'x[m,n]'\nshapes = ['m=8,n=8']\n"
    )
    done = kscope("bench", "task.toml", "--format", "json", "--no-worklog", folder=folder)
    found = json.loads(done.stdout)
    assert {40, 44} <= {one["cheat"] for one in found["findings"]} and found["verdict"] == "not comparable"


def test_a_crash_is_the_candidates_own(folder: Path) -> None:
    (folder / "dies.py").write_text("import os, signal\ndef total(x):\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    (folder / "leaves.py").write_text("import os\ndef total(x):\n    os._exit(0)\n")
    for name in ("dies", "leaves"):
        done = kscope("bench", f"{name}.py:total", *ARGUMENTS, "--format", "json", folder=folder)
        assert json.loads(done.stdout)["verdict"] == "incorrect", done.stderr


def test_a_candidate_that_hangs_is_named_with_its_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.bench.judge import hold
    from kscope.bench.judge.seat import Seat, Where
    from kscope.bench.task.spec import Task, params, source

    (folder / "hangs.py").write_text("import time\ndef total(x):\n    time.sleep(1000)\n")
    monkeypatch.setattr(hold, "PATIENCE", 2.0)
    code = source("hangs.py:total", folder)
    task = Task(code, code, inputs=params("x[m,n]"), cases=({"m": 8, "n": 8},))
    seat = Seat(task, code, Where("numpy", "cpu", folder), "candidate")
    try:
        seat.open({"m": 8, "n": 8}, "float32")
        says = r'no answer within 2 s; it was in File ".*hangs\.py", line 3 in total'
        with pytest.raises(hold.Died, match=says) as told:
            seat.run([0])
        assert told.value.kind == "hung" and seat.hold is not None and seat.hold.process.poll() is not None
    finally:
        seat.close()


def test_a_player_under_a_tool_answers_the_same(folder: Path) -> None:
    """As Nsight Compute starts it: with no descriptor of ours, over a socket's path."""
    import numpy as np

    from kscope.bench.judge.hold import Died
    from kscope.bench.judge.inputs import generator, make
    from kscope.bench.judge.seat import Seat, Where
    from kscope.bench.task.spec import Task, params, source

    code = source("fast.py:total", folder)
    task = Task(code, code, inputs=params("x[m,n]"), cases=({"m": 8, "n": 8},))
    data = make(task, task.cases[0], "float32", "normal", generator())
    seat = Seat(task, code, Where("numpy", "cpu", folder), "candidate", tool=("env", "-u", "NOTHING"))
    seat.open(task.cases[0], "float32")
    (got,) = seat.once(data)
    assert np.allclose(got.raw, data.arrays()[0].sum(-1), atol=1e-5)
    process = seat.hold and seat.hold.process
    seat.close(5.0)
    assert process and process.poll() == 0, "it ended by itself"
    with pytest.raises(Died, match="false did not start it"):
        Seat(task, code, Where("numpy", "cpu", folder), "candidate", tool=("false",)).open(task.cases[0], "float32")


@thorough.only
def test_modules_that_a_candidate_imports_are_no_hidden_code(folder: Path) -> None:
    """The folder of work is the candidate's: `<frozen importlib>`, which reads their code, is no file in it."""
    (folder / "imports.py").write_text("import colorsys, wave\ndef total(x):\n    return x.sum(-1)\n")
    for _ in range(2):  # the second time their code comes from a cache
        told = json.loads(kscope("bench", "imports.py:total", *ARGUMENTS, "--no-time", "--format", "json",
                                 folder=folder).stdout)  # fmt: skip
        assert told["findings"] == [] and told["verdict"] == "correct", told["sentence"]


@thorough.only
def test_in_place_work_is_declared(folder: Path) -> None:
    (folder / "scale.py").write_text("def run(x):\n    x *= 2\n    return x\n")
    (folder / "twice.py").write_text("def run(x):\n    return x * 2\n")
    text = "[task]\ncandidate = 'scale.py:run'\nreference = 'twice.py:run'\ninputs = 'x[m]'\nshapes = ['m=4096']\n"
    (folder / "task.toml").write_text(text)
    told = json.loads(kscope("bench", "task.toml", "--format", "json", "--no-worklog", folder=folder).stdout)
    assert told["verdict"] == "incorrect" and 32 in {one["cheat"] for one in told["findings"]}
    (folder / "task.toml").write_text(text + "changes = ['x']\n")
    told = json.loads(
        kscope("bench", "task.toml", "--format", "json", "--seconds", "0.3", "--no-worklog", folder=folder).stdout
    )
    assert told["verdict"] in ("faster", "slower", "inconclusive"), told["sentence"]


@thorough.only
@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(folder: Path) -> None:
    """Many shapes, killed at random, again and again: each is run once and none is lost."""
    rows, columns = [str(m) for m in range(1, 6)], [str(n) for n in range(3, often(27, 15), 3)]
    arguments = ["bench", "fast.py:total", *ARGUMENTS, "--no-time", "--only-shapes", "--journal", "sweep.jsonl",
                 "--sweep", f"m={','.join(rows)}", "--sweep", f"n={','.join(columns)}", "--format", "json"]  # fmt: skip
    dice, kills, journal, before = random.Random(11), 0, folder / "sweep.jsonl", b""
    while kills < often(3, 2):
        process = subprocess.Popen([sys.executable, "-m", "kscope", *arguments], cwd=folder, env=ENVIRONMENT,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        time.sleep(dice.uniform(2.0, 6.0))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        if journal.is_file():
            now = journal.read_bytes()
            assert now.startswith(before), "what was done stays as it was"
            before = now
    assert kills, "it was done before it could be killed once"
    with journal.open("ab") as file_:
        file_.write(b'{"key": "cut')  # as a kill in the middle of a line leaves it
    done = kscope(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    assert journal.read_bytes().startswith(before)
    told = json.loads(done.stdout)
    assert told["verdict"] == "correct", told["sentence"]
    assert [(row["dims"]["m"], row["dims"]["n"]) for row in told["variants"]] == [
        (int(m), int(n)) for m in rows for n in columns
    ]
    assert {row["verdict"] for row in told["variants"]} == {"correct"}
    keys = [json.loads(line)["key"] for line in journal.read_bytes().split(b"\n") if line.endswith(b"}")]
    assert len(keys) == len(set(keys)) == len(rows) * len(columns)
    before = journal.read_bytes()
    again = kscope(*arguments, folder=folder)
    assert again.returncode == 0 and journal.read_bytes() == before


def test_a_result_is_noted_in_the_worklog(folder: Path, report, monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.bench.session.kept import note
    from kscope.bench.values.result import SCHEMA, Result
    from kscope.worklog.adding import Given, add
    from kscope.worklog.store import Worklog

    log = Worklog(folder / ".kscope" / "worklog.db")
    result = Result(schema=SCHEMA, kscope="0", candidate="a.py:f", reference="b.py:f", baseline="b.py:f", device="x",
                    verdict="faster", sentence="faster 1.43x (1.40-1.46)")  # fmt: skip
    assert note(log, result) is None and not log.exists
    entry = add(log, report("bank_conflict.slow"), Given(), None)
    assert note(log, result) == entry.number
    (text,) = log.entry(entry.number).notes
    assert "faster 1.43x (1.40-1.46)" in text and "a.py:f against b.py:f" in text


def test_models_with_inputs_of_their_own(folder: Path) -> None:
    """As KernelBench writes its tasks: Model, ModelNew, get_inputs, get_init_inputs."""
    pytest.importorskip("torch")
    model = (
        "import torch\nclass {name}(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(n, 8)\n    def forward(self, x, k):\n        return {body}\n"
        "def get_inputs():\n    return [torch.rand(4, 16), 3]\ndef get_init_inputs():\n    return [16]\n"
    )
    (folder / "model.py").write_text(model.format(name="Model", body="self.linear(x) * k"))
    (folder / "new.py").write_text(
        model.format(name="ModelNew", body="torch.addmm(self.linear.bias, x, self.linear.weight.t()) * k")
    )
    (folder / "off.py").write_text(model.format(name="ModelNew", body="self.linear(x) * 2"))
    for name, verdict in (("new", "correct"), ("off", "incorrect")):
        done = kscope("bench", f"{name}.py", "--reference", "model.py", "--no-time", "--no-worklog", "--format", "json",
                      folder=folder)  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["verdict"] == verdict, told["sentence"]


@pytest.mark.parametrize("language", scaffold.LANGUAGES)
def test_init_writes_a_task_that_is_read(tmp_path: Path, language: str) -> None:
    made = scaffold.write(tmp_path / "row_sum", language)
    kernel = "kernel.cu" if language == "cuda" else "kernel.py"
    assert {one.name for one in made} == {kernel, "reference.py", "task.toml", "Makefile", ".gitignore"}
    task = file.read(tmp_path / "row_sum" / "task.toml")
    assert task.inputs and len(task.cases) == 2 and Path(task.candidate.path).is_file()
    assert not any("@" in one.read_text() for one in made if one.suffix == ".toml" or one.name == "Makefile")
    with pytest.raises(KscopeError, match="exists already"):
        scaffold.write(tmp_path / "row_sum", language)


def test_init_in_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = kscope("init", "loop", folder=tmp_path)
    assert done.returncode == 2 and "loop" in done.stderr and done.stderr.count("\n") == 1


def test_what_init_writes_is_right(tmp_path: Path) -> None:
    scaffold.write(tmp_path / "row_sum", "numpy")
    done = kscope("bench", "task.toml", "--no-time", "--format", "json", "--no-worklog", folder=tmp_path / "row_sum")
    assert json.loads(done.stdout)["verdict"] == "correct", done.stdout[:300]


def test_dimensions_are_known_in_a_launch(folder: Path) -> None:
    (folder / "into.py").write_text("def kernel(x, y, n, BLOCK):\n    y[:] = x[:, :n].sum(-1) + 0 * BLOCK\n")
    done = kscope("bench", "into.py:kernel", *ARGUMENTS, "--outputs", "y[m]", "--launch",
                  "kernel(x, y, n, BLOCK=BLOCK)", "-D", "BLOCK=64", "--no-time", "--format", "json",
                  folder=folder)  # fmt: skip
    told = json.loads(done.stdout)
    assert told["verdict"] == "correct", told["sentence"]


@thorough.only
def test_one_source_is_compiled_by_many_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from kscope.bench.task.build import library
    from kscope.bench.task.spec import Task, params, source

    code = source("rms_rows.cpp", HERE)
    task = Task(code, code, inputs=params("x[m,n] w[n]"), outputs=params("y[m,n]"), cases=({"m": 4, "n": 4},),
                launch="rms(x, w, y, m, n)")  # fmt: skip
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: library(task, code, "float32", tmp_path), range(6)))
    assert len(set(made)) == 1 and made[0].is_file() and not list(tmp_path.glob("*.part"))


def test_a_shape_that_takes_long_is_checked_on_less(folder: Path) -> None:
    from kscope.bench.session.machine import placed
    from kscope.bench.session.run import bench
    from kscope.bench.session.state import Options
    from kscope.bench.task.spec import Task, params, source

    task = placed(Task(source("fast.py:total", folder), source("ref.py:total", folder), inputs=params("x[m,n]"),
                       cases=({"m": 8, "n": 8}, {"m": 4, "n": 16})))  # fmt: skip
    found = bench(task, Options(time=False, check_seconds=0.0))
    assert found.verdict == "correct" and [(one.dims["m"], one.inputs) for one in found.checks] == [
        (8, "normal"), (8, "integers"), (4, "normal"), (4, "integers")]  # fmt: skip
    assert any("checks are left out" in note for note in found.notes)


def test_a_launch_that_fails_has_its_name(folder: Path) -> None:
    (folder / "fails.py").write_text(
        "class LaunchFailed(Exception): ...\ndef total(x):\n    raise LaunchFailed('invalid argument')\n"
    )
    done = kscope("bench", "fails.py:total", *ARGUMENTS, "--format", "json", folder=folder)
    told = json.loads(done.stdout)
    assert told["verdict"] == "incorrect" and {one["cheat"] for one in told["findings"]} == {30}, told["sentence"]
