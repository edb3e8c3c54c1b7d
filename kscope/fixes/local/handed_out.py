"""Small tables in constant memory that lanes index apart: an entry in each lane, which shuffles hand out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import Kernel, kernel_of, uniform
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Span, blanked, closing, spans_edited
from kscope.fixes.local.together import WARP, whole_warps
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

TYPES = ("float", "int", "unsigned", "unsigned int", "uint32_t", "int32_t")
_TABLE = re.compile(
    rf"__constant__\s+(?:const\s+)?({'|'.join(sorted(TYPES, key=len, reverse=True))})\s+(\w+)\s*\[([^]]+)\]\s*"
    r"(?:=\s*(\{[^{};]*\}))?\s*;", re.ASCII,
)  # fmt: skip
_SET = r"(?:cudaMemcpyToSymbol|cudaGetSymbolAddress|cuModuleGetGlobal)\w*\s*\([^;]*?\b{0}\b"


class _Table(Struct, frozen=True):
    """`kind name[count]`; the text of its values, where nothing else is ever put there as far as the file tells."""

    kind: str
    name: str
    count: int
    values: str


def fixes(asked: Asked) -> list[Fix]:
    setting, code, kernel = asked.setting, asked.setting.code, kernel_of(asked.setting)
    loads = code.ran(code.where(lambda ins, op: ins.opcode == "LDC"))
    indexed = [i for i in loads if any(o.bases for o in code[i].operands)]
    if kernel is None or setting.launch is None or not indexed or setting.block[0] % WARP:
        return []
    for table in _tables(kernel.lines):
        made = handed_out(kernel, table, setting.block[0])
        edits = spans_edited(setting, kernel.text, made[0]) if made is not None else []
        used = {e.line for e in edits}
        elsewhere = [i for i in indexed if not any(file == kernel.text.file and line in used
                                                   for file, line in setting.sites(i))]  # fmt: skip
        if made is not None and edits and not elsewhere:
            return [_fix(asked, table, made[1], edits, indexed)]
    return []


def _tables(lines: Sequence[str]) -> list[_Table]:
    known, text = constants(lines), "\n".join(blanked(line) for line in lines)
    found = []
    for kind, name, size, values in _TABLE.findall(text):
        count = evaluated(size, known)
        if count is not None and 1 < count <= WARP:
            written = re.search(_SET.replace("{0}", name), text) is not None
            found.append(_Table(kind, name, count, "" if written else " ".join(values.split())))
    return found


def handed_out(kernel: Kernel, table: _Table, block: int) -> tuple[list[Span], set[str]] | None:
    """(the change of the text, what has to be a multiple of 32); None where a lane may not be there when another one
    asks for its entry."""
    code, mine = kernel.text.code, f"{table.name}_of_lane"
    spans: list[Span] = []
    even: set[str] = set()
    for use in re.finditer(rf"(?<![\w.])(?<!->){table.name}\b", code):
        opening = re.match(r"\s*\[", code[use.end() :])
        close = closing(code, use.end() + opening.end()) if opening is not None else None
        if opening is None or close is None:
            return None
        if uniform(kernel, code[use.end() + opening.end() : close], use.start()):
            continue  # one word for all lanes
        found = whole_warps(kernel, use.start(), block)
        if found is None or re.match(r"\s*[\[=]", code[close + 1 :]):
            return None
        if re.search(rf"\b{table.name}\b", code[use.end() : close]) or code[: use.start()].rstrip().endswith("&"):
            return None
        spans += [(use.start(), use.end() + opening.end(), f"__shfl_sync(~0u, {mine}, "), (close, close + 1, ")")]
        even |= found
    own = re.search(rf"\b(?:{'|'.join(TYPES)}|auto|double|const|T)\s*[*&]*\s*{table.name}\b", code)
    if not spans or own is not None or re.search(rf"\b{mine}\b", code):
        return None
    entry = f"threadIdx.x % {table.count}"
    if WARP % table.count:
        entry = f"threadIdx.x % {WARP} < {table.count} ? threadIdx.x % {WARP} : 0"
    where = f"{table.name}_values" if table.values else table.name
    at = kernel.opening + 1
    return [(at, at, f"\n  const {table.kind} {mine} = {where}[{entry}];"), *spans], even


def _fix(asked: Asked, table: _Table, even: set[str], edits: list[Edit], indexed: list[int]) -> Fix:
    code = asked.setting.code
    launch = asked.setting.launch
    assert launch is not None
    before = total(code.executed, indexed)
    after = 0.0 if table.values else float(launch.warps * launch.blocks)
    declared = f"__device__ const {table.kind} {table.name}_values[{table.count}] = {table.values};"
    return Fix(
        kind="copy_constants",
        title=f"an entry of {table.name} in each lane, handed out by shuffles",
        language="cuda",
        code=declared if table.values else "",
        edits=edits,
        parameters={"entries": table.count},
        conditions=[
            reads("all lanes of a warp come to each shuffle", "nothing that differs from lane to lane is asked before"),
            Condition(holds="blocks are of whole warps", state="check", why=f"{launch.block[0]} threads here"),
            *(Condition(holds=f"{end} is a multiple of {WARP}", state="check", why="else some lanes of a warp are not "
                        "there when others ask for their entries") for end in sorted(even)),
            *([Condition(holds=f"nobody copies other values to {table.name}", state="check",
                         why="this file does not: its values are written out twice")] if table.values else []),
        ],
        proof=[
            Proof(what="constant loads by an index of the lane's own", before=before, after=after, unit="inst",
                  how=f"a table of {table.count} words has its entry in each lane: one word for any index"),
        ],
        price=asked.finding.estimate if after * 2 <= before else None,
    )  # fmt: skip
