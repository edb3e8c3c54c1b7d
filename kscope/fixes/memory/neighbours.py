"""Narrow accesses: several neighbouring elements a thread, by one access of 16 bytes."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.lanes.strides import lane_stride
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED, one_each
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Span, index_of, kernel_text, loops, spans_edited, statement_end
from kscope.model.contract.fixes import Condition, Fix, Proof

WIDEST = 16
NARROW = 2  # bytes of an element: four registers hold sixteen bytes of them
MOST = 8  # elements of a thread: registers for more cost warps (judged)
SEVERAL = "template <class T, int N> struct alignas(sizeof(T) * N) Several { T at[N]; };"
_POINTER = re.compile(
    r"\b(?:const\s+)?(\w+(?:\s+(?:char|short|int|long))?)\s*\*\s*(?:__restrict__\s+)?(\w+)\s*(?=[,)])"
)
_INDEX = re.compile(
    r"(?P<const>\bconst\s+)?\b(?:size_t|(?:unsigned\s+)?(?:int|long(?:\s+long)?)|unsigned)\s+(?P<name>\w+)\s*=\s*"
    r"(?P<from>[^;,]*threadIdx\.x[^;,]*);"
)
_CHANGES = re.compile(rf"\]{MODIFIED}|[;{{]\s*\*+\s*\w+{MODIFIED}|\b(?:if|return|while|do|asm|printf|atomic\w*)\b")
_MORE_THAN_READ = re.compile(rf"{MODIFIED}|(?:^|[(,=?:+*/-])\s*(?:\+\+|--|&)\s*[A-Za-z_(]")


class _One(Struct, frozen=True):
    """`T i = index; if (i < bound) out[i] = ..;` and nothing else: the match of the declaration, the bound, where the
    statement stands and its text, the array it writes, all that it indexes, their types, bytes of an element."""

    index: re.Match[str]
    bound: str
    where: tuple[int, int]
    statement: str
    out: str
    used: tuple[str, ...]
    kinds: dict[str, str]
    width: int


def fixes(asked: Asked) -> list[Fix]:
    """One element a thread: several."""
    setting, code = asked.setting, asked.setting.code
    text, launch = kernel_text(setting), setting.launch
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    one = _one(text.code)
    if one is None or not one_each(setting, text, one.index["from"]):
        return []
    width, count = one.width, min(MOST, WIDEST // one.width)
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    if any(lane_stride(code, i, setting.block) != width or code.classes[i].bytes != width for i in found):
        return []
    edits = spans_edited(setting, text, _several(text.code, one, count))
    grid, once = -(-launch.grid[0] // count), _once(count)
    accesses = total(code.executed, found)
    return [
        Fix(
            kind="neighbours",
            title=f"{count} neighbours a thread, {width * count} bytes an access",
            language="cuda",
            code=f"{SEVERAL}\n// launch: {setting.name}<<<{grid}, {launch.threads}>>>(...), {count} elements a thread",
            edits=edits,
            parameters={"elements": count, "grid.x": grid},
            conditions=[
                proved("neighbouring threads work on neighbouring elements", "lanes", found,
                       f"lanes are {width} bytes apart in every access"),
                Condition(holds="pointers are multiples of 16", state="assumed", why="cudaMalloc aligns to 256 bytes"),
                shown(once > 0, "each element is done once, those behind the last group one by one", "values", once,
                      "the new indices written out for several bounds"),
                Condition(holds="what is read is not written by a neighbour", state="check", why="unless in is out"),
            ],
            proof=[
                Proof(what="warp loads and stores", before=accesses, after=accesses / count, unit="inst",
                      how=f"{len(found)} accesses of {width} bytes a lane, of {width * count}"),
            ],
            price=asked.finding.estimate,
        )
    ] if edits else []  # fmt: skip


def stores(asked: Asked) -> list[Fix]:
    """Narrow elements of one array, one a thread and without a test of the index: several, stored as one. What they are
    made of is read once where its index is the same for all of them, element by element otherwise."""
    setting, code = asked.setting, asked.setting.code
    text, launch = kernel_text(setting), setting.launch
    if text is None or launch is None or launch.block[1] * launch.block[2] > 1:
        return []
    found = _stored(text.code)
    if found is None:
        return []
    index, (start, end), out, kind = found
    if not one_each(setting, text, index["from"]):
        return []
    width = SIZES[kind]
    count = WIDEST // width
    written = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store"))
    apart = any(lane_stride(code, i, setting.block) != width or code.classes[i].bytes != width for i in written)
    if width > NARROW or not written or apart or launch.grid[0] % count:
        return []
    name, k = index["name"], _free(text.code)
    once, alike = _alike(text.code[start:end], name, count)
    inside = re.sub(rf"(?<![\w.])(?<!->){name}\b", f"({name} + {k})", alike)
    inside = re.sub(rf"^{out}\s*\[\s*\({name} \+ {k}\)\s*\]", f"{out}_v.at[{k}]", inside)
    several = f"Several<{kind}, {count}>"
    new = (
        f"{several} {out}_v;{once}\n  #pragma unroll\n  for (int {k} = 0; {k} < {count}; {k}++) {inside}"
        f"\n  *reinterpret_cast<{several}*>(&{out}[{name}]) = {out}_v;"
    )
    first: Span = (*index.span("from"), f"({index['from'].strip()}) * {count}")
    edits = spans_edited(setting, text, [first, (start, end, new)])
    every = bool(once) and "[" not in alike[alike.find("]") + 1 :]  # nothing is read element by element
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load")) if every else []
    grid, before = launch.grid[0] // count, total(code.executed, [*written, *loads])
    return [
        Fix(
            kind="neighbours",
            title=f"{count} neighbours a thread, stored as one of {WIDEST} bytes",
            language="cuda",
            code=f"{SEVERAL}\n// launch: {setting.name}<<<{grid}, {launch.threads}>>>(...), {count} elements a thread",
            edits=edits,
            parameters={"elements": count, "grid.x": grid},
            conditions=[
                proved("neighbouring threads store neighbouring elements", "lanes", written,
                       f"lanes are {width} bytes apart in every store"),
                proved("the elements come out even", "launch", launch.grid[:1],
                       f"{launch.grid[0]} blocks are a multiple of {count}"),
                Condition(holds=f"{out} starts at a multiple of {WIDEST}", state="assumed", why="as cudaMalloc has it"),
                Condition(holds="what is read is not written by a neighbour", state="check", why="unless in is out"),
                Condition(holds="every launch has a multiple of so many blocks", state="check", why="as this one has"),
                *([shown(_same_index(count) > 0, f"the {count} neighbours read one element", "values",
                         _same_index(count), "quotients of indices from multiples on, written out")] if once else []),
            ],
            proof=[Proof(what="warp loads and stores" if every else "warp stores", before=before, after=before / count,
                         unit="inst", how=f"{len(written)} stores of {width} bytes a lane, of {WIDEST}"
                         + (f"; {len(loads)} loads for {count} elements" if every else ""))],
            price=asked.finding.estimate if every else None,  # else how much of it the loads take is the compiler's
        )
    ] if edits else []  # fmt: skip


def _alike(statement: str, name: str, count: int) -> tuple[str, str]:
    """(what is read once, the statement with it): `x[i >> 5]` and `x[i / 32]` are one element for `count` neighbours
    from a multiple of `count` on, where what divides the index is a multiple of `count` too."""
    made: dict[str, str] = {}
    if re.search(r"\?|&&|\|\|", statement):
        return "", statement  # it is read for some of them alone, perhaps

    def one(match: re.Match[str]) -> str:
        by = int(match[3]) if match[2] == "/" else 1 << min(int(match[3]), 31)
        if by % count:
            return match[0]
        return made.setdefault(f"{match[1]}[{name} {match[2]} {match[3]}]", f"{match[1]}_one{len(made) or ''}")

    text = re.sub(rf"(?<![\w.])(?<!->)(\w+)\s*\[\s*{name}\s*(>>|/)\s*(\d+)\s*\](?!\s*[-+*/|&^]?=(?!=))", one, statement)
    return "".join(f"\n  const auto {new} = {read};" for read, new in made.items()), text


def _same_index(count: int) -> int:
    """How many quotients were written out, if the neighbours' are one where the divisor is a multiple of their number;
    0 otherwise."""
    played = [(first, by) for first in range(0, 8 * count, count) for by in range(count, 5 * count, count)]
    same = all(len({(first + k) // by for k in range(count)}) == 1 for first, by in played)
    return len(played) * count if same else 0


def _stored(code: str) -> tuple[re.Match[str], tuple[int, int], str, str] | None:
    """(where the index is made, where the statement stands, what it stores to, of what type) of a kernel that is
    `T i = index; out[i] = ..;` and nothing else."""
    index = _index(code)
    if index is None:
        return None
    name, rest = index["name"], code[index.end() :]
    start = index.end() + len(rest) - len(rest.lstrip())
    end = statement_end(code, start)
    stored = re.match(rf"(\w+)\s*\[\s*{name}\s*\]\s*=(?!=)", code[start:])
    if end is None or stored is None or code[end:].strip() != "}" or "{" in code[start:end]:
        return None
    out = stored[1]
    kinds = {n: k for k, n in _POINTER.findall(code[: code.find("{")])}
    again = len(re.findall(rf"\b{out}\b", code[start:end])) > 1 or re.search(r"\+\+|--", code[start:end])
    taken = re.search(rf"\b{out}_v\b", code) is not None
    return (index, (start, end), out, kinds[out]) if kinds.get(out) in SIZES and not again and not taken else None


def _index(code: str) -> re.Match[str] | None:
    """Where a kernel without loops makes the element's number, if its block's number serves for nothing else, and
    nothing is done before that counts threads."""
    index, opened = _INDEX.search(code), code.find("{")
    if index is None or index_of(index["from"], "") is None or loops(code) or code.count("threadIdx") != 1:
        return None
    before, after = code[opened : index.start()], code[index.end() :]
    counts = re.search(r"\b(?:blockIdx|gridDim)\s*\.\s*x\b", before + after) or _CHANGES.search(before)
    return index if counts is None else None


def _free(code: str) -> str:
    """A name for the number of one of several."""
    return next(n for n in ("k", "k_n", "kk_n") if not re.search(rf"\b{n}\b", code))


def _once(count: int) -> int:
    """How many bounds were written out, if the new code does each element below each of them once; 0 otherwise."""
    for bound in range(4 * count + 1):
        done: list[int] = []
        for i in range(0, 5 * count, count):
            done += range(i, i + count) if i + count <= bound else range(i, bound)
        if done != list(range(bound)):
            return 0
    return 4 * count + 1


def _one(code: str) -> _One | None:
    """One element a thread, if that is all that a kernel does."""
    index = _index(code)
    if index is None:
        return None
    name = index["name"]
    guarded = re.match(rf"\s*if\s*\(\s*{name}\s*<\s*(\w+)\s*\)\s*", code[index.end() :])
    at = index.end() + (guarded.end() if guarded is not None else 0)
    end = statement_end(code, at)
    if guarded is None or end is None or code[end:].strip() != "}":
        return None
    statement = code[at:end]
    element = rf"(?<![\w.])(?<!->)(\w+)\s*\[\s*{name}\s*\]"
    stored = re.match(rf"(\w+)\s*\[\s*{name}\s*\]\s*=(?!=)", statement)
    if stored is None or "{" in statement or re.search(rf"\b{name}\b", re.sub(element, "", statement)):
        return None
    if _MORE_THAN_READ.search(statement[stored.end() :]):
        return None
    kinds = {n: k for k, n in _POINTER.findall(code[: code.find("{")])}
    used = re.findall(element, statement)
    if any(re.search(rf"\b{array}_v\b", code) for array in used):
        return None
    widths = {SIZES.get(kinds.get(n, "")) for n in used}
    width = widths.pop() if len(widths) == 1 else None
    if width is None or width >= WIDEST // 2:
        return None
    return _One(index, guarded[1], (at, end), statement, stored[1], tuple(used), kinds, width)


def _several(code: str, one: _One, count: int) -> list[Span]:
    index, where, statement, out, used, kinds = one.index, one.where, one.statement, one.out, one.used, one.kinds
    bound, name, k = one.bound, index["name"], _free(code)
    read = [n for n in dict.fromkeys(used[1:]) if n != out]
    inside = re.sub(rf"(?<![\w.])(?<!->)(\w+)\s*\[\s*{name}\s*\]", lambda m: f"{m[1]}_v.at[{k}]", statement)
    if out in used[1:]:
        read.append(out)
    loads = "".join(
        f"\n    Several<{kinds[n]}, {count}> {n}_v = "
        f"*reinterpret_cast<const Several<{kinds[n]}, {count}>*>(&{n}[{name}]);"
        for n in read
    )
    result = "" if out in used[1:] else f"\n    Several<{kinds[out]}, {count}> {out}_v;"
    new = (
        f"{{{loads}{result}\n    #pragma unroll\n    for (int {k} = 0; {k} < {count}; {k}++) {inside}"
        f"\n    *reinterpret_cast<Several<{kinds[out]}, {count}>*>(&{out}[{name}]) = {out}_v;"
        f"\n  }} else for (; {name} < {bound}; {name}++) {statement}"
    )
    test = re.search(rf"{name}\s*<", code[index.end() : where[0]])
    guard = (index.end() + test.start(), index.end() + test.end()) if test is not None else (where[0], where[0])
    return [
        *([(*index.span("const"), "")] if index["const"] else []),
        (*index.span("from"), f"({index['from'].strip()}) * {count}"),
        (*guard, f"{name} + {count} <="),
        (*where, new),
    ]  # fmt: skip
