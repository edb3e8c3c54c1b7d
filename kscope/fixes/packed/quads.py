"""Fragments of a product that each lane stores in pairs: four lanes exchange theirs, so that each of them stores
sixteen bytes, and all four a stretch of 64."""

from __future__ import annotations

import re

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.features.sass.slices import pointer
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants
from kscope.fixes.given.text import Text, closing, declared_at, kernel_text, loops, spans_edited
from kscope.fixes.given.text import statement_end as ended
from kscope.fixes.packed.stored import NAME, OF, ONE, PAIR, QUAD, WHOLE, N, Stored, stored
from kscope.model.contract.fixes import Condition, Fix, Proof

SEEDS = (1, 2, 3)
FUNCTION = """__device__ __forceinline__ void quad_turned(unsigned (&of)[4]) {  // lane q of four: what they have at q
  for (int n = 0; n < 4; n += 2) {
    unsigned other = __shfl_xor_sync(~0u, threadIdx.x & 1 ? of[n] : of[n + 1], 1);
    if (threadIdx.x & 1) of[n] = other; else of[n + 1] = other;
  }
  for (int n = 0; n < 2; n++) {
    unsigned other = __shfl_xor_sync(~0u, threadIdx.x & 2 ? of[n] : of[n + 2], 2);
    if (threadIdx.x & 2) of[n] = other; else of[n + 2] = other;
  }
}"""


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    if text is None or setting.launch is None or setting.block[0] % LANES:
        return []
    known = fixed(setting, text)
    at = {x.pc for x in asked.finding.locations}
    for one in stored(text.code):
        mine = _machine(setting, text, one)
        if not any(code[i].pc in at for i in mine) or not together(text.code, one.span[0], known):
            continue
        if _read_elsewhere(setting, text, one, mine):
            continue
        ran, turned = _together(setting, mine), exchanged()
        edits = spans_edited(setting, text, [(*one.span, written(one))]) if ran and turned else []
        before = total(code.executed, mine)
        if edits:
            return [
                Fix(
                    kind="register",
                    title="four lanes exchange their pairs, and each stores sixteen bytes",
                    language="cuda",
                    code=FUNCTION,
                    edits=edits,
                    parameters={"bytes": WHOLE},
                    conditions=[
                        proved("four lanes store side by side, and the next round's sixteen bytes follow", "lanes", ran,
                               "addresses of all lanes in every store; rounds come out in fours"),
                        shown(turned > 0, "each lane gets what the four have at its place", "values", turned,
                              "the exchange was run for all lanes"),
                        proved("all lanes come to the exchange", "code", mine, "every warp of the launch ran all of "
                               "these stores, none is predicated, and the text tests nothing but constants before"),
                        Condition(holds="rows start at multiples of sixteen bytes", state="check",
                                  why="row lengths that are multiples of 8 elements, in an array as cudaMalloc has it"),
                    ],
                    proof=[
                        Proof(what="sectors that warps write in part", before=before * LANES / QUAD, after=0.0,
                              unit="sectors", how=f"{len(mine)} stores: 16 bytes a row; 64 at once then"),
                        Proof(what="warp stores", before=before, after=before / QUAD, unit="inst",
                              how="four exchanges between lanes for four of them"),
                    ],
                    price=asked.finding.estimate,
                )
            ]  # fmt: skip
    return []


def written(one: Stored) -> str:
    """The store as it will be: in every fourth round, of that and the three that follow."""
    j = one.loop.name
    value = re.sub(rf"(?<![\w.])(?<!->){j}\b", f"({j} + {N})", one.value)
    return (
        f"if ({j} % {QUAD} == 0) {{\n"
        f"          static_assert(({one.loop.end}) % {QUAD} == 0, \"four rounds at a time\");\n"
        f"          unsigned {OF}[{QUAD}];\n"
        f"          #pragma unroll\n"
        f"          for (int {N} = 0; {N} < {QUAD}; {N}++) {{ {one.kind} {ONE} = {value}; "
        f"{OF}[{N}] = *reinterpret_cast<const unsigned*>(&{ONE}); }}\n"
        f"          quad_turned({OF});\n"
        f"          *reinterpret_cast<uint4*>(reinterpret_cast<char*>({_pointer(one)}) + threadIdx.x % {QUAD} * "
        f"{WHOLE - PAIR}) = make_uint4({', '.join(f'{OF}[{n}]' for n in range(QUAD))});\n"
        f"        }}"
    )


def _pointer(one: Stored) -> str:
    bare = one.place.startswith("(") and closing(one.place, 1) == len(one.place) - 1
    return one.place[1:-1].strip() if bare else one.place


def fixed(setting: Setting, text: Text) -> set[str]:
    """Names of numbers that the compiler knows: of the template and of the file."""
    lines = setting.lines(text.file)
    above = "\n".join(lines[declared_at(lines, text.first) - 1 : text.first])
    template = re.search(r"\btemplate\s*<([^<>]*)>", above)
    named = re.findall(r"\b(?:int|unsigned|bool|size_t)\s+(\w+)", template[1]) if template is not None else []
    inside = re.findall(r"\bconstexpr\s+\w+\s+([^;]*);", text.code)
    return {*named, *constants(lines), *(n for part in inside for n in re.findall(rf"({NAME})\s*=", part))}


def together(code: str, at: int, fixed: set[str]) -> bool:
    """Whether all threads come to a place, or none: what is tested around it, and where some may leave before it, is
    known to the compiler, as are the rounds of loops around it."""
    around = [x for x in loops(code) if x.body[0] <= at < x.body[1]]
    counters = {x.name for x in around}
    if any(not set(re.findall(NAME, f"{x.start} {x.end} {x.step}")) <= fixed | counters for x in around):
        return False
    for test in re.finditer(r"\bif\s*(?:constexpr\s*)?\(", code):
        close = closing(code, test.end())
        end = _branches(code, close + 1) if close is not None else None
        if close is None or end is None:
            return False
        leaves = test.start() < at and re.search(r"\b(?:return|exit)\b", code[close:end])
        if (test.start() < at < end or leaves) and not set(re.findall(NAME, code[test.end() : close])) <= fixed:
            return False
    rest = code[:at]
    return not re.search(r"\b(?:do|while|switch|goto|continue|break)\b|\?[^:]*\breturn\b", rest)


def _branches(code: str, at: int) -> int | None:
    """Where a test's statement ends, or what stands behind its `else`."""
    end = ended(code, at + len(code[at:]) - len(code[at:].lstrip()))
    other = re.match(r"\s*else\b\s*", code[end:]) if end is not None else None
    if end is None or other is None:
        return end
    start = end + other.end()
    test = re.match(r"if\s*(?:constexpr\s*)?\(", code[start:])
    close = closing(code, start + test.end()) if test is not None else None
    return _branches(code, close + 1) if close is not None else ended(code, start)


def _machine(setting: Setting, text: Text, one: Stored) -> list[int]:
    """The store's instructions, where all that run are such: of four bytes, for all lanes."""
    code = setting.code
    row = text.first + text.code.count("\n", 0, one.span[0])
    found = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "store"))
    mine = [i for i in found if row in {p.number for p in places(setting, [i])}]
    warps = setting.launch.blocks * -(-setting.launch.threads // LANES) if setting.launch is not None else 0
    every = all(code.classes[i].bytes == PAIR and code[i].guard is None and code.executed[i] == warps for i in mine)
    lanes = getattr(code, "threads", ())
    return mine if every and lanes and all(lanes[i] == LANES * warps for i in mine) else []


def _read_elsewhere(setting: Setting, text: Text, one: Stored, mine: list[int]) -> bool:
    """Whether anything but the value that is stored is loaded from where it goes: it may be stored earlier then."""
    code = setting.code
    to = {pointer(code, i) for i in mine} - {None}
    lines = {text.first + text.code.count("\n", 0, at) for at in one.span}
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    return any(pointer(code, i) in to and not {p.number for p in places(setting, [i])} <= lines for i in loads)


def _together(setting: Setting, mine: list[int]) -> int:
    """How many addresses were run, if quads store side by side, and each four rounds sixteen bytes after one another; 0
    otherwise."""
    code, ran = setting.code, 0
    for seed in SEEDS:
        lanes = Lanes(code, Assumption(seed, setting.block, even=True))
        found = [lanes.address(i) for i in mine]
        first = sorted(a[0] for a in found if isinstance(a, tuple))
        if len(first) != len(mine) or len(first) % QUAD:
            return 0
        runs = [first[n : n + QUAD] for n in range(0, len(first), QUAD)]
        if any(run[0] % WHOLE or run != list(range(run[0], run[0] + QUAD * WHOLE, WHOLE)) for run in runs):
            return 0
        for address in found:
            assert isinstance(address, tuple)
            if any(a != address[n - n % QUAD] + n % QUAD * PAIR for n, a in enumerate(address)):
                return 0
            if any(a % WHOLE for a in address[::QUAD]):
                return 0
            ran += len(address)
    return ran


def pairs_stored(setting: Setting) -> float:
    code = setting.code
    return float(len(code.where(lambda ins, op: op.space == "global" and op.access == "store" and op.bytes == PAIR)))


def exchanged() -> int:
    """How many words were exchanged, if lane q of each four has what they have at q afterwards; 0 otherwise."""
    of = [[(lane, n) for n in range(QUAD)] for lane in range(LANES)]
    for bit, pairs in ((1, ((0, 1), (2, 3))), (2, ((0, 2), (1, 3)))):
        for low, high in pairs:
            given = [of[lane][low] if lane & bit else of[lane][high] for lane in range(LANES)]
            for lane in range(LANES):
                of[lane][low if lane & bit else high] = given[lane ^ bit]
    right = all(of[lane][n] == (lane - lane % QUAD + n, lane % QUAD) for lane in range(LANES) for n in range(QUAD))
    return LANES * QUAD if right else 0
