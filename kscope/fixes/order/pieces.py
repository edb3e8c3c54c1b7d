"""A kernel whose threads work on an element each: how the element is found, and what is done with it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, Kernel, statements
from kscope.fixes.given.text import closing
from kscope.fixes.order.whole import Declared, declared, named

MEETS = re.compile(
    r"__shared__|\b__sync\w*|\b__\w+_sync\b|\b(?:asm|goto|static|gridDim|clock\w*)\b|#(?!\s*pragma\s+unroll)"
)
GUARD = re.compile(r"if\s*\(")
_RETURNS = re.compile(r"\s*\{?\s*return\s*;\s*\}?\s*")
MOST = 2  # numbers that an element is known by (judged: each takes shared memory)
WHOLE = ("int", "unsigned", "unsigned int", "size_t", "int32_t", "uint32_t")


class Element(Struct, frozen=True):
    """A kernel as statements, guards as `if (..) continue;`. `same`: declarations that are the same for all threads of
    a block; `found`: those that find the element, with guards between; `carried`: names that it is known by; `rest`:
    what is done with it."""

    axis: str
    same: tuple[str, ...]
    found: tuple[str, ...]
    carried: tuple[Declared, ...]
    rest: tuple[str, ...]


def flat(kernel: Kernel) -> list[str] | None:
    """The statements of a kernel, with an if around the last ones as a guard in front of them; None where it returns
    within another statement."""
    code, out = kernel.text.code, list[str]()
    spans: Sequence[tuple[int, int]] = kernel.statements
    while spans:
        (start, end), spans = spans[0], spans[1:]
        one = code[start:end]
        head = GUARD.match(one)
        close = closing(one, head.end()) if head is not None else None
        if head is not None and close is not None and _RETURNS.fullmatch(one[close + 1 :]):
            out.append(f"if ({one[head.end() : close]}) continue;")
        elif head is not None and close is not None and not spans and _alone(one[close + 1 :]):
            out.append(f"if (!({one[head.end() : close]})) continue;")
            first = start + close + 1 + len(one[close + 1 :]) - len(one[close + 1 :].lstrip())
            inside = statements(code, first + 1, end - 1) if code[first] == "{" else [(first, end)]
            if inside is None:
                return None
            spans = inside
        elif re.search(r"\breturn\b", one):
            return None
        else:
            out.append(one)
    return out


def _alone(rest: str) -> bool:
    """Whether what follows an if's test is one statement, and no else."""
    text = rest.strip()
    if text[:1] == "{":
        close = closing(text, 1)
        return close == len(text) - 1
    return text.endswith(";") and not re.search(r"\belse\b", text)


def element(kernel: Kernel) -> Element | None:
    """None where threads meet, or where what is done asks for more than a few numbers of where it is done."""
    body = flat(kernel)
    axes = set(re.findall(r"\bblockIdx\s*\.\s*([xyz])", kernel.body))
    given = "|".join(kernel.parameters)
    moved = rf"(?<![\w.])(?<!->)(?:{given}){MODIFIED}|(?:\+\+|--)\s*(?:{given})\b"
    if body is None or not axes or MEETS.search(kernel.body) or re.search(moved, kernel.body):
        return None
    text = kernel.body
    axis = next((a for a in "xyz" if a in axes and re.search(rf"\bblockIdx\s*\.\s*{a}\b[^;]*\bthreadIdx|"
                 rf"\bthreadIdx\b[^;]*\bblockIdx\s*\.\s*{a}\b", text)), min(axes))  # fmt: skip
    place = re.compile(rf"\bthreadIdx\b|\bblockIdx\s*\.\s*{axis}\b")
    last = max((n for n, one in enumerate(body) if place.search(one)), default=-1)
    if last < 0:
        return None
    return _parted(axis, place, body[: last + 1], body[last + 1 :])


def _parted(axis: str, place: re.Pattern[str], head: list[str], rest: list[str]) -> Element | None:
    same, found, own = list[str](), list[str](), list[Declared]()
    for one in head:
        made = declared(one)
        if not made:
            if not one.endswith(" continue;"):
                return None
            found.append(one)
        elif not place.search(one) and not any(named(d.name, one) for d in own):
            same.append(one)
        else:
            found.append(one)
            own += made
    after = "\n".join(rest)
    carried = [d for d in own if named(d.name, after)]
    if not carried or len(carried) > MOST or any(d.array or d.kind not in WHOLE for d in carried):
        return None
    return Element(axis, tuple(same), tuple(found), tuple(carried), tuple(rest))


def sliced(before: Sequence[str], text: str) -> list[str] | None:
    """What of some statements a text asks for, in their order: guards, and declarations, each name with its own value.
    None where one has none, or is changed in between."""
    wanted, out = text, list[str]()
    for n in range(len(before) - 1, -1, -1):
        one = before[n]
        if one.endswith(" continue;") and GUARD.match(one):
            out.insert(0, one)
            wanted += f" {one}"
            continue
        mine = list[str]()
        for made in reversed(declared(one)):
            if named(made.name, wanted):
                if made.array or not made.value or changed_in(made.name, "\n".join(before[n + 1 :])):
                    return None
                mine.insert(0, f"{made.kind} {made.name} = {made.value};")
                wanted += f" {made.value}"
        out[:0] = mine
        if not mine and not declared(one) and any(changed_in(w, one) for w in set(re.findall(r"[A-Za-z_]\w*", wanted))):
            return None
    return out


def changed_in(name: str, text: str) -> bool:
    after = rf"(?<![\w.])(?<!->){name}\b(?:\s*\[[^\]]*\]|\.\w+)*{MODIFIED}"
    return re.search(rf"{after}|(?:\+\+|--|[(,=]\s*&)\s*{name}\b", text) is not None
