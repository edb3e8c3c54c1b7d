"""A debug build: the compiler's switches."""

from __future__ import annotations

from kscope.features.sass.columns import total
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof


def fixes(asked: Asked) -> list[Fix]:
    code = asked.setting.code
    idle = code.ran([i for i in code.where(lambda ins, op: ins.opcode == "MOV") if _itself(asked, i)])
    if not idle:
        return []
    return [
        Fix(
            kind="build",
            title="built without -G",
            language="cuda",
            code=f"nvcc -O3 -lineinfo -arch=sm_{code.program.sm} ...  # in place of -G; -lineinfo keeps the lines",
            conditions=[
                Condition(holds="optimised code moves no register to itself", state="assumed", why="ptxas without -G"),
                Condition(holds="the build takes its switches from this line", state="check"),
            ],
            proof=[
                Proof(
                    what="warp instructions that move a register to itself", before=total(code.executed, idle), after=0,
                    unit="inst", how=f"{len(idle)} instructions that only a debugger needs",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _itself(asked: Asked, index: int) -> bool:
    ins = asked.setting.code[index]
    return len(ins.operands) == 2 and ins.operands[0].text == ins.operands[1].text
