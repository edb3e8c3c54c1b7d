"""Keys that are put into a sorted list in local arrays, at places that the data say: each place is asked, so that the
list stays in registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kscope.features.sass.accesses import accesses
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import statements
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Span, closing, kernel_text, loops, spans_edited
from kscope.fixes.local.keys import moved_alone, unbroken
from kscope.fixes.local.lists import GIVEN, OTHERS, ROW, List, alike, played
from kscope.fixes.local.registers import Local, arrays, in_registers, instead, on_lines, written
from kscope.fixes.local.sorting import FLOATS
from kscope.fixes.tile.own_rows import arguments
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

MOST = 32  # places of a list: more than registers hold besides the rest (judged)
_LOOPS = re.compile(r"\b(?:for|while)\s*\(")
_ALIKE = re.compile(
    r"=\s*-?(?:[\d.][\w.]*(?:[eE][-+]\d+f?)?|[A-Z][A-Z0-9_]*|__u?int_as_float\s*\(\s*0x\w+\s*\))\s*[;,]"
)
_MADE = r"\b(?:int|unsigned|float|double|bool|auto)\s+"
_PURE = re.compile(r"[\w\s+\-*/%&|^()<>]+")
_WORDS = {"int", "unsigned", "float", "double", "if", "else", "for", "while", "long", "const", "bool", "auto", "break",
          "size_t", "short", "continue"}  # fmt: skip


def fixes(asked: Asked) -> list[Fix]:
    setting, text = asked.setting, kernel_text(asked.setting)
    if text is None or any(word in text.code for word in (GIVEN, OTHERS, ROW, "list_at")):
        return []
    kinds = accesses(setting.code.program, setting.code.classes)
    local = setting.code.ran([i for i, a in enumerate(kinds) if a is not None and a.stack == "local array"])
    lines = setting.lines(text.file)
    known = constants(lines) | arguments(setting, lines, text)
    found = list(arrays(text.code, known))
    for one in lists(text.code, found, known):
        made = rewritten(text.code, one, known)
        edits = spans_edited(setting, text, made[0]) if made is not None else []
        if made is not None and edits and on_lines(setting, text, one.span, local):
            return [_fix(asked, one, made[1], local, edits, len(found) == 1 + len(one.others))]
    return []


def lists(code: str, found: list[Local], known: dict[str, int]) -> Iterator[List]:
    """Pieces of text that may put a key into a list."""
    for keys in found:
        if not 2 <= keys.count <= MOST:
            continue
        name = keys.name
        for move in re.finditer(rf"\b{name}\s*\[[^][]+\]\s*=\s*{name}\s*\[[^][]+\]\s*;", code):
            head = max((h.start() for h in _LOOPS.finditer(code, keys.end, move.start())), default=-1)
            one = _around(code, keys, found, head, known) if head >= 0 else None
            if one is not None:
                yield one


def _around(code: str, keys: Local, found: list[Local], head: int, known: dict[str, int]) -> List | None:
    """The statements around a loop that belong to the list."""
    block = _block(code, head)
    inside = statements(code, block[0], block[1]) if block is not None else None
    if block is None or inside is None:
        return None
    body = code[slice(*block)]
    others = [x for x in found if x is not keys and x.count == keys.count
              and re.search(rf"\b{x.name}\s*\[[^][]+\]\s*=\s*{x.name}\s*\[", body)]  # fmt: skip
    used = re.compile(rf"\b(?:{'|'.join(x.name for x in (keys, *others))})\b")
    mine = [n for n, s in enumerate(inside) if used.search(code[slice(*s)])]
    first, last = mine[0], mine[-1]
    span = _with_made(code, inside, first, inside[last][1], used)
    whole = span[0] == inside[0][0] and last == len(inside) - 1
    outer = _guarded(code, block, used) if whole else (span, block)
    if outer is None:
        return None
    span, block = outer
    text, rest = code[slice(*span)], code[span[1] : block[1]]
    skips = re.match(r"if\s*\(((?:[^(){};]|\([^()]*\))*)\)\s*\{?\s*continue\s*;\s*\}?", text)
    if skips is not None:
        if rest.strip():
            return None
        text = f"if (!({skips[1]})) {{ {text[skips.end() :]} }}"
    if any(re.search(rf"\b{name}\b", rest) for name in re.findall(rf"{_MADE}(\w+)\s*[=;,]", text)):
        return None
    return _list(keys, tuple(others), span, text, known)


def _guarded(
    code: str, block: tuple[int, int], used: re.Pattern[str]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """(a piece of text, the block it is in): what is between the braces of a block; with its `if` where that asks for
    the list, or for what is made in front of it. None where an else belongs to it."""
    first = block[0] + len(re.match(r"\s*", code[block[0] :])[0])  # type: ignore[index]
    inner = (first, len(code[: block[1]].rstrip())), block
    guard = re.search(r"\bif\s*\(([^{};]*)\)\s*\{$", code[: block[0]])
    outer = _block(code, guard.start()) if guard is not None else None
    beside = statements(code, *outer) if outer is not None else None
    if guard is None or outer is None or beside is None:
        return inner
    at = next((n for n, x in enumerate(beside) if x[0] == guard.start()), -1)
    if at < 0 or beside[at][1] != block[1] + 1:
        return None
    longer = _with_made(code, beside, at, block[1] + 1, used)
    return (longer, outer) if used.search(guard[1]) or longer[0] < guard.start() else inner


def _with_made(
    code: str, inside: list[tuple[int, int]], first: int, end: int, used: re.Pattern[str]
) -> tuple[int, int]:
    """A piece of text with the declarations in front of it of what it changes, or of what is read from the list."""
    while first > 0:
        before, text = code[slice(*inside[first - 1])], code[inside[first][0] : end]
        made = re.match(rf"(?:const\s+)?{_MADE}(\w+)\s*=[^;=]*;$", before)
        if made is None or not (written(made[1], text) or used.search(before)):
            break
        first -= 1
    return inside[first][0], end


def _block(code: str, at: int) -> tuple[int, int] | None:
    """Between the braces around a place."""
    depth = 0
    for n in range(at - 1, -1, -1):
        depth += (code[n] == "}") - (code[n] == "{")
        if depth < 0:
            end = closing(code, n + 1)
            return (n + 1, end) if end is not None else None
    return None


def _list(
    keys: Local, others: tuple[Local, ...], span: tuple[int, int], text: str, known: dict[str, int]
) -> List | None:
    """None where what is put into the list is not told."""
    names = [x.name for x in (keys, *others)]
    put: list[str] = []
    for name in names:
        values = {v.strip() for v in re.findall(rf"\b{name}\s*\[[^][]*\]\s*=(?!=)\s*([^;]*);", text)}
        values = {v for v in values if not any(re.search(rf"\b{n}\b", v) for n in names)}
        if len(values) != 1 or not _PURE.fullmatch(value := values.pop()):
            return None
        put.append(value)
    own = set(re.findall(r"\b(?:int|unsigned|float|double|bool|auto)\s+(\w+)\s*[=;,]", text))
    free = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)) - own - set(names) - set(known) - _WORDS
    wanted = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", " ".join(put))) - set(known)
    if not re.fullmatch(r"[A-Za-z_]\w*", put[0]) or put[0] in put[1:] or not wanted <= free:
        return None
    if any(written(name, text) for name in free) or free & {"here", "on"}:
        return None
    return List(keys, others, span, text, tuple(put), tuple(sorted(free - {put[0]})))


def rewritten(code: str, one: List, known: dict[str, int]) -> tuple[list[Span], int] | None:
    """(the change, rows that both texts were played on)."""
    silent = re.sub(r"sorted_\w+\[[^;]*;", ";", played(one, unbroken(one.text)))
    if not _filled_alike(code, one, known) or not moved_alone(silent, one.keys.name, one.keys.kind, GIVEN):
        return None
    found = alike(one, unbroken(one.text), known)
    put = instead(code, one.span, found[0]) if found is not None else None
    if found is None or put is None:
        return None
    for array in (one.keys, *one.others):
        others = in_registers(code, array, one.span, known)
        if others is None:
            return None
        put += [x for x in others if x not in put]
    return put, found[1]


def _filled_alike(code: str, one: List, known: dict[str, int]) -> bool:
    """Whether the list begins with the same key in each place, and nothing else writes to it."""
    name, count = one.keys.name, one.keys.count
    every = [x for x in loops(code) if x.start == "0" and evaluated(x.end, known) == count and "++" in x.step]
    found = 0
    for use in re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[\s*(\w+)\s*\]\s*(?=[-+*/%&|^]?=(?!=)|\+\+|--)", code):
        if one.span[0] <= use.start() < one.span[1]:
            continue
        around = any(x.name == use[1] and x.body[0] <= use.start() < x.body[1] for x in every)
        if not around or use.start() > one.span[0] or not _ALIKE.match(code[use.end() :]):
            return False
        found += 1
    uses = len(re.findall(rf"(?<![\w.])(?<!->){name}\s*\[[^][]*\]\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)",
                          code[: one.span[0]] + code[one.span[1] :]))  # fmt: skip
    return found == uses == 1


def _fix(asked: Asked, one: List, rows: int, local: list[int], edits: list[Edit], alone: bool) -> Fix:
    names = ", ".join(x.name for x in (one.keys, *one.others))
    return Fix(
        kind="unroll",
        title=f"{names} in registers: each of the {one.keys.count} places asked whether {one.put[0]} goes there",
        language="cuda",
        edits=edits,
        parameters={"places": one.keys.count},
        conditions=[
            proved("the same list comes out", "values", rows,
                   f"both texts played on {rows} sorted lists: so many keys less, equal and greater, and at random"),
            reads("the list is in order whenever a key is put in", "it begins with one key in all places, and what "
                  "puts keys in keeps the order"),
            reads("keys are only compared and moved", "their order is all that the code knows of them"),
            *([Condition(holds="no key is a NaN", state="check", why="it may get another place")]
              if one.keys.kind in FLOATS else []),
        ],
        proof=[
            Proof(what="local loads and stores of warps", before=total(asked.setting.code.executed, local), after=0,
                  unit="inst", how=f"{len(local)} accesses at computed addresses become selections"),
        ],
        costs=[f"{one.keys.count * (1 + len(one.others))} registers a thread for {names}"],
        price=asked.finding.estimate if alone else None,
    )  # fmt: skip
