"""Data that every round of an outer loop loads again: several rounds at once, which share each load. Each round's own
operations stay in their order, so that results are the same to the last bit."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.slices import gathers, steps_from_loaded
from kscope.fixes.given.conditions import not_written, proved, reads
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Loop, Text, kernel_text, loops
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

TOGETHER = 8  # rounds: as many sums of each kind in registers (judged)
KEPT = 2  # values of a round that are kept over the inner loop, at most: sixteen registers
_FLOW = re.compile(
    r"\b(?:break|continue|return|goto|asm|while|switch|atomic\w*|__\w*sync\w*|__shared__)\b|#|\?[^:]*=[^=]|[(,]\s*&\s*\w"
)
_DECLARED = re.compile(r"\s*(?:const\s+)?(float|double|int|unsigned)\s+([^;]+);")
_WRITTEN = re.compile(r"([\w\]])\s*(?:(?<![=!<>+*/-])[-+*/|&^]?=(?!=)|\+\+|--)")
_NAMED = re.compile(r"(\w+)\s*(?:[-+*/|&^]?=(?!=)|\+\+|--)")


_UNROLL = re.compile(r"#\s*pragma\s+unroll(?:\s+\d+)?\s*$", re.M)  # in front of the inner loop: the new one decides


class _Jam(Struct, frozen=True):
    """The outer loop, the inner one, (type, name, value) of what a round keeps, the text behind the inner loop."""

    outer: Loop
    inner: Loop
    kept: tuple[tuple[str, str, str], ...]
    tail: str


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    one = _found(text.code) if text is not None else None
    if text is None or one is None or setting.launch is None:
        return []
    here = _loads(setting, text, one)
    if not here or not _shared(text.code, one) or _taken(text.code, one):
        return []
    edits = _edits(setting, text, one)
    before = total(code.executed, here)
    return [
        Fix(
            kind="jam",
            title=f"{TOGETHER} rounds of the loop over {one.outer.name} at once, which share their loads",
            language="cuda",
            edits=edits,
            parameters={"rounds": TOGETHER},
            conditions=[
                *_apart_rounds(setting, here),
                Condition(holds=f"registers hold {TOGETHER} rounds' values without spills", state="check",
                          why="kscope fix --check on the new cubin"),
            ],
            proof=[
                Proof(
                    what="warp loads in the inner loop", before=before, after=before / TOGETHER, unit="inst",
                    how=f"{len(here)} loads whose addresses do not ask for {one.outer.name}: one for {TOGETHER} rounds",
                )
            ],
            costs=[f"{(TOGETHER - 1) * len(one.kept)} registers a thread"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def overlapped(asked: Asked) -> list[Fix]:
    """Rounds whose loads depend on each other within a round alone: several chains of loads on their way at once."""
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    one = _found(text.code) if text is not None else None
    if text is None or one is None or setting.launch is None or _taken(text.code, one):
        return []
    here = _loads(setting, text, one)
    chained = [i for i in here if steps_from_loaded(code, i) or gathers(code, i)]
    if not chained or _shared(text.code, one):
        return []
    rounds = int(one.outer.end) if one.outer.end.isdigit() else TOGETHER
    if not 1 < rounds <= TOGETHER:
        return []
    return [
        Fix(
            kind="jam",
            title=f"{rounds} rounds of the loop over {one.outer.name} at once: their chains of loads wait together",
            language="cuda",
            edits=_edits(setting, text, one, rounds),
            parameters={"rounds": rounds},
            conditions=[
                *_apart_rounds(setting, here),
                Condition(holds="what a round starts from has no side effects", state="check", why="calls in its text"),
            ],
            proof=[
                Proof(what="loads of a lane on their way at once", before=1, after=rounds, unit="loads",
                      how=f"{len(chained)} loads whose address is the data of the load before (address slices)")
            ],
            costs=[f"{(rounds - 1) * len(one.kept)} registers a thread"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _apart_rounds(setting: Setting, loads: list[int]) -> list[Condition]:
    """What rounds side by side stand on, whatever is gained by them."""
    return [
        reads("a round uses nothing that the round before has made", "what it writes stands behind its loop"),
        *not_written(setting.code, loads),
        proved("rounds behind the last are left out", "values", _rounds(), "the loops' bounds played for some lengths"),
    ]


def _loads(setting: Setting, text: Text, one: _Jam) -> list[int]:
    """Global loads of the inner loop's lines."""
    code = setting.code
    first, last = (text.first + text.code[:at].count("\n") for at in (one.inner.span[0], one.inner.body[1]))
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    return [i for i in loads if any(first <= p.number <= last for p in places(setting, [i]))]


def _taken(code: str, one: _Jam) -> bool:
    """Whether the kernel has names already that the new text makes."""
    names = "|".join(name for _, name, _ in one.kept)
    return re.search(rf"\b(?:{one.outer.name}_(?:first|n)|(?:{names})_of)\b", code) is not None


def _found(code: str) -> _Jam | None:
    every = loops(code)
    for outer in every:
        inside = [x for x in every if outer.body[0] < x.span[0] < outer.body[1]]
        body = _UNROLL.sub("", code[slice(*outer.body)])
        if len(inside) != 1 or not body.startswith("{") or outer.start != "0" or _FLOW.search(body):
            continue
        (inner,) = inside
        if outer.step not in (f"{outer.name}++", f"++{outer.name}") or outer.kind not in ("int", "unsigned"):
            continue
        kept = _kept(_UNROLL.sub("", code[outer.body[0] + 1 : inner.span[0]]))
        one = _Jam(outer, inner, kept or (), code[inner.body[1] : outer.body[1] - 1])
        if kept and len([k for k in kept if k[1] in _targets(code[slice(*inner.body)])]) <= KEPT and _apart(code, one):
            return one
    return None


def _kept(text: str) -> tuple[tuple[str, str, str], ...] | None:
    """What a round declares before its inner loop; None where it does anything else there."""
    out, at = [], 0
    while (match := _DECLARED.match(text, at)) is not None:
        for part in re.split(r",(?![^()]*\))", match[2]):
            name, equals, value = part.partition("=")
            if not equals or not re.fullmatch(r"\w+", name.strip()):
                return None
            out.append((match[1], name.strip(), value.strip()))
        at = match.end()
    return tuple(out) if not text[at:].strip() else None


def _targets(text: str) -> set[str]:
    """Names that a text assigns to."""
    return set(_NAMED.findall(text))


def _apart(code: str, one: _Jam) -> bool:
    """Whether rounds are free of each other: the inner loop writes what the round has declared alone, and nothing that
    the end of a round writes is read before it."""
    body, names = code[slice(*one.inner.body)], {name for _, name, _ in one.kept}
    own = {name.strip() for _, rest in _DECLARED.findall(body) for name in re.findall(r"(\w+)\s*=", rest)}
    if any(m[1] == "]" for m in _WRITTEN.finditer(body)) or _targets(body) - names - own - {one.inner.name}:
        return False
    if one.inner.start != "0" or one.outer.name in (one.inner.end, one.inner.step):
        return False
    arrays = set(re.findall(r"(\w+)\s*\[[^;]*\]\s*[-+*/]?=(?!=)", one.tail))
    changed = (_targets(one.tail) - names) | arrays | {one.outer.name}
    before = body + " ".join(value for _, _, value in one.kept)
    return not any(re.search(rf"\b{w}\b", before) for w in changed - {one.outer.name}) and not loops(one.tail)


def _shared(code: str, one: _Jam) -> bool:
    """Whether the inner loop indexes something without asking for the round, by itself or by what the round keeps."""
    names = [one.outer.name, *(name for _, name, _ in one.kept)]
    found = re.findall(r"\w+\s*\[([^][]*)\]", code[slice(*one.inner.body)])
    return any(not re.search(rf"\b(?:{'|'.join(names)})\b", index) for index in found)


def _edits(setting: Setting, text: Text, one: _Jam, rounds: int = TOGETHER) -> list[Edit]:
    """The whole of the outer loop, on the line where it begins; its other lines go."""
    code, outer, inner = text.code, one.outer, one.inner
    q, first, n, end = outer.name, f"{outer.name}_first", f"{outer.name}_n", outer.end

    def of(part: str) -> str:
        for _, name, _ in one.kept:
            part = re.sub(rf"(?<![\w.]){name}\b", f"{name}_of[{n}]", part)
        return " ".join(part.split())

    each = f"#pragma unroll\n    for (int {n} = 0; {n} < {rounds}; {n}++)"
    last = f"min({first} + {n}, ({outer.kind})({end}) - 1)"
    arrays = " ".join(f"{kind} {name}_of[{rounds}];" for kind, name, _ in one.kept)
    made = " ".join(f"{name}_of[{n}] = {of(value)};" for _, name, value in one.kept)
    at = f"{outer.kind} {q} = {last};"
    new = (
        f"for ({outer.kind} {first} = 0; {first} < {end}; {first} += {rounds}) {{\n    {arrays}\n"
        f"    {each} {{ {at} {made} }}\n"
        f"    {' '.join(code[slice(*inner.span)].split())} {{\n"
        f"    {each} {{ {at} {of(code[slice(*inner.body)])} }}\n    }}\n"
        f"    {each} if ({first} + {n} < {end}) {{ {outer.kind} {q} = {first} + {n}; {of(one.tail)} }}\n  }}"
    )
    lines = setting.lines(text.file)
    begin, stop = (text.first + code[:n].count("\n") for n in (outer.span[0], outer.body[1]))
    column = outer.span[0] - (code.rfind("\n", 0, outer.span[0]) + 1)
    rest = lines[stop - 1][outer.body[1] - (code.rfind("\n", 0, outer.body[1]) + 1) :]
    out = []
    for number in range(begin, stop + 1):
        was = lines[number - 1]
        becomes = (was[:column] + new + (rest if begin == stop else "")) if number == begin else rest
        out.append(Edit(file=text.file, line=number, was=was, becomes=becomes if number in (begin, stop) else ""))
    return out


def _rounds() -> int:
    """How many lengths were written out, if the new loops do each round once and in order; 0 otherwise."""
    for length in range(3 * TOGETHER + 1):
        done = [f + e for f in range(0, length, TOGETHER) for e in range(TOGETHER) if f + e < length]
        if done != list(range(length)):
            return 0
    return 3 * TOGETHER + 1
