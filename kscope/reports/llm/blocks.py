"""The blocks of the report for a language model: each one stands alone, so that any of them can be left out."""

from __future__ import annotations

from msgspec import Struct

from kscope.model.errors import one_line
from kscope.reports import escape, words
from kscope.reports.escape import code

TEXT_LIMIT = 700
NAME_LIMIT = 160


class Block(Struct, frozen=True):
    """A piece of the report. Lower `priority` stays longer; `kind` (a plural) names it when it is left out. `larger`:
    the same with more in it, the shortest first, taken as far as the budget goes. `of`: what it says something of; a
    block without the one before of the same would hang in the air, and is left out with it."""

    priority: int
    kind: str
    heading: str
    markup: str
    larger: tuple[str, ...] = ()
    of: str = ""


def said(text: str, limit: int = TEXT_LIMIT) -> str:
    """A sentence of the analysis, with the names in it as code spans."""
    return escape.said(text, limit)


def span(text: str) -> str:
    """A foreign text of its own: a bounded code span."""
    return code(words.middle(one_line(text), NAME_LIMIT))
