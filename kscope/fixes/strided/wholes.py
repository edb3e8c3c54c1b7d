"""Records that a thread reads whole, whose type asks for no more than the alignment of a word: by the widest loads that
their size allows, where they start at a multiple of it; records that it stores so, along with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kscope.features.profile.code import Code
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Span, Text, by_lines, closing, kernel_text, spans_edited
from kscope.fixes.memory.lane_mapping import HALVED
from kscope.fixes.strided.helpers import PIECES, WHOLE_RECORD, renamed
from kscope.fixes.strided.runs import side_by_side
from kscope.fixes.strided.together import Moved, piece_of, put, records
from kscope.fixes.strided.words import LEAST
from kscope.fixes.strided.worth import held_up
from kscope.fixes.thread.element_types import instantiated, width
from kscope.fixes.thread.side_by_side import pointers
from kscope.model.contract.fixes import Edit, Fix, Proof

LARGEST = 128  # bytes of a record that a thread reads: they are registers (judged)
LOAD_WHOLE = renamed(f"""{PIECES}
template <class T> __device__ __forceinline__ T load_whole(const T* from) {{
  constexpr int SIZE = sizeof(T), BYTES = piece_of(SIZE);
  using Piece = typename PieceOf<BYTES>::type;
  if (!__is_trivially_copyable(T) || reinterpret_cast<unsigned long long>(from) % BYTES != 0) return *from;
  union Both {{
    Piece pieces[SIZE / BYTES];
    T whole;
    __device__ Both() {{}}
    __device__ ~Both() {{}}
  }} both;
  #pragma unroll
  for (int p = 0; p < SIZE / BYTES; p++) both.pieces[p] = reinterpret_cast<const Piece*>(from)[p];
  return both.whole;
}}""", "Load")
_USED = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[")


class Whole(Struct, frozen=True):
    """`name[at]`, whose value is used as it is."""

    name: str
    at: str
    span: tuple[int, int]


class _Read(Struct, frozen=True):
    one: Whole
    loads: tuple[int, ...]
    size: int


def wholes(code: str) -> Iterator[Whole]:
    """Elements of arrays that a kernel's text reads as values."""
    opened, known = code.find("{"), pointers(code)
    for match in _USED.finditer(code, max(opened, 0)):
        close = closing(code, match.end())
        if match[1] not in known or close is None or opened < 0:
            continue
        before, after = code[: match.start()].rstrip(" \t\n("), code[close + 1 :]
        if re.match(rf"\s*(?:\.|->|\[|{MODIFIED})", after) or before.endswith(("&", "++", "--")):
            continue  # a member, or its place
        bound = re.search(r"([\w:<>]+)\s*&{1,2}\s*\w+\s*[=({]*$", before)
        if bound is not None and not (re.search(r"\bconst\b[^;{}]*$", before) and known[match[1]][1]):
            continue  # what changes there later is seen through a reference
        if not known[match[1]][1] and not (before.endswith("=") and re.match(r"\s*;", after)):
            continue  # a function may take its place
        yield Whole(match[1], code[match.end() : close].strip(), (match.start(), close + 1))


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None or setting.launch is None or not isinstance(code, Code) or re.search(r"\bvolatile\b", text.code):
        return []
    found = list(_reads(setting, text))
    mine = {code[i].pc for x in found for i in x.loads}
    outs = [x for x in records(setting, code, text) if piece_of(x.size) == x.size]
    named = set(asked.finding.covered) | {x.pc for x in asked.finding.locations}
    if not found or named.isdisjoint(mine) or not held_up(asked.finding, memory=False):
        return []
    spans: list[Span] = [(*x.one.span, f"load_whole(&{x.one.name}[{x.one.at}])") for x in found]
    edits = spans_edited(setting, text, by_lines(text.code, [*spans, *put(outs, 1)]))
    if not named <= mine | {code[i].pc for x in outs for i in x.stores}:
        return []
    fix = _fix(asked, found, outs, edits)
    return [fix] if edits and fix.proof[0].after <= HALVED * fix.proof[0].before else []


def _fix(asked: Asked, found: Sequence[_Read], outs: Sequence[Moved], edits: list[Edit]) -> Fix:
    code, mine = asked.setting.code, sorted({i for x in found for i in x.loads})
    stores = sorted({i for x in outs for i in x.stores})
    names = " and ".join(dict.fromkeys([*(x.one.name for x in found), *(x.one.name for x in outs)]))
    after = sum(code.executed[x.loads[0]] * x.size / piece_of(x.size) for x in found)
    return Fix(
        kind="vector_access",
        title=f"records of {names} by accesses of {' and '.join(map(str, sorted({piece_of(x.size) for x in found})))} "
              "bytes",
        language="cuda",
        code="\n".join([LOAD_WHOLE, *([WHOLE_RECORD] if outs else [])]),
        edits=edits,
        conditions=[
            proved("a record's words lie side by side, and nothing between their accesses", "code", mine + stores,
                   "offsets of one base"),
            reads("records that start at no multiple of the access are moved as before", "it is asked for"),
        ],
        proof=[Proof(what="warp loads and stores", before=total(code.executed, mine + stores),
                     after=after + sum(code.executed[x.stores[0]] for x in outs), unit="inst",
                     how=f"{len(mine)} loads of words, of records then")],
        price=asked.finding.estimate,
    )  # fmt: skip


def _reads(setting: Setting, text: Text) -> Iterator[_Read]:
    """Records on lines that have one alone, whose loads are of words side by side."""
    code, kinds = setting.code, pointers(text.code)
    types = instantiated("\n".join(setting.lines(text.file)[: text.first - 1]), setting.instance)
    here = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    every = list(wholes(text.code))
    for one in every:
        number = text.first + text.code.count("\n", 0, one.span[0])
        line = text.code.split("\n")[number - text.first]
        alone = sum(text.first + text.code.count("\n", 0, x.span[0]) == number for x in every) == 1
        alone = alone and len(re.findall(rf"(?<![\w.])(?<!->){one.name}\s*\[", line)) == 1
        loads = [i for i in here if (text.file, number) in setting.sites(i)[:1]] if alone else []
        runs = side_by_side(setting.code, loads)
        sizes = {sum(code.classes[i].bytes for i in run) for run in runs}
        size = sizes.pop() if len(sizes) == 1 else 0
        if runs and size <= LARGEST and piece_of(max(1, size)) >= LEAST:
            each = max(code.classes[i].bytes for run in runs for i in run)
            if each < piece_of(size) and (width(kinds[one.name][0], types) or size) == size:
                yield _Read(one, tuple(i for run in runs for i in run), size)
