"""Rows that start anywhere, as those of an odd length do: elements one by one up to the first multiple of 16 bytes,
then 16 bytes an access, then one by one again. Measured: 1.16x for rows of 5,137 halves (odd.peeled)."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.strides import lane_stride
from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED, Kernel, changed, kernel_of, statements
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import SIZES
from kscope.fixes.given.text import Loop, Span, closing, loops, plain, spans_edited
from kscope.fixes.memory.neighbours import NARROW, SEVERAL, WIDEST
from kscope.fixes.thread.halves import brought, writes_elsewhere
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

KINDS = ("int", "unsigned", "unsigned int", "size_t", "long long")
LONGEST = 600  # characters of what is done to an element, which then stands there three times (judged)
_STRANGE = re.compile(
    r"\b(?:for|while|do|return|break|continue|goto|asm|switch|atomic\w*|__\w*sync\w*|__shfl\w*|volatile)\b|->|#"
    r"|[(,]\s*&\s*\w"
)
_BRANCH = re.compile(r"\?|&&|\|\|")
_BASE = re.compile(r"[\w\s+\-*/%().]*")


class Row(Struct, frozen=True):
    """`for (k = threadIdx.x; k < n; k += threads) out[base + k] = ..x[base + k]..`. `read`: arrays at that index, which
    may have `out` among them; `used`: spans of their places in the body, from the body's start on; `base`: of the row,
    "0" for nothing."""

    loop: Loop
    step: str
    out: str
    read: tuple[str, ...]
    kinds: dict[str, str]
    used: tuple[tuple[int, int, str], ...]
    base: str
    body: str

    @property
    def width(self) -> int:
        return SIZES[self.kinds[self.out]]


def fixes(asked: Asked) -> list[Fix]:
    setting, kernel, launch = asked.setting, kernel_of(asked.setting), asked.setting.launch
    if kernel is None or launch is None or max(launch.block[1:]) > 1:
        return []
    at = {x.pc for x in asked.finding.locations}
    for loop in loops(kernel.text.code):
        one = row(kernel, loop, launch.threads)
        here = _accesses(setting, kernel, loop) if one is not None else []
        nested = any(len(setting.code.cfg.loops_around(i)) > 1 for i in here)  # how long a row is no count says then
        if one is None or nested or not any(setting.code[i].pc in at for i in here):
            continue
        edits = spans_edited(setting, kernel.text, spans(kernel.text.code, one))
        count, before = WIDEST // one.width, total(setting.code.executed, here)
        rounds = before / (len(one.read) + 1) / (launch.blocks * launch.warps)
        if edits and rounds >= count and _beside(setting, here, one.width):
            return [_fix(asked, one, here, before, edits)]
    return []


def _fix(asked: Asked, one: Row, here: list[int], before: float, edits: list[Edit]) -> Fix:
    launch, count = asked.setting.launch, WIDEST // one.width
    assert launch is not None
    rows = launch.blocks * (1 if one.step != str(LANES) else launch.warps)
    kept = before / count + 2 * (len(one.read) + 1) * rows
    names = " and ".join(dict.fromkeys([*one.read, one.out]))
    return Fix(
        kind="neighbours",
        title=f"{count} neighbours of a row by one access of {WIDEST} bytes, behind its first ones",
        language="cuda",
        code=SEVERAL,
        edits=edits,
        parameters={"elements": count},
        conditions=[
            proved("neighbouring threads work on neighbouring elements", "lanes", here,
                   f"lanes are {one.width} bytes apart in every access"),
            shown(_once(count) > 0, "each element is done once, whole accesses begin at multiples of their size",
                  "values", _once(count), "the new loops written out for rows of several lengths and beginnings"),
            *([
                reads(f"where {names} lie differently, all is done one by one", "their addresses are asked for"),
                Condition(holds=f"{names} do not overlap, unless they are one array", state="check",
                          why="a thread's rounds are others"),
            ] if set(one.read) - {one.out} else []),
            reads("elements are made without one another", "what the loop writes is the element alone"),
        ],
        proof=[
            Proof(what="warp loads and stores", before=before, after=min(before, kept), unit="inst",
                  how=f"{len(one.read) + 1} accesses of {one.width} bytes an element, of {WIDEST} for {count}; two "
                      "rounds of a warp for both ends of a row")
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


def row(kernel: Kernel, loop: Loop, threads: int) -> Row | None:
    code, body = kernel.text.code, kernel.text.code[slice(*loop.body)]
    step = loop.step.partition("+=")[2].strip()
    first, by = plain(loop.start, kernel.body), plain(step, kernel.body)
    of_block = first == "threadIdx.x" and by in (str(threads), "blockDim.x")
    of_warp = first in ("threadIdx.x%32", "threadIdx.x&31") and by == step == str(LANES)
    if loop.span[0] < kernel.opening or loop.kind not in KINDS or not (of_block or of_warp):
        return None
    if len(body) > LONGEST or _STRANGE.search(body):
        return None
    if re.search(r"#[^\n]*\n\s*$", code[: loop.span[0]]) or code[: loop.span[0]].rstrip()[-1:] not in ("{", "}", ";"):
        return None  # a loop that is to be unrolled has rounds of its own on their way
    if changed(body, loop.name) or not re.fullmatch(r"[A-Za-z_]\w*", loop.end) or changed(body, loop.end):
        return None
    inside = (1, len(body) - 1) if body.startswith("{") else (0, len(body))
    parts = statements(body, *inside)
    return _read(kernel, loop, step, body, parts) if parts else None


def _read(kernel: Kernel, loop: Loop, step: str, body: str, parts: list[tuple[int, int]]) -> Row | None:
    uses = _uses(body, loop.name, parts)
    if not uses:
        return None
    kinds = {u.array: _element(kernel, u.array) for u in uses}
    outs, read = ([u.array for u in uses if u.stores is w] for w in (True, False))
    bases, widths = {u.base for u in uses}, {SIZES.get(kind, 99) for kind in kinds.values()}
    if len(outs) != 1 or len(bases) != 1 or not read or len(widths) != 1 or widths.pop() > NARROW:
        return None
    made = {n for a, b in parts for n in brought(body[a:b])}
    rest, (base,) = body, bases
    for u in reversed(uses):
        rest = f"{rest[: u.span[0]]}element_{rest[u.span[1] :]}"
    if made & set(re.findall(r"\w+", base)) or writes_elsewhere([rest], made | {"element_"}, kernel.parameters):
        return None
    used = tuple((*u.span, u.array) for u in uses)
    return Row(loop, step, outs[0], tuple(dict.fromkeys(read)), kinds, used, base, body)


class _Use(Struct, frozen=True):
    array: str
    span: tuple[int, int]
    base: str
    stores: bool


def _uses(body: str, counter: str, parts: list[tuple[int, int]]) -> list[_Use]:
    """What a body indexes by the counter; nothing where it does so in another way, or under a condition."""
    out = []
    for m in re.finditer(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\[", body):
        close = closing(body, m.end())
        index = body[m.end() : close].strip() if close is not None else counter
        if not re.search(rf"(?<![\w.]){counter}\b", index):
            continue
        base = _base(index, counter)
        start, end = next((a, b) for a, b in parts if a <= m.start() < b)
        if close is None or base is None or re.match(r"if\b", body[start:end]):
            return []
        stores = re.match(MODIFIED, body[close + 1 :]) is not None
        if stores and (m.start() != start or not re.match(r"\s*=(?!=)", body[close + 1 :])):
            return []  # what is there is asked for as well
        branch = _BRANCH.search(body[start:end])
        if not stores and branch is not None and start + branch.start() < m.start():
            return []
        out.append(_Use(m[1], (m.start(), close + 1), base, stores))
    return out


def _base(index: str, name: str) -> str | None:
    """What a counter is added to in an index, "0" for nothing; None where it is used in another way."""
    sum_ = re.fullmatch(rf"(?:(?P<a>.+?)\s*\+\s*)?{name}(?:\s*\+\s*(?P<b>.+))?", index, re.S)
    base = " + ".join(x for x in (sum_["a"], sum_["b"]) if x) if sum_ is not None else ""
    if sum_ is None or not _BASE.fullmatch(base) or re.search(rf"(?<![\w.]){name}\b", base):
        return None
    balanced = all(x is None or (x.count("(") == x.count(")") and closing(x, 0) is None) for x in sum_.groups())
    return (base or "0") if balanced else None


def _element(kernel: Kernel, name: str) -> str:
    """The type that a pointer leads to: of a parameter, or of one that the kernel declares."""
    kind = kernel.parameters.get(name, "")
    if not kind:
        made = rf"(?:^|[;{{}}])\s*(?:const\s+)?([\w:]+(?:\s+[a-z]+)?)\s*\*\s*(?:__restrict__\s+)?{name}\s*="
        found = re.findall(made, kernel.body)
        kind = f"{found[0]} *" if len(found) == 1 else ""
    words = [w for w in kind.replace("*", " * ").split() if w not in ("const", "__restrict__")]
    return " ".join(words[:-1]) if words[-1:] == ["*"] and "*" not in words[:-1] else ""


def spans(code: str, one: Row) -> list[Span]:
    """The loop as three: its lines stay for the last, what comes before is put in front of it."""
    loop, out, k, count = one.loop, one.out, one.loop.name, WIDEST // one.width
    head, whole, n, start = f"{out}_head", f"{out}_whole", loop.end, loop.start
    names = {head, whole, f"{out}_at", "group", "element", *(f"{x}_v" for x in one.kinds)}
    if names & set(re.findall(r"\w+", code)):
        return []
    here, first = f"[{one.base} + {head} + group * {count}]", f"[{one.base}]"
    body = one.body
    for a, b, name in reversed(one.used):
        body = f"{body[:a]}{name}_v.at[element]{body[b:]}"
    each = " ".join(body.split())
    named = re.search(rf"(?<![\w.]){k}\b", body) is not None
    inner = f"{{ const {loop.kind} {k} = {head} + group * {count} + element; {each} }}" if named else each
    others = [x for x in one.read if x != out]
    alike = " && ".join(f"reinterpret_cast<size_t>(&{x}{first}) % {WIDEST} == {out}_at" for x in others)
    begins = f"({WIDEST} - {out}_at) % {WIDEST} / {one.width}"
    several = f"Several<{{}}, {count}>"
    asked = f" = *reinterpret_cast<{several.format(one.kinds[out])}*>(&{out}{here})" if out in one.read else ""
    lines = [
        f"const size_t {out}_at = reinterpret_cast<size_t>(&{out}{first}) % {WIDEST};",
        f"{loop.kind} {head} = {f'{alike} ? {begins} : {n}' if others else begins};",
        f"if ({head} > {n}) {head} = {n};",
        f"const {loop.kind} {whole} = ({n} - {head}) / {count};",
        f"for ({loop.kind} {k} = {start}; {k} < {head}; {k} += {one.step}) {' '.join(one.body.split())}",
        f"for ({loop.kind} group = {start}; group < {whole}; group += {one.step}) {{",
        *(f"  const {several.format(one.kinds[x])} {x}_v = *reinterpret_cast<const {several.format(one.kinds[x])}*>"
          f"(&{x}{here});" for x in others),
        f"  {several.format(one.kinds[out])} {out}_v{asked};",
        f"#pragma unroll\n    for (int element = 0; element < {count}; element++) {inner}",
        f"  *reinterpret_cast<{several.format(one.kinds[out])}*>(&{out}{here}) = {out}_v;",
        "}",
    ]  # fmt: skip
    text = "".join(f"{'' if line.startswith('#') or not m else '  '}{line}\n" for m, line in enumerate(lines))
    at = code.index(start, loop.span[0] + code[slice(*loop.span)].index("="))
    return [(loop.span[0], loop.span[0], text + "  "), (at, at, f"{head} + {whole} * {count} + ")]


def _accesses(setting: Setting, kernel: Kernel, loop: Loop) -> list[int]:
    """Global loads and stores of the loop's lines, and of its own rounds."""
    code, text = setting.code, kernel.text
    first, last = (text.first + text.code[:at].count("\n") for at in (loop.span[0], loop.body[1]))
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store")))
    inside = [i for i in found if code.cfg.loop_of[i] is not None]
    return [i for i in inside if any(p.file == text.file and first <= p.number <= last for p in places(setting, [i]))]


def _beside(setting: Setting, here: list[int], width: int) -> bool:
    code = setting.code
    return all(lane_stride(code, i, setting.block) == width and code.classes[i].bytes == width for i in here)


def _once(count: int) -> int:
    """How many rows were written out, if each element of each is done once and whole accesses begin at multiples of
    their size; 0 otherwise."""
    rows = [(n, off) for n in range(4 * count + 1) for off in range(count)]
    for n, off in rows:
        head = min((count - off) % count, n)
        whole = (n - head) // count
        groups = [range(head + g * count, head + (g + 1) * count) for g in range(whole)]
        done = [*range(head), *(k for g in groups for k in g), *range(head + whole * count, n)]
        if done != list(range(n)) or any((off + g.start) % count for g in groups):
            return 0
    return len(rows)
