"""What a piece of text does on conditions: whether it comes to a place at all, and what was asked before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from kscope.fixes.atomics.reading import changed, statements
from kscope.fixes.given.text import closing, statement_end

_ALIKE = re.compile(r"(?:[\w\s.<>=!&|()+\-*/%:]|->)*")
_VARYING = re.compile(r"\bthreadIdx\b|\b[A-Za-z_]\w*\s*\(|[-+*/%&|^]=|(?<![=<>!])=(?!=)|\+\+|--")


def certain(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether one of the uses stands where nothing is asked, or one in each branch."""
    return any(_always(text, *span) for span in spans) or in_each_branch(text, spans)


def _always(text: str, start: int, end: int) -> bool:
    begin = max(text.rfind(c, 0, start) for c in ";{}") + 1
    outer = 1 if text.startswith("{") else 0
    if text[:start].count("{") - text[:start].count("}") > outer:
        return False
    before = text[begin:start]
    asked = re.match(r"\s*if\s*\(", before)
    if asked is not None and closing(before, asked.end()) is None:
        return not re.search(r"\?|&&|\|\|", before)  # what is asked first
    if not text[begin:start].strip() and re.match(r"\s*=(?!=)", text[end:]):
        return True  # what a statement stores to
    return not re.search(r"\?|&&|\|\||\bif\b|\belse\b", _around(text, begin, statement_end(text, start) or end, start))


def _around(text: str, begin: int, stop: int, at: int) -> str:
    """A piece of text without the brackets that a place is not in."""
    out, n = "", begin
    while n < stop:
        close = closing(text, n + 1) if text[n] == "(" else None
        if close is not None and not n < at < close:
            n = close
        out += text[n]
        n += 1
    return out


def in_each_branch(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """`if (..) { .. } else if (..) { .. } else { .. }` around all uses, with one in each."""
    inner = text[1:-1] if text.startswith("{") and text.rstrip().endswith("}") else text
    shift = 1 if inner is not text else 0
    parts = statements(inner, 0, len(inner.rstrip()))
    for start, end in parts or []:
        branches, rest = _branches(inner[start:end])
        if not rest or not branches:
            continue
        if all(_in(inner, (start + a, start + b), [(s - shift, e - shift) for s, e in spans]) for a, b in branches):
            return True
    return False


def _in(text: str, branch: tuple[int, int], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a branch always comes to one of the uses."""
    begin, end = branch
    mine = [(s - begin, e - begin) for s, e in spans if begin <= s and e <= end]
    return bool(mine) and certain(text[begin:end], mine)


def _branches(one: str) -> tuple[list[tuple[int, int]], bool]:
    """Spans of a statement's branches, and whether the last is an else."""
    out, at = [], 0
    while (head := re.match(r"\s*if\s*\(", one[at:])) is not None:
        close = closing(one, at + head.end())
        if close is None:
            return [], False
        first = close + 1 + len(one[close + 1 :]) - len(one[close + 1 :].lstrip())
        stop = statement_end(one, first)
        if stop is None:
            return [], False
        out.append((first, stop))
        again = re.match(r"\s*else\b\s*", one[stop:])
        if again is None:
            return out, False
        at = stop + again.end()
    return [*out, (at, len(one))], bool(out)


def asked_alike(text: str, spans: Sequence[tuple[int, int]], local: Collection[str]) -> str | None:
    """What is asked before all of these places are come to, if nothing in it hangs on the element; None where it does,
    or more is asked. local: names that the text brings up, and the element's."""
    asked, inner = [], (0, len(text))
    for test, branch in sorted(_asked(text), key=lambda x: x[1]):
        if not all(branch[0] <= start and end <= branch[1] for start, end in spans):
            continue
        names = set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", test))
        if not _ALIKE.fullmatch(test) or _VARYING.search(test[1:]) or names & set(local):
            return None
        if any(changed(text, n) for n in names):
            return None
        asked.append(test)
        inner = branch
    rest = [(start - inner[0], end - inner[0]) for start, end in spans]
    if not asked or not certain(text[slice(*inner)] + ";", rest):
        return None
    return asked[0][1:-1] if len(asked) == 1 and asked[0].startswith("(") else " && ".join(asked)


def asked_of_elements(
    text: str, spans: Sequence[tuple[int, int]], made: Mapping[str, str], name: str
) -> bool:  # fmt: skip
    """Whether it is the elements' values, and nothing else, that say where these places are come to: no length, and no
    pointer that may be null. name: the element's number."""
    of = {n for n, value in made.items() if "[" in value}
    for _ in made:
        of |= {n for n, value in made.items() if of & set(re.findall(r"[A-Za-z_]\w*", value))}
    for start, end in spans:
        tests = [test for test, branch in _asked(text) if branch[0] <= start and end <= branch[1]]
        for term in (t for test in tests for t in re.split(r"&&|\|\|", test)):
            bare = re.sub(r"\[[^\]]*\]", "[]", term)
            names = set(re.findall(r"[A-Za-z_]\w*", bare))
            if name in names or not ("[]" in bare or names & of):
                return False
        if not tests:
            return False
    return True


def _asked(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """(what is asked, the span that is done if it holds) of each if, else and ?."""
    for match in re.finditer(r"\bif\s*\(", text):
        close = closing(text, match.end())
        first = close + 1 + len(text[close + 1 :]) - len(text[close + 1 :].lstrip()) if close is not None else 0
        stop = statement_end(text, first) if close is not None else None
        if close is None or stop is None:
            continue
        test = text[match.end() : close].strip()
        yield f"({test})", (first, stop)
        other = re.match(r"\s*else\b\s*", text[stop:])
        if other is not None:
            begin = stop + other.end()
            yield f"!({test})", (begin, statement_end(text, begin) or begin)
    for match in re.finditer(r"\?", text):
        begin, end = _before(text, match.start()), _until(text, match.end())
        if end is not None:
            yield f"({text[begin : match.start()].strip()})", (match.end(), end)


def _before(text: str, at: int) -> int:
    """Where an expression begins that ends there."""
    depth = 0
    for n in range(at - 1, -1, -1):
        c = text[n]
        if (c == "(" and not depth) or (not depth and c in ",;{}?:["):
            return n + 1
        if c == "=" and not depth and text[n - 1] not in "=!<>" and text[n + 1] != "=":
            return n + 1
        depth += (c in ")]") - (c in "([")
    return 0


def _until(text: str, at: int) -> int | None:
    """Where the colon of a question mark stands."""
    depth = 0
    for n in range(at, len(text)):
        c = text[n]
        if not depth and c == ":" and text[n - 1] != ":" and text[n + 1 : n + 2] != ":":
            return n
        depth += (c in "([{?") - (c in ")]}")
        if c == ":" and depth > 0 and text[n - 1] != ":" and text[n + 1 : n + 2] != ":":
            depth -= 1
        if depth < 0 or c == ";":
            return None
    return None


def given_before(text: str, at: int, made: Mapping[str, str]) -> dict[str, str]:
    """What the names of a text are made of where a place in it is come to: what they were brought up with if nothing
    changes them, else what they were given last, where that is certain."""
    out = dict(made)
    for name, value in made.items():
        if value:
            out[name] = value if changed(text, name) == 1 else ""
            continue
        given = list(re.finditer(rf"(?<![\w.&*])(?<!->){name}\s*=(?!=)\s*([^;]*);", text))
        if changed(text, name) != len(given):
            continue
        for match in (m for m in given if m.start() < at):
            around, alone = _opened(text, match.start()), text[: match.start()].rstrip()[-1:] in ("", ";", "{", "}")
            out[name] = match[1] if alone and around == _opened(text, at)[: len(around)] else ""
    return out


def _opened(text: str, at: int) -> list[int]:
    """Where the blocks begin that are open at a place."""
    out: list[int] = []
    for n, c in enumerate(text[:at]):
        if c == "{":
            out.append(n)
        elif c == "}" and out:
            out.pop()
    return out

