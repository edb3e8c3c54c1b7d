"""Changes kept between runs: an entry answers for the same code, profile, source and kscope alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from kscope.engine.findings import kept
from kscope.engine.run import analyze_paths
from kscope.fixes import propose
from kscope.fixes.given.setting import Setting
from kscope.model.contract.findings import Finding
from tests.support.reports import fixture

if TYPE_CHECKING:
    from kscope.features.profile.code import Code

CASE = "bank_conflict.slow"


class Asked:
    """What a diagnosis asks for, to be asked again in other ways; `computed`: how often nothing kept answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.setenv("KSCOPE_CACHE_DIR", str(folder))
        self.folder, self.computed = folder, 0
        compute, ask = propose.proposed, kept.proposed
        seen: list[tuple[Setting, Code, list[Finding]]] = []

        def counting(setting: Setting, findings: Sequence[Finding]) -> list[Finding]:
            self.computed += 1
            return compute(setting, findings)

        def noting(setting: Setting, code: Code, findings: list[Finding]) -> list[Finding]:
            seen.append((setting, code, findings))
            return ask(setting, code, findings)

        monkeypatch.setattr(propose, "proposed", counting)
        with monkeypatch.context() as patch:
            patch.setattr(kept, "proposed", noting)
            analyze_paths([fixture(CASE)])
        ((self.setting, self.code, self.findings),) = seen
        assert self.computed == 1

    def again(self, **changed: object) -> list[Finding]:
        return kept.proposed(structs.replace(self.setting, **changed), self.code, self.findings)

    @property
    def entry(self) -> Path:
        (file,) = self.folder.glob("fixes-*.txt")
        return file


def rewritten(line: str, texts: dict[str, str]) -> str:
    for old, new in texts.items():
        line = line.replace(old, new)
    return line


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    return Asked(monkeypatch, tmp_path / "cache")


def test_a_second_run_computes_nothing_and_says_the_same(asked: Asked) -> None:
    first = propose.proposed(asked.setting, asked.findings)
    asked.computed = 0
    assert any(f.fixes for f in first)
    assert asked.again() == first
    assert asked.computed == 0


def test_another_launch_time_or_finding_is_computed(asked: Asked) -> None:
    asked.again(us=asked.setting.us * 2)
    assert asked.computed == 2
    asked.findings = [structs.replace(f, why=f.why + " ") for f in asked.findings]
    asked.again()
    assert asked.computed == 3


def test_a_source_that_was_edited_is_read_again(asked: Asked) -> None:
    lines = asked.setting.lines
    edited = {"t[32][32 + PAD]": "t[32][32 + PADDED]"}
    changed = asked.again(lines=lambda file: [rewritten(line, edited) for line in lines(file)])
    assert asked.computed == 2
    assert any("PADDED" in e.becomes for f in changed for x in f.fixes for e in x.edits)


def test_a_new_version_of_kscope_computes_anew(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_own_files", lambda: b"another")
    asked.again()
    assert asked.computed == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"[{}, []]", b"\xff\x00"])
def test_an_entry_that_is_broken_is_made_anew(asked: Asked, content: bytes) -> None:
    from kscope.parsers.files import cachefiles

    whole = cachefiles.read(asked.entry)
    cachefiles.write(asked.entry, content)
    asked.again()
    assert asked.computed == 2
    assert cachefiles.read(asked.entry) == whole


def test_a_switched_off_cache_keeps_nothing(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.entry.unlink()
    monkeypatch.setenv("KSCOPE_CACHE_DIR", "")
    asked.again()
    assert asked.computed == 2
    assert not list(asked.folder.glob("fixes-*"))


def test_files_are_told_by_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "__pycache__").mkdir()
    file = tmp_path / "rules" / "one.py"
    file.write_text("a")
    told = {kept.digest_of(tmp_path)}
    (tmp_path / "__pycache__" / "one.pyc").write_text("compiled")
    assert kept.digest_of(tmp_path) in told
    file.write_text("ab")
    told.add(kept.digest_of(tmp_path))
    os.utime(file, ns=(0, 1))
    told.add(kept.digest_of(tmp_path))
    (tmp_path / "two.toml").touch()
    told.add(kept.digest_of(tmp_path))
    assert len(told) == 4


def test_text_that_cannot_be_written_is_not_kept(asked: Asked) -> None:
    asked.entry.unlink()
    told = asked.again(instance="k\ud800")
    assert asked.computed == 2
    assert any(f.fixes for f in told)
    assert not list(asked.folder.glob("fixes-*"))
