"""What lies in fixtures/: labels and times once, reports as differences that give the very bytes back, and its size."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import captures, labels, patches, reports

TABLES = captures.tables(reports.FIXTURES)
MEGABYTES = 13


def test_labels_name_cases_and_times_that_are_there() -> None:
    known = captures.times(TABLES)
    for case, label in labels.LABELS.items():
        assert label["regime"] and "accept" in label
        assert label.get("fixed", case) in known and label.get("next", case) in TABLES, case
        assert not (label.get("no_gain") and "fixed" in label), case
    assert {case for case, table in TABLES.items() if table["planted"]["cause"]} <= set(labels.LABELS)
    elsewhere = [path.name for path in reports.FIXTURES.iterdir() if path.is_file()]
    assert elsewhere == ["first_sight.toml"], "labels and times stand in CAPTURE.toml alone"


def test_labels_and_times_of_a_folder(tmp_path: Path) -> None:
    for case, text in {
        "a.slow": '[planted]\nregime = ["memory"]\ncause = ["x"]\nfixed_by = "a.fast"\nwhy = "y"\n'
        '[measured]\ntime_us = 3.0\n[measured.unprofiled_us]\n"a.fast" = 1.5\n',
        "b": '[planted]\ncause = []\n[measured]\nprofiled_us = 1.0\n',
    }.items():
        (tmp_path / case).mkdir()
        (tmp_path / case / "CAPTURE.toml").write_text(text)
    found = captures.tables(tmp_path)
    assert captures.labels(found) == {"a.slow": {"regime": ["memory"], "accept": ["x"], "fixed": "a.fast"}}
    assert captures.times(found) == {"a.slow": 3.0, "a.fast": 1.5}


def test_every_capture_has_a_report_and_a_base_that_is_whole_in_the_end() -> None:
    known = {*patches.names("h200"), *patches.names("dials")}
    assert {f"h200/{case}/report" for case in TABLES} <= known
    assert set(patches.bases()) <= known and len(patches.bases()) > 250
    for name in known:
        way = [name]
        while (base := patches.bases().get(way[-1])) is not None:
            assert base not in way, f"{name} is a difference from itself"
            way.append(base)
        assert (patches.FIXTURES / f"{way[-1]}{patches.WHOLE}").is_file()
        assert len(way) <= 8, f"{way}: so many reports are unpacked for one"


@pytest.mark.parametrize("name", ["h200/spill.fast/report", "dials/tma_scale.stages2/recorded"])
def test_a_difference_is_rebuilt_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "BUILD", tmp_path)
    path = patches.report(name)
    assert path == tmp_path / f"{name}.ncu-rep" and path.read_bytes()[:4] == b"NVR\0"
    assert patches.plain(name) == path.read_bytes()
    made = path.stat()
    assert patches.report(name).stat().st_ino == made.st_ino, "it is not made again"
    source = patches.FIXTURES / f"{name}{patches.PATCH}"
    os.utime(path, ns=(made.st_mtime_ns, made.st_mtime_ns - 1))  # as after a checkout of another difference
    assert patches.report(name).stat().st_mtime_ns == source.stat().st_mtime_ns
    assert not [p for p in path.parent.iterdir() if not p.name.endswith(".ncu-rep")], "nothing half done is left"


def test_a_difference_says_so_when_the_base_is_another() -> None:
    name = "h200/spill.fast/report"
    patch = (patches.FIXTURES / f"{name}{patches.PATCH}").read_bytes()
    base = patches.plain(patches.bases()[name])
    assert patches.applied(patch, base) == patches.plain(name)
    with pytest.raises(Exception, match=r"(?i)checksum|corrupt"):
        patches.applied(patch, base[:-1000] + bytes(1000)[::-1] + base[-1000:])


def test_what_the_readme_names_is_a_whole_report() -> None:
    path = reports.fixture("bank_conflict.slow")
    assert path == reports.FIXTURES / "bank_conflict.slow" / "report.ncu-rep.xz"
    assert lzma.decompress(path.read_bytes()) == reports.plain("bank_conflict.slow")


def test_chosen_captures_are_of_every_kind() -> None:
    kinds = {reports.stratum(case) for case in reports.cases()}
    assert {reports.stratum(case) for case in reports.chosen_cases()} == kinds and len(kinds) > 20
    assert {family for family, _, _ in kinds} == {"", "MEM", "CMP", "LAT", "GRD", "ASY", "OVH"}
    assert reports.SEVERAL in reports.chosen() and set(reports.chosen()) <= set(reports.every_case())
    assert len(reports.chosen()) == (len(reports.every_case()) if reports.ALL else pytest.approx(40, abs=8))


def test_a_flat_folder(tmp_path: Path) -> None:
    """The layout that tools/pack_fixtures.py takes."""
    done = subprocess.run(
        [sys.executable, patches.ROOT / "tools" / "unpack_fixtures.py", tmp_path, "bank_conflict.fast"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bank_conflict.fast.ncu-rep").read_bytes() == reports.plain("bank_conflict.fast")
    assert tomllib.loads((tmp_path / "labels.toml").read_text(encoding="utf-8")) == labels.LABELS
    rows = [line.split() for line in (tmp_path / "times.txt").read_text(encoding="utf-8").splitlines()]
    times = {f"{name}.{variant}": float(us) for word, name, variant, us, unit in rows if (word, unit) == ("TIME", "us")}
    assert times == {case: us for case, us in labels.TIMES.items() if "." in case}


def test_small() -> None:
    """Committed files only: bytes, in all."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "fixtures"], cwd=patches.ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    sizes = [p.stat().st_size for name in listed.stdout.split("\0") if name and (p := patches.ROOT / name).is_file()]
    assert sum(sizes) < MEGABYTES << 20
    assert tomllib.loads(patches.INDEX.read_text(encoding="utf-8")) == patches.bases()
