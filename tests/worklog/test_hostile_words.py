"""Names from reports, from git and from worklogs of others in every output of a worklog."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from kscope.model.quoted import quoted
from kscope.reports.jsonv1 import encode
from kscope.reports.terminal import Page
from kscope.reports.worklog import checklist as checklist_report
from kscope.reports.worklog import html, markdown, tables, text
from kscope.worklog.checklist import SCHEMA, Checklist, Gain, Item, Tried
from kscope.worklog.entries import Attempt, Claim, Delivered, Entry, Git, Idea, Step, Tools
from kscope.worklog.ladder import ladders
from tests.support.payloads import MARK, PIECES, WHOLE, check_json, check_markdown, check_terminal, tokens
from tests.worklog.samples import DEVICE, entry

SENTENCE = f"Ours {quoted(WHOLE)} and ours"


def hostile(words: str) -> list[Entry]:
    """Two versions with the payload wherever a report or git writes; `words` where the user does."""
    start = entry(message="start")
    step = Step(parent=start.uid, speedup=1.1, sentence=SENTENCE, delivered=[
        Delivered(code="MEM103", rule="shared-bank-conflicts", speedup=2.0, low=1.0, high=3.0, measured=1.1, alone=True,
                  outcome="inside", because="told")])  # fmt: skip
    return [start, entry(
        number=2, parent=start.uid, step=step, kernel=WHOLE, sentence=SENTENCE, device=replace(DEVICE, name=WHOLE),
        git=Git(commit="0" * 40, branch=WHOLE, dirty=True, left_out=[WHOLE]), report_name=WHOLE, bounded_by="DRAM",
        tools=Tools(kscope="0.1.0", profiler=WHOLE, flags=words), message=f"{words}\n\n{words}", notes=[words],
        why=words, status="set aside",
        claims=[Claim(code="MEM101", rule="r", title=SENTENCE, severity="major", speedup=2.0)],
        attempts=[Attempt(opportunity="tma", how="told", told=True)],
    )]  # fmt: skip


def page(words: str) -> str:
    found = hostile(words)
    idea = Idea(uid="1", at="2", entry=found[0].uid, opportunity="tma", what="set aside", why=words, regime="memory",
                limiter="shared_memory")  # fmt: skip
    return markdown.render(ladders(found), lambda one: f"--- a\n+++ b\n@@ -1 +1 @@\n+{WHOLE}\n", (), [idea])


def test_markdown() -> None:
    check_markdown(page("plain words"), html=True)


@pytest.mark.parametrize("words", PIECES)
def test_what_others_wrote_into_a_worklog_is_words_in_markdown(words: str) -> None:
    """They stand as they are, but nothing of them is markup."""
    plain, evil = tokens(page("plain words")), tokens(page(words))
    leaves = ("text", "softbreak", "inline", "paragraph", "code_inline", "html_inline")
    shapes = [[t.type for t in one if not t.type.startswith(leaves)] for one in (plain, evil)]
    assert shapes[1] == shapes[0]
    for token in evil:
        assert not token.type.startswith("html") or token.content in ("<code>", "</code>")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert MARK not in str(attrs)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def test_html() -> None:
    tags = Tags()
    tags.feed(html.render(ladders(hostile(WHOLE)), lambda one: f"+{WHOLE}\n-{WHOLE}\n"))
    assert tags.found <= {
        "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "code", "table", "thead", "tbody",
        "tr", "th", "td", "section", "ul", "li", "pre", "span", "svg", "text", "rect", "line",
    }  # fmt: skip


def test_terminal() -> None:
    out = Page(80, color=False, unicode=True)
    found = hostile(WHOLE)
    text.ladder(out, ladders(found), verbose=True)
    text.plot(out, ladders(found))
    text.version(out, found[1], found[0], WHOLE)
    check_terminal(out.text())


def test_rows() -> None:
    found = [replace(one, message=start) for one, start in zip(hostile(WHOLE), ("=1+1", "@SUM(A1)"), strict=True)]
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(ladders(found)))))
    assert [row["message"][0] for row in rows] == ["'", "'"]
    assert all(value.isprintable() for row in rows for value in row.values())
    check_json(encode(found[1]).decode())


def test_checklist() -> None:
    item = Item(opportunity="tma", title="Copy tiles with TMA", state="back", effort=4, effort_words="days",
                effort_why="work", why=SENTENCE, gain=Gain(code="MEM103", rule="r", speedup=2.0, low=1.0, high=3.0,
                                                           capped_by="L2"),
                tried=[Tried(version=1, speedup=2.0, how="told", status="kept")])  # fmt: skip
    found = Checklist(schema=SCHEMA, kernel=WHOLE, device=WHOLE, regime="memory", limiter="shared_memory", time_us=1.0,
                      sentence=SENTENCE, version=1, items=[item])  # fmt: skip
    check_markdown(checklist_report.markdown(found), html=True)
    out = Page(80, color=False, unicode=True)
    checklist_report.text(out, found, verbose=True)
    check_terminal(out.text())


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """A branch, a file: bytes that are no UTF-8."""
    from kscope.worklog.adding import _sound
    from kscope.worklog.store import Worklog

    log = Worklog(tmp_path / ".kscope" / "worklog.db")
    log.add(entry(message=_sound("caf\udce9")))
    assert log.entries()[0].message == "caf?"
