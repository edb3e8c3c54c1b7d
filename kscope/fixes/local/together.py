"""Whether whole warps come to a place in a kernel's text: no lane has returned, nothing around it asks for what differs
from lane to lane."""

from __future__ import annotations

import re

from kscope.fixes.atomics.reading import Kernel, changed, returning, statements, uniform
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Loop, closing, index_of, loops, plain, statement_end, strided

WARP = 32
_LEAVES = re.compile(r"\b(?:break|continue|goto|switch|do|while)\b")
_CHOSEN = re.compile(r"\?|&&|\|\||\[[&=]")
_BELOW = re.compile(r"\s*(?P<index>[^<>=!&|]+?)\s*(?:<|>=)\s*(?P<end>[^<>=!&|]+?)\s*")


def whole_warps(kernel: Kernel, at: int, block: int) -> set[str] | None:
    """What has to be a multiple of 32 so that all lanes of a warp come to a place; None where some may not. block:
    threads of one, in a row."""
    guards = returning(kernel)
    if guards is None or _LEAVES.search(kernel.body) or block % WARP:
        return None
    even: set[str] = set()
    for _, end, test in guards:
        found = _same(kernel, test, end, {}, block) if end <= at else set()
        if found is None:
            return None
        even |= found
    inner = _within(kernel, kernel.statements, at, {}, block)
    return even | inner if inner is not None else None


def _within(
    kernel: Kernel, spans: tuple[tuple[int, int], ...], at: int, counters: dict[str, str], block: int
) -> set[str] | None:
    """Of a place in one of some statements. counters: numbers in place of names that all lanes have alike."""
    code = kernel.text.code
    start, end = next((s for s in spans if s[0] <= at < s[1]), (at, at))
    start += len(re.match(r"(?:\s*#\s*pragma[^\n]*\n)*\s*", code[start:end])[0])  # type: ignore[index]
    if start == end or start > at:
        return None
    if code[start] == "{":
        inside = statements(code, start + 1, end - 1)
        return _within(kernel, tuple(inside), at, counters, block) if inside is not None else None
    head = re.match(r"(for|if)\s*(?:constexpr\s*)?\(", code[start:])
    if head is None:
        return set() if not _CHOSEN.search(code[start:at]) else None
    close = closing(code, start + head.end())
    if close is None or at <= close:
        return None
    if head[1] == "for":
        loop = next((x for x in loops(code) if x.span[0] == start), None)
        found = _rounds(kernel, loop, counters, block) if loop is not None else None
        if loop is None or found is None:
            return None
        inner = _within(kernel, (loop.body,), at, {**counters, loop.name: "1"}, block)
        return found | inner if inner is not None else None
    return _chosen(kernel, (start, start + head.end(), close, end), at, counters, block)


def _chosen(
    kernel: Kernel, heads: tuple[int, int, int, int], at: int, counters: dict[str, str], block: int
) -> set[str] | None:
    """The same of an if. heads: where it begins, where its test begins and ends, where its else ends."""
    code, (start, opening, close, end) = kernel.text.code, heads
    first = close + 1 + len(re.match(r"\s*", code[close + 1 :])[0])  # type: ignore[index]
    found = _same(kernel, code[opening:close], start, counters, block)
    middle = statement_end(code, first)
    if found is None or middle is None or (at >= middle and re.match(r"(?:if|for)\b", code[first:])):
        return None  # an else behind two heads is the inner one's
    if at >= middle:
        first = middle + len(re.match(r"\s*else\s*", code[middle:])[0])  # type: ignore[index]
    inner = _within(kernel, ((first, end),), at, counters, block)
    return found | inner if inner is not None else None


def _rounds(kernel: Kernel, loop: Loop, counters: dict[str, str], block: int) -> set[str] | None:
    """Of a loop that all lanes of a warp leave in the same round."""
    code = kernel.text.code
    if changed(code[slice(*loop.body)], loop.name):
        return None
    by = loop.step.partition("+=")[2] or "1"
    if all(uniform(kernel, _put(x, counters), loop.span[0]) for x in (loop.start, loop.end, by)):
        return set()
    per = strided(loop, code[kernel.opening :])
    own = plain(loop.start, code[kernel.opening :]) == "threadIdx.x" and _even(kernel, plain(by), block)
    if not own and (per is None or not _even(kernel, per, block)):
        return None
    return _multiple(kernel, loop.end, loop.span[0], counters)


def _same(kernel: Kernel, test: str, before: int, counters: dict[str, str], block: int) -> set[str] | None:
    """Of a condition that all lanes of a warp find alike."""
    if uniform(kernel, _put(re.sub(r"[=!<>]=|[!<>]", "+", test), counters), before):
        return set()
    below = _BELOW.fullmatch(test)
    per = index_of(below["index"], kernel.text.code[kernel.opening :]) if below is not None else None
    if below is None or per is None or not _even(kernel, per, block):
        return None
    return _multiple(kernel, below["end"], before, counters)


def _multiple(kernel: Kernel, end: str, before: int, counters: dict[str, str]) -> set[str] | None:
    if not uniform(kernel, _put(end, counters), before):
        return None
    number = evaluated(end, constants(kernel.lines))
    return {end.strip()} if number is None or number % WARP else set()


def _even(kernel: Kernel, per: str, block: int) -> bool:
    number = block if per == "blockDim.x" else evaluated(per, constants(kernel.lines))
    return number is not None and number > 0 and number % WARP == 0


def _put(expression: str, counters: dict[str, str]) -> str:
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda m: counters.get(m[0], m[0]), expression)
