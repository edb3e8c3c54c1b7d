"""The most that an index can be, whatever is loaded, as far as its text says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.given.grammar import Node, Parser, Unplayable

_BYTES = r"\b(?:unsigned\s+char|uint8_t|uchar)\s+(?:\w+\s*(?:=[^;,]*)?,\s*)*{0}\b"

_OTHERS = r"\b(?:int|unsigned|long|size_t|auto|float|char|short)\s+(?:\w+\s*(?:=[^;,]*)?,\s*)*(?<!unsigned char ){0}\b"


def most(index: str, known: Mapping[str, int], code: str) -> int | None:
    """None where it may be anything, or less than 0. known: what names stand for; code: where names are declared."""
    try:
        parser = Parser(index)
        found = parser.comma()
    except (Unplayable, ValueError):
        return None
    return _most(found, known, code) if not parser.next() else None


def _most(node: Node, known: Mapping[str, int], code: str) -> int | None:
    if node[0] == "number":
        return int(node[1]) if node[1] >= 0 else None
    if node[0] == "name":
        if re.search(_OTHERS.replace("{0}", re.escape(node[1])), code):
            return None
        byte = re.search(_BYTES.replace("{0}", re.escape(node[1])), code)
        return known[node[1]] if known.get(node[1], -1) >= 0 else 255 if byte is not None else None
    if node[0] != "binary":
        return None
    _, op, left, right = node
    a, b = _most(left, known, code), _most(right, known, code)
    if op == "&":
        return min((x for x in (a, b) if x is not None), default=None)
    if a is None or b is None:
        return None
    return a + b if op == "+" else a * b if op == "*" else a if op in ("/", ">>", "%") else None
