"""Divisions by a value that the loop does not change: one reciprocal before it, a multiplication in each round."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.accuracy.powers import declarations
from kscope.fixes.atomics.regions import clear
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.rewrite import Place
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import HEAD, LONGEST, Loop, blanked, loops, written
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

_DIVIDED = re.compile(r"(?<![*/])/\s*([A-Za-z_]\w*)\b(?!\s*(?:[(\[.<]|->|::|\+\+|--))", re.ASCII)
AROUND = 40  # lines before a division in which its loop and the divisor's declaration are looked for


class Divided(Struct, frozen=True):
    """Divisions of a line by a name that their loop does not change: the name, its type, line and column where the loop
    begins, the columns of the divisions' signs and of what follows their divisors."""

    name: str
    kind: str
    head: tuple[int, int]
    signs: tuple[tuple[int, int], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    roots = code.ran(code.where(lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods))
    warps = setting.launch.warps * setting.launch.blocks if setting.launch is not None else 1
    for place in _lines(asked):
        lines = setting.lines(place.file)
        for one in divided(lines, place.number):
            mine = [i for i in roots if (code[i].file, code[i].line) == (place.file, place.number)]
            before, made = total(code.executed, mine), edited(lines, place.number, one)
            if before < 2 * warps or not made:
                continue
            edits = [Edit(file=place.file, line=n, was=lines[n - 1], becomes=new) for n, new in sorted(made.items())]
            return [_hoisted(asked, one, edits, before, warps, _invariant(asked, mine))]
    return []


def divided(lines: Sequence[str], number: int) -> list[Divided]:
    """What a line divides by in a loop that does not change it."""
    first = max(1, number - AROUND)
    heads = [n for n in range(first, number + 1) if re.search(r"\b__(?:global|device|host)__", lines[n - 1])]
    first = heads[-1] if heads else first
    text = "\n".join(clear(blanked(one)) for one in lines[first - 1 : number])
    if len(text) > LONGEST or text.rstrip().endswith("\\"):
        return []
    at = text.rfind("\n") + 1
    whole = text if text.rstrip().endswith((";", "}")) else text + ";"
    found, out = loops(whole), list[Divided]()
    for name in dict.fromkeys(m[1] for m in _DIVIDED.finditer(text, at)):
        signs = [m.start() for m in _DIVIDED.finditer(text, at) if m[1] == name]
        loop = next((x for x in reversed(found) if x.body[0] <= signs[0] < x.body[1]), None)
        kind = _kept(whole, loop, name) if loop is not None else None
        if loop is None or kind is None:
            continue
        mine = [s for s in signs if loop.body[0] <= s < loop.body[1]]
        columns = tuple((s - at, text.index(name, s) - at + len(name)) for s in mine)
        before = whole[: loop.span[0]]
        out.append(Divided(name, kind, (first + before.count("\n"), len(before) - before.rfind("\n") - 1), columns))
    return out


def _kept(text: str, loop: Loop, name: str) -> str | None:
    """The type of a name that is declared in front of a loop and kept by it; None for any other."""
    kinds = {kind for kind, n in declarations(text) if n == name}
    before, inside = text[: loop.span[0]], text[loop.span[0] : loop.body[1]]
    if len(kinds) != 1 or not kinds <= {"float", "double"} or not HEAD.search(before) or written(name, inside):
        return None
    known = any(n == name for _, n in declarations(before)) and not re.search(rf"(?<!&)&\s*{name}\b", before)
    return kinds.pop() if known and all(n != name for _, n in declarations(inside)) else None


def edited(lines: Sequence[str], number: int, one: Divided) -> dict[int, str]:
    """The new lines; none where there is no free name, or no place for it."""
    file = "\n".join(lines)
    free = (n for n in (f"inverse_{one.name}", f"{one.name}_inverse") if not re.search(rf"\b{n}\b", file))
    inverse, (row, column) = next(free, ""), one.head
    made = f"{one.kind} {inverse} = {'1.f' if one.kind == 'float' else '1.0'} / {one.name};"
    out = {number: lines[number - 1]}
    for start, end in reversed(one.signs):
        out[number] = f"{out[number][:start]}* {inverse}{out[number][end:]}"
    indent, top = lines[row - 1][:column], row
    while top > 1 and lines[top - 2].lstrip().startswith("#pragma"):
        top -= 1
    if (top < row and indent.strip()) or not inverse:
        return {}
    if top == row == number or indent.strip():
        line = out.get(row, lines[row - 1])
        return {**out, row: f"{line[:column]}{made} {line[column:]}"}
    return {**out, top: f"{indent}{made}\n{out.get(top, lines[top - 1])}"}


def _hoisted(
    asked: Asked, one: Divided, edits: list[Edit], before: float, warps: float, fixed: int
) -> Fix:  # fmt: skip
    name, count = one.name, len(one.signs)
    return Fix(
        kind="reciprocal",
        title=f"1 / {name} once, before the loop",
        language="cuda",
        edits=edits,
        parameters={"divisor": name},
        conditions=[
            proved(f"{name} stays what it is in the loop", "code", fixed, "made before the loop (def-use of MUFU.RCP)")
            if fixed else reads(f"{name} stays what it is in the loop", "nothing in the loop writes it"),
            Condition(holds="up to 1.5 ulp instead of 0.5", state="check", why="a quotient is rounded twice"),
        ],
        proof=[
            Proof(
                what="reciprocals that warps compute", before=before, after=warps, unit="inst",
                how=f"MUFU.RCP of {count} divisions a round, executions counted; one a warp before the loop",
            )
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


def _invariant(asked: Asked, roots: list[int]) -> int:
    """How many reciprocals there are, if the operands of each are made outside the loop around it; 0 where one is
    not."""
    code = asked.setting.code
    for i in roots:
        loop = code.cfg.loop_of[i]
        inside = set(code.cfg.loop_body(loop)) if loop is not None else set()
        if loop is None or any(p in inside for ps in code.defuse.sources(i).values() for p in ps):
            return 0
    return len(roots)


def _lines(asked: Asked) -> list[Place]:
    """The lines that the finding is about."""
    found = sorted({(x.file, x.line) for x in asked.finding.locations if x.file is not None and x.line is not None})
    texts = [(file, number, asked.setting.lines(file)) for file, number in found]
    return [Place(file, n, text[n - 1]) for file, n, text in texts if 0 < n <= len(text)]
