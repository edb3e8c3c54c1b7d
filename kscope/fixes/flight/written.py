"""A loop whose rounds' loads go ahead of their work, written out: what is new in its text."""

from __future__ import annotations

import re

from kscope.fixes.flight.rounds import N, Rounds
from kscope.fixes.given.text import Span, by_lines

PLAIN = """template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };
template <class T> struct Plain<T&> { typedef T type; };
template <class T> struct Plain<const T&> { typedef T type; };"""
"""The type of a value where a text gives that of a place."""


def code_above(one: Rounds) -> str:
    return PLAIN if any(h.kind.startswith("decltype") for h in one.held) else ""


def spans(code: str, one: Rounds, times: int) -> list[Span]:
    """What becomes of the kernel's text."""
    head = one.head
    lead = re.match(r"\s*", code[code.rfind("\n", 0, head.span[0]) + 1 :])
    by = lead[0] if lead is not None else ""
    begin = f"for ({head.first}; {head.test};)" if head.first is not None else f"while ({head.test})"
    again = re.search(r"\bcontinue\b", code[slice(*head.body)]) is not None
    each = f"#pragma unroll\n{by}  for (int {N} = 0; {N} < {times}; {N}++)"
    levels = sorted({h.level for h in one.held})
    ahead = "\n".join(_stage(one, level, each, by) for level in levels)
    kept = " ".join(f"const auto {n}_now = {n};" for n in _copied(one, levels))
    arrays = {h.name: f"{_kind(h.kind)} {h.name}[{times}];" for h in one.held}
    front = by if code[code.rfind("\n", 0, head.pragma) + 1 : head.pragma].strip() == "" else ""
    front = front if head.pragma < head.span[0] else ""
    open_ = (
        f"{front}{begin} {{\n{by}  {' '.join(arrays.values())}\n{by}  {kept}\n{ahead}\n{each} if ({head.test}) {{"
        f"{' do ' * again}{' ' * (code[head.body[0]] != '{')}"
    )
    close = f"{' while (false);' * again}{f' {head.step};' * bool(head.step)} }} }}"
    held = [(*h.span, f"{h.name}[{N}]") for h in one.held if h.span != (0, 0)]
    return by_lines(code, [(head.pragma, head.span[1], open_), *held, (head.body[1], head.body[1], close)])


def _kind(kind: str) -> str:
    return f"typename Plain<{kind}>::type" if kind.startswith("decltype") else kind


def _copied(one: Rounds, levels: list[int]) -> list[str]:
    """What all stages go on by."""
    return list(dict.fromkeys(n for level in levels for n in _needed(one, level)[1]))


def _stage(one: Rounds, level: int, each: str, by: str) -> str:
    """The loads of a level in all rounds. Behind the last round it is the last one's: no test parts them."""
    steps, names = _needed(one, level)
    on = [g for g, _ in one.on if g.name in names]
    test = one.head.test
    for go in on:
        test = re.sub(rf"(?<![\w.>]){go.name}\b", go.next.replace("\\", ""), test)
    out, under = list[str](), ""
    for text, asked in steps:
        if asked != under:
            out += ["}"] * bool(under) + [f"if ({asked}) {{"] * bool(asked)
        under = asked
        out.append(text)
    out += ["}"] * bool(under)
    copies = " ".join(f"auto {n} = {n}_now;" for n in names)
    body = "".join(f"{by}    {t}\n" for t in out)
    step = "; ".join(g.text for g in on)
    return f"{by}  {{ {copies}\n{each} {{\n{body}{by}    if ({test}) {{ {step}; }}\n{by}  }} }}"


def _needed(one: Rounds, level: int) -> tuple[list[tuple[str, str]], list[str]]:
    """The steps of a level with the tests that they stand under, and what the rounds go on by in them."""
    going = {g.name for g, _ in one.on}
    wanted: set[str] = set(re.findall(r"[A-Za-z_]\w*", one.head.test))
    steps = list[tuple[str, str]]()
    for step in reversed(one.steps):
        mine = step.level == level and not step.name
        if mine or (step.name in wanted and step.level <= level):
            wanted |= set(re.findall(r"[A-Za-z_]\w*", f"{step.text} {step.test}"))
            steps.append((step.text, step.test))
    more = {w for g, _ in one.on if g.name in wanted for w in re.findall(r"[A-Za-z_]\w*", g.text)}
    wanted |= more
    return steps[::-1], [g.name for g, _ in one.on if g.name in wanted & going]
