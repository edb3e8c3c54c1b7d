"""A loop whose rounds' loads go ahead of their work, written out: what is new in its text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.flight.held import Held, Step, Tests
from kscope.fixes.flight.reader import N
from kscope.fixes.flight.rounds import Rounds
from kscope.fixes.given.text import Span, by_lines

PLAIN = """template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };
template <class T> struct Plain<T&> { typedef T type; };
template <class T> struct Plain<const T&> { typedef T type; };"""
"""The type of a value where a text gives that of a place."""


def code_above(held: Sequence[Held]) -> str:
    return PLAIN if any(h.kind.startswith("decltype") for h in held) else ""


def kinds(held: Sequence[Held], times: int) -> str:
    """The arrays of registers that values lie in."""
    return " ".join({h.name: f"{_kind(h.kind)} {h.name}[{times}];" for h in held}.values())


def each_of(times: int, by: str) -> str:
    return f"#pragma unroll\n{by}  for (int {N} = 0; {N} < {times}; {N}++)"


def spans(code: str, one: Rounds, times: int) -> list[Span]:
    """What becomes of the kernel's text."""
    head = one.head
    lead = re.match(r"\s*", code[code.rfind("\n", 0, head.span[0]) + 1 :])
    by = lead[0] if lead is not None else ""
    begin = f"for ({head.first}; {head.test};)" if head.first is not None else f"while ({head.test})"
    again = re.search(r"\bcontinue\b", code[slice(*head.body)]) is not None
    each = each_of(times, by)
    levels = sorted({h.level for h in one.held})
    ahead = "\n".join(_stage(one, level, each, by) for level in levels)
    kept = " ".join(f"const auto {n}_now = {n};" for n in _copied(one, levels))
    front = by if code[code.rfind("\n", 0, head.pragma) + 1 : head.pragma].strip() == "" else ""
    front = front if head.pragma < head.span[0] else ""
    open_ = (
        f"{front}{begin} {{\n{by}  {kinds(one.held, times)}\n{by}  {kept}\n{ahead}\n{each} if ({head.test}) {{"
        f"{' do ' * again}{' ' * (code[head.body[0]] != '{')}"
    )
    close = f"{' while (false);' * again}{f' {head.step};' * bool(head.step)} }} }}"
    held = [(*h.span, f"{h.name}[{N}]") for h in one.held if h.span != (0, 0)]
    return by_lines(code, [(head.pragma, head.span[1], open_), *held, (head.body[1], head.body[1], close)])


def _kind(kind: str) -> str:
    return f"typename Plain<{kind}>::type" if kind.startswith("decltype") else kind


def _copied(one: Rounds, levels: list[int]) -> list[str]:
    """What all stages go on by."""
    return list(dict.fromkeys(n for level in levels for n in _copies(one, level)))


def _stage(one: Rounds, level: int, each: str, by: str) -> str:
    """The loads of a level in all rounds. Behind the last round it is the last one's: no test parts them."""
    names = _copies(one, level)
    on = [g for g, _ in one.on if g.name in names]
    test = one.head.test
    for go in on:
        test = re.sub(rf"(?<![\w.])(?<!->){go.name}\b", go.next.replace("\\", ""), test)
    copies = " ".join(f"auto {n} = {n}_now;" for n in names)
    body = nested(needed(one.steps, level, one.head.test), f"{by}    ")
    step = "; ".join(g.text for g in on)
    return f"{by}  {{ {copies}\n{each} {{\n{body}{by}    if ({test}) {{ {step}; }}\n{by}  }} }}"


def nested(steps: list[Step], by: str) -> str:
    """Steps as text, each within its tests."""
    out, open_ = "", Tests()
    for step in steps:
        while open_ != step.test[: len(open_)]:
            open_ = open_[:-1]
            out += f"{by}}}\n"
        for test in step.test[len(open_) :]:
            out += f"{by}if ({test.text}) {{\n"
        open_ = step.test
        out += f"{by}{step.text}\n"
    return out + f"{by}}}\n" * len(open_)


def needed(steps: Sequence[Step], level: int, asked: str = "") -> list[Step]:
    """The loads of a level, and what they ask for."""
    wanted: set[str] = set(re.findall(r"[A-Za-z_]\w*", asked))
    out = list[Step]()
    for step in reversed(steps):
        if (step.level == level and not step.name) or (step.name in wanted and step.level <= level):
            wanted |= set(re.findall(r"[A-Za-z_]\w*", f"{step.text} {' '.join(t.text for t in step.test)}"))
            out.append(step)
    return out[::-1]


def _copies(one: Rounds, level: int) -> list[str]:
    """What rounds go on by in the loads of a level."""
    texts = [f"{s.text} {' '.join(t.text for t in s.test)}" for s in needed(one.steps, level, one.head.test)]
    wanted = set(re.findall(r"[A-Za-z_]\w*", " ".join([*texts, one.head.test])))
    wanted |= {w for g, _ in one.on if g.name in wanted for w in re.findall(r"[A-Za-z_]\w*", g.text)}
    return [g.name for g, _ in one.on if g.name in wanted]
