"""Loads that stay behind stores, which may be to the same array for all that a compiler knows: its parameters said not
to overlap. What is only read then goes ahead of the stores."""

from __future__ import annotations

import re

from kscope.features.sass.slices import pointer
from kscope.fixes.atomics.names import alike
from kscope.fixes.given.conditions import WRITES, proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, closing, kernel_text, spans_edited
from kscope.fixes.thread.first import BEHIND, LEAST, behind
from kscope.model.contract.fixes import Condition, Fix, Proof

MOST = 0.5  # of what the finding's loads wait that those behind stores do, from which its promise is theirs (judged)
_POINTER = re.compile(r"[^*&(]*\*\s*(?:const\s+)?(?=[A-Za-z_]\w*\s*(?:=.*)?$)", re.S)


def fixes(asked: Asked) -> list[Fix]:
    setting, code, text = asked.setting, asked.setting.code, kernel_text(asked.setting)
    if text is None or setting.launch is None:
        return []
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    late = _apart(setting, behind(code, loads))
    shares = {x.pc: x.share or 0.0 for x in asked.finding.locations}
    waits = sum(shares.get(code[i].pc, 0.0) for i in late)
    if len(late) < LEAST or waits < MOST * sum(shares.values()):
        return []
    found = spans(text.code, setting.name)
    edits = spans_edited(setting, text, found)
    if not edits or re.search(r"\bvolatile\b|\basm\b", text.code):
        return []
    return [
        Fix(
            kind="qualifier",
            title=f"__restrict__ for {len(found)} parameters: loads need not stay behind stores",
            language="cuda",
            edits=edits,
            conditions=[
                proved("these loads are of other parameters than the stores before them", "code", late,
                       "address slices of loads and stores"),
                Condition(holds="no array that is written overlaps another one of the parameters", state="check",
                          why="with __restrict__ the compiler goes by it, in each launch"),
            ],
            proof=[
                Proof(what=BEHIND, before=len(late), after=0, unit="loads",
                      how="not marked as of what nobody writes, in one stretch without a branch"),
            ],
            costs=["registers for what is loaded earlier"],
            price=None,  # how far the compiler then moves loads shows when it is built: 1.00x to 1.31x of three kernels
        )
    ]  # fmt: skip


def _apart(setting: Setting, late: list[int]) -> list[int]:
    """Loads of what no store of the kernel is known to write."""
    code = setting.code
    stores = code.where(lambda ins, op: op.space in ("global", "generic") and op.access in WRITES)
    written = {pointer(code, i) for i in stores}
    return [i for i in late if pointer(code, i) is not None and pointer(code, i) not in written]


def exchanged(code: str, start: int, close: int) -> bool:
    """Whether a kernel gives one of its pointers another one's value: each then leads to both arrays."""
    names = {m[0] for one in split_declarators(code[start:close])
             if "*" in one and (m := re.search(r"\w+(?=\s*(?:=.*)?$)", one)) is not None}  # fmt: skip
    body = code[close:]
    given = [n for n in names if re.search(rf"(?<![\w.*])(?<!->){n}\s*=(?!=)|\bswap\s*\([^;]*\b{n}\b", body)]
    swapped = len([n for n in given if re.search(rf"\bswap\s*\([^;]*\b{n}\b", body)]) > 1
    return swapped or any(len(alike(body, n, names | _locals(body)) & names) > 1 for n in given)


def _locals(body: str) -> set[str]:
    """Pointers that a text declares."""
    return set(re.findall(r"\*\s*(?:const\s+)?([A-Za-z_]\w*)\s*=(?!=)", body))


def spans(code: str, name: str) -> list[Span]:
    """Where the word is missing in a kernel's head; none where all have it."""
    head = re.search(rf"\b{re.escape(name)}\s*\(", code)
    close = closing(code, head.end()) if head is not None else None
    if head is None or close is None:
        return []
    if exchanged(code, head.end(), close):
        return []
    out, at = list[Span](), head.end()
    for one in split_declarators(code[head.end() : close]):
        match = _POINTER.match(one)
        if match is not None and "restrict" not in one and one.count("*") == 1:
            out.append((at + match.end(), at + match.end(), "__restrict__ "))
        at += len(one) + 1
    return out
