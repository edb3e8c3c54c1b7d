"""Sums of products of bytes in a text: `s += (float)a.x * (float)b.x + ..` in the ways that it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.text import closing

FIELDS, BEGINS = "wxyz", (";", "{", "}")
_CASTS = re.compile(
    r"^(?:\(\s*(?:float|int)\s*\)|(?:float|int|static_cast\s*<\s*(?:float|int)\s*>|__int2float_rn)(?=\s*\())"
)
_PART = re.compile(r"^(?P<of>[A-Za-z_]\w*(?:\s*\[[^][]*\])?)\s*\.\s*(?P<field>[xyzw])$")
_SUM = r"(?P<sum>[A-Za-z_]\w*(?:\s*\[[^][]*\])?)"
_ADDED = re.compile(rf"(?<![\w.>\])]){_SUM}\s*(?:\+=(?P<value>[^;=]*);|=(?!=)(?P<whole>[^;=]*);)")


class Dots(Struct, frozen=True):
    """`sum += a.x * b.x + .. + a.w * b.w` for each of `pairs`; `span`: of its statements, with the last semicolon."""

    sum: str
    pairs: tuple[tuple[str, str], ...]
    span: tuple[int, int]


def dots(code: str) -> Iterator[Dots]:
    """Sums of nothing else; statements that follow one another and add to one sum are taken together."""
    at = 0
    while (found := _ADDED.search(code, at)) is not None:
        first, at = found, found.end()
        before = code[: first.start()].rstrip()
        products: list[tuple[str, str, str]] = []
        while found is not None and bare(found["sum"]) == bare(first["sum"]) and (more := _products(found)) is not None:
            products += more
            at = found.end()
            found = _ADDED.match(code, at + len(code[at:]) - len(code[at:].lstrip()))
            found = found if before.endswith(BEGINS) else None  # a loop or a test without braces has one statement
        pairs = _pairs(products)
        if pairs and before.endswith((*BEGINS, ")", "else")):
            yield Dots(" ".join(first["sum"].split()), pairs, (first.start(), at))


def bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _products(found: re.Match[str]) -> list[tuple[str, str, str]] | None:
    """(factor, factor, field) of each product that a statement adds to its sum; None where it does anything else."""
    terms = _terms(found["value"] if found["value"] is not None else found["whole"])
    own = [t for t in terms if bare(t) == bare(found["sum"])]
    if len(own) != (found["value"] is None):
        return None
    out = []
    for term in terms:
        if term in own:
            continue
        factors = [_PART.match(_uncast(f)) for f in _split(_uncast(term), "*")]
        if len(factors) != 2 or factors[0] is None or factors[1] is None or factors[0]["field"] != factors[1]["field"]:
            return None
        out.append((bare(factors[0]["of"]), bare(factors[1]["of"]), factors[0]["field"]))
    return out


def _terms(text: str) -> list[str]:
    """What a text adds up, with what fused operations do taken apart."""
    out = []
    for term in _split(text, "+"):
        inner = _uncast(term)
        term = term if len(_split(inner, "*")) == 2 and len(_split(inner, "+")) == 1 else inner
        fused = [c for name in ("fmaf", "__fmaf_rn") for c in calls_of(term, name) if c.end - c.start == len(term)]
        if fused and len(fused[0].arguments) == 3:
            a, b, c = fused[0].arguments
            out += [f"({a}) * ({b})", *_terms(c)]
        elif len(parts := _split(term, "+")) > 1:
            out += [one for part in parts for one in _terms(part)]
        else:
            out.append(term.strip())
    return out


def _split(text: str, by: str) -> list[str]:
    """At a sign that stands in no brackets."""
    out, depth, start = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == by and not depth:
            out.append(text[start:n])
            start = n + 1
    return [*out, text[start:]]


def _uncast(text: str) -> str:
    """Without conversions to float or int and brackets around all of it."""
    text = text.strip()
    while True:
        if text.startswith("(") and (cast := _CASTS.match(text)) is None and closing(text, 1) == len(text) - 1:
            text = text[1:-1].strip()
            continue
        cast = _CASTS.match(text)
        rest = text[cast.end() :].strip() if cast is not None else ""
        whole = len(_split(rest, "*")) == 1 or (rest.startswith("(") and closing(rest, 1) == len(rest) - 1)
        if cast is None or not whole or len(_split(rest, "+")) > 1:
            return text
        text = rest


def _pairs(products: list[tuple[str, str, str]]) -> tuple[tuple[str, str], ...]:
    """The factors of four products each, one of each field; none where a product is left over."""
    found: dict[frozenset[str], tuple[tuple[str, str], list[str]]] = {}
    for a, b, field in products:
        found.setdefault(frozenset((a, b)), ((a, b), []))[1].append(field)
    if any(sorted(fields) != sorted(FIELDS) for _, fields in found.values()):
        return ()
    return tuple(pair for pair, _ in found.values())
