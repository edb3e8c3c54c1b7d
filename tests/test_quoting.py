"""No text of a report reaches an output by another way than kscope.reports.escape: read from the source, so that a new
field, a new line of a reporter or a new rule is seen before somebody plants a name in it. What the outputs then look
like is tests/test_payloads.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.taint import SENTENCES, Reporters, fields
from tests.support.thorough import some

PACKAGE = Path(__file__).resolve().parents[1] / "kscope"
REPORTS = PACKAGE / "reports"
OWN_WORDS = {"arch.py", "napkin.py"}
"""Sheets of chips and problems as the user typed them: nothing of a report is in these. Fields share names with those
of the view."""
FILES = sorted(p for p in REPORTS.rglob("*.py") if p.name not in {"escape.py", *OWN_WORDS})
OUTPUTS = [
    ("markdown/page.py", "render"), ("llm/page.py", "render"), ("markdown/diff.py", "render"),
    ("html/page.py", "render"), ("html/page.py", "render_diff"), ("html/page.py", "render_programs"),
    ("versions/markdown.py", "render"), ("versions/page.py", "render"), ("versions/trend.py", "as_page"),
    ("html/page.py", "render_sass_diff"), ("notebook.py", "repr_html"), ("sarif.py", "_message"),
]  # fmt: skip
"""Where marked-up text leaves. On a terminal Page.line is the guard; JSON leaves through jsonv1.encode."""
FOREIGN = {
    "demangled", "mangled", "nvtx", "text", "file", "source", "operators", "member", "toolkit", "devices", "names",
}  # fmt: skip
NAMED = re.compile(r"\b(steps|device|kernel|k|top|row|program|function|scope|range|operator)\.name$")


@pytest.fixture(scope="module")
def reporters() -> Reporters:
    return Reporters(REPORTS, FILES)


@pytest.mark.parametrize(("file", "name"), OUTPUTS)
def test_every_field_with_text_is_quoted(reporters: Reporters, file: str, name: str) -> None:
    assert not reporters.reached(file, name), "pass these through kscope.reports.escape"


@pytest.mark.parametrize(
    ("file", "now", "then", "name", "leak"),
    some([
        ("markdown/kernel.py", "NVTX: {code(' / '.join(kernel.nvtx))}", "NVTX: {kernel.nvtx[0]}", "", "nvtx"),
        ("markdown/kernel.py", "code(n.title, table=True)", "prose(n.title)", "", "n.title"),
        ("markdown/kernel.py", "{code(kernel.workload)}", "{prose(kernel.workload)}", "", "kernel.workload"),
        ("llm/page.py", "{span(skip.input)}", "{skip.input}", "render", "skip.input"),
        ("llm/kernel.py", "{said(kernel.headroom.bounded_by)}", "{kernel.headroom.bounded_by}", "", "bounded_by"),
        ("phrases/timeline.py", "else quoted(steps.name)", "else steps.name", "", "steps.name"),
        ("phrases/timeline.py", "{quoted(d.name) if d.name", "{d.name if d.name", "", "d.name"),
        ("llm/timeline.py", "code(words.middle(kernel.name, 100))", "kernel.name", "", "kernel.name"),
        ("markdown/diff.py", "map(code, comparison.only_before)", "comparison.only_before", "render", "only_before"),
        ("html/page.py", "html_text(kernel.verdict.sentence)", "kernel.verdict.sentence", "render", "sentence"),
        ("notebook.py", "{html_text(note)}", "{note}", "repr_html", "kernel.device.name"),
    ], 4),
)  # fmt: skip
def test_a_field_that_is_not_quoted_is_seen(file: str, now: str, then: str, name: str, leak: str) -> None:
    """The check itself: one quotation taken out of the source."""
    source = (REPORTS / file).read_text(encoding="utf-8")
    assert now in source
    found = Reporters(REPORTS, FILES, {file: source.replace(now, then, 1)})
    out = (file, name) if name else (f"{'markdown' if file.startswith('markdown') else 'llm'}/page.py", "render")
    assert any(leak in one for one in found.reached(*out))


def test_sentences_are_fields_of_the_view() -> None:
    """A list that names what is gone would let the next field of that name pass."""
    text, _ = fields()
    assert text >= SENTENCES - {"text"}


def test_a_terminal_line_is_made_in_one_place() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name not in ("line", "blank", "__init__", "text"):
                assert "self.lines" not in ast.unparse(node), f"{path.name}: {node.name}"
                assert "page.lines.append" not in ast.unparse(node), f"{path.name}: {node.name}"


def test_standard_error_is_written_in_one_place() -> None:
    """kscope.cli.shared._output.say; the launcher and the meter run in the user's interpreter and know nothing of
    kscope."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name in {"_launcher.py", "_roofs.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name == "say" and path.name == "_output.py":
                node.body = []
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            inside = path.name == "_output.py" and called == "print"
            assert inside or called not in ("print", "click.echo", "click.secho", "sys.stderr.write"), str(path)


def test_a_sentence_quotes_what_it_names() -> None:
    """In rules, engine, features and parsers a name goes into a sentence through `quoted`; a KscopeError is one line of
    its own. Opcodes (`ins.name`) have a grammar that the parser keeps."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}"
        for part in ("rules", "engine", "features", "parsers")
        for path in sorted((PACKAGE / part).rglob("*.py"))
        for node in _unquoted(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "put these into kscope.model.quoted.quoted"


def _unquoted(tree: ast.Module) -> Iterator[ast.Attribute]:
    safe: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("KscopeError", "quoted", "len", "shape_of"):
            safe |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue):
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Attribute) and id(inner) not in safe:
                    written = ast.unparse(inner)
                    if (inner.attr in FOREIGN and not written.startswith("shape_of(")) or NAMED.search(written):
                        yield inner
