"""Gates: one line a violation, known ones let pass, and status 3 where nothing could be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import CONFLICTS, TRIAD, kscope
from tests.support import reports, traces
from tests.support.sass import path

PADDED = reports.fixture("bank_conflict.fast")
SUMS = reports.fixture("csr.warp")
CODE = str(path("memory.cu", "sm_90a"))
LINE = "FAIL MEM103 transpose_tile<0> dev_kernels.cu:75 0x0290"


def host_only(folder: Path) -> Path:
    events = [traces.event("cpu_op", "aten::mm", 0, 5), traces.event("cuda_runtime", "cudaMalloc", 1, 2)]
    return traces.trace(folder, events)


def test_a_violation_is_one_line_the_same_from_every_command(tmp_path: Path) -> None:
    for command in ("analyze", "sass"):
        for more in ((), ("--format", "json"), ("-o", str(tmp_path / f"{command}.html"))):
            done = kscope(command, CONFLICTS, "--fail-on", "MEM103", *more)
            assert done.returncode == 1
            told = ("Wrote", "kscope: of a report")
            assert [line for line in done.stderr.splitlines() if not line.startswith(told)] == [LINE]
    done = kscope("sass", CODE, "--function", "^mix80_capped$", "--fail-on", "register-spills")
    assert done.returncode == 1 and done.stderr.startswith("FAIL MEM104 mix80_capped ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("limit", "status"),
    [("gain>2.2", 1), ("gain>1.2", 1), ("gain>=1.2x", 1), ("gain>40", 0), ("GAIN > 2.2", 1), ("MEM104,gain>40", 0)],
)
def test_a_gain_is_a_limit(limit: str, status: int) -> None:
    done = kscope("analyze", CONFLICTS, "--fail-on", limit)
    assert done.returncode == status and bool(done.stderr) == bool(status), done.stderr


@pytest.mark.parametrize("limit", ["gain<2", "gain", "gain>", "gain>x", "speed>2", "gain=2"])
def test_a_gain_that_is_not_understood_is_wrong_usage(limit: str) -> None:
    done = kscope("analyze", CONFLICTS, "--fail-on", limit)
    assert (done.returncode, done.stdout) == (2, "")


def test_known_violations_pass_and_are_counted(tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    assert kscope("analyze", CONFLICTS, "-o", base).returncode == 0
    done = kscope("analyze", CONFLICTS, "--fail-on", "major", "--baseline", base)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1) and "known from" in done.stderr
    other = kscope("analyze", TRIAD, "--fail-on", "MEM102,MEM107", "--baseline", base)
    assert other.returncode == 1 and other.stderr.startswith("FAIL ") and "known" not in other.stderr


def test_what_was_less_grave_is_not_known(tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    kscope("analyze", CONFLICTS, "-o", base)
    data = json.loads(base.read_text())
    for finding in data["kernels"][0]["findings"]:
        finding["severity"] = "minor"
    base.write_text(json.dumps(data))
    done = kscope("analyze", CONFLICTS, "--fail-on", "critical", "--baseline", base)
    assert done.returncode == 1 and LINE in done.stderr


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": "kscope.diff/1", "kscope": "0"}', "\0", "[" * 100_000])
def test_a_baseline_that_is_none_is_status_3(text: str, tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    base.write_text(text)
    done = kscope("analyze", CONFLICTS, "--fail-on", "major", "--baseline", base)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1) and "base.json" in done.stderr


def test_a_baseline_alone_is_wrong_usage(tmp_path: Path) -> None:
    assert kscope("analyze", CONFLICTS, "--baseline", tmp_path / "no.json").returncode == 2
    assert kscope("analyze", CONFLICTS, "--fail-on", "major", "--baseline", tmp_path / "no.json").returncode == 3
    assert kscope("analyze", CONFLICTS, "--fail-on", "major", "--baseline", tmp_path).returncode == 3


def test_a_gate_that_could_not_look_is_status_3(tmp_path: Path) -> None:
    empty = host_only(tmp_path)
    for args, said in (
        ((empty, "--fail-on", "major"), "no GPU operation was recorded"),
        ((CONFLICTS, "--fail-on", "OVH601"), "OVH601: it does not look at kernels"),
        ((CONFLICTS, "--select", "MEM104", "--fail-on", "MEM103"), "MEM103: it does not look at"),
        ((CONFLICTS, empty, "--fail-on", "MEM104"), "no GPU operation was recorded"),
    ):
        done = kscope("analyze", *args)
        assert done.returncode == 3 and done.stdout, args
        assert len(done.stderr.splitlines()) == 1 and "the gate could not look" in done.stderr and said in done.stderr
        assert kscope("analyze", *args[: args.index("--fail-on")]).returncode == 0
    done = kscope("sass", CODE, "--fail-on", "MEM101")
    assert done.returncode == 3 and "MEM101" in done.stderr, "no lint looks for it"
    done = kscope("sass", CODE, "--fail-on", "gain>1.2")
    assert done.returncode == 3 and "gain: machine code alone tells none" in done.stderr
    done = kscope("sass", CODE, CODE, "--diff", "--fail-on", "MEM104")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_input_that_was_not_read_is_no_pass(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ncu-rep"
    bad.write_bytes(b"NVR\0")
    assert kscope("analyze", bad, PADDED).returncode == 0
    done = kscope("analyze", bad, PADDED, "--fail-on", "MEM104")
    assert done.returncode == 3 and "bad.ncu-rep: was not read" in done.stderr
    met = kscope("analyze", bad, CONFLICTS, "--fail-on", "MEM103")
    assert met.returncode == 1 and LINE in met.stderr and "could not look" in met.stderr


def test_why_is_json_where_errors_are(tmp_path: Path) -> None:
    done = kscope("analyze", host_only(tmp_path), "--fail-on", "major", "--format", "json")
    assert done.returncode == 3 and json.loads(done.stderr)["error"]["code"] == "gate-blind"
    assert json.loads(done.stdout)["timelines"]


def test_a_name_that_nothing_has_is_wrong_usage_everywhere() -> None:
    recording = traces.path("launch_bound")
    for args in (
        ("analyze", CONFLICTS, "--kernel", "zzz"), ("analyze", recording, "--kernel", "zzz"),
        ("sass", CODE, "--function", "zzz"), ("sass", CONFLICTS, "--function", "zzz"),
        ("diff", CONFLICTS, PADDED, "--kernel", "zzz"), ("diff", CODE, CODE, "--kernel", "zzz"),
    ):  # fmt: skip
        done = kscope(*args)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), args
        assert "matches 'zzz'" in done.stderr


def test_hostile_names_stay_on_their_line(tmp_path: Path) -> None:
    name = "k\x1b[2J\nFAIL MEM999 x\u202e"
    events = [e for i in range(40) for e in traces.launch(i + 1, 10 * i, 10 * i + 5, 3, name)]
    events += [traces.event("cpu_op", name, 0, 400)]
    done = kscope("analyze", traces.trace(tmp_path, events, "a\nFAIL b.json"), "--fail-on", "info")
    assert "\x1b" not in done.stderr and "\u202e" not in done.stderr
    assert all(line.startswith(("FAIL OVH", "kscope: ")) for line in done.stderr.splitlines()), done.stderr


def test_slower_is_one_line_a_kernel() -> None:
    done = kscope("diff", PADDED, CONFLICTS, "--fail-if-slower", "5")
    assert (done.returncode, done.stderr) == (
        1, "FAIL SLOWER transpose_tile<0> 143.6 us -> 327.7 us, 128.3 % more\n"
    )  # fmt: skip
    assert kscope("diff", CONFLICTS, PADDED, "--fail-if-slower", "5").stderr == ""


def test_nothing_compared_is_no_pass() -> None:
    args = ("diff", SUMS, CONFLICTS, "--fail-if-slower", "5")
    done = kscope(*args)
    assert done.returncode == 3 and "csr_warp" in done.stdout
    assert "paired by a guess" in done.stderr and "--allow-unmatched" in done.stderr
    assert kscope(*args, "--allow-unmatched").returncode == 0
    paired = kscope(*args, "--match", "csr_(warp)=transpose_tile")
    assert paired.returncode == 1 and paired.stderr.startswith("FAIL SLOWER transpose_tile<0> 29.7 us")
    assert kscope("diff", CONFLICTS, PADDED, "--allow-unmatched").returncode == 2
    code = kscope("diff", CODE, CODE, "--fail-if-slower", "5")
    assert code.returncode == 3 and "machine code has no times" in code.stderr


def test_a_kernel_without_a_partner_is_no_pass() -> None:
    several = reports.fixture("multi_kernels")
    done = kscope("diff", several, CONFLICTS, "--fail-if-slower", "5")
    assert done.returncode == 3 and "only before" in done.stderr and "only before" in done.stdout


def test_recordings_without_gpu_work_are_not_compared(tmp_path: Path) -> None:
    empty = host_only(tmp_path)
    done = kscope("diff", empty, empty, "--fail-if-slower", "5")
    assert done.returncode == 3 and "no GPU operation" in done.stderr


@pytest.mark.parametrize("rule", ["x", "=x", "x=", "(=x", "x=(", "nothing=transpose", "csr=nothing", r"csr=\7"])
def test_a_match_that_pairs_nothing_is_wrong_usage(rule: str) -> None:
    done = kscope("diff", SUMS, CONFLICTS, "--match", rule)
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr


@pytest.mark.parametrize("percent", ["nan", "inf", "-1"])
def test_a_threshold_that_nothing_meets_is_wrong_usage(percent: str) -> None:
    """NaN is larger than nothing: the gate would be open for ever."""
    done = kscope("diff", PADDED, CONFLICTS, f"--fail-if-slower={percent}")
    assert done.returncode == 2 and "--fail-if-slower" in done.stderr and not done.stdout
    done = kscope("bench", "fast.py:f", "--reference", "ref.py:f", f"--fail-if-slower={percent}")
    assert done.returncode == 2 and "--fail-if-slower" in done.stderr
