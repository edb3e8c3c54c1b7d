"""What is done to one element that the next one meets, or that is there only once it was read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.given.text import statement_end
from kscope.fixes.thread.branches import certain, in_each_branch
from kscope.fixes.thread.callees import Callees, taker

_VARIABLE = re.compile(  # of a thread's, which may change
    r"(?:^|(?<=[;{}]))\s*(?!(?:const|constexpr|return|else|using|typedef)\b)[A-Za-z_][\w:<>]*(?:\s+(?:int|long|char|short))*"
    r"\s+([A-Za-z_]\w*)\s*(?=[=;,({[])([^;]*;)"
)
_OF_VALUES = re.compile(
    r"__\w+|f?(?:min|max|abs|r?sqrt|exp|log|sin|cos|tanh|pow|floor|ceil|fma)f?|u?int|float|half|double|if|"
    r"is(?:nan|inf|finite)|static_cast|"
)


def carried(before: str, text: str, made: Mapping[str, str], calls: Callees) -> bool:
    """Whether what one element leaves behind in a thread may be the next one's: members that change, objects that are
    called, and variables that are handed to functions, which may change them."""
    if any(m[1] not in made for m in re.finditer(rf"(?<![\w.\]])([A-Za-z_]\w*)(?:\s*\.\s*\w+)+{MODIFIED}", text)):
        return True
    own = {m for one in _VARIABLE.finditer(before) for m in (one[1], *re.findall(r",\s*(\w+)\s*[=,;]", one[2]))}
    for name in own - set(made):
        for use in re.finditer(rf"(?<![\w.])(?<!->){name}\b", text):
            first, after = text[: use.start()].rstrip(), text[use.end() :]
            if re.match(r"\s*(?:\.\s*\w+\s*)?\(", after):
                return True
            if _handed(first, after, calls):
                return True
    return False


def written(text: str, spans: Sequence[tuple[int, int]], calls: Callees) -> bool:
    """Whether an element is given a value there, or handed to a function that may."""
    for start, end in spans:
        after, before = text[end:], text[:start].rstrip()
        if re.match(MODIFIED, after) or before.endswith(("++", "--")) or re.match(r"\s*\.\s*\w+" + MODIFIED, after):
            return True
        if _handed(before, after, calls):
            return True
    return False


def _handed(before: str, after: str, calls: Callees) -> bool:
    """Whether what stands between two texts is an argument of a function that may write it."""
    if before[-1:] not in ("(", ",") or not re.match(r"\s*[,)]", after):
        return False
    function, position = taker(before)
    return function is None or not (_OF_VALUES.fullmatch(function) or calls.value(function, position))


def first_store(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether every element is given a value before it is read: in a statement always done, or in each branch. What
    is stored may be made of what was there (`x[i] = a * x[i]`)."""
    stops = [statement_end(text, start) or len(text) for start, _ in spans]
    stores = [
        re.match(r"\s*=(?!=)", text[end:]) is not None and not any(end <= other < stop for other, _ in spans)
        for (_, end), stop in zip(spans, stops, strict=True)
    ]
    return stores[0] and (certain(text, spans[:1]) or (all(stores) and in_each_branch(text, spans)))
