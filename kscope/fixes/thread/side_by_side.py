"""Arrays whose elements lie side by side: at which index a piece of text reads and writes them, and what else it
changes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, changed
from kscope.fixes.given.source import evaluated, split_declarators
from kscope.fixes.given.text import closing
from kscope.fixes.thread.branches import asked_alike, asked_of_elements, certain, given_before
from kscope.fixes.thread.callees import CALLED, NONE, Callees, handed_to
from kscope.fixes.thread.read_by_all import read_by_all
from kscope.fixes.thread.written import carried, first_store, written

LONGEST = 1500  # characters of what is done to an element, which then stands there twice (judged)
SEEDS = range(6)  # of the numbers that names stand for where an index is looked at
_POINTER = re.compile(
    r"(?:^|[(,;{}])\s*(?P<const>const\s+)?(?P<type>\b[A-Za-z_][\w:]*(?:\s+(?:char|short|int|long))*)(?P<after>\s+const)?\s*\*\s*"
    r"(?:const\s+)?(?P<restrict>__restrict(?:__)?\s+)?(?P<name>[A-Za-z_]\w*)\s*(?=[,)=;])"
)
STRANGE = re.compile(
    r"\b(?:return|goto|asm|break|continue|while|for|do|switch|volatile|__shared__|printf|atomic\w*|__\w*sync\w*|__shfl\w*|"
    r"__ballot\w*|__any\w*|__all\w*|__threadfence\w*|threadIdx\s*\.\s*x)\b|#|/\*|\[\s*[&=\]]|[(,=]\s*&\s*\w"
)
_BROUGHT = re.compile(
    r"(?:^|(?<=[;{}]))\s*(?!else\b|case\b)(?:const\s+)?[A-Za-z_][\w:<>]*(?:\s+(?:int|long|char|short))*\s+"
    r"(?=[A-Za-z_]\w*\s*[=;,(\[])([^;]*);"
)
_ACCESS = re.compile(r"(?<![\w.])(?<!->)(?P<name>[A-Za-z_]\w*)\s*\[(?P<at>[^\[\]]+)\]")
_CASTS = re.compile(r"\b(?:static_cast\s*<[\w\s:]+>)(?=\s*\()|\(\s*(?:size_t|u?int(?:32|64)_t|unsigned|int|long)\s*\)")


class Row(Struct, frozen=True):
    """An array at one index. `at`: the index, made of the element's number and what is known before; `spans` of its
    uses in the body; `written`, and whether it has to be `loaded` for it; `when`: what is asked before, the same for
    all elements."""

    name: str
    kind: str
    at: str
    spans: tuple[tuple[int, int], ...]
    written: bool
    loaded: bool
    when: str = ""
    some: bool = False
    """Whether only some elements ask for it."""


class Rows(Struct, frozen=True):
    """Arrays at the element's index; names that sum up what elements give; functions that may write elsewhere, with
    the pointers that they are handed."""

    rows: tuple[Row, ...]
    sums: tuple[str, ...]
    handed: tuple[tuple[str, str], ...] = ()
    apart: tuple[str, ...] = ()
    """Places of these arrays that the rest of the kernel uses."""


def pointers(code: str) -> dict[str, tuple[str, bool]]:
    """Type and whether it is only read, of each pointer that a text declares once."""
    found: dict[str, tuple[str, bool]] = {}
    opened = code.find("{")
    for match in _POINTER.finditer(code):
        if 0 <= opened < match.start() and match[0][0] in "(," and code[match.end()] != "=":
            continue  # a product in brackets
        if match["name"] in found:
            return {}
        kind = " ".join(match["type"].split()).removeprefix("std::")
        found[match["name"]] = (kind, bool(match["const"] or match["after"]))
    return found


def rows_of(code: str, body: tuple[int, int], name: str, calls: Callees = NONE) -> Rows | None:
    """What lies side by side; None where more than the elements changes."""
    text = code[slice(*body)]
    known, made = pointers(code[: body[0]]), _made(text)
    if _more(text, calls) or changed(text, name) or carried(code[code.find("{") + 1 : body[0]], text, made, calls):
        return None
    sums = _sums(text, set(made) | set(known))
    if sums is None or pointers("{" + text) or set(sums) & set(re.findall(r"\w+", name)):
        return None
    found, elsewhere = _accesses(text, name, made, known)
    handed = handed_to(code, body, known, calls)
    arrays = {array for array, _ in found}
    beside = {a: read_by_all(code, body, name, a, calls) for a in arrays}
    apart = {a: places for a, places in beside.items() if places}
    if handed is None or calls.changes(text, made) or arrays & set(handed):
        return None
    if not _alone(code, body, name, known, made, arrays, set(apart)):
        return None
    rows = _rows(text, found, elsewhere, known, made, name, calls)
    pairs = tuple((function, array) for array, functions in handed.items() for function in functions)
    return Rows(tuple(rows), tuple(sums), pairs, tuple(p for one in apart.values() for p in one)) if rows else None


def _more(text: str, calls: Callees) -> bool:
    """Whether a piece of text is longer than one that is written twice, or may do more than work on elements."""
    return len(text) > LONGEST or bool(STRANGE.search(text)) or any(map(calls.meets, CALLED.findall(text)))


def _rows(
    text: str, found: Mapping[tuple[str, str], list[tuple[int, int]]], elsewhere: set[str],
    known: Mapping[str, tuple[str, bool]], made: Mapping[str, str], name: str, calls: Callees,
) -> list[Row]:  # fmt: skip
    """The arrays; none where one that is written is used for some elements alone, where whole accesses would write
    others too, or one is used from elsewhere."""
    out = []
    for (array, at), spans in found.items():
        kind, const = known[array]
        uses = len(re.findall(rf"(?<![\w.])(?<!->){array}\b", text))
        when = "" if certain(text, spans) else asked_alike(text, spans, {name, *made})
        if when is None and not (const and asked_of_elements(text, spans, made, name)):
            return []
        if not const and (uses != len(spans) or array in elsewhere):
            return []
        stored = not const and written(text, spans, calls)
        loaded = not (stored and first_store(text, spans))
        out.append(Row(array, kind, at, tuple(spans), stored, loaded, when or "", when is None))
    return out if any(not row.some for row in out) else []


def _alone(
    code: str, body: tuple[int, int], name: str, known: Mapping[str, tuple[str, bool]], made: Mapping[str, str],
    arrays: set[str], apart: set[str],
) -> bool:  # fmt: skip
    """Whether a piece of text writes nothing but elements of these, which others leave alone."""
    text = code[slice(*body)]
    used = {m["name"] for m in _ACCESS.finditer(text) if _of(m["at"], name, given_before(text, m.start(), made))}
    if used - set(known) - set(made):
        return False  # arrays of the block or of the thread: whoever filled them had the same elements
    own = all(_own(code, body, array, const=known[array][1]) for array in arrays - apart | used - set(made) - apart)
    return own and not _stores(text) - arrays - set(made)


def _of(at: str, name: str, made: Mapping[str, str]) -> bool:
    """Whether an index is made of the element's number."""
    return re.search(rf"(?<![\w.])(?<!->){name}\b", _placed(at, name, made) or "") is not None


def _own(code: str, body: tuple[int, int], array: str, *, const: bool) -> bool:
    """Whether nothing else in a kernel uses what a pointer leads to: another thread would have it then. A parameter
    that is only read may be used anywhere, and so may a pointer into one."""
    opened = code.find("{")
    outer = re.sub(r"\bassert\s*\([^;]*;", "", code[opened : body[0]] + code[body[1] :])
    mentions = re.compile(rf"(?<![\w.])(?<!->){array}\b")
    if not mentions.search(outer):
        return True
    if mentions.search(code[:opened]):
        return const
    declared = re.search(rf"\b{array}\s*=(?!=)([^;]*);", outer)
    parameters = pointers(code[:opened])
    if declared is None or (not const and len(mentions.findall(outer)) != 1):
        return False
    into = set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", declared[1])) & set(parameters)
    if len(into) != 1:
        return False
    (base,) = into
    if const and parameters[base][1]:
        return True
    return not const and len(re.findall(rf"(?<![\w.])(?<!->){base}\b", outer)) == 1


def _stores(text: str) -> set[str]:
    """Arrays that a piece of text stores to; members of structures by an empty name."""
    out = set()
    for match in re.finditer(r"([.>]\s*)?(?<!\w)([A-Za-z_]\w*)\s*\[", text):
        at: int | None = match.end()
        while at is not None and (close := closing(text, at)) is not None:
            again = re.match(r"\s*\[", text[close + 1 :])
            if again is None:
                before = text[: match.start()].rstrip().endswith(("++", "--"))
                if before or re.match(r"(?:\s*\.\s*\w+)?" + MODIFIED, text[close + 1 :]):
                    out.add("" if match[1] else match[2])
                break
            at = close + 1 + again.end()
    return out


def _accesses(
    text: str, name: str, made: Mapping[str, str], known: Mapping[str, object]
) -> tuple[dict[tuple[str, str], list[tuple[int, int]]], set[str]]:  # fmt: skip
    """(spans of what lies side by side, by array and index; arrays that are used at other places)."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    elsewhere: set[str] = set()
    for match in _ACCESS.finditer(text):
        if match["name"] not in known:
            continue
        at = _placed(match["at"], name, given_before(text, match.start(), made))
        if at is None or _step(at, name) != 1 or set(re.findall(r"\b[A-Za-z_]\w*", at)) & (set(made) - {name}):
            elsewhere.add(match["name"])
        else:
            found.setdefault((match["name"], at), []).append(match.span())
    return found, elsewhere


def _made(text: str) -> dict[str, str]:
    """What a piece of text brings up, by name: from what."""
    out: dict[str, str] = {}
    for match in _BROUGHT.finditer(text):
        for part in split_declarators(match[1]):
            one = re.match(r"\s*([A-Za-z_]\w*)\s*(?:=(.*))?", part, re.S)
            if one is not None:
                out[one[1]] = (one[2] or "").strip()
    return out


def _placed(at: str, name: str, made: Mapping[str, str], depth: int = 0) -> str | None:
    """An index with what the body brings up put in, as far as it is made of the element's number."""
    if depth > 3:
        return None
    for word in set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", at)) & set(made):
        inner = _placed(made[word], name, made, depth + 1)
        if not inner:
            return None
        at = re.sub(rf"(?<![\w.])(?<!->){word}\b", f"({inner})", at)
    return None if re.search(r"[\[\]?]", at) else at


def _step(at: str, name: str) -> int | None:
    """By how much an index grows with the element's number, whatever its other names stand for, and wherever a
    quotient or a remainder in it may jump."""
    bare = _CASTS.sub("", at)
    bare = re.sub(r"(?<=\w)(?:\.|->)(?=[a-z])", "_", bare)
    words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare))
    numbers = {int(n) for n in re.findall(r"(?<![\w.])\d+", bare)}
    found = set()
    for seed in SEEDS:
        drawn = random.Random(seed)
        known = {word: drawn.randrange(2, 90) for word in sorted(words)}
        by = numbers | {n for word, n in known.items() if word != name}
        jumps = {max(0, n - 4) for n in by | {a * b for a in by for b in by if "*" in bare}}
        for first in {known.get(name, 1), *(jumps if re.search("[/%]", bare) else ())}:
            given = [{**known, name: first + more} for more in range(9)]
            values = [evaluated(re.sub(r"\s+", "", bare), one) for one in given]
            if None in values:
                return None
            found |= {b - a for a, b in pairwise(values) if a is not None and b is not None}
    return found.pop() if len(found) == 1 else None


def _sums(text: str, local: set[str]) -> list[str] | None:
    """Names from outside that sum up, or take the most or the least of, what elements give; None where one is changed
    in another way, or what has been summed up so far is used: it is another sum for other elements."""
    out, own = [], 0
    for match in re.finditer(rf"(?<![\w.\]])(?<!->)([A-Za-z_]\w*)({MODIFIED})", text):
        name, how = match[1], match[2].strip()
        if name in local:
            continue
        most = rf"\s*(?:f?max|f?min)f?\s*\(\s*(?:{name}\s*,|[^;]*,\s*{name}\s*\))"
        if how != "+=" and not (how == "=" and re.match(most, text[match.end() :])):
            return None
        out.append(name)
        own += 1 if how == "+=" else 2
    if own != sum(len(re.findall(rf"(?<![\w.])(?<!->){name}\b", text)) for name in set(out)):
        return None
    if re.search(r"(?:\+\+|--)\s*[A-Za-z_]|\]\s*\[[^;]*" + MODIFIED, text):
        return None
    return sorted(set(out))
