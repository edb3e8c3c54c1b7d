"""`kscope fix`: changes in full, as a patch, as JSON; and whether a new version has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import CONFLICTS, TRIAD, kscope
from tests.support.patches import FIXTURES


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_first_change_is_printed_in_full() -> None:
    done = kscope("fix", CONFLICTS)
    assert done.returncode == 0, done.stderr
    assert "-  __shared__ float t[32][32 + PAD];\n+  __shared__ float t[32][32 + PAD + 1];" in done.stdout
    assert "wavefronts of the 8 accesses of t: 69,206,016 to 4,194,304" in words(done.stdout)
    assert "swizzle t" in done.stdout and "(threadIdx.x) ^" not in done.stdout, "the second is in the list alone"


def test_a_number_chooses_and_lines_are_whole() -> None:
    done = kscope("fix", CONFLICTS, "shared-bank-conflicts", "--number", "2")
    assert done.returncode == 0, done.stderr
    assert "t[threadIdx.y + j][(threadIdx.x) ^ ((threadIdx.y + j) & 31)] = in[(size_t)(y + j) * n + x];" in done.stdout


def test_a_patch_applies_to_the_source(tmp_path: Path, report: Callable[[str], Path]) -> None:
    import shutil
    import subprocess

    done = kscope("fix", CONFLICTS, "--format", "patch")
    assert done.returncode == 0, done.stderr
    name = next(line[4:] for line in done.stdout.splitlines() if line.startswith("--- "))
    text = next(iter(_sources(report("bank_conflict.slow")).values()))
    (tmp_path / "kernel.cu").write_text(text)
    if shutil.which("patch") is None:
        pytest.skip("no patch here")
    made = subprocess.run(
        ["patch", "kernel.cu"], input=done.stdout.replace(name, "kernel.cu"), cwd=tmp_path, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert "float t[32][32 + PAD + 1];" in (tmp_path / "kernel.cu").read_text()


def _sources(path: Path) -> dict[str, str]:
    from kscope.parsers.ncu.kernels import read_kernels

    (kernel,) = read_kernels(str(path))
    return dict(kernel.sources)


def test_json_has_the_change_and_its_proof() -> None:
    done = kscope("fix", CONFLICTS, "MEM103", "--format", "json")
    report = json.loads(done.stdout)
    assert report["schema"] == "kscope.fixes/1"
    assert [p["fix"]["kind"] for p in report["proposals"]] == ["pad", "swizzle"]
    assert report["proposals"][0]["fix"]["proof"][0]["after"] == 4194304


@pytest.mark.parametrize(
    ("slow", "fast", "status", "told"),
    [
        ("bank_conflict.slow", "bank_conflict.fast", 0, "is there"),
        ("bank_conflict.slow", "bank_conflict.slow", 1, "is not there"),
        ("gemm_bf16.mma", "gemm_bf16.swizzled", 0, "is there"),
        ("horner.separate", "horner.fused", 0, "is there"),
        ("dct8.capped", "dct8.capped", 1, "is not there"),
        ("fp64_literal.slow", "fp64_literal.fast", 0, "is there"),
    ],
)
def test_a_new_version_has_the_change_or_not(
    slow: str, fast: str, status: int, told: str, report: Callable[[str], Path]
) -> None:
    done = kscope("fix", report(slow), "--check", report(fast), "--function", ".")
    assert done.returncode == status, done.stdout + done.stderr
    assert told in done.stdout


def test_promised_against_delivered(report: Callable[[str], Path]) -> None:
    done = kscope("fix", CONFLICTS, "--check", report("bank_conflict.fast"), "--format", "json")
    (one,) = json.loads(done.stdout)["checked"]
    assert one["has"] == "yes" and one["kept"] is True
    assert one["promised"]["low"] <= one["delivered"] <= one["promised"]["high"]


def test_a_binary_without_sources_gets_functions_of_offsets() -> None:
    done = kscope("fix", FIXTURES / "sass" / "tiles.sm_90a.cubin.xz", "MEM103")
    assert done.returncode == 0, done.stderr
    assert "constexpr unsigned" in done.stdout
    assert "every address of the tile goes through it (to check" in words(done.stdout)


def test_nothing_to_change_is_no_fault() -> None:
    done = kscope("fix", TRIAD)
    assert done.returncode == 0 and "Nothing to change" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((CONFLICTS, "--number", "9"), 2, "no number 9"),
        ((CONFLICTS, "MEM999"), 2, "MEM999"),
        ((CONFLICTS, "--function", "nobody"), 2, "no kernel matches"),
        (("/nonexistent.ncu-rep",), 3, "nonexistent"),
        ((CONFLICTS, "--check", "/nonexistent.cubin"), 3, "nonexistent"),
    ],
)
def test_faults_are_one_line(arguments: tuple[str, ...], status: int, told: str) -> None:
    done = kscope("fix", *arguments)
    assert done.returncode == status
    assert told in done.stderr and "Traceback" not in done.stderr


def test_a_change_that_answers_several_findings_is_listed_once(report: Callable[[str], Path]) -> None:
    path = str(report("best4.block"))
    root = ("--source-root", str(FIXTURES / "kernels"))
    said = json.loads(kscope("fix", path, "--format", "json", *root).stdout)["proposals"]
    every = [p for p in said if not p["fix"].get("refused")]
    titles = [p["fix"]["title"] for p in every]
    assert len(set(titles)) < len(titles), "JSON has the change at each finding"
    listed = kscope("fix", path, *root).stdout
    assert all(words(listed[: listed.index("best4_block(")]).count(title) == 1 for title in set(titles))
    first, *others = (p["code"] for p in every if p["fix"]["title"] == titles[0])
    assert f"{titles[0]}; also for {', '.join(dict.fromkeys(others))}" in words(listed)
    chosen = json.loads(kscope("fix", path, "--format", "json", "--number", "1", *root).stdout)["proposals"]
    assert [(p["code"], p["also"]) for p in chosen] == [(first, list(dict.fromkeys(others)))]


def test_one_of_several_ways_is_enough() -> None:
    from kscope.engine.code.fixing import lacking
    from kscope.model.contract.fixes import Checked

    def said(code: str, has: str) -> Checked:
        return Checked(kernel="k", code=code, kind="pad", what="", old=1, new=0, has=has)  # type: ignore[arg-type]

    assert not lacking([said("MEM103", "yes"), said("MEM103", "no")])
    assert lacking([said("MEM103", "yes"), said("MEM103", "no"), said("MEM104", "partly")])
    assert lacking([said("MEM103", "unknown"), said("MEM103", "no")])
    assert not lacking([said("MEM103", "unknown")])
