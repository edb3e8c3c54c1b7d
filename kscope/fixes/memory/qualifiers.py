"""`volatile` on data that nobody writes meanwhile: each use is a load past L1."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import not_written
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof

_VOLATILE = re.compile(r"\bvolatile\s+(?=[\w:]+\s*\*)|(?<=[\w*])\s+volatile(?=\s*\*)")


def fixes(asked: Asked) -> list[Fix]:
    code = asked.setting.code
    strong = code.ran(
        code.where(lambda ins, op: op.access == "load" and op.space == "global" and "STRONG" in ins.mods)
    )
    if not strong:
        return []
    used = places(asked.setting, strong)
    heads: list[Place] = []
    for file in sorted({p.file for p in used}):
        lines = asked.setting.lines(file)
        first = min(p.number for p in used if p.file == file)
        for number in range(first, 0, -1):  # the head of the function that uses it
            if "__global__" in lines[number - 1]:
                heads.append(Place(file, number, lines[number - 1]))
                break
    edits = changed(heads, lambda text: _VOLATILE.sub("const " if "const" not in text else "", text))
    edits = [e for e in edits if len(re.findall(r"\bvolatile\b", e.was)) == 1]  # which one is meant is clear
    if not edits:
        return []
    return [
        Fix(
            kind="qualifier",
            title="without volatile: L1 may keep the data, the compiler its values",
            language="cuda",
            edits=edits,
            conditions=[
                *not_written(code, strong),
                Condition(holds="nobody else writes it meanwhile", state="check"),
            ],
            proof=[
                Proof(
                    what="warp loads that pass L1 by", before=total(code.executed, strong), after=0, unit="inst",
                    how=f"{len(strong)} loads of strong order",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip
