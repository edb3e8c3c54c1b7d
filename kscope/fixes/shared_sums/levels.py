"""Levels of a tree in shared memory, a barrier each: the last ones are one warp's, which meets alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.regions import regions
from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, closing, plain, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

WARP = 32
SYNC = r"__syncthreads\s*\(\s*\)\s*;"
_HEAD = re.compile(
    r"\bfor\s*\(\s*(?:[A-Za-z_][\w ]*?\s+)?(?P<s>\w+)\s*=\s*(?P<first>[^;]+);"
    r"\s*(?P=s)\s*(?:>\s*0[uU]?|>=\s*1[uU]?|!=\s*0)?\s*;\s*(?P=s)\s*(?:/=\s*2|>>=\s*1|=\s*(?P=s)\s*(?:/\s*2|>>\s*1))[uU]?\s*\)\s*\{"
)
_BODY = re.compile(rf"\s*(?P<ahead>{SYNC})?\s*if\s*\(")
_GUARD = r"\(?\s*(?P<t>\w+(?:\s*\.\s*x)?)\s*<\s*{s}\s*\)?(?:\s*&&.*)?|{s}\s*>\s*(?P<u>\w+(?:\s*\.\s*x)?)"
_NEVER = re.compile(r"__sync|\b(?:return|break|continue|goto|asm|bar)\b|_sync\s*\(")
_HALF = re.compile(r"\(?blockDim\.x(?:/2|>>1)\)?|32|64|128|256|512")
_FIRST = r"\s*if\s*\(\s*(?:!\s*{t}\b|{t}\s*==\s*0\b)"


class Levels(Struct, frozen=True):
    """`barrier`: of the loop's, where it stands; `ahead`: whether in front of the level; `end`: the loop's. `alone`:
    whether nobody but the first thread goes on with what the levels left."""

    text: Text
    step: str
    first: str
    thread: str
    barrier: tuple[int, int]
    ahead: bool
    end: int
    alone: bool


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    if launch is None or not setting.shared or launch.block[0] % WARP or launch.block[0] <= WARP:
        return []
    flat = max(launch.block[1:]) == 1
    found = [one for text in regions(setting) for one in levels(text, flat=flat)]
    barriers = code.ran(code.where(lambda ins, op: ins.opcode == "BAR"))
    met = total(code.executed, barriers) / (launch.warps * launch.blocks)
    rounds = launch.block[0].bit_length() - 1
    if not found or met < rounds * len(found) or len({one.text.file for one in found}) > 1:
        return []
    ahead = any(one.ahead for one in found)
    edits = _edits(setting, found)
    if not edits or not even(found, launch.block[0]):
        return []
    gone = sum(WARP.bit_length() - (not one.alone) for one in found)
    names = list(dict.fromkeys(f"{one.thread} < {one.step}" for one in found))
    return [
        Fix(
            kind="lane_mapping",
            title=f"the last levels of {'a tree' if len(found) == 1 else 'trees'} without the block's barriers",
            language="cuda",
            edits=edits,
            conditions=[
                reads("no other warp has work at these levels", f"{' and '.join(names)} guards all that a level does"),
                shown(_same(rounds) > 0, "who waits for whom is one warp", "values", _same(rounds),
                      "threads of two levels that follow one another written out, for blocks of 64 to 1,024"),
                Condition(holds=f"every launch has blocks of {'32, 64, 128 ..' if ahead else 'a multiple of 32'} "
                                "threads along x", state="check"),
                Condition(holds="no lane of a warp is missing there", state="assumed",
                          why="all threads pass the block's barriers there"),
            ],
            proof=[
                Proof(what="barriers that a warp passes", before=met, after=max(0.0, met - gone), unit="barriers",
                      how=f"{gone} of those that were counted become __syncwarp, or are left out")
            ],
            price=None,  # measured: 1.00x where the levels' own latency is what is waited for
        )
    ]  # fmt: skip


def even(found: Sequence[Levels], threads: int) -> bool:
    """Whether a barrier in front of each level of two warps and more is enough: of 96 threads the level of 24 is behind
    one of 48, which is two warps'."""
    return not any(one.ahead for one in found) or threads & (threads - 1) == 0


def _edits(setting: Setting, found: Sequence[Levels]) -> list[Edit]:
    """None where two texts have a line together."""
    texts = dict.fromkeys(one.text for one in found)
    out = [e for text in texts for e in spans_edited(setting, text, _spans([x for x in found if x.text == text]))]
    return out if len({e.line for e in out}) == len(out) else []


def _same(rounds: int) -> int:
    """How many levels were written out, if threads of one that has no more than a warp, and of the one before it where
    its barrier goes too, are one warp's; 0 otherwise."""
    tried = 0
    for n in range(6, max(10, rounds) + 1):
        steps = [1 << k for k in range(n - 1, -1, -1)]
        for now, after in pairwise(steps):
            if now <= WARP:
                threads = {t // WARP for t in range(now)} | {t // WARP for t in range(after)}
                if len(threads) > 1:
                    return 0
                tried += 1
    return tried


def levels(text: Text, *, flat: bool) -> list[Levels]:
    """Loops of a text whose rounds are levels of a tree, each guarded, with a barrier between them."""
    out = []
    for head in _HEAD.finditer(text.code):
        one = _level(text, head, flat=flat)
        out += [one] if one is not None else []
    return out


def _level(text: Text, head: re.Match[str], *, flat: bool) -> Levels | None:
    code, step = text.code, head["s"]
    end, start = closing(code, head.end()), _BODY.match(code, head.end())
    close = closing(code, start.end()) if start is not None else None
    if end is None or start is None or close is None:
        return None
    guard = re.fullmatch(_GUARD.format(s=step), code[start.end() : close].strip())
    rest = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
    done, ahead = statement_end(code, rest), start["ahead"] is not None
    behind = re.fullmatch(rf"\s*({SYNC})?\s*", code[done:end]) if done is not None and done <= end else None
    if guard is None or "||" in guard[0] or done is None or behind is None or bool(behind[1]) is ahead:
        return None
    named, body = (guard["t"] or guard["u"]).strip(), code[rest:done]
    if plain(named, code) != "threadIdx.x" or not _quiet(code, body, named, step, flat=flat):
        return None
    if ahead and not _HALF.fullmatch(plain(head["first"], code)):
        return None  # its first level may be one warp's, behind what others do
    barrier = start.span("ahead") if ahead else (done + behind.start(1), done + behind.end(1))
    alone = "__global__" in code[: code.find("{")] and _last(code, end + 1, named)
    return Levels(text, step, head["first"].strip(), named, barrier, ahead, end + 1, alone)


def _quiet(code: str, body: str, thread: str, step: str, *, flat: bool) -> bool:
    """Whether a level meets nobody, leaves the step alone, and stays in its row of threads."""
    changed = re.search(rf"\b{step}\s*(?:[-+*/]?=(?!=)|>>=|<<=|\+\+|--)", body)
    return not _NEVER.search(body) and changed is None and (flat or _own_row(code, body, thread, step))


def _own_row(code: str, body: str, thread: str, step: str) -> bool:
    """Whether all places of a level are a thread's own one and that one step on: of its row of threads, where the
    block has several."""
    places = {re.sub(r"\s+", "", p) for p in re.findall(r"\w\s*\[([^\]]*)\]", body)}
    own = {p for p in places if re.fullmatch(r"\w+", p)}
    if len(own) != 1:
        return False
    (place,) = own
    made = re.findall(rf"\b{place}\s*=\s*([^;=]+);", code)
    terms = re.split(r"\s*\+\s*", made[0].strip()) if len(made) == 1 else []
    mine = place == thread or terms.count(thread) == 1
    others = [t for t in terms if t != thread]
    return mine and not any(re.search(rf"\b{thread}\b", t) for t in others) and places <= {
        place, f"{place}+{step}", f"{step}+{place}"
    }  # fmt: skip


def _last(code: str, at: int, thread: str) -> bool:
    """Whether the first thread alone goes on behind a loop, and nothing comes back to it."""
    if re.match(_FIRST.format(t=re.escape(thread)), code[at:]) is None:
        return False
    first = code.find("if", at)
    stop = statement_end(code, first)
    depth = 0
    for c in code[:at]:
        depth += (c == "{") - (c == "}")
    return depth == 1 and stop is not None and code[stop:].strip() in ("}", "")


def _spans(found: Sequence[Levels]) -> list[Span]:
    out: list[Span] = []
    for one in found:
        test = f"{one.step} >= {WARP}" if one.ahead else f"{one.step} > {WARP}"
        out.append((*one.barrier, f"if ({test}) __syncthreads(); else __syncwarp();"))
        if not one.alone:
            out.append((one.end, one.end, " __syncthreads();"))
    return out
