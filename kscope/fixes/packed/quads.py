"""Fragments of a product that each lane stores in pairs: four lanes exchange theirs, so that each of them stores
sixteen bytes, and all four a stretch of 64."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.semantics import LANES
from kscope.features.lanes.values import Lanes
from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import proved, shown
from kscope.fixes.given.rewrite import places
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import Loop, Text, closing, declared_at, kernel_text, loops, plain, spans_edited
from kscope.fixes.given.text import statement_end as ended
from kscope.model.contract.fixes import Condition, Fix, Proof

QUAD, PAIR, WHOLE = 4, 4, 16  # lanes, bytes that each stores, bytes that it may store at once
SEEDS = (1, 2, 3)
LONGEST = 200  # characters of an index, with what its names stand for: more are not evaluated
OF, N, ONE = "pairs_of", "quad_n", "pair_of"
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
_PAIRS = r"unsigned(?:\s+int)?|uint32_t|int|half2|__half2|__nv_bfloat162|nv_bfloat162|bf162"
_HALVES = r"__half|half|__nv_bfloat16|nv_bfloat16|bf16|short|unsigned short|uint16_t"
_STORE = re.compile(
    rf"\*\s*(?:\(\s*(?P<kind>{_PAIRS})\s*\*\s*\)\s*|reinterpret_cast\s*<\s*(?P<kind2>{_PAIRS})\s*\*\s*>\s*(?=\())(?=[(&])"
)
_PLACE = re.compile(rf"^(?:\(\s*(?:\(\s*(?:{_HALVES})\s*\*\s*\)\s*)?(?P<array>\w+)\s*\+(?P<at>.*)\)|"
                    r"\(?\s*&\s*(?P<array2>\w+)\s*\[(?P<at2>.*)\]\s*\)?)$", re.S)  # fmt: skip
_NAME = r"(?<![\w.])(?<!->)[A-Za-z_]\w*"


class Stored(Struct, frozen=True):
    """`*(kind*)place = value;` in rounds of `loop`, whose counter moves the place by eight elements."""

    span: tuple[int, int]
    kind: str
    place: str
    value: str
    loop: Loop


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


def stored(code: str) -> list[Stored]:
    """Stores of pairs whose values and places a counting loop moves, by eight elements of two bytes a round."""
    out: list[Stored] = []
    if {OF, N, ONE} & set(re.findall(_NAME, code)):
        return out
    for match in _STORE.finditer(code):
        equals = _assigned(code, match.end())
        end = code.find(";", match.end())
        around = [x for x in loops(code) if x.body[0] <= match.start() < x.body[1]]
        if equals is None or end < 0 or re.search(r"[;{}]|\)|else$", code[: match.start()].rstrip()[-4:]) is None:
            continue
        place, value = code[match.end() : equals].strip(), code[equals + 1 : end].strip()
        for loop in around:
            one = Stored((match.start(), end + 1), match["kind"] or match["kind2"], place, value, loop)
            if _moves(code, one):
                out.append(one)
    return out


def _assigned(code: str, at: int) -> int | None:
    """Where the sign of an assignment stands behind a place."""
    n = at
    while n < len(code) and code[n] not in ";{}":
        if code[n] in "([":
            close = closing(code, n + 1)
            if close is None:
                return None
            n = close
        elif code[n] == "=":
            return n if code[n + 1 : n + 2] != "=" and code[n - 1] not in "+-*/|&^<>!" else None
        n += 1
    return None


def _moves(code: str, one: Stored) -> bool:
    """Whether the counter moves the place by eight elements, and the value by nothing that was made of it before."""
    j = one.loop.name
    if not re.search(rf"(?<![\w.])(?<!->){j}\b", one.value) or one.loop.start != "0" or "++" not in one.loop.step:
        return False
    body = code[one.loop.body[0] : one.span[0]]
    made = set(re.findall(rf"\b[A-Za-z_]\w*\s+\*?\s*({_NAME})\s*(?:\[[^][]*\]\s*)*=(?!=)", body))
    made -= set(re.findall(rf"\bfor\s*\(\s*int\s+({_NAME})\s*=", body))
    if made & set(re.findall(_NAME, one.value)) or re.search(r"\+\+|--|=", one.value):
        return False
    place = _PLACE.match(one.place)
    array = (place["array"] or place["array2"]) if place is not None else ""
    index = (place["at"] or place["at2"]) if place is not None else ""
    whole = re.search(rf"\(\s*(?:{_HALVES})\s*\*\s*\)\s*{array}\b", one.place) if array else None
    typed = re.search(rf"\b(?:{_HALVES})\s*\*\s*(?:__restrict__\s+)?{array}\b", code) if array else None
    return bool((whole or typed) and _step(code, index, j) == QUAD * PAIR // 2)


def _step(code: str, index: str, j: str) -> int | None:
    """Elements that an index moves by in a round; None where that is not the same for all values of the other names."""
    text, made = plain(index), _made_of(code, j)
    for _ in range(len(made)):
        for name, value in made.items():
            text = re.sub(rf"(?<![\w.])(?<!->){name}\b", f"({plain(value)})", text)
        if len(text) > LONGEST:
            return None
    text = re.sub(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])\b", r"\1_\2", text)
    names = sorted(set(re.findall(_NAME, text)) - {j})
    found = set()
    for times in (1, 2, 5):
        known = {name: (7 * n + 3) * times for n, name in enumerate(names)}
        ends = [evaluated(f"({text})", {**known, j: round_}) for round_ in (1, 2, 4)]
        if ends[0] is None or ends[1] is None or ends[2] is None or ends[2] - ends[1] != 2 * (ends[1] - ends[0]):
            return None
        found.add(ends[1] - ends[0])
    return found.pop() if len(found) == 1 else None


def _made_of(code: str, j: str) -> dict[str, str]:
    """Names that are set once, of a counter or of others that are made of it, with what they are."""
    found: dict[str, str] = {}
    set_ = re.findall(rf"({_NAME})\s*=(?!=)\s*([^;,]*)[;,]", code)
    for _ in range(3):
        for name, value in set_:
            once = len([n for n, _ in set_ if n == name]) == 1
            again = re.search(rf"(?<![\w.])(?<!->){name}\s*(?:[-+*/]=|\+\+)", code)
            if name != j and once and not again and {j, *found} & set(re.findall(_NAME, value)):
                found[name] = value
    return found


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
    return {*named, *constants(lines), *(n for part in inside for n in re.findall(rf"({_NAME})\s*=", part))}


def together(code: str, at: int, fixed: set[str]) -> bool:
    """Whether all threads come to a place, or none: what is tested around it, and where some may leave before it, is
    known to the compiler, as are the rounds of loops around it."""
    around = [x for x in loops(code) if x.body[0] <= at < x.body[1]]
    counters = {x.name for x in around}
    if any(not set(re.findall(_NAME, f"{x.start} {x.end} {x.step}")) <= fixed | counters for x in around):
        return False
    for test in re.finditer(r"\bif\s*(?:constexpr\s*)?\(", code):
        close = closing(code, test.end())
        end = _branches(code, close + 1) if close is not None else None
        if close is None or end is None:
            return False
        leaves = test.start() < at and re.search(r"\b(?:return|exit)\b", code[close:end])
        if (test.start() < at < end or leaves) and not set(re.findall(_NAME, code[test.end() : close])) <= fixed:
            return False
    rest = code[:at]
    return not re.search(r"\b(?:while|switch|goto|continue|break)\b|\?[^:]*\breturn\b", rest)


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
