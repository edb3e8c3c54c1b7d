"""Words side by side that a thread reads one by one: by loads of 8 or 16 bytes where they start at a multiple of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from kscope.features.lanes.strides import lane_stride
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED, changed
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.rewrite import PURE
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES, split_declarators
from kscope.fixes.given.text import Span, Text, by_lines, closing, kernel_text, spans_edited, statement_end
from kscope.fixes.memory.lane_mapping import HALVED
from kscope.fixes.strided.helpers import PIECES, renamed
from kscope.fixes.strided.records import LONGEST, split
from kscope.fixes.strided.worth import held_up
from kscope.fixes.thread.element_types import instantiated, width
from kscope.fixes.thread.side_by_side import pointers
from kscope.model.contract.fixes import Edit, Fix, Proof

LEAST = 8  # bytes from which an access takes several words
WORDS_OF = renamed(f"""{PIECES}
template <int N, class T> __device__ __forceinline__ WordsOf<T, N> words_of(const T* from) {{
  constexpr int SIZE = N * sizeof(T), BYTES = piece_of(SIZE);
  using Piece = typename PieceOf<BYTES>::type;
  WordsOf<T, N> out;
  if (__is_trivially_copyable(T) && reinterpret_cast<unsigned long long>(from) % BYTES == 0) {{
    Piece pieces[SIZE / BYTES];
    #pragma unroll
    for (int p = 0; p < SIZE / BYTES; p++) pieces[p] = reinterpret_cast<const Piece*>(from)[p];
    memcpy(&out, pieces, SIZE);
  }} else {{
    #pragma unroll
    for (int n = 0; n < N; n++) out.at[n] = from[n];
  }}
  return out;
}}""", "Read")
_STRANGE = re.compile(
    r"\b(?:return|goto|asm|break|continue|while|for|do|switch|case|default|atomic\w*|__\w*sync\w*|__threadfence\w*)\b|#"
)
_STORES = re.compile(
    rf"[\])]{MODIFIED}|(?:->|\.)\s*\w+{MODIFIED}|\*\s*[A-Za-z_]\w*\s*=(?!=)|"
    r"(?:\+\+|--)\s*[(*\w]+\s*(?:\[|->|\.)"
)
_CALLED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:<[\w\s,:]*>\s*)?\((?:[^();]|\([^()]*\))*$")
"""A call whose arguments follow: a function may take an element's place."""
_ASKED = re.compile(r"\?|&&|\|\||\b(?:if|else)\b")


class Words(Struct, frozen=True):
    """`name[at]` to `name[at + count - 1]`, all read in one piece of text from `begin` on: the spans of the uses with
    their words; `first`: the index of word 0."""

    name: str
    kind: str
    count: int
    first: str
    begin: int
    uses: tuple[tuple[int, int, int], ...]


class _Use(Struct, frozen=True):
    """`name[at + word]`, from `start` to `end`."""

    name: str
    at: str
    word: int
    index: str
    start: int
    end: int


def words(code: str) -> list[Words]:
    """All such of a kernel's text."""
    opened = code.find("{")
    if opened < 0:
        return []
    known = pointers(code)
    found = sorted(_uses(code, opened, known), key=lambda x: (x.name, x.at, x.start))
    out: list[Words] = []
    for (name, _), group in groupby(found, key=lambda x: (x.name, x.at)):
        uses = list(group)
        index = next((x.index for x in uses if not x.word), None)
        count = len({x.word for x in uses})
        if not 1 < count <= LONGEST or {x.word for x in uses} != set(range(count)) or index is None:
            continue
        spans = tuple((x.start, x.end, x.word) for x in uses)
        begin = _together(code, opened, [n for n, (_, const) in known.items() if not const], spans)
        if begin is not None and not _moves(code[begin : spans[-1][1]], f"{index} {name}"):
            out.append(Words(name, known[name][0], count, index, begin, spans))
    return out


def _uses(code: str, opened: int, known: Mapping[str, object]) -> Iterator[_Use]:
    for match in re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[").finditer(code, opened):
        close = closing(code, match.end())
        if match[1] in known and close is not None:
            index = code[match.end() : close].strip()
            yield _Use(match[1], *split(index), index, match.start(), close + 1)


def _together(
    code: str, opened: int, writable: Sequence[str], spans: Sequence[tuple[int, int, int]]
) -> int | None:  # fmt: skip
    """Where the first statement begins, if all words are read in statements that follow it in its block, none on a
    condition, and nothing is stored before the last. writable: pointers through which a function could store."""
    begin = max(code.rfind(c, 0, spans[0][0]) for c in ";{}") + 1
    begin += len(code[begin:]) - len(code[begin:].lstrip())
    piece = code[begin : spans[-1][1]]
    if begin <= opened or _STRANGE.search(piece) or _deep(piece) or re.search(r"(?:^|;)\s*[\w:]+\s*\(", piece):
        return None
    if not all(_plainly(code, start, end, writable) for start, end, _ in spans):
        return None
    head = max(code.rfind(c, 0, spans[-1][0]) for c in ";{}") + 1  # the last statement stores behind what it reads
    stores = len(_STORES.findall(code[head : spans[-1][1]]))
    several = len(list(split_declarators(code[head : spans[-1][1]]))) > 1
    if _STORES.search(code[begin:head]) or stores > 1 or (stores and several):
        return None
    given = any(re.search(rf"(?<![\w.])(?<!->){name}\b\s*(?:[^\[\s]|$)", piece) for name in writable)
    return None if given else begin


def _plainly(code: str, start: int, end: int, writable: Sequence[str]) -> bool:
    """Whether a use reads a word, whatever else its statement asks for."""
    head = max(code.rfind(c, 0, start) for c in ";{}") + 1
    stop = statement_end(code, head + len(code[head:]) - len(code[head:].lstrip()))
    written = re.match(MODIFIED, code[end:]) or re.search(r"(?:&|\+\+|--)\s*$", code[:start])
    bound = re.search(r"&\s*\w+\s*[=({]\s*$", code[:start])
    handed = _CALLED.search(code[head:start]) if code[start:].startswith(tuple(writable)) else None
    by_reference = handed is not None and handed["name"] not in PURE | SIZES.keys()
    return not (written or bound or by_reference or _ASKED.search(code[head : stop or end]))


def _deep(piece: str) -> bool:
    """Whether a piece of text leaves the block that it begins in, or goes into another."""
    depth = [0]
    for c in piece:
        depth.append(depth[-1] + (c == "(") - (c == ")"))
    return "{" in piece or "}" in piece or min(depth) < 0


def _moves(piece: str, index: str) -> bool:
    """Whether what an index is made of changes, or is made, on the way."""
    return any(changed(piece, name) or re.search(rf"\b{name}\s*=(?!=)", piece)
               for name in re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", index))  # fmt: skip


class _Read(Struct, frozen=True):
    one: Words
    loads: tuple[int, ...]
    size: int


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None or setting.launch is None or re.search(r"\bvolatile\b|\bWordsOf\b", text.code):
        return []
    types = instantiated("\n".join(setting.lines(text.file)[: text.first - 1]), setting.instance)
    found = [x for one in words(text.code) if (x := _read(setting, text, one, types)) is not None]
    mine = {code[i].pc for x in found for i in x.loads}
    named = set(asked.finding.covered) | {x.pc for x in asked.finding.locations}
    if not found or (named and named.isdisjoint(mine)):
        return []
    edits = spans_edited(setting, text, by_lines(text.code, _spans(found)))
    beside = named <= mine and all(x.size == _piece(x.size) for x in found)
    if not beside or not held_up(asked.finding, memory=False):
        return []
    fix = _fix(asked, found, edits)
    return [fix] if edits and fix.proof[0].after <= HALVED * fix.proof[0].before else []


def _fix(asked: Asked, found: Sequence[_Read], edits: list[Edit]) -> Fix:
    code, mine = asked.setting.code, sorted({i for x in found for i in x.loads})
    names = " and ".join(dict.fromkeys(x.one.name for x in found))
    sizes = " and ".join(map(str, sorted({_piece(x.size) for x in found})))
    return Fix(
        kind="vector_access",
        title=f"neighbouring words of {names} by loads of {sizes} bytes",
        language="cuda",
        code=WORDS_OF,
        edits=edits,
        conditions=[
            proved("lanes read records that follow each other, word by word", "lanes", len(mine),
                   "lanes stand as far apart as their words are long"),
            reads("where they start at no multiple of the access, words are read one by one", "it is asked for"),
            reads("nothing is stored before the last of them is read", "statements that follow each other"),
        ],
        proof=[Proof(what="warp loads", before=total(code.executed, mine),
                     after=sum(code.executed[x.loads[0]] * x.size / _piece(x.size) for x in found), unit="inst",
                     how=f"{len(mine)} loads of words, of {sizes} bytes then")],
        price=asked.finding.estimate,
    )  # fmt: skip


def _piece(size: int) -> int:
    return next(n for n in (16, 8, 4, 2, 1) if size % n == 0)


def _read(setting: Setting, text: Text, one: Words, types: Mapping[str, str]) -> _Read | None:
    """The loads of such words, where lanes stand as far apart as all of them take."""
    code = setting.code
    lines = {text.first + text.code.count("\n", 0, start) for start, _, _ in one.uses}
    here = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    loads = [i for i in here if any(f == text.file and n in lines for f, n in setting.sites(i))]
    sizes = {n: [i for i in loads if lane_stride(code, i, setting.block) == n] for n in
             {lane_stride(code, i, setting.block) for i in loads} - {None}}  # fmt: skip
    known = width(one.kind, types)
    for size, mine in sizes.items():
        each = size // one.count if size is not None else 0
        if size is None or each * one.count != size or (known or each) != each or _piece(size) < LEAST:
            continue
        if len(mine) > 1 and all(code.classes[i].bytes < _piece(size) for i in mine):
            return _Read(one, tuple(mine), size)
    return None


def _spans(found: Sequence[_Read]) -> Iterator[Span]:
    for number, x in enumerate(found, 1):
        one, own = x.one, f"{x.one.name}_words{number if number > 1 else ''}"
        yield (one.begin, one.begin, f"const auto {own} = words_of<{one.count}>(&{one.name}[{one.first}]); ")
        yield from ((start, end, f"{own}.at[{word}]") for start, end, word in one.uses)
