"""`kscope sass A B --diff`, `kscope diff A B` of binaries, and --fail-on as a gate in continuous integration."""

from __future__ import annotations

import json

from tests.cli.running import kscope as run
from tests.support.sass import path

SCALAR = str(path("memory.cu", "sm_90a"))
FENCES = str(path("tma.cu", "sm_90a"))
ONE = ("--function", "^mix80_capped$")


def test_diff_of_two_targets() -> None:
    done = run("sass", SCALAR, str(path("memory.cu", "sm_100a")), "--diff", *ONE)
    assert done.returncode == 0, done.stderr
    assert "different targets: sm_90a and sm_100a" in done.stdout and "mix80_capped" in done.stdout


def test_a_binary_equals_itself() -> None:
    for words in (("sass", FENCES, FENCES, "--diff"), ("diff", FENCES, FENCES)):
        done = run(*words)
        assert done.returncode == 0 and done.stdout.startswith("No instruction differs")


def test_json() -> None:
    done = run("sass", SCALAR, SCALAR, "--diff", *ONE, "--format", "json")
    parsed = json.loads(done.stdout)
    assert done.returncode == 0 and parsed["schema"] == "kscope.sass-diff/1"
    (one,) = parsed["functions"]
    assert one["identical"] and one["remaining"] == ["MEM104"]


def test_findings_in_json() -> None:
    parsed = json.loads(run("sass", SCALAR, *ONE, "--format", "json").stdout)
    images = parsed["programs"] if isinstance(parsed, dict) else parsed
    (function,) = images[0]["functions"]
    assert [f["code"] for f in function["findings"]] == ["MEM104"] and "MEM105" in function["passed"]


def test_fail_on() -> None:
    for words, status in (
        (("MEM104",), 1), (("register-spills",), 1), (("major",), 1), (("critical",), 0), (("MEM105,CMP203",), 0),
        (("MEM105", "MEM1"), 1), (("nothing-such",), 2),
    ):  # fmt: skip
        done = run("sass", SCALAR, *ONE, *(part for word in words for part in ("--fail-on", word)))
        assert done.returncode == status, (words, done.stderr)


def test_fail_on_a_diff_counts_what_is_new() -> None:
    done = run("sass", FENCES, FENCES, "--diff", "--fail-on", "ASY505")
    assert done.returncode == 0, "what was there before is not new"


def test_usage() -> None:
    done = run("sass", SCALAR, "--diff")
    assert done.returncode == 2 and "BEFORE AFTER" in done.stderr
    done = run("diff", SCALAR, FENCES, "--format", "md")
    assert done.returncode == 2
    done = run("sass", SCALAR, "nothing.cubin", "--diff")
    assert done.returncode == 3 and "nothing.cubin" in done.stderr and len(done.stderr.splitlines()) == 1
