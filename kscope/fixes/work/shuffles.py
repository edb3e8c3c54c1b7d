"""Values that threads of one warp exchange through shared memory and barriers: by shuffles."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, kernel_text, loops, spans_edited
from kscope.model.contract.fixes import Condition, Fix, Proof

WARP = 32
_EXCHANGE = re.compile(
    r"\b(?P<array>\w+)\s*\[\s*(?P<own>\w+)\s*\]\s*=\s*(?P<value>\w+)\s*;\s*__syncthreads\s*\(\s*\)\s*;\s*"
    r"(?P<got>\w+)\s*=\s*(?P=array)\s*\[\s*(?P=own)\s*\^\s*(?P<by>\w+)\s*\]\s*;\s*__syncthreads\s*\(\s*\)\s*;"
)
_ROUNDS = re.compile(r"for\s*\(\s*int\s+(\w+)\s*=\s*([^;]+);\s*\1\s*(<=|>)\s*(\d+)\s*;\s*\1\s*(\*|/)=\s*2\s*\)")


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text, launch = kernel_text(setting), setting.launch
    match = _EXCHANGE.search(text.code) if text is not None else None
    if text is None or launch is None or match is None:
        return []
    if launch.block[1] * launch.block[2] > 1 or launch.threads % WARP:
        return []
    if not _apart(text.code, match):
        return []
    by = match["by"]
    steps = _steps(text.code[: match.start()], by)
    new = f"if ({by} < {WARP}) {match['got']} = __shfl_xor_sync(~0u, {match['value']}, {by}); else {{ {match[0]} }}"
    spans: list[Span] = [(*match.span(), new)]
    edits = spans_edited(setting, text, spans)
    inside = [n for n in steps if n < WARP]
    tried = [(t, n) for t in range(launch.threads) for n in set(inside)]
    same = sum(t // WARP == (t ^ n) // WARP for t, n in tried)
    if not edits or not inside or same != len(tried) or _otherwise(text.code, match):
        return []
    barriers = code.ran(code.where(lambda ins, op: ins.opcode == "BAR"))
    passed = total(code.executed, barriers) / (launch.warps * launch.blocks)
    if passed < 2 * len(steps):
        return []  # some of the exchanges are no such ones as they ran: they have been mended
    return [
        Fix(
            kind="lane_mapping",
            title=f"steps of less than {WARP} by shuffles: no barrier, no shared memory",
            language="cuda",
            edits=edits,
            conditions=[
                proved(f"partners of a step below {WARP} are in one warp", "values", tried,
                       f"{len(tried)} pairs of threads written out"),
                Condition(holds="all 32 lanes get to the exchange together", state="assumed",
                          why="they pass the block's barriers there, which CUDA wants all threads to do"),
            ],
            proof=[
                Proof(
                    what="barriers that a warp passes", before=passed, after=passed - 2 * len(inside), unit="barriers",
                    how=f"{len(inside)} of {len(steps)} exchanges are within a warp: the loops' rounds written out",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _apart(code: str, match: re.Match[str]) -> bool:
    """Whether the exchange is statements of their own of all threads, by their numbers, of values of one type."""
    own = re.findall(rf"(?<![\w.]){match['own']}{MODIFIED}\s*([^;,]*)|(?:\+\+|--)\s*{match['own']}\b", code)
    kind = r"\b(int|unsigned|float|double|long long|unsigned long long)\s+(?:[^;(){}]*,\s*)?"
    kinds = {found[1] if (found := re.search(rf"{kind}{match[name]}\b", code)) else name for name in ("array", "value")}
    alone = code[: match.start()].rstrip().endswith((";", "{", "}"))
    return alone and [o.strip() for o in own] == ["threadIdx.x"] and len(kinds) == 1


def _otherwise(code: str, match: re.Match[str]) -> bool:
    """Whether the array is used elsewhere: what a shuffle does not leave behind."""
    named = rf"\b{match['array']}\s*\["  # its declaration is one more
    return len(re.findall(named, code)) != len(re.findall(named, match[0])) + 1


def _steps(before: str, name: str) -> list[int]:
    """What the step is in each round of two loops, the outer one over powers of two; empty where they are others."""
    heads = _ROUNDS.findall(before)
    if len(heads) != 2 or heads[1][0] != name or len(loops(before)) > 0:
        return []
    (outer, start, test, end, by), (_, first, inner_test, last, back) = heads
    half = re.fullmatch(rf"{outer}\s*/\s*2", first.strip())
    if test != "<=" or by != "*" or inner_test != ">" or back != "/" or last != "0" or half is None:
        return []
    out, k = [], int(start) if start.strip().isdigit() else 0
    while 0 < k <= int(end):
        j = k // 2
        while j > 0:
            out.append(j)
            j //= 2
        k *= 2
    return out
