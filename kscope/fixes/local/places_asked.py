"""Text of small local arrays whose every index becomes a number: loops unrolled, places at run-time indices asked one
by one. Each access reads or writes the element that it did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from kscope.fixes.given.source import SIZES, evaluated, split_declarators
from kscope.fixes.given.text import Span, closing, statement_end
from kscope.fixes.local.counters import Counter, counters, resolved
from kscope.fixes.local.registers import Local
from kscope.fixes.local.unrolled import MOST, pragma

GETS, PUTS, PLACE = "element_at", "set_element", "element_place"
CODE = f"""template <class T, int N, class I> __device__ __forceinline__ T {GETS}(const T (&array)[N], I i) {{
  T found = array[0];
  #pragma unroll
  for (int q = 1; q < N; q++) if (q == i) found = array[q];
  return found;
}}
template <class T, int N, class I, class V> __device__ __forceinline__ void {PUTS}(T (&array)[N], I i, V value) {{
  #pragma unroll
  for (int q = 0; q < N; q++) if (q == i) array[q] = value;
}}"""
_KINDS = "|".join(re.escape(k) for k in sorted(SIZES, key=len, reverse=True))
_DECLARED = r"(?:^|(?<=[;{{}}\n]))\s*(?:const\s+)?({0})\s+(?=\w+\s*[\[=,;])"
_KNOWN = re.compile(
    r"(?:__(?!global)\w+|atomic\w+|(?:f?(?:abs|min|max)|r?sqrt|exp2?|log(?:2|10)?|pow|sin|cos|tan|atan2?|floor|ceil|round"
    r"|rint|fma|hypot|rcp)f?|make_\w+|printf|min|max|if|while|switch|return|int|unsigned|float|double|bool|size_t)$"
)  # fmt: skip
_ANY = re.compile(
    r"(?<=[;{}\n])[ \t]*(?:const\s+|(?:un)?signed\s+|long\s+)*([A-Za-z_][\w:]*(?:<[^;<>]*>)?)\s+(?:\w+\s*,\s*)*"
    r"\w+\s*\["
)
_CASTS = {"int", "unsigned", "size_t"}
_SET = re.compile(r"\s*(<<|>>|[-+*/%&|^])?=(?!=)")
_MOVED = re.compile(r"\+\+|--")
_EFFECTS = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")


class Access(Struct, frozen=True):
    """`array[index]`; span: from its name to behind its bracket; fixed: a number once its loops are unrolled. numbers:
    the indices that are; of: what the last index is of, the array or a row of it."""

    array: Local
    span: tuple[int, int]
    index: str
    fixed: bool
    numbers: str
    of: str

    @property
    def count(self) -> int:
        return self.array.count if self.of == self.array.name else self.array.row


class Asked(Struct, frozen=True):
    """Arrays, the spans that keep them in registers, accesses at run-time indices, loops that are as long as arrays;
    arrays that stay as they are."""

    arrays: tuple[Local, ...]
    spans: tuple[Span, ...]
    chosen: tuple[Access, ...]
    ended: tuple[Counter, ...]
    others: tuple[str, ...] = ()


def asked(code: str, known: Mapping[str, int], types: tuple[str, ...] = ()) -> Asked | None:
    """None where nothing is at a run-time index, or one of its uses cannot be rewritten."""
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), code, flags=re.DOTALL)
    if re.search(r"^\s*#\s*(?!pragma\b)", code, re.MULTILINE) or any(x in code for x in (GETS, PUTS, PLACE)):
        return None
    found = list(_locals(code, dict(known), types))
    every = counters(code, known, found)
    return _spans(code, [use for array in found for use in _accesses(code, array, every, known)], every, known)


def _spans(code: str, uses: list[Access], every: list[Counter], known: Mapping[str, int]) -> Asked | None:
    spans: list[Span] = []
    chosen = [u for u in uses if not u.fixed]
    if chosen and re.search(r"\basm\b", code):  # an operand of it may be an element
        return None
    for use in chosen:
        made = _replaced(code, use)
        if made is None:
            return None
        spans += made
    loops = _needed(code, uses, every, known)
    spans += [_head(code, x) for x in loops if x.ended or pragma(code, x.span[0])]
    held = tuple(dict.fromkeys(u.array for u in uses))
    others = set(_declared(code[code.find("{") :])) - {a.name for a in held}
    ended = tuple(x for x in loops if x.ended)
    return Asked(held, tuple(spans), tuple(chosen), ended, tuple(sorted(others))) if spans else None


def _declared(body: str) -> Iterator[str]:
    """Names of all arrays that a function declares, shared ones apart."""
    for match in _ANY.finditer(body):
        if match[1] not in ("return", "else", "case", "delete", "goto"):
            plain = re.sub(r"=\s*\{[^{}]*\}", "", body[match.end(1) : body.find(";", match.end())])
            yield from re.findall(r"(\w+)\s*(?:\[[^][]*\]\s*)+(?=,|$)", plain)


def _locals(code: str, known: dict[str, int], types: tuple[str, ...]) -> Iterator[Local]:
    """Small arrays of numbers that a kernel declares, with a name of their own, used by their elements alone."""
    body = code.find("{")
    kinds = "|".join([_KINDS, *types])
    for match in re.finditer(_DECLARED.format(kinds), code[body:], re.MULTILINE):
        start = body + match.end()
        end = statement_end(code, start)
        for part in split_declarators(code[start : end - 1]) if end is not None else ():
            one = re.fullmatch(r"\s*(\w+)\s*\[([^][]+)\]\s*(?:\[([^][]+)\]\s*)?(?:=.*)?", part, re.DOTALL)
            count = evaluated(one[2], known) if one is not None else None
            row = evaluated(one[3] or "1", known) if one is not None else None
            if one is None or end is None or count is None or not row or count < 2 or count * row > MOST:
                continue
            name = one[1]
            declared = re.findall(rf"\b(?:{kinds}|auto)\s+[&*]?\s*(?:\w+(?:\[[^][]*\])?\s*,\s*)*{name}\b", code)
            inner = code[end:]
            plain = all(re.match(r"\s*\[", inner[m.end() :]) for m in re.finditer(_name(name), inner))
            if len(declared) == 1 and plain and not re.search(_name(name), code[:body]):
                yield Local(match[1], name, count, end, one[2].strip(), row)


def _name(name: str) -> str:
    return rf"(?<![\w.])(?<!->){name}\b"


def _accesses(code: str, array: Local, every: list[Counter], known: Mapping[str, int]) -> Iterator[Access]:
    for match in re.finditer(_name(array.name), code[array.end :]):
        at = array.end + match.start()
        opened = code.index("[", at) + 1
        close = closing(code, opened)
        if close is None:
            continue
        around = {x.name for x in every if x.body[0] <= at < x.body[1]} | set(known) | _CASTS
        first = code[opened:close]
        numbers = _numbers(code, first, around)
        if array.row == 1:
            yield Access(array, (at, close + 1), first, numbers, first if numbers else "", array.name)
            continue
        second = re.match(r"\s*\[", code[close + 1 :])
        last = closing(code, close + 1 + second.end()) if second is not None else None
        if second is None or last is None or not numbers:  # a row at a run-time index, or one that goes elsewhere
            yield Access(array, (at, close + 1), first, False, "", "")
            continue
        index = code[close + 1 + second.end() : last]
        both = _numbers(code, index, around)
        yield Access(array, (at, last + 1), index, both, f"{first} + {index}" if both else first, code[at : close + 1])


def _numbers(code: str, index: str, known: set[str]) -> bool:
    """Whether an index is a number where some names are."""
    names = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", resolved(code, index)))
    return "[" not in index and not _EFFECTS.search(index) and names <= known


def _replaced(code: str, use: Access) -> list[Span] | None:
    """An access by asking each place; None where it is more than a value that is read, or set in a statement."""
    (at, end), name = use.span, use.of
    before, opened = code[:at].rstrip(), end - 2 - len(use.index)
    quoted = code[code.rfind("\n", 0, at) + 1 : at].count('"') % 2
    if not name or quoted or _address(before) or re.match(r"\s*\[", code[end:]):
        return None
    setting, moved = _SET.match(code[end:]), _MOVED.match(code[end:].lstrip())
    if setting is None and moved is None and not before.endswith(("++", "--")):
        return [(at, opened + 1, f"{GETS}({name}, "), (end - 1, end, ")")] if _read(code, at, end) else None
    start = at - len(code[:at]) + len(before) - 2 if before.endswith(("++", "--")) else at
    last = statement_end(code, at)
    if last is None or not _statement(code, start):
        return None
    if setting is None:
        sign = before[-1] if start < at else code[end:].lstrip()[0]
        whole = code[end : last - 1].strip() == ("" if start < at else 2 * sign)
        return _changed(use, (start, opened + 1), (end - 1, last), (sign, "1); }")) if whole else None
    first = end + setting.end()
    if not _ordered(use.index, code[first : last - 1]):
        return None
    if setting[1]:
        return [*_changed(use, (at, opened + 1), (end - 1, first), (setting[1], "(")), (last - 1, last, ")); }")]
    return [(at, opened + 1, f"{PUTS}({name}, "), (end - 1, first, ","), (last - 1, last, ");")]


def _changed(use: Access, head: tuple[int, int], tail: tuple[int, int], how: tuple[str, str]) -> list[Span]:
    """An element that becomes something of itself. head, tail: what is in front of its index and behind."""
    name, (operator, operand) = use.of, how
    put = f"; {PUTS}({name}, {PLACE}, {GETS}({name}, {PLACE}) {operator} {operand}"
    return [(*head, f"{{ const auto {PLACE} = "), (*tail, put)]


def _address(before: str) -> bool:
    """Whether an address is taken of what follows, or a reference is bound to it."""
    if re.search(r"&\s*(?:\w+|\[[^][]*\])\s*[=({]\s*\(*$", before):
        return True
    return before.endswith("&") and not re.search(r"(?:&|(?<!\breturn)[\w)\]]\s*)&$", before)


def _read(code: str, at: int, end: int) -> bool:
    """Whether an element, or a field of one, is read where it stands."""
    field = re.match(r"(?:\s*\.\s*\w+)*", code[end:])
    behind = end + field.end() if field is not None else end
    changed = _SET.match(code[behind:]) or re.match(r"\s*(?:\+\+|--|\(|\[)", code[behind:])
    return changed is None and _value(code, at, behind)


def _value(code: str, at: int, end: int) -> bool:
    """Whether a value does: an argument of a function that nobody knows may be a reference."""
    if code[at - 1 : at] and not re.search(r"[(,]\s*$", code[:at]):
        return True
    if not re.match(r"\s*[,)]", code[end:]):
        return True
    depth = 0
    for n in range(at - 1, -1, -1):
        depth += (code[n] in ")]}") - (code[n] in "([{")
        if depth < 0:
            head = code[:n].rstrip()
            word = re.search(r"\w*$", head)
            called = word[0] if word is not None else ""
            return code[n] != "(" or (not called and not head.endswith((">", "]", ")"))) or bool(_KNOWN.match(called))
    return False


def _statement(code: str, at: int) -> bool:
    """Whether a statement begins there."""
    before = code[code.find("{") : at]
    if before.count("(") != before.count(")"):
        return False
    before = before.rstrip()
    if before[-1] in ";{}" or re.search(r"\belse$", before) or before.rpartition("\n")[2].lstrip().startswith("#"):
        return True
    if before[-1] != ")":
        return False
    depth = 0
    for n in range(len(before) - 1, -1, -1):
        depth += (before[n] == ")") - (before[n] == "(")
        if not depth:
            return re.search(r"\b(?:if|for|while)\s*$", before[:n]) is not None
    return False


def _ordered(index: str, value: str) -> bool:
    """Whether an index and a value may be found in either order."""
    depth = 0
    for c in value:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            return False
    names = set(re.findall(r"[A-Za-z_]\w*", index))
    shared = names & set(re.findall(r"[A-Za-z_]\w*", value))
    handed = any(re.search(rf"[(,]\s*&?\s*{name}\s*[,)]", value) for name in shared)
    effects = _EFFECTS.search(index) or _EFFECTS.search(value) or re.search(r"\w\s*\(", index)
    return not value.lstrip().startswith("{") and not handed and not (shared and effects)


def _needed(code: str, uses: list[Access], every: list[Counter], known: Mapping[str, int]) -> list[Counter]:
    """Loops whose counters indices are made of, and those that their ends are made of."""
    wanted: set[int] = set()
    asked = [(u.span[0], resolved(code, u.numbers)) for u in uses]
    while asked:
        at, text = asked.pop()
        for n, x in enumerate(every):
            if n not in wanted and x.body[0] <= at < x.body[1] and re.search(rf"\b{x.name}\b", text):
                wanted.add(n)
                asked.append((x.span[0], resolved(code, f"{x.start} + {x.end}")))
    return [every[n] for n in sorted(wanted)]


def _head(code: str, loop: Counter) -> Span:
    """A loop's head that says that it is unrolled; as long as its array where it ends at any number."""
    start, end = loop.span
    if not loop.ended:
        return (start, start, pragma(code, start))
    head = f"for ({loop.kind} {loop.name} = {loop.start}; {loop.name} < {loop.limit}; {loop.step})"
    return (start, end, f"{pragma(code, start)}{head} if ({loop.name} {loop.relation} {loop.end})")
