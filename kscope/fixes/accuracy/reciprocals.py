"""Divisions by a value that the loop does not change: one reciprocal before it, a multiplication in each round."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.rewrite import Place
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import LONGEST, Loop, blanked, loops
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

_DIVIDED = re.compile(r"/\s*([A-Za-z_]\w*)\b(?!\s*[(\[.]|->)", re.ASCII)
AROUND = 40  # lines before a division in which its loop and the divisor's declaration are looked for


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    roots = code.ran(code.where(lambda ins, op: ins.opcode == "MUFU" and "RCP" in ins.mods))
    warps = setting.launch.warps * setting.launch.blocks if setting.launch is not None else 1
    for place in _lines(asked):
        lines = setting.lines(place.file)
        first = max(1, place.number - AROUND)
        text = "\n".join(blanked(one) for one in lines[first - 1 : place.number])
        if len(text) > LONGEST:
            continue
        at = text.rfind("\n") + 1
        for name in dict.fromkeys(m[1] for m in _DIVIDED.finditer(text[at:])):
            loop = _around(text + ";" if not text.rstrip().endswith((";", "}")) else text, at)
            kind = _declared(text, name)
            if loop is None or kind is None or _changed(text[slice(*loop.body)], name):
                continue
            mine = [i for i in roots if (code[i].file, code[i].line) == (place.file, place.number)]
            count = len(re.findall(rf"/\s*{name}\b(?!\s*[(\[.])", text[at:]))
            before = total(code.executed, mine)
            if before < 2 * warps:
                continue
            fixed = _invariant(asked, mine)
            names = (name, kind)
            return [_hoisted(asked, place.file, first, place.number, text, loop, names, before, warps, count, fixed)]
    return []


def _hoisted(
    asked: Asked, file: str, first: int, number: int, text: str, loop: Loop, names: tuple[str, str], before: float,
    warps: float, count: int, fixed: int,
) -> Fix:  # fmt: skip
    name, kind = names
    lines = asked.setting.lines(file)
    one = "1.f" if kind == "float" else "1.0"
    made = f"{kind} inverse_{name} = {one} / {name};"
    head = first + text[: loop.span[0]].count("\n")
    while head > 1 and lines[head - 2].lstrip().startswith("#pragma unroll"):
        head -= 1
    text_at = lines[number - 1]
    code, _, comment = text_at.partition("//")
    becomes = re.sub(rf"/\s*{name}\b(?!\s*[(\[.])", f"* inverse_{name}", code) + ("//" + comment if comment else "")
    edits = [Edit(file=file, line=number, was=text_at, becomes=becomes)]
    if head == number:
        at = blanked(text_at).index("for")
        edits = [Edit(file=file, line=number, was=text_at, becomes=f"{becomes[:at]}{made} {becomes[at:]}")]
    else:
        blank = re.match(r"\s*", lines[head - 1])
        indent = blank[0] if blank is not None else ""
        added = f"{indent}{made}\n{lines[head - 1]}"
        edits.insert(0, Edit(file=file, line=head, was=lines[head - 1], becomes=added))
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


def _around(text: str, at: int) -> Loop | None:
    """The innermost loop whose body reaches the place, or begins on its line."""
    found = [one for one in loops(text) if one.span[0] >= at or one.body[0] <= at < one.body[1]]
    return found[-1] if found else None


def _declared(text: str, name: str) -> str | None:
    for kind in ("float", "double"):
        if re.search(rf"\b{kind}\b(?:[^;()]|\([^;()]*\))*\b{name}\b", text):
            return kind
    return None


def _changed(body: str, name: str) -> bool:
    return bool(re.search(rf"(?<![\w.\]]){name}\s*(?:[-+*/]?=(?!=)|\+\+|--)|&{name}\b", body))


def _lines(asked: Asked) -> list[Place]:
    """The lines that the finding is about."""
    found = sorted({(x.file, x.line) for x in asked.finding.locations if x.file is not None and x.line is not None})
    texts = [(file, number, asked.setting.lines(file)) for file, number in found]
    return [Place(file, n, text[n - 1]) for file, n, text in texts if 0 < n <= len(text)]
