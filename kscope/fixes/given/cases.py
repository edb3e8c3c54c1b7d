"""A switch, as it is parsed."""

from __future__ import annotations

from typing import Any, Protocol


class Words(Protocol):
    """What of a parser is needed here."""

    def need(self, word: str) -> None: ...
    def take(self, *wanted: str) -> str: ...
    def comma(self) -> tuple[Any, ...]: ...
    def expression(self) -> tuple[Any, ...]: ...
    def statement(self) -> tuple[Any, ...]: ...


def switch(parser: Words) -> tuple[Any, ...]:
    """From behind the word: ("switch", value, [([labels], whether default is one of them, [statements])])."""
    parser.need("(")
    value = parser.comma()
    cases: list[tuple[list[Any], bool, list[Any]]] = []
    parser.need(")")
    parser.need("{")
    while not parser.take("}"):
        if word := parser.take("case", "default"):
            labels, default, inside = cases.pop() if cases and not cases[-1][2] else ([], False, [])
            labels = [*labels, parser.expression()] if word == "case" else labels
            parser.need(":")
            cases.append((labels, default or word == "default", inside))
        elif cases:
            cases[-1][2].append(parser.statement())
        else:
            parser.need("case")
    return "switch", value, cases
