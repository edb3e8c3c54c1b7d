"""What lies in fixtures/: labels and times once, reports in archives that give the very bytes back, and its size."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from kscope.reports import render
from tests.support import captures, dials, labels, patches, reports, sass, solid, streams, thorough, tools, traces

sys.path.append(str(tools.TOOLS))
strip_unread = tools.load("strip_unread")
TABLES = captures.tables(reports.FIXTURES)
MEGABYTES = 6


def test_labels_name_cases_and_times_that_are_there() -> None:
    known = captures.times(TABLES)
    for case, label in labels.LABELS.items():
        assert label["regime"] and "accept" in label
        assert label.get("fixed", case) in known and label.get("next", case) in TABLES, case
        assert not (label.get("no_gain") and "fixed" in label), case
    assert {case for case, table in TABLES.items() if table["planted"]["cause"]} <= set(labels.LABELS)
    elsewhere = [path.name for path in reports.FIXTURES.iterdir() if path.is_file()]
    assert elsewhere == ["first_sight.toml"], "labels and times stand in captures/ alone"


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


def test_every_capture_has_a_report() -> None:
    known = {*patches.names("h200"), *patches.names("dials")}
    assert {f"h200/{case}/report" for case in TABLES} <= known
    assert len(patches.archived()) > 290 and set(patches.bases()) <= known
    names = [name for name in patches.archived() if patches.is_file(name)]
    assert {name.rpartition("/")[2].partition(".")[2] for name in names} >= {"ktrace", "json.xz", "sm_90a.cubin.xz"}
    for name in known - set(patches.archived()):
        way = [name]
        while (base := patches.bases().get(way[-1])) is not None:
            assert base not in way, f"{name} is a difference from itself"
            way.append(base)
        assert way[-1] in patches.archived() or (patches.FIXTURES / f"{way[-1]}{patches.WHOLE}").is_file()


@thorough.only
def test_an_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "dials/tma_scale.stages2/recorded"
    monkeypatch.setattr(patches, "BUILD", tmp_path)
    path = patches.report(name)
    assert path == tmp_path / f"{name}.ncu-rep" and path.read_bytes()[:4] == b"NVR\0"
    assert patches.plain(name) == path.read_bytes()
    made, other = path.stat(), patches.report("dials/ws_gemm.best/report").stat()
    assert patches.report(name).stat().st_ino == made.st_ino, "it is not made again"
    source = patches.archived()[name]
    os.utime(path, ns=(made.st_mtime_ns, made.st_mtime_ns - 1))  # as after a checkout of another archive
    assert patches.report(name).stat().st_mtime_ns == source.stat().st_mtime_ns
    assert patches.report("dials/ws_gemm.best/report").stat().st_ino == other.st_ino
    left = [p for p in path.parents[1].rglob("*") if p.is_file() and not p.name.endswith(".ncu-rep")]
    assert left == [], "nothing half done is left"


@thorough.only
def test_an_archive_gives_back_what_was_put_in() -> None:
    """Also what is made otherwise than reports are: a metric whose instances are not of two fields, none at all."""
    given = {name: reports.plain(name) for name in ("tile_sum.lanes", "tile_sum.elected", "ws_gemm.best")}
    given["dump"] = dials.plain_dump("ws_gemm.k128")
    given["recording"], given["cut"] = traces.plain("app"), traces.plain("app")[:-1]
    given["code"] = lzma.decompress(sass.path("tma.cu", "sm_90a").read_bytes())
    given["damaged"] = given["code"][:9000]
    given["none"] = reports.without_kernels(given["tile_sum.lanes"])
    metric = streams.varint(3 << 3 | 2) + b"\x02\x08\x05" + streams.varint(3 << 3 | 2) + b"\x00" + b"\x20\x07"
    result = streams.varint(13 << 3 | 2) + streams.varint(len(metric)) + metric
    header = b"\x10\x01\x28" + streams.varint(4 + len(result))  # one result, so many bytes
    framed = [len(part).to_bytes(4, "little") + part for part in (header, result)]
    given["odd"] = b"NVR\0" + bytes(4) + b"".join(framed)
    archive = solid.packed(given, preset=1)
    assert dict(solid.unpacked(archive)) == given and solid.names(archive) == list(given)
    assert len(archive) < sum(len(data) for data in given.values()) / 25
    with pytest.raises(ValueError, match="neither a report"):
        solid.packed({"text": b"hello"})


@thorough.only
def test_an_archive_says_so_when_it_was_changed() -> None:
    archive = bytearray(solid.packed({"one": reports.plain("tile_sum.lanes")}, preset=1))
    archive[-2000] ^= 1
    with pytest.raises(Exception, match=r"(?i)does not give|corrupt|error|range|index"):
        list(solid.unpacked(bytes(archive)))
    with pytest.raises(ValueError, match="no archive"):
        list(solid.unpacked(b"else"))


def test_a_difference_until_it_is_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that came later is a difference from one in an archive, or replaces one."""
    import zstandard

    base, name = "h200/tile_sum.lanes/report", "h200/tile_sum.elected/report"
    report, other = patches.plain(name), patches.plain(base)
    known = zstandard.ZstdCompressionDict(other, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    how = zstandard.ZstdCompressionParameters.from_level(3, window_log=patches.WINDOW_LOG, write_checksum=True)
    patch = zstandard.ZstdCompressor(dict_data=known, compression_params=how).compress(report)
    assert patches.applied(patch, other) == report
    with pytest.raises(Exception, match=r"(?i)checksum|corrupt"):
        patches.applied(patch, other[:-1000] + bytes(1000)[::-1] + other[-1000:])
    fixtures = tmp_path / "fixtures"
    (fixtures / "h200/tile_sum.elected").mkdir(parents=True)
    (fixtures / f"{name}{patches.PATCH}").write_bytes(patch)
    (fixtures / "bases.toml").write_text(f'"{name}" = "{base}"\n')
    monkeypatch.setattr(patches, "FIXTURES", fixtures)
    monkeypatch.setattr(patches, "INDEX", fixtures / "bases.toml")
    patches.bases.cache_clear()
    patches.archived.cache_clear()
    try:
        assert name not in patches.archived() and base in patches.archived()
        assert patches.names("h200").count(name) == 1 and patches._unpacked(name) == report
    finally:
        monkeypatch.undo()
        patches.bases.cache_clear()
        patches.archived.cache_clear()
    assert patches.plain(name) == report


@pytest.mark.parametrize("case", ["bank_conflict.slow", "gemm_f32.vector", "ws_gemm.best"])
def test_nothing_that_is_read_is_taken_out(case: str, tmp_path: Path) -> None:
    """Of reports as Nsight Compute wrote them: kscope says the same, to the byte, of what is left."""
    whole = reports.plain(case)
    images = strip_unread.Images()
    images.seen(whole)
    path, said = tmp_path / "report.ncu-rep", []
    for data in (whole, strip_unread.stripped(whole, bool, images)):
        path.write_bytes(data)
        said.append((render("json", analyze_paths([path])), len(lzma.compress(data, preset=1))))
    assert said[0][0] == said[1][0] and said[1][1] < 0.85 * said[0][1]


def test_captures_in_archives_are_without_what_nothing_reads() -> None:
    """And those that are to be whole are: a parser meets all that a report can hold."""
    few, every = (set(strip_unread.metric_names(reports.plain(case))) for case in ("gemm_f32.naive", "gemm_f32.vector"))
    assert few < every and len(every) > 2200 > 1000 > len(few)
    assert all(strip_unread.metric_kept(name, bool) for name in few)


def test_what_the_readme_names_is_a_whole_report() -> None:
    path = reports.fixture("bank_conflict.slow")
    assert path == reports.FIXTURES / "bank_conflict.slow" / "report.ncu-rep.xz"
    assert lzma.decompress(path.read_bytes()) == reports.plain("bank_conflict.slow")


def test_chosen_captures_are_of_every_kind() -> None:
    kinds = {reports.stratum(case) for case in reports.cases()}
    assert {reports.stratum(case) for case in reports.chosen_cases()} == kinds and len(kinds) > 20
    assert {family for family, _, _ in kinds} == {"", "MEM", "CMP", "LAT", "GRD", "ASY", "OVH"}
    assert reports.SEVERAL in reports.chosen() and set(reports.chosen()) <= set(reports.every_case())
    assert len(reports.chosen()) == (len(reports.every_case()) if thorough.ALL else pytest.approx(45, abs=8))


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


def test_a_shallow_clone_is_small() -> None:
    """What `git clone --depth 1` brings of the last commit."""
    clone_size = tools.load("clone_size")
    inside = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=patches.ROOT, capture_output=True, check=False)
    if inside.returncode:
        pytest.skip("not a git checkout")
    tree, git = clone_size.measured(patches.ROOT)
    packed = 1 << 19  # git packs the same files now into more, now into fewer bytes
    assert tree > 10 << 20 and git > 1 << 20 and tree + git <= (clone_size.LIMIT << 20) + packed
