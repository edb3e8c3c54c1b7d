"""Data that the kernel reads over the bus: copied to the device before."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import kernel_text
from kscope.model.contract.fixes import Condition, Fix, Proof

_PARAMETER = re.compile(r"\bconst\s+(\w+)\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])")


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    at = {x.pc for x in asked.finding.locations}
    loads = code.ran(code.where(lambda ins, op: op.access == "load" and op.space == "global"))
    slow = [i for i in loads if code[i].pc in at] or loads
    origins = {pointer(code, i) for i in slow}
    if text is None or len(origins) != 1 or None in origins:
        return []
    read = _PARAMETER.findall(text.code[: text.code.find("{")])
    if len(read) != 1:
        return []
    ((kind, name),) = read
    shared = setting.launch.shared_dynamic if setting.launch is not None else 0
    moved = 32 * total(code.executed, slow) * code.classes[slow[0]].bytes
    return [
        Fix(
            kind="host_copy",
            title=f"{name} copied to the device before the launch",
            language="cuda",
            code=(
                f"{kind}* {name}_device;\n"
                f"cudaMalloc(&{name}_device, bytes);  // once\n"
                f"cudaMemcpyAsync({name}_device, {name}, bytes, cudaMemcpyDefault, stream);\n"
                f"{setting.name}<<<grid, block, {shared}, stream>>>(..., {name}_device, ...);  // where {name} stood"
            ),
            conditions=[
                proved(f"{name} is what is read over the bus", "code", slow,
                       "the only data that the kernel reads (address slices)"),
                Condition(
                    holds="the copy is made ahead, or the data are used more than once", state="check",
                    why="a copy takes as long as reading it once does",
                ),
            ],
            proof=[
                Proof(
                    what="bytes that lanes read from host memory", before=moved, after=0, unit="B",
                    how="lanes and widths of these loads, by executions",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip
