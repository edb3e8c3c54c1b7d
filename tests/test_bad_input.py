"""Bad input, through the real command: exit status 3 and one line on standard error, never a traceback."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from kscope.model.errors import KscopeError
from kscope.parsers.files import ncu_container
from kscope.parsers.files.inputs import collect, open_input, sniff
from tests.cli import running
from tests.support import reports, thorough
from tests.support.thorough import some

CASE = "bank_conflict.slow"
ROOT = Path(__file__).resolve().parents[1]
INTACT = reports.plain(CASE)
POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX files only")


def kscope(
    *args: str | Path, prepare: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    if prepare is None:
        return running.kscope(*args, env=environment, cwd=ROOT)
    return subprocess.run(
        [sys.executable, "-m", "kscope", *map(str, args)],
        capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, cwd=ROOT, preexec_fn=prepare,
    )  # fmt: skip


def check_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit 3, nothing on standard output, exactly one line on standard error that has the words."""
    assert done.returncode == 3, (done.returncode, done.stderr[-500:])
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def check_json(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    check_refused(done)
    error = json.loads(done.stderr)
    assert set(error) == {"error"} and set(error["error"]) == {"code", "message", "hint"}
    assert all(isinstance(text, str) for text in error["error"].values())
    assert error["error"]["message"] and error["error"]["hint"]
    return dict(error["error"])


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@cache
def zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd as module

        return bytes(module.compress(data))
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def broken(packed: bytes) -> bytes:
    """A few bytes in the middle changed."""
    middle = len(packed) // 2
    return packed[:middle] + bytes(b ^ 0x55 for b in packed[middle : middle + 16]) + packed[middle + 16 :]


FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty": ("a.ncu-rep", lambda: b"", "empty-file"),
    "random": ("a.ncu-rep", lambda: noise(1, 50_000), "corrupt"),
    "random, other name": ("a.bin", lambda: noise(2, 50_000), "unknown-kind"),
    "magic only": ("a.ncu-rep", lambda: INTACT[:4], "truncated"),
    "random after the magic": ("a.ncu-rep", lambda: INTACT[:4] + noise(3, 50_000), "truncated"),
    "random after the header": ("a.ncu-rep", lambda: reports.parts(INTACT)[0] + noise(4, 50_000), "truncated"),
    "impossible block": ("a.ncu-rep", lambda: reports.parts(INTACT)[0] + b"\x20\0\0\0" + b"\xff" * 64, "corrupt"),
    "garbage at the end": ("a.ncu-rep", lambda: INTACT + b"garbage" * 9, "truncated"),
    "zero kernels": ("a.ncu-rep", lambda: reports.without_kernels(INTACT), "no-kernels"),
    "header only": ("a.ncu-rep", lambda: reports.parts(INTACT)[0], "truncated"),
    "PDF": ("paper.pdf", lambda: b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + noise(5, 5000), "unknown-kind"),
    "ZIP": ("a.zip", lambda: b"PK\x03\x04" + noise(6, 500), "unknown-kind"),
    "text": ("a.ncu-rep", lambda: b"==PROF== Connected to process 17\n" * 9, "unknown-kind"),
    "SQLite": ("a.sqlite", lambda: b"SQLite format 3\0" + bytes(500), "truncated"),
    "JSON without events": ("a.json", lambda: b'{"traceEvents": []}', "no-events"),
    "JSON of another kind": ("a.json.gz", lambda: gzip.compress(b'{"kernels": []}'), "unknown-kind"),
    "cubin": ("a.cubin", lambda: b"\x7fELF" + noise(8, 500), "unsupported"),
    "cut .gz": ("a.ncu-rep.gz", lambda: gzip.compress(INTACT, 1)[:90_000], "truncated"),
    "cut .xz": ("a.ncu-rep.xz", lambda: lzma.compress(INTACT, preset=0)[:90_000], "truncated"),
    "cut .zst": ("a.ncu-rep.zst", lambda: zstd(INTACT)[:90_000], "truncated"),
    "cut .ncu-repz": ("a.ncu-repz", lambda: zstd(INTACT)[:-1], "truncated"),
    "damaged .gz": ("a.ncu-rep.gz", lambda: broken(gzip.compress(INTACT, 1)), "corrupt"),
    "damaged .xz": ("a.ncu-rep.xz", lambda: broken(lzma.compress(INTACT, preset=0)), "corrupt"),
    "damaged .zst": ("a.ncu-rep.zst", lambda: broken(zstd(INTACT)), "corrupt"),
    "start of a .gz": ("a.ncu-rep.gz", lambda: gzip.compress(INTACT, 1)[:6], "truncated"),
    "cut report in .xz": ("a.ncu-rep.xz", lambda: lzma.compress(INTACT[:900_000], preset=0), "truncated"),
    "PDF in .gz": ("a.ncu-rep.gz", lambda: gzip.compress(b"%PDF-1.7 " * 99), "unknown-kind"),
}


@pytest.mark.parametrize("what", some([*FILES], 14))
def test_files(what: str, tmp_path: Path) -> None:
    name, make, code = FILES[what]
    path = tmp_path / name
    path.write_bytes(make())
    check_refused(kscope("analyze", path), name)
    error = check_json(kscope("analyze", path, "--format", "json"))
    assert error["code"] == code, error
    assert name in error["message"]


def test_missing(tmp_path: Path) -> None:
    check_refused(kscope("analyze", tmp_path / "none.ncu-rep"), "none.ncu-rep", "no such file")
    assert check_json(kscope("analyze", tmp_path / "none.ncu-rep", "--format", "json"))["code"] == "missing-file"


def test_one_line_whatever_the_name(tmp_path: Path) -> None:
    check_refused(kscope("analyze", tmp_path / "two\nlines\x1b[31m.ncu-rep"), "two lines [31m")
    check_refused(kscope("analyze", tmp_path / ("long" * 200)), "cannot be opened")


def test_folder_without_reports(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    check_refused(kscope("analyze", tmp_path), "no Nsight Compute report")
    assert check_json(kscope("analyze", tmp_path, "--format", "json"))["code"] == "no-reports"


def test_folder_with_bad_reports_only(tmp_path: Path) -> None:
    (tmp_path / "a.ncu-rep").write_bytes(noise(9, 999))
    check_refused(kscope("analyze", tmp_path), "a.ncu-rep")


@POSIX
def test_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a.ncu-rep").symlink_to("b.ncu-rep")
    (tmp_path / "b.ncu-rep").symlink_to("a.ncu-rep")
    check_refused(kscope("analyze", tmp_path / "a.ncu-rep"), "a.ncu-rep")


@POSIX
def test_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.ncu-rep")
    check_refused(kscope("analyze", tmp_path / "a.ncu-rep"), "not a file")


@POSIX
def test_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is at most 108 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.ncu-rep")
        check_refused(kscope("analyze", tmp_path / "a.ncu-rep"), "not a file")


@POSIX
@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_device(device: str) -> None:
    check_refused(kscope("analyze", device), "not a file")


def bind_to_permissions() -> None:
    """Root reads everything; without these two capabilities it is an owner like others (Linux, before exec)."""
    import ctypes

    drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if any(prctl(drop_from_bounding_set, capability, 0, 0, 0) for capability in (dac_override, dac_read_search)):
        raise OSError(ctypes.get_errno(), "prctl")


@POSIX
@pytest.mark.parametrize("form", ["text", "json"])
def test_no_permission(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(INTACT)
    path.chmod(0)
    try:
        done = kscope("analyze", path, "--format", form, prepare=bind_to_permissions if os.geteuid() == 0 else None)
    except (subprocess.SubprocessError, AttributeError):
        pytest.skip("runs as root and cannot drop capabilities")
    check_refused(done, "a.ncu-rep", "permission")
    if form == "json":
        assert check_json(done)["code"] == "no-permission"


@pytest.mark.parametrize("suffix", ["gz", "xz", "zst"])
def test_bomb(suffix: str, tmp_path: Path) -> None:
    """A small file that unpacks to much: stopped at the bound, in bounded memory."""
    pack = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}[suffix]
    path = tmp_path / f"a.ncu-rep.{suffix}"
    path.write_bytes(pack(INTACT[:200_000] + bytes(64 << 20)))
    assert path.stat().st_size < 1 << 20
    check_refused(kscope("analyze", path, KSCOPE_UNPACK_LIMIT=str(16 << 20)), "16,777,216")
    with pytest.raises(KscopeError, match="more than") as e, open_input(path, limit=1 << 20):
        pass
    assert e.value.code == "too-large"


def test_truncated_anywhere(tmp_path: Path) -> None:
    """Offsets spread over the report, and blocks' edges, through the command (two at a time)."""
    edges = [block.start + d for block, _ in reports.parts(INTACT)[1] for d in (1, 5)]
    spread = [len(INTACT) * i // 41 for i in range(1, 41)]
    offsets = [*some(spread, 12), *some(edges, 12)]

    def run(offset: int) -> None:
        path = tmp_path / f"cut-{offset}.ncu-rep"
        path.write_bytes(INTACT[:offset])
        check_refused(kscope("analyze", path), path.name)
        path.unlink()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, offsets))


def test_truncated_in_process(tmp_path: Path) -> None:
    """Thousands of offsets: refused before the native reader sees them. Exact block boundaries are valid reports."""
    whole = {block.end for block, _ in reports.parts(INTACT)[1]}
    rng = random.Random(5)
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(INTACT)
    for offset in sorted(rng.sample(range(len(INTACT)), 2000), reverse=True):
        os.truncate(path, offset)
        if offset in whole:
            continue
        with pytest.raises(KscopeError) as e, open_input(path):
            pass
        assert e.value.status == 3 and e.value.code in ("truncated", "empty-file")


@thorough.only
def test_damaged_payload_survives(tmp_path: Path) -> None:
    """Bytes changed within the blocks make the native reader fail or crash: still 0 with a note or 3 with one line."""
    _, all_blocks = reports.parts(INTACT)
    rng = random.Random(6)

    def run(number: int) -> None:
        data = bytearray(INTACT)
        block = all_blocks[1 + number % 2][0]  # strings and sources, or the kernel
        span = block.end - block.payload if number % 4 < 2 else 4096
        for _ in range(rng.choice([1, 16, 256])):
            data[block.payload + rng.randrange(span)] = rng.randrange(256)
        path = tmp_path / f"damaged-{number}.ncu-rep"
        path.write_bytes(data)
        done = kscope("analyze", path, "--format", "json")
        if done.returncode == 0:
            json.loads(done.stdout)
            assert done.stderr == ""
        else:
            check_json(done)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(24)))


def test_one_bad_input_does_not_lose_the_others(tmp_path: Path) -> None:
    (tmp_path / "good.ncu-rep").write_bytes(INTACT)
    (tmp_path / "cut.ncu-rep").write_bytes(INTACT[:-9])
    done = kscope("analyze", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["kernels"]) == 1
    assert [Path(s["input"]).name for s in result["skipped"]] == ["cut.ncu-rep"]


def test_several_kernels(tmp_path: Path) -> None:
    """The opposite of bad: a joined report is valid and gives every kernel."""
    path = tmp_path / "joined.ncu-rep"
    cases = [CASE, "bank_conflict.fast", "atomics.slow"]
    assert reports.join_reports([reports.fixture(c) for c in cases], path) == path.stat().st_size
    done = kscope("analyze", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["kernels"]) == 3


def test_recording_version() -> None:
    assert ncu_container.tool_version(io.BytesIO(INTACT), len(INTACT)) == "2025.3.1.0"


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress, lzma.compress, zstd], ids=["plain", "gz", "xz", "zst"])
@pytest.mark.parametrize("name", ["a.ncu-rep", "a.ncu-repz"])
def test_unpacks_by_content(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """The name does not matter; the path holds while the context lasts, in a forked child too."""
    data = reports.without_kernels(INTACT)
    path = tmp_path / name
    path.write_bytes(pack(data))
    assert collect([path]) == [(path, "ncu")]
    with open_input(path) as real:
        assert not real.endswith(".ncu-repz"), "NVIDIA's reader takes that name for compressed"
        assert Path(real).read_bytes() == data
        if hasattr(os, "fork"):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if Path(real).read_bytes() == data else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_streams_and_layers(tmp_path: Path) -> None:
    """Concatenated streams with padding, and compression around compression."""
    data = reports.without_kernels(INTACT)
    path = tmp_path / "a.ncu-repz.xz"
    path.write_bytes(lzma.compress(zstd(data)))
    with open_input(path) as real:
        assert Path(real).read_bytes() == data
    path.write_bytes(lzma.compress(data[:999]) + bytes(8) + lzma.compress(data[999:]) + bytes(4))
    with open_input(path) as real:
        assert Path(real).read_bytes() == data


def test_collect_expands_folders(tmp_path: Path) -> None:
    data = reports.without_kernels(INTACT)
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").mkdir()
    good = [tmp_path / "a.ncu-rep.gz", tmp_path / "z.ncu-rep", tmp_path / "b" / "c.ncu-repz"]
    good[0].write_bytes(gzip.compress(data))
    good[1].write_bytes(data)
    good[2].write_bytes(zstd(data))
    (tmp_path / ".hidden" / "d.ncu-rep").write_bytes(data)
    (tmp_path / "notes.txt").write_text("no report")
    assert [path for path, _ in collect([good[1], tmp_path])] == [good[1], good[0], good[2]], "each file once"
    (tmp_path / "bad.ncu-rep").write_bytes(b"")
    skipped: list[tuple[str, KscopeError]] = []
    assert len(collect([tmp_path], skipped)) == 3
    assert [(Path(p).name, e.code) for p, e in skipped] == [("bad.ncu-rep", "empty-file")]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"NVR\0\2\0\0\0", "ncu"), (b"", "empty"), (b"SQLite format 3\0x", "sqlite"), (b' \n{"a": 1}', "json"),
        (b"[1]", "json"), (b"\x7fELF\2", "elf"), (b"%PDF-1.4", "pdf"), (b"PK\x03\x04", "zip"), (b"hello\n", "text"),
        ("caf\u00e9".encode(), "text"), ("caf\u00e9".encode()[:-1], "text"), (b"\0\1\2\3", "unknown"),
        (gzip.compress(b"x", mtime=0), "gzip"), (lzma.compress(b"x"), "xz"), (zstd(b"x"), "zstd"),
        (zstd(INTACT), "ncu-repz"),
    ],
)  # fmt: skip
def test_sniff(head: bytes, kind: str) -> None:
    assert sniff(head) == kind


def test_an_empty_path_names_nothing(tmp_path: Path) -> None:
    """A shell variable that is not set must not analyse the folder that one stands in."""
    check_refused(kscope("analyze", ""), "an empty path")
    with pytest.raises(KscopeError):
        collect([""])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse the name")
@pytest.mark.parametrize("command", [["analyze"], ["analyze", "--format", "json"], ["sass", "--function", "transpose"]])
def test_a_report_whose_name_is_no_utf8(command: list[str], tmp_path: Path) -> None:
    """NVIDIA's reader takes no such name; the report is read all the same."""
    odd = os.fsencode(tmp_path) + b"/\xff\xfe.ncu-rep"
    with open(odd, "wb") as file:
        file.write(INTACT)
    done = kscope(*command, os.fsdecode(odd))
    assert (done.returncode, done.stderr) == (0, "")
    assert "transpose_tile" in done.stdout


def test_a_report_that_vanishes_is_no_kernel_without_a_name(tmp_path: Path) -> None:
    """The native reader decodes late, and decodes nothing where nothing is left: that is said, not diagnosed."""
    from kscope.parsers.ncu import worker

    path = tmp_path / "r.ncu-rep"
    path.write_bytes(INTACT)
    actions = worker._open

    def late(name: str) -> list[Callable[[], object]]:
        found = actions(name)
        path.unlink()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_open", late)
        (skipped,) = worker.Reader(str(path), worker.Want()).kernels()
    assert isinstance(skipped, worker.Skipped) and "decodes to nothing" in skipped.message
