"""Inputs made to harm: each costs itself and nothing beside it, says so in one line, and nothing hangs."""

from __future__ import annotations

import gc
import gzip
import json
import lzma
import os
import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kscope
from kscope.engine.kernels import kernel as engine_kernel
from kscope.engine.run import analyze_paths
from kscope.model.columns import column, in_order
from kscope.model.contract.analysis import to_json
from kscope.model.errors import KscopeError
from kscope.model.faults import fenced
from kscope.model.kernel import Counters
from kscope.model.timeline import Calls, spans
from kscope.parsers.files.regular_files import opened
from kscope.parsers.timeline import kineto
from kscope.parsers.timeline.event_batches import Table
from kscope.parsers.warp_trace import files
from kscope.reports import Options, render
from kscope.rules.overhead.launch_bound import LaunchBound
from tests.cli import running
from tests.support import reports, traces
from tests.support.thorough import some

ROOT = Path(__file__).resolve().parents[1]
SASS = ROOT / "fixtures" / "sass"
MEMORY = 6 << 30
POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX files only")
KERNEL = '{"ph":"X","cat":"kernel","ts":1,"dur":1,"name":"k"}'


def command(*args: str | Path, seconds: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command, with bounds on time and memory."""
    done = running.kscope(*args, env=environment, cwd=ROOT, seconds=seconds, limits={resource.RLIMIT_AS: MEMORY})
    assert "Traceback" not in done.stderr or "KSCOPE_DEBUG" in environment, done.stderr[-2000:]
    return done


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 3 and done.stdout == "", (done.returncode, done.stderr[-500:])
    assert done.stderr.count("\n") == 1 and all(word in done.stderr for word in words), done.stderr


def trace(folder: Path, text: str | bytes, name: str = "t.json") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def listing(instruction: str = "IADD3 R4, R4, R5, RZ", name: str = "axpy") -> str:
    return (
        f"\t.target\tsm_90\n\t.section\t.text.{name},\"ax\",@progbits\n"
        f"        /*0000*/                   {instruction} ;\n        /*0010*/                   EXIT ;\n"
    )


# numbers

NUMBERS = {
    "exponent": "1e9999999", "negative exponent": "1e-9999999", "largest exponent": "1e999999999999999999",
    "beyond all exponents": "1e99999999999999999999999", "digits": "9" * 3_000_000, "2^70": str(1 << 70),
    "5,000 digits": "9" * 5_000, "decimals": "1." + "9" * 3_000_000, "digits and decimals": "9" * 3_000_000 + ".5",
    "negative": "-" + "9" * 3_000_000, "NaN": "NaN", "Infinity": "-Infinity",
}  # fmt: skip


@pytest.mark.parametrize("key", ["ts", "dur", "correlation", "pid", "id"])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("exact", [True, False], ids=["one by one", "at once"])
def test_numbers_are_bounded_before_they_are_made(number: str, key: str, exact: bool, tmp_path: Path) -> None:
    """Whatever the digits, and by either way of reading: at once, and the event beside it is there."""
    value = NUMBERS[number]
    event = {"ts": "1", "dur": "1", "pid": "1", "tid": "1", "correlation": "1", key: value}
    name = "\udcff" if exact else "n"  # no UTF-8: events are then read one by one
    text = (
        f'{{"traceEvents":[{{"ph":"X","cat":"kernel","ts":{event["ts"]},"dur":{event["dur"]},"pid":{event["pid"]},'
        f'"tid":1,"name":"{name}","args":{{"correlation":{event["correlation"]}}}}},{KERNEL}],'
        f'"deviceProperties":[{{"id":{event.get("id", "0")},"name":"d"}}]}}'
    )
    started = time.monotonic()
    found = kineto.read(trace(tmp_path, text.encode("utf-8", "surrogateescape")))
    assert time.monotonic() - started < 5
    assert "k" in [found.names[i] for i in found.ops.name]
    assert len(found.ops) + found.coverage.damaged == 2


def test_a_time_that_no_integer_holds_ends_at_once(tmp_path: Path) -> None:
    """129 bytes that hung for ever, through the command."""
    bad = b'{"traceEvents":[{"ph":"X","cat":"kernel","ts":1e9999999,"dur":1,"name":"\xff"},' + KERNEL.encode() + b"]}"
    assert command("analyze", trace(tmp_path, bad), seconds=20).returncode == 0
    many = b'{"traceEvents":[' + b'{"ph":"X","cat":"kernel","ts":1e999999999999999999,"dur":1,"name":"\xff"},' * 20
    assert command("analyze", trace(tmp_path, many + KERNEL.encode() + b"]}"), seconds=20).returncode == 0


def test_digits_of_in_kernel_traces(tmp_path: Path) -> None:
    for value in NUMBERS.values():
        text = f'{{"traceEvents":[{{"name":"n","ph":"X","pid":"k Core0 CTA0","tid":"warp 0","ts":{value},"dur":1}}]}}'
        try:
            (found,) = files.read(trace(tmp_path, text))
            assert len(found) == 1
        except KscopeError as fault:
            assert fault.status == 3


def test_warps_that_recorded_no_time(tmp_path: Path) -> None:
    """Shares of nothing: the other warps are shown."""
    event = '{"name":"%s","ph":"X","pid":"k Core0 CTA%d","tid":"warp 0","ts":%s,"dur":%s,"args":{}}'
    none, some = event % ("n", 0, 5, 0), event % ("n", 1, 5, 3)
    for events in (none, f"{none},{some}"):
        path = trace(tmp_path, f'{{"traceEvents":[{events}]}}')
        for form in ("text", "json"):
            done = command("trace", path, "--format", form)
            assert done.returncode == 0 and "Error" not in done.stdout + done.stderr, done.stderr


@pytest.mark.parametrize("times", [(1, 9_223_372_036_854_000), (-4_000_000_000_000_000, 4_000_000_000_000_000)])
def test_times_far_apart_say_nothing_on_standard_error(times: tuple[int, int], tmp_path: Path) -> None:
    """Differences that do not fit in 64 bits: numpy warned of them, with a path of its own."""
    events = [traces.event("kernel", "k", ts, 1) for ts in times] + traces.launch(1, 2, 5, 3)
    done = command("analyze", traces.trace(tmp_path, events))
    assert (done.returncode, done.stderr) == (0, "")


# nesting and repetition


@pytest.mark.parametrize("where", ["args", "header", "behind", "name"])
@pytest.mark.parametrize("depth", [1_100, 200_000])
def test_nesting(where: str, depth: int, tmp_path: Path) -> None:
    deep = "[" * depth + "]" * depth
    texts = {
        "args": f'{{"traceEvents":[{{"ph":"X","name":"x","args":{{"z":{deep}}}}},{KERNEL}]}}',
        "header": f'{{"z":{deep},"traceEvents":[{KERNEL}]}}',
        "behind": f'{{"traceEvents":[{KERNEL}],"z":{deep}}}',
        "name": f'{{"traceEvents":[{{"ph":"X","name":{deep}}},{KERNEL}]}}',
    }
    assert len(kineto.read(trace(tmp_path, texts[where])).ops) == 1


def test_nesting_in_in_kernel_traces(tmp_path: Path) -> None:
    deep = "[" * 200_000
    head = json.dumps({"kernel": "k"})[:-1] + ', "z": ' + deep
    bad = b"KSTRACE1" + len(head).to_bytes(4, "little") + bytes(4) + head.encode()
    refused(command("trace", trace(tmp_path, bad, "a.ktrace")), "a.ktrace")
    refused(command("trace", trace(tmp_path, f'{{"traceEvents":[{{"z":{deep}', "a.json")), "a.json")


@pytest.fixture
def alone() -> Iterator[None]:
    """What other tests left in this process is none of the collector's business while time is taken."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("unit", ['{"ph":[},', '{"ph":"\x01","ts":[},', '{"ph":"X"},{"ts":nope},'])
def test_faults_take_time_that_grows_with_their_number(unit: str, tmp_path: Path) -> None:
    """A megabyte took 53 s, four took minutes."""
    took = []
    for megabytes in (0.5, 2):
        body = unit * int(megabytes * 1e6 / len(unit))
        path = trace(tmp_path, f'{{"traceEvents":[{KERNEL},{body}{KERNEL}]}}')
        started = time.process_time()
        found = kineto.read(path)
        took.append(time.process_time() - started)
        assert found.coverage.damaged > 10_000 and len(found.ops) >= 1
    assert took[1] < max(8 * took[0], 1) and took[1] < 20, took


def test_a_real_trace_with_a_bad_byte_in_every_event(tmp_path: Path) -> None:
    """The same events, less the ones whose structure the byte broke, in a time that bears comparison."""
    text = traces.plain("launch_bound")
    bad = re.sub(rb'"name": ?"', b'"name": "\xff\x01', text)
    assert bad.count(b"\xff\x01") > 5_000
    started = time.process_time()
    whole = kineto.read(trace(tmp_path, text))
    once = time.process_time() - started
    found = kineto.read(trace(tmp_path, bad))
    took = time.process_time() - started - once
    assert len(found.ops) == len(whole.ops) and len(found.calls) == len(whole.calls)
    broken = re.sub(rb'"cat": ?"', b'"cat": ["', text)
    started = time.process_time()
    with pytest.raises(KscopeError):  # not one event is left
        kineto.read(trace(tmp_path, broken))
    assert max(took, time.process_time() - started) < max(60 * once, 10)


# columns


def calls(number: Any) -> list[dict[str, Any]]:
    events = [e for i in range(12) for e in traces.launch(100 + i, 20 * i, 20 * i + 15, 10)]
    events[0]["args"]["correlation"] = number
    return events


@pytest.mark.parametrize("number", [1 << 70, -(1 << 70), 1 << 63, "x", None, [1], 1.5])
def test_one_odd_correlation_costs_itself(number: Any, tmp_path: Path) -> None:
    found = kineto.read(traces.trace(tmp_path, calls(number)))
    right = kineto.read(traces.trace(tmp_path, calls(100)))
    assert found.calls.start.tolist() == right.calls.start.tolist()
    assert found.calls.correlation.tolist() == [0, *right.calls.correlation.tolist()[1:]]
    verdicts = [
        analyze_paths([traces.trace(tmp_path, calls(n))]).timelines[0].verdict for n in (number, 100)
    ]
    assert verdicts[0] is None or verdicts[1] is None or verdicts[0].limiter == verdicts[1].limiter


def test_a_row_is_appended_whole_or_not_at_all() -> None:
    table = Table("start", "end", "name")
    table.add(1, 2, 3)
    for bad in ((4, 5, 1 << 64), (4, 1 << 64, 6), (4, "5", 6), (4, 5), (4, 5, 6, 7)):
        with pytest.raises((OverflowError, TypeError, ValueError)):
            table.add(*bad)  # type: ignore[arg-type]
        assert [values.tolist() for values in table.columns.values()] == [[1], [2], [3]]


def test_a_table_of_unequal_columns_cannot_be_closed() -> None:
    some, more = column([1, 2]), column([1, 2, 3])
    with pytest.raises(ValueError, match="differ in length"):
        in_order([{"start": some, "end": more}])
    with pytest.raises(ValueError, match="differ in length"):
        Calls(some, some, some, some, some, more)
    with pytest.raises(ValueError, match="2 instructions"):
        Counters([0, 16], {"samples": [1.0]})
    (found,) = files.read(ROOT / "fixtures" / "traces_kernel" / "proton_rows.chrome_trace.xz")
    import msgspec

    with pytest.raises(ValueError, match="differ in length"):
        msgspec.structs.replace(found, payload=found.payload[:-1])
    with pytest.raises(ValueError, match="146 years"):
        spans([1, -(1 << 62)], [2, 5], [0, 0], [0, 0])


def test_an_export_whose_times_cannot_be_reckoned_with(tmp_path: Path) -> None:
    columns = "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER"
    rows = [(1, 9, 0, 7, 1), (-(1 << 63), (1 << 63) - 1, 0, 7, 2)]
    path = traces.database(tmp_path, {"CUPTI_ACTIVITY_KIND_KERNEL": (columns, rows)})
    refused(command("analyze", path), "t.sqlite", "146 years")


# fences


class Boom(Exception):
    """A fault of kscope's own."""


FAULTS: list[Callable[[], Exception]] = [
    RecursionError, MemoryError, lambda: OverflowError("x"), lambda: IndexError("x"), lambda: Boom("two\nlines"),
    lambda: AssertionError(), lambda: UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), lambda: OSError(5, "x"),
    lambda: StopIteration(),
]  # fmt: skip


@pytest.mark.parametrize("make", some(FAULTS, 1), ids=lambda f: type(f()).__name__)
def test_whatever_is_raised_for_one_kernel(
    make: Callable[[], Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report's other kernels, and other inputs, are analysed; alone it is status 3 with one line."""
    path = tmp_path / "r.ncu-rep"
    reports.join_reports([reports.fixture(c) for c in ("bank_conflict.slow", "atomics.slow")], path)
    good = traces.trace(tmp_path, traces.launch(1, 0, 3, 4))
    real = engine_kernel.decide

    def first_fails(facts: Any) -> Any:
        if "transpose" in facts.kernel.demangled or every:
            raise make()
        return real(facts)

    monkeypatch.setattr(engine_kernel, "decide", first_fails)
    every = False
    found = analyze_paths([path, good])
    assert len(found.kernels) == 1 and len(found.timelines) == 1
    (skipped,) = found.skipped
    assert (skipped.input, skipped.what) == (str(path), "kernel 0") and skipped.message.isprintable()
    every = True
    found = analyze_paths([path, good])
    assert not found.kernels and len(found.timelines) == 1 and {s.input for s in found.skipped} == {str(path)}
    with pytest.raises(KscopeError) as e:
        analyze_paths([path])
    assert e.value.status == 3 and "r.ncu-rep" in str(e.value) and str(e.value).isprintable()


@pytest.mark.parametrize("make", FAULTS, ids=lambda f: type(f()).__name__)
def test_whatever_is_raised_for_one_recording(
    make: Callable[[], Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = (traces.trace(tmp_path, traces.launch(1, 0, 3, 4), f"{name}.json") for name in ("good", "bad"))
    real = kineto.read

    def read(path: Path) -> Any:
        if path == bad:
            raise make()
        return real(path)

    monkeypatch.setattr(kineto, "read", read)
    found = analyze_paths([bad, good])
    assert [t.input for t in found.timelines] == [str(good)] and [s.input for s in found.skipped] == [str(bad)]
    with pytest.raises(KscopeError, match=r"bad\.json") as e:
        analyze_paths([bad])
    assert e.value.status == 3


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_interrupts_pass_all_fences(
    end: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> Any:
        raise end

    monkeypatch.setattr(kineto, "read", read)
    with pytest.raises(end):
        analyze_paths([traces.trace(tmp_path, traces.launch(1, 0, 3, 4))])
    with pytest.raises(end), fenced("x"):
        raise end


def test_a_join_that_fails_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.engine.timelines import join

    def join_all(*_: Any) -> Any:
        raise IndexError("list index out of range")

    monkeypatch.setattr(join, "join_all", join_all)
    found = analyze_paths([traces.path("app"), reports.fixture("bank_conflict.slow")])
    assert len(found.timelines) == len(found.kernels) == 1 and not found.joined
    assert [s.what for s in found.skipped] == ["join"]


def test_debug_shows_where_a_fault_that_is_kept_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a failing rule and of an input, both only where it is asked for."""

    def check(*_: Any) -> Any:
        raise Boom("here")

    monkeypatch.setattr(LaunchBound, "check", check)
    path = traces.trace(tmp_path, [e for i in range(20) for e in traces.launch(i + 1, 10 * i, 10 * i + 5, 3)])
    (one,) = analyze_paths([path]).timelines
    assert [(e.code, e.message) for e in one.errors] == [("OVH601", "Boom: here")]
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("KSCOPE_DEBUG", "1")
    analyze_paths([path])
    said = capsys.readouterr().err
    assert "Traceback" in said and "in check" in said and "Boom: here" in said
    with pytest.raises(KscopeError), fenced("x"):
        raise Boom("there")
    assert "Boom: there" in capsys.readouterr().err


def test_code_that_a_report_places_outside_its_image(
    kernel: Callable[[str], Any], report: Callable[[str], Path]
) -> None:
    """A mutated report named instructions at addresses that its image does not have: an internal error of the HTML."""
    import msgspec

    from kscope.parsers.ncu.embedded_code import with_image

    program = kernel("bank_conflict.slow").program
    path = str(report("bank_conflict.slow"))
    assert with_image(program, path).instructions[0].control is not None
    for pc in (1 << 40, -(1 << 40)):
        middle = msgspec.structs.replace(program.instructions[5], pc=pc)
        odd = msgspec.structs.replace(
            program, instructions=(*program.instructions[:5], middle, *program.instructions[6:])
        )
        assert with_image(odd, path) is odd


# machine code


def break_functions(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    from kscope.features.sass.listing import Listing

    real = Listing.__init__

    def init(self: Any, program: Any, *args: Any, **named: Any) -> None:
        if re.search(which, program.name):
            raise MemoryError
        real(self, program, *args, **named)

    monkeypatch.setattr(Listing, "__init__", init)


def test_one_bad_function_does_not_lose_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kscope.cli.diagnose._sass_html import page
    from kscope.engine.code.programs import binary_analysis
    from kscope.engine.code.sassdiff import sass_diff
    from kscope.parsers.cubin.programs import read_programs

    path = tmp_path / "a.sass"
    path.write_text(listing() + listing("FADD R1, R2, R3", "other"))
    cubins = read_programs(path)
    break_functions(monkeypatch, "axpy")
    for annotate in (True, False):
        found = binary_analysis(str(path), cubins, annotate=annotate)
        assert [f.name for p in found.programs for f in p.functions] == ["other"]
        assert [(s.what, s.input) for s in found.skipped] == [('function "axpy"', str(path))]
    text, _ = page(str(path), is_report=False, arch=None, function=None, source_root=None)
    assert len(text) > 1000
    compared = sass_diff("a", "b", cubins, cubins)
    assert [f.after for f in compared.functions] == ["other"] and '"axpy" cannot be compared' in compared.notes[-1]
    break_functions(monkeypatch, ".")
    for attempt in (
        lambda: binary_analysis(str(path), cubins, annotate=True),
        lambda: sass_diff(str(path), "b", cubins, cubins),
    ):
        with pytest.raises(KscopeError, match=r"a\.sass") as e:
            attempt()
        assert e.value.status == 3


# what is opened


@POSIX
@pytest.mark.parametrize("command_", ["analyze", "diff", "sass", "trace", "sass --diff"])
@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "link to a pipe"])
def test_only_files_are_opened(command_: str, what: str, tmp_path: Path) -> None:
    odd = tmp_path / "x.json"
    if what == "/dev/zero":
        odd.symlink_to(what)
    elif what == "pipe":
        os.mkfifo(odd)
    else:
        os.mkfifo(tmp_path / "p")
        odd.symlink_to("p")
    good = tmp_path / "good.sass" if command_.startswith("sass") else tmp_path / "good.json"
    good.write_text(listing() if good.suffix == ".sass" else f'{{"traceEvents":[{KERNEL}]}}')
    name, *options = command_.split()
    sides = [[odd, good], [good, odd]] if name == "diff" or options else [[odd]]
    for paths in sides:
        refused(command(name, *paths, *options, seconds=30), "x.json", "not a file")


@POSIX
def test_pipes_in_a_folder_are_named(tmp_path: Path) -> None:
    good = traces.trace(tmp_path, traces.launch(1, 0, 3, 4), "good.json")
    for name in ("x.json", "y.ncu-rep", "z.sqlite", "w.json.gz", "v.nsys-rep"):
        os.mkfifo(tmp_path / name)
    done = command("analyze", tmp_path, "--format", "json", seconds=30)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [t["input"] for t in found["timelines"]] == [str(good)]
    assert {Path(s["input"]).name for s in found["skipped"]} == {
        "x.json", "y.ncu-rep", "z.sqlite", "w.json.gz", "v.nsys-rep"
    }  # fmt: skip


@POSIX
def test_a_report_that_is_a_pipe_is_not_opened_ahead(tmp_path: Path) -> None:
    """The reader that starts before the command line must leave a pipe's writer waiting."""
    pipe = tmp_path / "r.ncu-rep"
    os.mkfifo(pipe)
    refused(command("analyze", pipe, seconds=30), "not a file")
    with pytest.raises(OSError) as e:  # a reader that was there and went would have let this one in
        os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    assert e.value.errno == 6  # ENXIO: nobody reads


@POSIX
def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kscope.parsers.files import regular_files

    os.mkfifo(tmp_path / "x.json")
    monkeypatch.setattr(regular_files, "regular", lambda path: None)  # what it was when it was looked at
    with pytest.raises(KscopeError, match="not a file"):
        opened(tmp_path / "x.json")


# one folder of everything


def test_fifty_good_and_ten_broken(tmp_path: Path) -> None:
    """All kinds: fifty are analysed, ten are named."""
    intact = reports.plain("fma_roof.eightwarps")
    small = traces.plain("app")
    export = lzma.decompress((traces.TRACES / "busy.sqlite.xz").read_bytes())
    for i in range(44):
        pack = gzip.compress if i % 11 == 0 else bytes
        events = [e for n in range(5) for e in traces.launch(n + 1, 10 * n, 10 * n + 5 + i % 3, 2)]
        text = json.dumps({"traceEvents": events}).encode()
        (tmp_path / f"good{i}.json{'.gz' if i % 11 == 0 else ''}").write_bytes(pack(text))
    (tmp_path / "good_app.json.xz").write_bytes(lzma.compress(small, preset=0))
    (tmp_path / "good_busy.sqlite").write_bytes(export)
    (tmp_path / "good_busy2.sqlite.xz").write_bytes(lzma.compress(export, preset=0))
    (tmp_path / "good.ncu-rep").write_bytes(intact)
    (tmp_path / "good2.ncu-rep.gz").write_bytes(gzip.compress(intact, 1))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "good_deep.json").write_text(
        f'{{"traceEvents":[{KERNEL}],"z":{"[" * 1100 + "]" * 1100}}}'
    )
    bad = {
        "bad1.json": b'{"traceEvents": []}', "bad2.json.gz": gzip.compress(small)[:9],
        "bad3.json": b'{"traceEvents": [' + b'{"ph":[},' * 900, "bad4.json.xz": b"\xfd7zXZ\0" + bytes(90),
        "bad5.sqlite": export[:5000], "bad6.sqlite": b"SQLite format 3\0" + os.urandom(3000),
        "bad7.ncu-rep": intact[:-9], "bad8.ncu-rep": b"", "bad9.ncu-rep.gz": gzip.compress(intact, 1)[:50_000],
    }  # fmt: skip
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    os.mkfifo(tmp_path / "bad10.json")
    done = command("analyze", tmp_path, "--format", "json", seconds=120)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    found = json.loads(done.stdout)
    assert len(found["inputs"]) == 50
    named = [Path(s["input"]).name for s in found["skipped"]]
    assert sorted(named) == sorted([*bad, "bad10.json"])
    assert all(s["message"].isprintable() and s["message"] for s in found["skipped"])
    analysis = kscope.analyze(tmp_path)
    assert to_json(analysis)
    for form in ("text", "md", "llm"):
        shown = "".join(render(form, analysis, Options(budget=50_000)).split())  # long paths are broken over lines
        assert all(name in shown for name in (*bad, "bad10.json")), form
