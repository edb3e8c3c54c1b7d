"""The guide to the Python interface is executed as it stands, and what it leaves out holds as well."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import kscope
from kscope.reports import REPORTERS
from tests.cli.running import CONFLICTS
from tests.support import reports

ROOT = Path(__file__).resolve().parents[1]


def test_the_guide_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "")
    reports.fixture("bank_conflict.fast")  # as `make fixtures` puts it there
    text = (ROOT / "guides" / "python.md").read_text(encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(re.sub(r"^```.*$", "", text, flags=re.M), {}, "guide", None, 0)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(example, out=said.append)
    assert result.attempted > 20
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("format", REPORTERS)
def test_every_format_renders(format: str) -> None:
    assert kscope.analyze(CONFLICTS).render(format)


def test_unknown_formats_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no format 'pdf'; there are text"):
        kscope.analyze(CONFLICTS).render("pdf")


def test_representations_are_short() -> None:
    analysis = kscope.analyze(CONFLICTS)
    for one in (analysis, analysis.kernels[0], analysis.kernels[0].findings[0]):
        assert len(repr(one)) < 300
        assert "MEM103" in repr(one)
        assert "\n" not in repr(one)


def test_frames_have_the_names_of_the_json() -> None:
    pytest.importorskip("pandas")
    analysis = kscope.analyze(CONFLICTS)
    frame = analysis.to_dataframe("findings")
    finding = analysis.kernels[0].findings[0]
    row = frame.iloc[0]
    assert (row["rule"], row["code"], row["fix"]) == (finding.rule, finding.code, finding.fix)
    assert finding.estimate is not None
    assert (row["speedup"], row["capped_by"]) == (finding.estimate.speedup, finding.estimate.capped_by)
    assert (row["line"], row["pc"]) == (finding.locations[0].line, finding.locations[0].pc)
    assert len(frame) == len(analysis.kernels[0].findings)
