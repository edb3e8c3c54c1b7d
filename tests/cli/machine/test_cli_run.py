"""`kscope run`: the program is left alone, what is missing is named, what was recorded is diagnosed.

Real profilers: torch where the interpreter has it (or KSCOPE_TORCH_PYTHON names one that has); nsys and ncu need a GPU,
so here a stand-in plays their part: it writes to standard output as nsys does, and copies a real recording.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kscope.cli.machine import _record
from tests.cli.running import kscope
from tests.support import traces
from tests.support.reports import plain
from tests.support.thorough import some

TORCH = os.environ.get("KSCOPE_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else "")
torch = pytest.mark.skipif(not TORCH, reason="torch is not installed (KSCOPE_TORCH_PYTHON names a Python that has it)")
posix = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts as profilers")
ROOT = Path(__file__).resolve().parents[3]
LAUNCHER = Path(_record.__file__).with_name("_launcher.py")
CONFIG = {"steps": 2, "warmup": 3, "after": 0.1, "seconds": 0.1, "whole": False, "stop": False, "cuda": False,
          "shapes": True}  # fmt: skip

TRAIN = """
import sys, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
print("trained", sys.argv, __name__, flush=True)
sys.exit(int(sys.argv[2]))
"""

# Programs that watch the profiler: a recording that begins while a range is open that an earlier one saw begin is a
# write to memory that was given back (torch 2.13).
WATCHED = """
import sys, time, torch
from torch.autograd.profiler import record_function
from torch.profiler import profile
count, running, seen, torn, began = 0, False, {}, [], []
enter, leave, start, stop = record_function.__enter__, record_function.__exit__, profile.start, profile.stop
def entered(one):
    if running: seen[id(one)] = count, one.name
    return enter(one)
def left(one, *args):
    seen.pop(id(one), None)
    return leave(one, *args)
def started(one):
    global count, running
    torn.extend(name for during, name in seen.values() if during <= count)
    count, running = count + 1, True
    began.append(count)
    start(one)
def stopped(one):
    global running
    stop(one)
    running = False
record_function.__enter__, record_function.__exit__, profile.start, profile.stop = entered, left, started, stopped
count, running = 1, True  # the recording that began with the import
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
decorated = record_function("decorated")(lambda: (time.sleep(0.02), model(torch.randn(4, 8)).sum()))
def train(steps):
    for i in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
def call(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: decorated()
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        call(2)
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad
BODY
print("torn", torn, "recordings", count)
"""


def launched(folder: Path, *args: str, **config: object) -> subprocess.CompletedProcess[str]:
    config = {**CONFIG, "out": str(folder / "t.json"), **config}
    command = [sys.executable, str(LAUNCHER), json.dumps(config), *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_a_script_sees_what_it_would_see_alone(tmp_path: Path) -> None:
    """argv, __name__, __file__, the import path, and a module of its folder that is called like one of ours."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "analyze.py").write_text("where = 'mine'")
    script = tmp_path / "sub" / "s.py"
    script.write_text(
        "import sys, analyze, pickle\nclass A: pass\npickle.loads(pickle.dumps(A()))\n"
        "print(sys.argv, __name__, __file__, sys.path[0], analyze.where, __spec__ if '__spec__' in globals() else None)"
    )
    alone = subprocess.run([sys.executable, "sub/s.py", "-x", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert launched(tmp_path, "script", "sub/s.py", "-x", "1").stdout == alone.stdout != ""
    (tmp_path / "m.py").write_text("import sys; print(sys.argv[1:], __name__, sys.path[0])")
    alone = subprocess.run([sys.executable, "-m", "m", "2"], cwd=tmp_path, capture_output=True, text=True)
    assert launched(tmp_path, "module", "m", "2").stdout == alone.stdout != ""
    code = "import sys; print(sys.argv, repr(sys.path[0]), __name__)"
    alone = subprocess.run([sys.executable, "-c", code, "2"], cwd=tmp_path, capture_output=True, text=True)
    assert launched(tmp_path, "code", code, "2").stdout == alone.stdout != ""


def test_a_script_fails_as_it_would_alone(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    alone = subprocess.run([sys.executable, "s.py"], cwd=tmp_path, capture_output=True, text=True)
    mine = launched(tmp_path, "script", "s.py")
    assert mine.returncode == alone.returncode == 1
    assert mine.stderr.replace(str(tmp_path), "") == alone.stderr.replace(str(tmp_path), "")
    (tmp_path / "s.py").write_text("raise SystemExit(9)")
    assert launched(tmp_path, "script", "s.py").returncode == 9


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["python", "-u", "-X", "dev", "s.py", "-m"], (["python", "-u", "-X", "dev"], "script", "s.py", ["-m"])),
        (["/usr/bin/python3.12", "-m", "a.b", "--x"], (["/usr/bin/python3.12"], "module", "a.b", ["--x"])),
        (["python3", "-c", "pass"], (["python3"], "code", "pass", [])),
        (["python3"], None),
        (["python3", "-"], None),
        (["./app", "python3"], None),
    ],
)
def test_python_command_lines(command: list[str], wanted: object) -> None:
    assert _record._python(command) == wanted


@posix
def test_console_script(tmp_path: Path) -> None:
    script = tmp_path / "trainer"
    script.write_text(f"#!{sys.executable}\nprint(1)\n")
    script.chmod(0o755)
    assert _record._python([str(script), "-v"]) == ([sys.executable], "script", str(script), ["-v"])


def test_wrong_usage(tmp_path: Path) -> None:
    for args, words in (
        (("--tool", "torch", "--", "sh", "-c", "true"), "--tool nsys"),
        (("--", "no-such-program-here"), "no such program"),
        (("--tool", "torch", "--", sys.executable, "-m", "torch.distributed.run", "x.py"), "one rank"),
        (("--format", "json", "--", sys.executable, "x.py"), "-o FILE"),
        (("--record", "a.ncu-rep", "--tool", "torch", "--", sys.executable, "x.py"), ".json"),
        ((), "CMD"),
    ):
        done = kscope("run", *args)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    there = tmp_path / "there.json"
    there.write_text("{}")
    for option in ("--record", "-o"):
        done = kscope("run", "--tool", "torch", option, there, "--", sys.executable, "-c", "print(1)")
        assert done.returncode == 2 and "exists" in done.stderr and done.stdout == ""
    assert there.read_text() == "{}"


def test_nothing_recorded() -> None:
    done = kscope("run", "--tool", "torch", "--", sys.executable, "-c", "print('alone')")
    assert done.returncode == 3 and done.stdout == "alone\n" and "did not import torch" in done.stderr
    done = kscope("run", "--tool", "torch", "--", sys.executable, "-c", "raise SystemExit(5)")
    assert done.returncode == 3 and "ended with status 5" in done.stderr


@posix
@pytest.mark.parametrize("tool", ["nsys", "ncu"])
def test_missing(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool, no GPU, no permission: one line, status 4, and how to get it."""
    from kscope.cli.machine import _probe
    from kscope.model.errors import KscopeError
    from kscope.parsers import toolchain

    plan = _record.Plan(tmp_path / f"r{_record.SUFFIXES[tool][0]}")
    monkeypatch.setattr(toolchain, "locate", lambda name: None)
    with pytest.raises(KscopeError) as e:
        _record.record(tool, [sys.executable], plan)
    assert e.value.status == 4 and "https://developer.nvidia.com" in e.value.hint
    monkeypatch.setattr(toolchain, "locate", lambda name: Path("/bin/true") if name == tool else None)
    monkeypatch.setattr(_record, "gpu_here", lambda: False)
    with pytest.raises(KscopeError) as e:
        _record.record(tool, [sys.executable], plan)
    assert (e.value.status, e.value.code) == (4, "no-gpu")
    if tool == "ncu":
        params = tmp_path / "params"
        params.write_text("RmProfilingAdminOnly: 1\n")
        monkeypatch.setattr(_probe, "DRIVER", tmp_path)
        monkeypatch.setattr(_record, "gpu_here", lambda: True)
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(KscopeError) as e:
            _record.record(tool, [sys.executable], plan)
        assert (e.value.status, e.value.code) == (4, "no-counters") and "NVreg" in e.value.hint


STAND_IN = """#!{python}
import shutil, subprocess, sys
args = sys.argv[1:]
if "--list-sections" in args:
    sys.exit(print("PmSampling_WarpStates"))
begin = args.index(sys.executable if sys.executable in args else {program!r})
flags, command = args[:begin], args[begin:]
print("noise of the profiler", flush=True)
status = subprocess.call(command, close_fds=False)
if "--log-file" in flags:
    out = flags[flags.index("-o") + 1]
    with open(flags[flags.index("--log-file") + 1], "w") as log:
        print({said!r}, file=log)
        if status:
            print(f"==ERROR== The application returned an error code ({{status}}).", file=log)
else:
    out = next(a for a in flags if a.startswith("--output=")).partition("=")[2]
if {writes}:
    shutil.copyfile({recording!r}, out + {suffix!r})
sys.exit(status)
"""


@posix
def test_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "real"
    recording.write_bytes(plain("bank_conflict.slow"))
    found = stand_in(tmp_path, monkeypatch, "ncu", recording, "==PROF== Connected")
    assert (found.status, found.path.read_bytes()) == (3, recording.read_bytes())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["program", "r.ncu-rep", "real", "tool"]
    found.path.unlink()
    from kscope.model.errors import KscopeError

    with pytest.raises(KscopeError) as e:
        stand_in(tmp_path, monkeypatch, "ncu", recording, "==WARNING== No kernels were profiled.", writes=False)
    assert e.value.status == 3 and "No kernels were profiled" in e.value.message and "--kernel" in e.value.hint
    with pytest.raises(KscopeError) as e:
        stand_in(tmp_path, monkeypatch, "ncu", recording, "==ERROR== ERR_NVGPUCTRPERM", writes=False)
    assert e.value.status == 4


@posix
def test_nsys_leaves_standard_output_to_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "real"
    recording.write_bytes(lzma.decompress(traces.path("sync").read_bytes()))
    found = stand_in(tmp_path, monkeypatch, "nsys", recording, "")
    assert found.status == 3 and found.path.is_file()
    assert capfd.readouterr().out == "output of the program\n"


def stand_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tool: str, recording: Path, said: str, writes: bool = True
) -> _record.Recorded:
    from kscope.cli.machine import _probe
    from kscope.parsers import toolchain

    script, program = folder / "tool", folder / "program"
    suffix = _record.SUFFIXES[tool][0]
    program.write_text("#!/bin/sh\necho output of the program\nexit 3\n")
    script.write_text(
        STAND_IN.format(
            python=sys.executable, program=str(program), said=said, writes=writes, recording=str(recording),
            suffix=suffix,
        )
    )  # fmt: skip
    for one in (script, program):
        one.chmod(0o755)
    monkeypatch.setattr(toolchain, "locate", lambda name: script if name == tool else None)
    monkeypatch.setattr(_probe, "DRIVER", folder / "none")
    monkeypatch.setattr(_record, "gpu_here", lambda: True)
    return _record.record(tool, [str(program)], _record.Plan(folder / f"r{suffix}"))


def _ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, report: Path, writes: bool = True) -> Path:
    """A stand-in for ncu that keeps its command line in `said`, and copies a report."""
    script = folder / "ncu"
    script.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        "if '--list-sections' in sys.argv: sys.exit(0)\n"
        f"open({str(folder / 'said')!r}, 'a').write(repr(sys.argv[1:]) + chr(10))\n"
        f"if {writes}: shutil.copy({str(report)!r}, sys.argv[sys.argv.index('-o') + 1] + '.ncu-rep')\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "said"


def test_the_commands_that_a_recording_asks_for() -> None:
    """Of the longest kernels each a launch of the third step; nothing where the time goes elsewhere."""
    command = ("--", "./app", "two words")
    done = kscope("run", "--deep", "--trace", traces.path("md"), "--dry-run", *command)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    words = shlex.split(line)
    assert words[words.index("--kernel-name") + 1] == "regex:^forces$" and words[-2:] == ["./app", "two words"]
    assert words[words.index("--launch-count") + 1] == "1"
    analyzed = json.loads(kscope("analyze", traces.path("md"), "--format", "json").stdout)
    (kernel,) = analyzed["timelines"][0]["to_profile"]
    assert words[words.index("--launch-skip") + 1] == str(kernel["skip"])
    done = kscope("run", "--deep", "--trace", traces.path("launch_bound"), "--dry-run", *command)
    assert done.returncode == 0 and not done.stdout and "no kernel is worth a profile" in done.stderr


@pytest.mark.parametrize("options", ["--dry-run", "--trace t", "--deep --dry-run", "--deep --tool ncu"])
def test_deep_options_that_make_no_sense(options: str) -> None:
    assert kscope("run", *options.split(), "--", "./app").returncode == 2


@posix
@pytest.mark.parametrize("writes", [True, False])
def test_profiles_what_matters_and_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """The stand-in gives the counters of other kernels: what is tested is which launches are asked for, that their
    reports are read beside the recording, and that one that fails is said."""
    from kscope.cli.machine import _deep, _probe
    from kscope.engine.run import analyze_paths

    report = tmp_path / "real"
    report.write_bytes(plain("multi_kernels"))
    said = _ncu(tmp_path, monkeypatch, report, writes)
    monkeypatch.setattr(_record, "gpu_here", lambda: True)
    monkeypatch.setattr(_probe, "DRIVER", tmp_path / "none")
    trace = traces.path("gpu_bound")
    analysis = analyze_paths([trace])
    assert len(analysis.timelines[0].to_profile) == 3
    found = _deep.deeper(analysis, trace, ["true"], _record.Plan(tmp_path / "r.json"), None)
    lines = [eval(line) for line in said.read_text().splitlines()]
    asked = [(a[a.index("--kernel-name") + 1], int(a[a.index("--launch-skip") + 1]), a[-1]) for a in lines]
    assert [skip for _, skip, _ in asked] == [k.skip for k in analysis.timelines[0].to_profile]
    assert len({name for name, _, _ in asked}) == 3 and all(program == "true" for *_, program in asked)
    assert bool(found.kernels) is writes
    assert found.timelines[0].input == str(trace)


@posix
def test_profiles_that_cannot_be_read_here_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without NVIDIA's reader the work is not lost: the files stay where the user is, with the command that joins."""
    from kscope.cli.machine import _deep, _probe
    from kscope.engine.run import analyze_paths

    (tmp_path / "report").write_bytes(b"nothing that can be read here")
    _ncu(tmp_path, monkeypatch, tmp_path / "report")
    monkeypatch.setattr(_record, "gpu_here", lambda: True)
    monkeypatch.setattr(_probe, "DRIVER", tmp_path / "none")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    here, gone = tmp_path / "here", tmp_path / "temporary" / "kscope-x"
    here.mkdir()
    gone.mkdir(parents=True)
    monkeypatch.chdir(here)
    (here / "train.1.ncu-rep").write_text("of the run before")
    shutil.copy(traces.path("gpu_bound"), gone / "train.json.xz")
    analysis = analyze_paths([gone / "train.json.xz"])
    found = _deep.deeper(analysis, gone / "train.json.xz", ["true"], _record.Plan(gone / "train.json.xz"), None)
    assert found.timelines and not found.kernels
    assert (here / "train.1.ncu-rep").read_text() == "of the run before"
    (line,) = (one for one in capfd.readouterr().err.splitlines() if "this joins them" in one)
    words = shlex.split(line[line.index("kscope analyze") :])
    assert words[2:] == ["train.json.xz", "train-1.1.ncu-rep", "train.2.ncu-rep", "train.3.ncu-rep"]
    assert all((here / name).stat().st_size > 10 for name in words[2:])


def test_a_machine_without_the_reader_says_so(tmp_path: Path) -> None:
    (tmp_path / "ncu_report.py").write_text("raise ImportError('no build for this platform')")
    report = traces.TRACES / "app_kernels.ncu-rep.xz"
    found = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "kscope", "analyze", str(report)], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": found}, check=False,
    )  # fmt: skip
    assert done.returncode == 4 and "no build for this platform" in done.stderr
    assert "pip install ncu-report" in done.stderr and "record it again" not in done.stderr


@torch
def test_training_steps(tmp_path: Path) -> None:
    """Two steps after three; the program's output, its arguments and its status are its own."""
    (tmp_path / "train.py").write_text(TRAIN)
    record = tmp_path / "t.json.gz"
    args = ("--steps", "2", "--record", record, "-o", tmp_path / "r.md", "--", TORCH, tmp_path / "train.py", "9", "0")
    done = kscope("run", *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"trained {[str(tmp_path / 'train.py'), '9', '0']} __main__\n"
    assert "2 steps after 3" in done.stderr and ("no NVIDIA GPU here" in done.stderr or _record.gpu_here())
    import gzip

    names = [e.get("name") for e in json.loads(gzip.decompress(record.read_bytes()))["traceEvents"]]
    assert {n for n in names if str(n).startswith("kscope step")} == {"kscope step 0", "kscope step 1"}
    assert sum(str(n).startswith("Optimizer.step") for n in names) <= 3
    done = kscope("run", "-o", tmp_path / "r.html", "--", TORCH, tmp_path / "train.py", "9", "0")
    assert done.returncode == 0 and "<!doctype html>" in (tmp_path / "r.html").read_text("utf-8")
    done = kscope("run", "--", TORCH, tmp_path / "train.py", "4", "6")
    assert done.returncode == 3 and "1 steps after 3" in done.stderr and "ended with status 6" in done.stderr


@torch
@pytest.mark.parametrize(
    ("body", "recorded"),
    some([("train(9)", "2 steps after 3"), ("train(4)", "1 steps after 3; the program ended there"),
     ("train(3)", "its first 2 steps"), ("train(1)", "all of it"),
     ("with record_function('epoch'): train(9)", "2 steps after 3"),
     ("call(4)", "0.3 s, "), ("with record_function('all'): call(3)", "its first "),
     ("with record_function('first'): call(1)\ncall(2)", "0.3 s, "),
     ("Slow.apply(torch.ones(3, requires_grad=True))", "")], 5),
)  # fmt: skip
def test_a_recording_begins_outside_the_ranges_of_the_one_before(tmp_path: Path, body: str, recorded: str) -> None:
    (tmp_path / "s.py").write_text(WATCHED.replace("BODY", body))
    config = {**CONFIG, "out": str(tmp_path / "t.json"), "after": 0.3, "seconds": 0.3}
    command = [TORCH, str(LAUNCHER), json.dumps(config), "script", str(tmp_path / "s.py")]
    perturbed = {**os.environ, "MALLOC_PERTURB_": "165"}  # memory that was given back is overwritten at once
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, env=perturbed
    )
    assert done.returncode == 0, done.stderr
    assert "torn [] recordings " in done.stdout
    state = json.loads((tmp_path / "t.json.state").read_text())
    assert state["recorded"].startswith(recorded) and state["recorded"] and not state["fault"]
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


@torch
def test_timed_recording_and_stop() -> None:
    endless = "import torch\nwhile True: torch.randn(9)"
    args = ("--after", "0.2", "--seconds", "0.2", "--stop", "--format", "json", "-o", "-")
    done = kscope("run", *args, "--", TORCH, "-W", "ignore", "-c", endless)
    assert done.returncode == 0 and json.loads(done.stdout)["timelines"], done.stderr
