"""`kscope dev new-rule` in a copy of the checkout: what it writes is a rule, refused is what cannot be one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import reports

ROOT = Path(__file__).resolve().parents[3]
LISTED = ("kscope/rules/registry.py", "tests/rules/test_docs.py", "tests/rules/test_on_captures.py")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package and the tests of rules, without fixtures."""
    root = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "kscope", root / "kscope", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "rules", root / "tests" / "rules", ignore=ignore)
    return root


def kscope(*words: str, cwd: Path, package: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kscope", *words], cwd=cwd, text=True, timeout=60,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip


@pytest.mark.parametrize(("code", "slug", "more"), [("MEM190", "made-up-loads", ()), ("GRD490", "x9", ("--counters",))])
def test_what_it_writes_is_a_rule(code: str, slug: str, more: tuple[str, ...], copy: Path) -> None:
    """It is listed, explained, checked by the type checker's rules of the house, and runs on a real report."""
    before = {path: (copy / path).read_text("utf-8") for path in LISTED}
    done = kscope("dev", "new-rule", code, slug, *more, cwd=copy)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("wrote ") == 4 and "make golden" in done.stdout
    for path, text in before.items():
        added = set((copy / path).read_text("utf-8").splitlines()) - set(text.splitlines())
        assert len(added) == 1 and len((copy / path).read_text("utf-8").splitlines()) == len(text.splitlines()) + 1
    listed = kscope("rules", cwd=copy, package=copy)
    assert f"{code}  {slug}" in listed.stdout, listed.stderr
    assert kscope("explain", slug, cwd=copy, package=copy).stdout.count("TODO") > 5
    linted = subprocess.run(
        [sys.executable, *"-m ruff check --isolated --no-cache --line-length 120 --select E,F,I kscope/rules".split()],
        cwd=copy, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout
    report = reports.fixture("list_walk.serial")
    found = kscope("analyze", str(report), "--select", code, "--format", "json", cwd=copy, package=copy)
    assert found.returncode == 0 and f'"{code}"' in found.stdout, found.stderr


def test_its_tests_fail_until_the_author_has_written_it(copy: Path) -> None:
    assert kscope("dev", "new-rule", "LAT390", "made-up-wait", cwd=copy).returncode == 0
    script = """
import tests.rules.test_docs as t
t.test_catalogue(), t.test_no_rule_file_is_forgotten()
print("listed")
t.test_page("LAT390")
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=copy, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip
    assert ran.stdout == "listed\n" and "in test_page" in ran.stderr and "AssertionError" in ran.stderr


@pytest.mark.parametrize(
    ("code", "slug", "says"),
    [
        ("MEM101", "another", "is taken by uncoalesced-global-access"),
        ("MEM190", "register-spills", "is called register-spills already"),
        ("MEM190", "Not A Name", "no name of a rule"),
        ("MEM190", "../outside", "no name of a rule"),
        ("XYZ101", "another", "is no code"),
        ("mem190", "another", "is no code"),
        ("OVH690", "another", "gpu_idle.py"),
    ],
)
def test_refused(code: str, slug: str, says: str, copy: Path) -> None:
    before = sorted(copy.rglob("*.py"))
    done = kscope("dev", "new-rule", code, slug, cwd=copy)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    assert sorted(copy.rglob("*.py")) == before


def test_outside_a_checkout(tmp_path: Path) -> None:
    done = kscope("dev", "new-rule", "MEM190", "another", cwd=tmp_path)
    assert done.returncode == 2 and "no checkout of kscope" in done.stderr and "--root" in done.stderr


def test_it_is_not_listed() -> None:
    assert " dev " not in kscope("--help", cwd=ROOT).stdout
    assert "new-rule" in kscope("dev", "--help", cwd=ROOT).stdout
