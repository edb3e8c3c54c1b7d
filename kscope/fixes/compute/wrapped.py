"""Neighbours on a torus: `(x + 1) % n` and `(x - 1 + n) % n` of an x that is known to lie in [0, n) by a comparison."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.given.text import Span, loops, plain

_NEXT = r"\(\s*(?P<x>[A-Za-z_]\w*)\s*\+\s*1\s*\)\s*%\s*(?P<n>[A-Za-z_]\w*)"
_LAST = (
    r"\(\s*(?:(?P<x>[A-Za-z_]\w*)\s*(?:-\s*1\s*\+\s*(?P<n>[A-Za-z_]\w*)|\+\s*(?P<n2>[A-Za-z_]\w*)\s*-\s*1)"
    r"|(?P<n3>[A-Za-z_]\w*)\s*(?:-\s*1\s*\+\s*(?P<x2>[A-Za-z_]\w*)|\+\s*(?P<x3>[A-Za-z_]\w*)\s*-\s*1))\s*\)"
    r"\s*%\s*(?P<by>[A-Za-z_]\w*)"
)
_AFTER = r"(?!\s*(?:[.(\[]|->|::))"
# What would bind the bracket from in front of it: a product, a call, a sign.
_BOUND = re.compile(r"(?:[*/%~!\w)\]]|(?:^|[^\w\s)\]]|\breturn)\s*[-+&*])\s*$", re.ASCII)
WRITES = r"(?<![\w.])(?<!->){x}\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--){x}\b"
"""Where a text writes a name, {x}."""
_RETURN = re.compile(r"\breturn\s*$")
_THREADS = re.compile(r"(?:(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]|\d+|[*+/%()])+", re.ASCII)


class Wrap(Struct, frozen=True):
    """One neighbour: its span and new text, and whether the text shows that x is not negative."""

    span: Span
    name: str
    length: str
    counted: bool


def wraps(code: str, lengths: set[str]) -> list[Wrap]:
    """Those in a kernel's text (comments blanked) that are taken modulo one of `lengths`."""
    found = []
    for pattern, becomes in ((_NEXT, "({x} + 1 == {n} ? 0 : {x} + 1)"), (_LAST, "({x} == 0 ? {n} - 1 : {x} - 1)")):
        for match in re.finditer(pattern + _AFTER, code, re.ASCII):
            said = match.groupdict()
            x = said["x"] or said.get("x2") or said.get("x3")
            n = said["n"] or said.get("n2") or said.get("n3")
            if n not in lengths and x in lengths:
                x, n = n, x  # (n + x - 1) % n reads like the other order
            if x is None or n is None or n not in lengths or said.get("by", n) != n or x == n:
                continue
            before = code[: match.start()]
            if _BOUND.search(before) and not _RETURN.search(before):
                continue
            counted = _within(code, x, n, match.start(), lengths)
            if counted is not None:
                found.append(Wrap((match.start(), match.end(), becomes.format(x=x, n=n)), x, n, counted))
    return sorted(found, key=lambda w: w.span[0])


def _within(code: str, x: str, n: str, use: int, lengths: set[str]) -> bool | None:
    """Whether x is made of what is not negative; None where it is not known to be below n at its use."""
    if re.search(rf"(?<!&)&\s*{x}\b", code):
        return None
    written = re.finditer(WRITES.replace("{x}", x), code)
    counting = [one for one in loops(code) if (one.name, one.start, one.end) == (x, "0", n)]
    writes = [w for w in written if not any(a < w.start() < b for a, b in (one.span for one in counting))]
    around = [one.body for one in counting if one.body[0] <= use < one.body[1]]
    if around:
        return None if any(around[-1][0] <= w.start() < around[-1][1] for w in writes) else True
    made = _assigned(code, x, writes, use)
    if made is None:
        return None
    return _made_within(code, x, n, made, use, lengths)


def _assigned(code: str, x: str, writes: list[re.Match[str]], use: int) -> re.Match[str] | None:
    """The assignment whose value x has at its use: the last one before it, in braces that are still open, with none
    behind it in them; None where there is none."""
    earlier = [w for w in writes if w.start() < use]
    made = earlier[-1] if earlier else None
    if made is None or re.fullmatch(rf"{x}\s*=", made[0]) is None:
        return None
    end = _scope(code, made.start())
    return None if use > end or any(made.start() < w.start() < end for w in writes) else made


def _made_within(code: str, x: str, n: str, made: re.Match[str], use: int, lengths: set[str]) -> bool | None:
    """The same of an x that is assigned there, by what it is made of and what is known at its use."""
    value = re.sub(r"\s+", "", re.split(r"[;,]", code[made.end() :])[0])
    counted = _counted(code, value, lengths)
    if value.endswith(f"%{n}") and _product(value):
        return counted
    if counted and f"{x}<{n}" in _guards(code[:use], made.end()):
        return True
    return counted if _quotient(code, value, n, _guards(code[:use], 0)) else None


def _product(value: str) -> bool:
    """Whether a value is one product, quotient or remainder: nothing binds less outside its brackets."""
    depth = 0
    for c in value:
        depth += (c in "([") - (c in ")]")
        if depth == 0 and c in "+-&|^<>=!?:~":
            return False
    return True


def _scope(code: str, at: int) -> int:
    """Where the innermost braces around a place close."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth < 0:
            return i
    return len(code)


def _counted(code: str, value: str, lengths: set[str]) -> bool:
    """Whether a value is made of the numbers of threads and blocks and of lengths alone."""
    made = plain(plain(value, code), code)
    for name in lengths:
        made = re.sub(rf"\b{name}\b", "1", made)
    return _THREADS.fullmatch(made) is not None


def _guards(code: str, since: int) -> list[str]:
    """What is known behind a text: `a<b` of returns in it, and of ifs whose braces are still open, from a place on."""
    known = []
    for match in re.finditer(r"\bif\s*\(([^;{}]*?)\)\s*(return\b|\{|continue\b)", code):
        inside, before = re.sub(r"\s+", "", match[1]), code[: match.start()].rstrip()
        if match.start() < since or (match[2] != "{" and before[-1:] not in ("", ";", "{", "}")):
            continue  # another condition stands in front of it
        if _scope(code, match.end() - (match[2] != "{")) < len(code):
            continue  # its braces, or those that it stands in, are closed before
        if match[2] == "{":
            known += inside.split("&&") if "||" not in inside else []
        elif "&&" not in inside:
            known += [re.sub(r"^(.*?)>=", r"\1<", part) for part in inside.split("||") if ">=" in part]
    return [re.sub(r"^\((.*)\)$", r"\1", part) for part in known]


def _quotient(code: str, value: str, n: str, guards: list[str]) -> bool:
    """`x = i / (a * b)` below n, where i, which the text writes once, is below a * b * n."""
    match = re.fullmatch(r"(?P<i>[A-Za-z_]\w*)/(?:\((?P<all>\w+(?:\*\w+)*)\)|(?P<each>\w+(?:/\w+)*))", value, re.ASCII)
    if match is None or len(re.findall(WRITES.replace("{x}", match["i"]), code)) != 1:
        return False
    factors = sorted([*re.split(r"[*/]", match["all"] or match["each"]), n])
    for part in guards:
        left, _, right = part.partition("<")
        if left == match["i"] and sorted(right.strip("()").split("*")) == factors:
            return True
    return False
