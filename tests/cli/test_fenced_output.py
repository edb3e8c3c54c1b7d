"""What kscope falls over while it shows a result costs that part alone, and no gate passes over it in silence."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscope.cli import main as command_line
from kscope.features.sass.listing import Listing
from kscope.reports import REPORTERS
from tests.support import reports, traces
from tests.support.thorough import some

FUNCTION = """\t.target\tsm_90
\t.section\t.text.{0},"ax",@progbits
        /*0000*/                   {1} ;
        /*0010*/                   EXIT ;
"""


class Boom(Exception):
    """A fault of kscope's own."""


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """words -> (exit status, standard output, standard error without what JSON escapes), in this process."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            command_line.main([str(word) for word in words])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err and isinstance(end.value.code, int)
        return end.value.code, shown.out, shown.err.replace('\\"', '"')  # as JSON has it

    return run


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "a.sass"
    path.write_text(FUNCTION.format("axpy", "IADD3 R4, R4, R5, RZ") + FUNCTION.format("other", "FADD R1, R2, R3"))
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A report of two kernels, the first of them a transposition."""
    path = tmp_path / "two.ncu-rep"
    reports.join_reports([reports.fixture(c) for c in ("bank_conflict.slow", "atomics.slow")], path)
    return path


def fails(patch: pytest.MonkeyPatch, where: str, of: Callable[[Any], bool] = bool) -> None:
    """A function raises where `of` holds for its first argument. where: `module:name` or `module:class.name`."""
    module, _, name = where.partition(":")
    owner = importlib.import_module(module)
    *classes, name = name.split(".")
    for one in classes:
        owner = getattr(owner, one)
    real = getattr(owner, name)

    def wrapped(first: Any, *args: Any, **named: Any) -> Any:
        if of(first):
            raise Boom("here")
        return real(first, *args, **named)

    patch.setattr(owner, name, wrapped)


def unlistable(patch: pytest.MonkeyPatch, which: str) -> None:
    real = Listing.__init__

    def init(self: Any, program: Any, *args: Any, **named: Any) -> None:
        if which in program.name:
            raise Boom("here")
        real(self, program, *args, **named)

    patch.setattr(Listing, "__init__", init)


# gates


@pytest.mark.parametrize("form", ["text", "json", "html"])
@pytest.mark.parametrize("more", [(), ("--annotate",)], ids=["plain", "annotated"])
def test_a_function_that_was_left_out_is_no_pass(
    form: str, more: tuple[str, ...], code: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("sass", code, "--fail-on", "minor", "--format", form, *more)
    assert command(*words)[0] == 0
    unlistable(monkeypatch, "axpy")
    status, shown, said = command(*words)
    assert status == 3 and "could not look" in said and 'function "axpy" was not read' in said
    assert "other" in shown or form == "html"
    assert command("sass", code, "--format", form, *more)[0] == 0  # shown as far as it goes, without a gate


def test_a_function_that_cannot_be_drawn_is_no_pass(
    code: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "kscope.engine.code.program_detail:listing_detail"
    fails(monkeypatch, place, lambda listing: listing.program.name == "axpy")
    status, shown, said = command("sass", code, "--fail-on", "minor", "--format", "html")
    assert status == 3 and shown.startswith("<!doctype") and 'function "axpy" was not read' in said
    assert "kscope: skipped " in said and 'function "axpy": Boom' in said


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_functions_that_were_not_compared_are_no_pass(
    form: str, code: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old.sass"
    old.write_text(FUNCTION.format("other", "FADD R1, R2, R3"))
    words = ("sass", old, code, "--diff", "--fail-on", "minor", "--format", form)
    assert command(*words)[0] == 0
    unlistable(monkeypatch, "axpy")  # only the new side has it
    status, shown, said = command(*words)
    assert status == 3 and 'function "axpy" was not read' in said and shown
    same = ("sass", code, code, "--diff", "--fail-on", "minor", "--format", form)
    status, shown, said = command(*same)  # both sides have it
    assert status == 3 and 'function "axpy" was not read' in said and shown
    if form == "json":
        assert [s["what"] for s in json.loads(shown)["skipped"]] == ['function "axpy"']


@pytest.mark.parametrize("form", some(["text", "json", "html"], 1))
def test_a_kernel_that_was_left_out_is_no_pass(
    form: str, two: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("analyze", two, "--fail-on", "gain>500", "--format", form)[0] == 0
    fails(monkeypatch, "kscope.engine.kernels.kernel:decide", lambda facts: "transpose" in facts.kernel.demangled)
    for name in ("analyze", "sass"):
        status, _, said = command(name, two, "--fail-on", "gain>500", "--format", form)
        assert status == 3 and "could not look" in said and "kernel 0 was not read" in said, (name, said)


# what shows a result


@pytest.mark.parametrize("form", some([*REPORTERS], 3))
def test_one_kernel_that_cannot_be_shown(
    form: str, two: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other kernel and the recording beside it are shown; alone it is status 3."""
    recording = traces.trace(tmp_path, traces.launch(1, 0, 3, 4))
    bad: Callable[[Any], bool] = lambda analysis: any("transpose" in k.demangled for k in analysis.kernels)  # noqa: E731
    fails(monkeypatch, f"{REPORTERS[form]}:render", bad)
    status, shown, said = command("analyze", two, recording, "--format", form)
    assert status == 0 and shown and "atomic" in shown and not said
    if form not in ("html", "sarif"):
        assert "Boom" in shown
    status, _, said = command("analyze", two, "--format", form, "--fail-on", "gain>500")
    assert status == 3 and "transpose_tile" in said and "was not read" in said
    status, shown, said = command("analyze", reports.fixture("bank_conflict.slow"), "--format", form)
    assert (status, shown) == (3, "") and "cannot be shown as" in said and said.count("\n") == 1


def test_one_recording_that_cannot_be_shown(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawings go by the place of their recording: the second one keeps its own."""
    paths = [traces.trace(tmp_path, traces.launch(1, 0, 3, 4 + i), f"{name}.json") for i, name in enumerate("ab")]
    page = "kscope.reports.html.page"
    fails(monkeypatch, f"{page}:render", lambda a: any(t.input.endswith("a.json") for t in a.timelines))
    seen: list[Any] = []
    real = importlib.import_module(page).render
    monkeypatch.setattr(f"{page}.render", lambda a, o: (real(a, o), seen.append((a, o)))[0])
    status, shown, _ = command("analyze", *paths, "--format", "html")
    analysis, options = seen[-1]
    assert status == 0 and shown.startswith("<!doctype")
    assert [t.input for t in analysis.timelines] == [str(paths[1])] and len(analysis.skipped) == 1
    assert [d.index for d in options.detail.timelines] == [0]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("kscope.reports.text.listing:render", ("sass", "CODE")),
        ("kscope.reports.text.machine:render", ("sass", "CODE", "--annotate")),
        ("kscope.reports.jsonv1:encode", ("sass", "CODE", "--format", "json")),
        ("kscope.reports.html.page:render_programs", ("sass", "CODE", "--format", "html")),
        ("kscope.reports.html.page:render_sass_diff", ("sass", "CODE", "CODE", "--diff", "--format", "html")),
        ("kscope.reports.text.sass_diff:render_sass_diff", ("diff", "CODE", "CODE")),
        ("kscope.reports.text.diff:render", ("diff", "TRACE", "TRACE")),
        ("kscope.reports.html.page:render_diff", ("diff", "TRACE", "TRACE", "--format", "html")),
    ],
)
def test_a_result_that_cannot_be_shown_is_status_3(
    where: str, words: tuple[str, ...], code: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = traces.trace(tmp_path, traces.launch(1, 0, 3, 4))
    given = [{"CODE": code, "TRACE": recording}.get(word, word) for word in words]
    assert command(*given)[0] == 0
    fails(monkeypatch, where)
    status, shown, said = command(*given)
    assert (status, shown, said.count("\n")) == (3, "", 1) and "Boom" in said
