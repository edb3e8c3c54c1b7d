"""The blocks of the report for a language model: each one stands alone, so that any of them can be left out."""

from __future__ import annotations

from msgspec import Struct

from kscope.model.errors import one_line
from kscope.reports import escape, words
from kscope.reports.escape import code

TEXT_LIMIT = 700
NAME_LIMIT = 160


class Block(Struct, frozen=True):
    """A piece of the report. Lower `priority` stays longer; `kind` (a plural) names it when it is left out."""

    priority: int
    kind: str
    heading: str
    markup: str


def said(text: str, limit: int = TEXT_LIMIT) -> str:
    """A sentence of the analysis, with the names in it as code spans."""
    return escape.said(text, limit)


def span(text: str) -> str:
    """A foreign text of its own: a bounded code span."""
    return code(words.middle(one_line(text), NAME_LIMIT))
