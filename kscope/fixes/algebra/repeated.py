"""Products that each round of a loop makes anew of the same numbers and adds up: made once, times the rounds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.fixes.algebra.summed_alike import Added, Names, statement
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import (
    HEAD,
    Loop,
    Span,
    by_line,
    closing,
    kernel_text,
    loops,
    spans_edited,
    statement_end,
    written,
)
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

MATRICES = ("HMMA", "IMMA", "DMMA", "BMMA")
COPIES = ("MOV", "UMOV", "IMAD", "FADD", "FMUL", "HFMA2", "HADD2", "IADD3", "LOP3")
"""By which compilers put the same into a register again (seen in nvcc's code: a constant by whichever pipe idles)."""
ALIKE = "products of matrices in loops that change neither of the two"
MOST = 4096  # rounds that are played
TYPES = {"float": ("float32", "float64"), "double": ("float64", "longdouble")}
"""Of a sum, and what holds such a sum before it is rounded."""
_PRAGMA = re.compile(r"\s*#\s*pragma\s+unroll[^\n]*\n")
_SIGNED, _UNSIGNED = ("int", "long", "int32_t", "int64_t"), ("unsigned", "size_t", "uint32_t", "uint64_t")
_LOOPS = re.compile(r"\b(?:for|while)\s*\(|\bdo\b")
_DIMENSIONS = {"threadIdx", "blockIdx", "blockDim", "gridDim", "x", "y", "z"}
_INNER = re.compile(r"for\s*\(\s*(?:int|unsigned|size_t|unsigned\s+int)\s+(?P<name>\w+)\s*=")


Place = tuple[tuple[int, int], dict[str, int]]
"""A statement's span, and the loops of known length around it within the other: rounds by their variables."""
Part = tuple[tuple[int, int], dict[str, int], Added]


class Repeated(Struct, frozen=True):
    """A loop whose rounds are all the same: the spans of the new text, products of tensor cores a round, what
    is added up, of what types, how many rounds there are."""

    spans: tuple[Span, ...]
    products: int
    sums: tuple[str, ...]
    kinds: frozenset[str]
    rounds: str


def fixes(asked: Asked) -> list[Fix]:
    setting, code, text = asked.setting, asked.setting.code, kernel_text(asked.setting)
    same = code.ran(alike(setting))
    if text is None or not same or setting.launch is None:
        return []
    found = [f for f in repeated(text.code, setting.lines(text.file)) if f.products]
    if len(found) != 1:
        return []
    (one,) = found
    rows = {text.first + text.code.count("\n", 0, at) for start, end, _ in one.spans for at in (start, end)}
    same = [i for i in same if any(min(rows) <= n <= max(rows) for f, n in setting.sites(i) if f == text.file)]
    edits = spans_edited(setting, text, [x for s in one.spans for x in by_line(text.code, s)])
    before, warps = total(code.executed, same), setting.launch.warps * setting.launch.blocks
    after = float(one.products * warps)
    if not edits or before < 2 * after:
        return []
    sums = ", ".join(one.sums)
    return [
        Fix(
            kind="hoist",
            title=f"the loop adds the same product to {sums} in each round: made once, times {one.rounds}",
            language="cuda",
            edits=edits,
            parameters={"rounds": one.rounds},
            conditions=[
                proved("neither matrix changes in the loop", "code", same,
                       "their registers are set in front of it, or to the same again (def-use of products' operands)"),
                reads("each round does the same", "the loop adds products to local sums and does nothing else"),
                *(_rounding(int(before / after), k) for k in sorted(one.kinds & set(TYPES))),
                Condition(holds="the loop is there for what it computes", state="check",
                          why="who measures how fast products are made wants each of them"),
            ],
            proof=[
                Proof(what="products of matrices that warps make", before=before, after=after, unit="inst",
                      how=f"executions counted; {one.products} a warp, as many as one round makes")
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def alike(setting: Setting) -> list[int]:
    """Products of matrices in loops that set none of their registers anew but the sums."""
    code, out = setting.code, []
    for i in code.where(lambda ins, op: ins.opcode in MATRICES):
        loop = code.cfg.loop_of[i]
        inside = set(code.cfg.loop_body(loop)) if loop is not None else set()
        if loop is not None and all(
            code[p].opcode in MATRICES or _again(code, p, inside) for p in _made_in(code, i, inside)
        ):  # fmt: skip
            out.append(i)
    return out


def _again(code: Listing, index: int, inside: set[int], behind: frozenset[int] = frozenset()) -> bool:
    """Whether an instruction of a loop puts the same into its register in each round."""
    if code[index].opcode not in COPIES or index in behind:
        return False
    return all(_again(code, p, inside, behind | {index}) for p in _made_in(code, index, inside))


def _made_in(code: Listing, index: int, inside: set[int]) -> set[int]:
    return {p for found in code.defuse.sources(index).values() for p in found if p in inside}


def _rounding(rounds: int, kind: str) -> Condition:
    played, bits = min(rounds, MOST), np.finfo(TYPES[kind][0]).nmant
    apart, ran = deviation(played, kind)
    why = (
        f"the loop rounds in each round, a product times their number once: sums of {played} rounds, truncated or "
        f"rounded to the nearest, were {apart:.1g} of the largest apart at most in {ran} cases"
    )
    holds = f"sums may differ by rounding, by about rounds / 2^{bits} of the largest"
    return Condition(holds=holds, state="check", why=why)


def deviation(rounds: int, kind: str) -> tuple[float, int]:
    """How far apart sums of that many equal products come out, as a part of the largest sum, and in how many cases."""
    narrow, wide = (np.dtype(x).type for x in TYPES[kind])
    draw = np.random.default_rng(1)
    product = draw.standard_normal(64).astype(narrow)
    start = (draw.standard_normal(64) * 4.0 ** draw.integers(-4, 5, 64)).astype(narrow)
    once = (start.astype(wide) + rounds * product.astype(wide)).astype(narrow)
    worst = 0.0
    for cut in (False, True):
        one, largest = start.copy(), np.abs(start)
        for _ in range(rounds):
            exact = one.astype(wide) + product
            near = exact.astype(narrow)
            over = np.abs(near) > np.abs(exact)
            one = np.where(over & cut, np.nextafter(near, narrow(0)), near)
            largest = np.maximum(largest, np.abs(one))
        worst = max(worst, float(np.max(np.abs(one.astype(wide) - once) / largest)))
    return worst, 2 * len(product)


def repeated(code: str, lines: Sequence[str] = ()) -> list[Repeated]:
    """Loops of a text that add the same in each round, and nothing else."""
    names, known = Names(code), constants(lines)
    out = [_of(code, loop, names, known) for loop in loops(code) if not _within(code, loop)]
    return [one for one in out if one is not None]


def _within(code: str, loop: Loop) -> bool:
    """Whether a loop stands in another, whose rounds nobody counted."""
    around = (statement_end(code, m.start()) for m in _LOOPS.finditer(code[: loop.span[0]]))
    return any(end is not None and end > loop.span[0] for end in around)


def _of(code: str, loop: Loop, names: Names, known: dict[str, int]) -> Repeated | None:
    start = evaluated(loop.start, known)
    asks = set(re.findall(r"[A-Za-z_]\w*", loop.end)) - _DIMENSIONS - set(known)
    if start is None or start < 0 or loop.name in asks or not _counted(code, loop):
        return None
    added = list[Part]()
    for span, by in _statements(code, loop.body, known, {}):
        one = statement(code[slice(*span)], names)
        if one is None:
            return None
        added.append((span, by, one))
    return _made(code, loop, start, added) if added and _alone(code, loop, added, asks, names) else None


def _alone(code: str, loop: Loop, added: Sequence[Part], asks: set[str], names: Names) -> bool:
    """Whether neither what is added nor how often changes in the loop."""
    inner = {n for _, by, _ in added for n in by}
    sums, used = {n for *_, a in added for n in a.bases}, {n for *_, a in added for n in a.uses}
    if loop.name in used | inner or sums & (used | asks | inner):
        return False
    steady = all(names.steady(n) for n in used - inner) and all(map(names.plain, asks))
    return steady and not any(written(n, code[slice(*loop.body)]) for n in (used | asks) - inner)


def _counted(code: str, loop: Loop) -> bool:
    """Whether a loop takes one after the other, up to a number that its head says."""
    one = rf"{loop.name}\s*\+\+|\+\+\s*{loop.name}|{loop.name}\s*\+=\s*1"
    own = loop.kind in _SIGNED + _UNSIGNED and HEAD.search(code[: loop.span[0]]) is not None
    plain = own and re.search(r"[(\[,?&|<>=]|->", loop.end) is None and code[slice(*loop.span)].count(";") == 2
    return plain and re.fullmatch(one, loop.step) is not None


def _made(code: str, loop: Loop, start: int, added: Sequence[Part]) -> Repeated:
    as_is = "" if loop.kind in _SIGNED else f"({loop.kind})"
    count = f"({loop.end} - {start})" if start else f"({loop.end})" if re.search(r"\W", loop.end) else loop.end
    begin = loop.span[0]
    pragma = re.search(r"#\s*pragma\s+(?:no)?unroll[^\n]*\n[ \t]*$", code[:begin])
    spans: list[Span] = [(*loop.span, f"if ({as_is}{start} < {loop.end})")]
    if pragma is not None:
        line = pragma.start() + len(pragma[0].split("\n")[0])
        spans.insert(0, (pragma.start(), line, ""))
    count = f"{as_is}{count}"
    spans += [(*span, one.times(count)) for span, _, one in added]
    products = sum(int(np.prod([a.instructions, *by.values()])) for _, by, a in added)
    kinds = frozenset(a.kind for _, _, a in added)
    sums = tuple(dict.fromkeys(n for _, _, a in added for n in a.bases))
    return Repeated(tuple(spans), products, sums, kinds, count)


def _statements(code: str, span: tuple[int, int], known: dict[str, int], by: dict[str, int]) -> list[Place]:
    """The statements of a loop's body, those of loops of known length and of blocks taken out; none where there is
    anything else."""
    at, end = span
    out: list[Place] = []
    while at < end:
        pragma = _PRAGMA.match(code, at)
        at = pragma.end() if pragma is not None else at
        at += len(code[at:end]) - len(code[at:end].lstrip())
        if at >= end:
            break
        stop = statement_end(code, at)
        if stop is None or stop > end:
            return []
        inner = _INNER.match(code, at)
        if code[at] == "{":
            more = _statements(code, (at + 1, stop - 1), known, by)
        elif inner is not None:
            one = next((x for x in loops(code) if x.span[0] == at), None)
            rounds = _length(one, known) if one is not None else None
            close = closing(code, code.find("(", at) + 1)
            if one is None or rounds is None or close is None or written(one.name, code[slice(*one.body)]):
                return []
            more = _statements(code, one.body, known, {**by, one.name: rounds})
        else:
            more = [((at, stop), by)]
        if not more:
            return []
        out += more
        at = stop
    return out


def _length(loop: Loop, known: dict[str, int]) -> int | None:
    first, last = evaluated(loop.start, known), evaluated(loop.end, known)
    step = re.fullmatch(rf"{loop.name}\s*(?:\+\+|\+=\s*(\d+))|\+\+\s*{loop.name}", loop.step)
    if first is None or last is None or step is None:
        return None
    by = int(step[1] or 1)
    return max(0, -(-(last - first) // by)) if by else None
