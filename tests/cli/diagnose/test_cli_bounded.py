"""`kscope analyze FILE --time ...`: bounds of machine code that ran without a profiler, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from kscope.model.contract.analysis import from_json
from tests.cli.running import kscope
from tests.support.sass import SOURCES, path

CODE = path("arithmetic.cu", "sm_90a")
LAUNCH = ("--grid", "4096", "--block", "256")
NO_STATE = {"KSCOPE_STATE_DIR": ""}
ONE = (CODE, "--kernel", "split_divide", "--time", "41us", *LAUNCH)


def bounds(*args: str | Path) -> dict[str, object]:
    done = kscope("analyze", *args, "--format", "json", env=NO_STATE)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    jsonschema.validate(value, json.loads(kscope("analyze", "--schema").stdout))
    assert from_json(done.stdout).programs[0].functions[0].bounded is not None
    found: dict[str, object] = value["programs"][0]["functions"][0]["bounded"]
    return found


def test_what_is_proved() -> None:
    found = bounds(*ONE, "--chip", "h200")
    resident = found["resident"]
    assert isinstance(resident, dict)
    assert (resident["warps"], resident["blocks"], resident["limits"]) == (64, 8, ["warps"])
    assert resident["waves"] == pytest.approx(4096 / 8 / 132, abs=1e-3)
    pipes = {p["pipe"]: p["share"] for p in found["pipes"]}  # type: ignore[attr-defined]
    assert 0 < pipes["XU"] < pipes["issue slots"] < 0.2
    assert found["device_bytes"] == pytest.approx(41e-6 * 4.815e12, rel=0.01)
    (loop,) = found["loops"]  # type: ignore[misc]
    assert loop["cycles"] > 8 and 1 < loop["rounds"] < 1000
    step = found["next"]
    assert isinstance(step, dict)
    assert (step["do"], step["code"], step["speedup"]) == ("go_on", "CMP205", None), "no gain without counters"
    assert all("ncu" in one["collect"] for one in found["unknown"])  # type: ignore[attr-defined]


def test_a_time_bounds_in_proportion() -> None:
    """Twice the time: half the share, twice the rounds and bytes."""
    short, long = bounds(*ONE), bounds(CODE, "--kernel", "split_divide", "--time", "82us", *LAUNCH)
    assert long["device_bytes"] == pytest.approx(2 * short["device_bytes"])  # type: ignore[operator]
    for a, b in zip(short["pipes"], long["pipes"], strict=True):  # type: ignore[call-overload]
        assert a["share"] == pytest.approx(2 * b["share"], abs=1e-3) and a["us"] == pytest.approx(b["us"], rel=0.05)
    assert long["loops"][0]["rounds"] == pytest.approx(2 * short["loops"][0]["rounds"])  # type: ignore[index]


def test_the_problem_says_stop_or_how_far() -> None:
    """A sum of 64M floats takes 59 us at the rate that device memory attains on an H200."""
    args = (CODE, "--kernel", "dot_packed", *LAUNCH, "--chip", "h200", "--problem", "reduce 64M fp32")
    near, far = bounds(*args, "--time", "62us"), bounds(*args, "--time", "600us")
    assert near["next"]["do"] == "stop" and "to the roof of the problem" in near["next"]["words"]  # type: ignore[index]
    assert far["next"]["do"] in ("go_on", "measure") and far["problem"]["above"] > 9  # type: ignore[index]


def test_the_text_says_bounds_and_what_is_missing() -> None:
    done = kscope("analyze", *ONE, "--chip", "h200")
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for words in ("nobody counted anything", "next go on: CMP205, gain unknown", "warps 64 of 64", "at least",
                  "at most", "only counters would tell", "--section SpeedOfLight", "kscope doctor"):  # fmt: skip
        assert words in text


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        ((CODE, "--time", "41us", *LAUNCH), 2, "--kernel REGEX takes one of"),
        ((CODE, "--time", "41us"), 2, "give --grid and --block"),
        ((CODE, "--grid", "4096"), 2, "give --time too"),
        ((CODE, "--chip", "h100"), 2, "give --time too"),
        ((*ONE, "--chip", "a100"), 2, "does not run on"),
        ((*ONE, "--chip", "nothing"), 2, "no chip"),
        ((*ONE, "--format", "html"), 2, "has the formats"),
        ((*ONE, "--fail-on", "major"), 2, "is for reports"),
        ((CODE, "--kernel", "split_divide", "--time", "soon", *LAUNCH), 2, "is no time"),
        ((CODE, "--kernel", "split_divide", "--time", "41us", "--grid", "0", "--block", "256"), 2, "is no launch"),
        ((CODE, "--kernel", "split_divide", "--time", "41us", "--grid", "9x9x9x9", "--block", "1"), 2, "is no launch"),
        ((CODE, "--kernel", "split_divide", "--time", "41us", "--grid", "9", "--block", "2048"), 2, "a block at most"),
        ((*ONE, "--dynamic-shared", "300000"), 2, "fits on an SM"),
        ((CODE, "--kernel", "no_such", "--time", "41us", *LAUNCH), 2, "no function matches"),
        (("/dev/null", "--time", "41us", *LAUNCH), 3, ""),
        ((SOURCES / "tcgen05.cu", "--time", "41us", *LAUNCH), 3, ""),
    ],
)  # fmt: skip
def test_what_is_refused(args: tuple[str | Path, ...], status: int, words: str) -> None:
    done = kscope("analyze", *args, env=NO_STATE)
    assert done.returncode == status and done.stdout == "" and "Traceback" not in done.stderr
    assert words in " ".join(done.stderr.split()), done.stderr
