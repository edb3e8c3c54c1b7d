"""Arrays of records of which a kernel reads some fields: an array for each field."""

from __future__ import annotations

import re

from kscope.features.lanes.strides import lane_stride
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Span, blanked, kernel_text, spans_edited
from kscope.fixes.memory.lane_mapping import sectors
from kscope.model.contract.fixes import Condition, Fix, Proof

LANES = 32


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None:
        return []
    head = text.code[: text.code.find("{")]
    lines = [blanked(line) for line in setting.lines(text.file)]
    for match in re.finditer(r"\bconst\s+(\w+)\s*\*\s*(__restrict__\s+)?(\w+)\s*(?=[,)])", head):
        record, name = match[1], match[3]
        fields = _fields(lines, record)
        uses = _uses(text.code, name, fields)
        if not fields or not uses:
            continue
        size = sum(SIZES[k] for k in fields.values())
        found = [i for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
                 if lane_stride(code, i, setting.block) == size]  # fmt: skip
        if not found:
            continue
        spans: list[Span] = [(match.start(), match.end(), f"{record}Fields {name}")]
        spans += [(u.start(), u.end(), f"{name}.{u[2]}[{u[1]}]") for u in uses]
        edits = spans_edited(setting, text, spans)
        used = {f: k for f, k in fields.items() if any(u[2] == f for u in uses)}
        members = " ".join(f"const {k}* __restrict__ {f};" for f, k in used.items())
        weight = total(code.executed, found)
        before = sum(_lines(size, code.classes[i].bytes) * code.executed[i] for i in found) / weight
        after = sum(_lines(code.classes[i].bytes, code.classes[i].bytes) * code.executed[i] for i in found) / weight
        return [
            Fix(
                kind="lane_mapping",
                title=f"an array for each field of {record}",
                language="cuda",
                code=f"struct {record}Fields {{ {members} }};  // each field's array, made by the host",
                edits=edits,
                parameters={"record": size, "fields": len(used)},
                conditions=[
                    reads("the kernel reads these fields alone", "all its uses"),
                    Condition(holds="the host lays out the data that way", state="check", why="and all its users"),
                ],
                proof=[
                    Proof(
                        what="sectors of one warp load, the mean", before=round(before, 1), after=round(after, 1),
                        unit="sectors", how=f"32 lanes {size} bytes apart, and side by side",
                    )
                ],
                price=asked.finding.estimate,
            )
        ] if edits else []  # fmt: skip
    return []


def _uses(code: str, name: str, fields: dict[str, str]) -> list[re.Match[str]]:
    """Reads of fields, `name[i].field`; none where the name is used in any other way."""
    uses = list(re.finditer(rf"(?<![\w.])(?<!->){name}\s*\[\s*(\w+)\s*\]\s*\.\s*(\w+)", code))
    if len(re.findall(rf"(?<![\w.])(?<!->){name}\b", code)) != len(uses) + 1:
        return []
    read = all(u[2] in fields and not code[u.end() : u.end() + 2].strip().startswith("=") for u in uses)
    read = read and not any(re.search(r"(?<!&)&\s*\(?\s*$", code[: u.start()]) for u in uses)  # what lies beside it
    return uses if read else []


def _lines(stride: int, width: int) -> int:
    return sectors([n * stride for n in range(LANES)], width)


def _fields(lines: list[str], record: str) -> dict[str, str]:
    """Field to type of a structure whose fields are all of plain types; empty for any other."""
    match = re.search(rf"\bstruct\s+{record}\s*\{{([^{{}}()]*)\}}", "\n".join(lines))
    out: dict[str, str] = {}
    for part in match[1].split(";") if match is not None else ():
        one = re.fullmatch(r"\s*([\w ]+?)\s+(\w+(?:\s*,\s*\w+)*)\s*", part)
        if part.strip() and (one is None or one[1] not in SIZES):
            return {}
        if one is not None:
            out |= {f.strip(): one[1] for f in one[2].split(",")}
    return out
