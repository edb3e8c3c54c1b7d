"""Proposals against the versions that were measured to be better: how many are those, or as good, and why the others
are not; and how many are still what they claim when they are pasted and compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.compute import crossed
from kscope.fixes.given.setting import Asked
from kscope.fixes.memory import staged, turned
from kscope.fixes.pipeline import ring
from kscope.fixes.thread import fewer_lanes
from kscope.fixes.tile import own_rows
from kscope.fixes.work import halved
from kscope.model.contract.fixes import Fix
from kscope.reports.text.fix import patch
from tests.support import reports
from tests.support.patches import FIXTURES
from tests.support.reports import fixture
from tests.support.thorough import ALL, some
from tests.support.with_sources import changes
from tools import fixes, fixes_better, fixes_built, fixes_pairs

BUILT: list[dict[str, Any]] = tomllib.loads((FIXTURES / "fixes" / "built.toml").read_text("utf-8"))["built"]
AGAIN = [
    ("bank_conflict.slow", "swizzle"), ("gemm_bf16.mma", "swizzle"), ("int_division.slow", "divisor"),
    ("atomics.slow", "aggregate"), ("dct8.capped", "launch_bounds"), ("gemm_f32.coalesced", "tile"),
    ("narrow_loads.slow", "neighbours"), ("potential.ieee", "math_function"),
]  # fmt: skip


@pytest.mark.slow
def test_proposals_are_the_measured_versions_or_as_good() -> None:
    rows = fixes.pairs(reports.every_case() if ALL else reports.chosen())
    words = Counter(row.judged.word for row in rows)
    if ALL:
        assert words["same"] >= 25
        assert words["same"] + words["as good"] >= 73
        assert words["less"] <= 19  # two of them were never timed: blend.alias, carve.little
    assert words["same"] + words["as good"] >= len(rows) / 2
    for row in rows:
        one = row.judged
        if one.word == "as good":
            assert one.after is not None and one.better is not None, row.case
        if one.word == "none":
            assert one.reason and "\n" not in one.reason, row.case


@pytest.mark.slow
def test_each_better_version_has_a_change_that_is_it_or_as_good() -> None:
    rows = fixes.pairs(reports.every_case() if ALL else reports.chosen())
    assert rows
    assert {row.case: row.judged.word for row in rows if row.fix is None or row.judged.word in ("none", "less")} == {}


def test_most_of_what_is_pasted_has_what_was_proposed() -> None:
    has = Counter(row["has"] for row in BUILT)
    assert len(BUILT) >= 50
    assert has["no build"] == 0 and has["no"] == 0
    assert has["unknown"] <= 0.1 * len(BUILT), "the code shows no launch: how large blocks are, who of them works"
    assert has["yes"] >= 0.9 * (len(BUILT) - has["unknown"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
@pytest.mark.parametrize(("case", "kind"), some(AGAIN, 4))
def test_pasted_changes_compile_and_are_found_again(case: str, kind: str, tmp_path: Path) -> None:
    row = next(r for r in fixes_built.one(case, tmp_path, kind) if r["kind"] == kind)
    assert row["has"] == "yes", row


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None or shutil.which("cpp") is None, reason="no nvcc or no cpp here")
@pytest.mark.parametrize(
    ("case", "rule", "maker"),
    some([
        ("rotors.all_sites", "LAT305", halved.fixes), ("chol8.direct", "MEM101", staged.fixes),
        ("paged_kv.tokens", "MEM101", turned.fixes), ("batch4.wait", "LAT307", ring.fixes),
        ("digits.thread_rows", "MEM103", own_rows.fixes), ("fp8_quant.strided", "MEM102", fewer_lanes.fixes),
        ("manhattan.one", "MEM112", crossed.fixes),
    ], 3),
)  # fmt: skip
def test_better_versions_that_were_not_captured_are_not_told_the_same(
    case: str, rule: str, maker: Callable[[Asked], list[Fix]], tmp_path: Path
) -> None:
    """Compiled from their source, and asked as if the same had been found in them."""
    (old, *_) = subjects(str(fixture(case)), None, fixes_built.lines_of)
    finding = next(f for f in old.findings if f.code == rule)
    better = fixes_better.better_subject(case, old, tmp_path)
    assert better is not None and better.setting.launch is not None
    assert maker(Asked(old.setting, finding)) and not maker(Asked(better.setting, finding))


def test_a_line_that_is_another_one_is_not_pasted_over() -> None:
    fix = changes("bank_conflict.slow", "MEM103")[0]
    with pytest.raises(ValueError, match="another one"):
        fixes_built.pasted("\n" * 200, fix, "transpose_tile")


def test_a_source_is_cut_to_one_kernel() -> None:
    text = (
        '#define TWICE(x) { x; \\\n x; }\n// a "comment" {\nconstexpr int N = 4; struct P { int a; };\n'
        "__device__ int f(int x) { return x; }\nvoid host() { g<<<1, 1>>>(); }\nCASE(a, b, { host(); })\n"
        "__global__ void g(int* p) { *p = f('{'); }\n__global__ void other() {}\n"
    )
    cut = fixes_built.alone(text, ["g"])
    assert cut.count("\n") == text.count("\n")
    assert "struct P" in cut and "#define TWICE" in cut and "int f(" in cut and "void g(" in cut
    assert "host" not in cut and "other" not in cut


def test_instances_keep_their_arguments() -> None:
    assert fixes_built.instance("void f<(int)2, g<int>>(float*)", "f", "f") == "f<(int)2, g<int>>"
    assert fixes_built.instance("f(float*)", "f", "f") == "f"


def test_digests_tell_code_apart() -> None:
    slow, fast = (fixes_pairs.setting(f"bank_conflict.{v}") for v in ("slow", "fast"))
    assert slow is not None and fast is not None
    assert re.fullmatch(r"[0-9a-f]{12}", fixes_pairs.digest(slow))
    assert fixes_pairs.digest(slow) == fixes_pairs.digest(slow)
    naive = fixes_pairs.setting("gemm_f32.naive")
    assert naive is not None and fixes_pairs.digest(naive) != fixes_pairs.digest(slow)


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("int_division.slow", "CMP205"), ("groupby_f64.global", "MEM109"), ("levels.each", "MEM118"),
        ("mie.powf", "CMP204"), ("unpack.byte", "MEM102"),
    ],
)  # fmt: skip
def test_printed_patches_apply(case: str, rule: str, tmp_path: Path) -> None:
    """By git, which wants every line and every count right; the result is what the paste makes."""
    fix = changes(case, rule)[0]
    source = fixes_built.source_of(fix, case)
    assert source is not None
    text = source.read_text("utf-8")
    (tmp_path / "k.cu").write_text(text, encoding="utf-8")
    lines = [re.sub(r"^(---|\+\+\+) .*", lambda m: f"{m[1]} {'ab'[m[1] == '+++']}/k.cu", x) for x in patch(fix)]
    diff = "\n".join(lines[next(n for n, x in enumerate(lines) if x.startswith("---")) :]) + "\n"
    command = ["git", "apply", "--unidiff-zero", "-"]
    done = subprocess.run(command, cwd=tmp_path, input=diff, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = fixes_built.pasted(text, fix, fixes_pairs.facts(case).kernel.name)
    applied = (tmp_path / "k.cu").read_text("utf-8")
    assert [x for x in applied.split("\n") if x.strip()] == [x for x in wanted.split("\n") if x.strip()]
