"""What a block does instead of one thread's walk along sums: each thread adds up a stretch, lanes and warps scan the
sums of the stretches, and the first place that passes is found by all. With fewer meetings where a play shows that
nobody misses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import LETTERS
from kscope.fixes.given.text import Span
from kscope.fixes.recurrence.linear import parsed
from kscope.fixes.rows.function import Function

WARP = 32
VECTOR = {"float": "float", "int": "int", "unsigned": "uint"}
_SUMS = re.compile(
    r"(?P<loop>for\s*\([^()]*\)\s*(?P<sum>\w+)\s*\+=\s*__shfl_(?:xor|down)_sync\s*\([^;()]*\)\s*;)\s*"
    r"(?P<store>if\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*(?P<array>\w+)\s*\[[^][]*\]\s*=\s*(?P=sum)\s*;)\s*$"
)
SYNC = r"__syncthreads\s*\(\s*\)\s*;"


class Walk(Struct, frozen=True):
    """`for (; place < many; place++) { sum += value; if (sum test goal) break; }`. `before`, `behind`: what the thread
    does besides. `span`: of all that it does alone, with its test; `since`: where the barrier in front of it begins."""

    fn: Function
    thread: str
    place: str
    many: int
    sum: str
    kind: str
    value: str
    test: str
    before: str
    behind: str
    span: tuple[int, int]
    since: int
    row: tuple[str, int, int] = ("", 0, 0)
    """The shared array whose elements are added as they are, how many it has, and where its type is declared."""


class Form(Struct, frozen=True):
    """early: whether lanes scan before the barrier in front of the walk. told: whether all threads take the place from
    where it is found, instead of what the first one says. free: whether the next barrier is left out."""

    early: bool = False
    told: bool = False
    free: bool = False
    summed: bool = False

    @property
    def meetings(self) -> int:
        """Barriers more than before."""
        return 2 - self.early - self.told - self.free


FORMS = (
    Form(True, True, True, True), Form(True, True, True), Form(True, True, summed=True), Form(True, True),
    Form(True, summed=True), Form(True), Form(told=True, free=True), Form(told=True), Form(),
)  # fmt: skip


def scanned(found: Walk, block: int, form: Form) -> list[Span] | None:
    """None where a text has no such form."""
    t, kind, place = found.thread, found.kind, found.place
    each, warps = -(-found.many // block), block // WARP
    own, aligned = _taken(found, each, block)
    if form.early and _declared(found.before) & set(re.findall(r"[A-Za-z_]\w*", found.value)) - {found.place}:
        return None
    read = _read(found, free=form.free) if form.told else []
    summed = _summed(found, warps) if form.summed else ("sums_n", [])
    if read is None or summed is None:
        return None
    sums, gone = summed
    scan = [
        f"  {kind} own_n[{each}], upto_n = 0;",
        *own,
        "  #pragma unroll",
        f"  for (int far_n = 1; far_n < {WARP}; far_n *= 2) {{ "
        f"const {kind} left_n = __shfl_up_sync(~0u, upto_n, far_n); if ({t} % {WARP} >= far_n) upto_n += left_n; }}",
        f"  if ({t} % {WARP} == {WARP - 1}) {sums}[{t} / {WARP}] = upto_n;",
        f"  if ({t} == 0) found_n = {found.many};",
        f"  const {kind} lower_n = __shfl_up_sync(~0u, upto_n, 1);",
        "  __syncthreads();",
    ]
    before = [f"  {found.before.strip()}"] if found.before.strip() else []
    own_sums = "" if form.summed else f"__shared__ __align__(16) {kind} sums_n[{warps}]; "
    shared = f"  {own_sums}__shared__ int found_n;"
    then = f"  if ({t} == 0) {{ {place} = found_n; {found.behind.strip()} }}"
    lines = [
        "\n" + shared if form.told else "",
        "  {" if form.told else "\n  {",
        *(before if not form.early else []),
        *([] if form.told else [shared]),
        *scan,
        *(before if form.early else []),
        f"  {found.sum} = {t} % {WARP} ? lower_n : 0;",
        "  #pragma unroll",
        f"  for (int warp_n = 0; warp_n < {warps}; warp_n++) {{ const {kind} one_n = {sums}[warp_n]; "
        f"if (warp_n < {t} / {WARP}) {found.sum} += one_n; }}",
        f"  {place} = {found.many};",
        "  #pragma unroll",
        f"  for (int step_n = 0; step_n < {each}; step_n++) "
        f"{{ {found.sum} += own_n[step_n]; own_n[step_n] = {found.sum}; }}",
        "  #pragma unroll",
        f"  for (int step_n = {each - 1}; step_n >= 0; step_n--) {{ {found.sum} = own_n[step_n]; "
        f"if ({found.sum} {found.test}) {place} = {t} * {each} + step_n; }}",
        f"  if ({place} < {found.many}) atomicMin(&found_n, {place});",
        *([] if form.told else ["  __syncthreads();"]),
        *([then] if found.behind.strip() and not form.told else []),
        "  }" if form.told else "}",
    ]
    return [(found.since if form.early else found.span[0], found.span[1], "\n".join(lines[not lines[0] :])),
            *aligned, *read, *gone]  # fmt: skip


def _summed(found: Walk, warps: int) -> tuple[str, list[Span]] | None:
    """The array in which sums of warps are, one for each, right in front of the barrier, and what makes them, which is
    not needed if they are those of a thread's elements."""
    code = found.fn.code
    one = _SUMS.search(code[: found.since])
    if one is None:
        return None
    made = re.search(rf"__shared__\s+{found.kind}\s[^;]*?\b{one['array']}\s*\[\s*(\d+)\s*\]", found.fn.body)
    if made is None or int(made[1]) < warps:
        return None
    return one["array"], [(*one.span("loop"), ""), (*one.span("store"), "")]


def _declared(text: str) -> set[str]:
    try:
        return {name for one in parsed(f"{{{text}}}")[1] if one[0] == "declare" for name, *_ in one[2]}
    except Unplayable:
        return set(re.findall(r"[A-Za-z_]\w*", text))


def _taken(found: Walk, each: int, block: int) -> tuple[list[str], list[Span]]:
    """How a thread takes its elements: as a vector where its array is plain and long enough, once it is aligned."""
    array, long, at = found.row
    if each in (2, 4) and each * block <= long:
        vector = f"{VECTOR[found.kind]}{each}"
        parts = " ".join(f"own_n[{n}] = whole_n.{letter};" for n, letter in enumerate(LETTERS[:each]))
        sums = " + ".join(f"own_n[{n}]" for n in range(each))
        return [f"  const {vector} whole_n = ((const {vector}*){array})[{found.thread}];",
                f"  {parts} upto_n = {sums};"], [(at, at, f" __align__({4 * each})")]  # fmt: skip
    value = re.sub(rf"\b{found.place}\b", "at_n", found.value)
    return ["  #pragma unroll",
            f"  for (int step_n = 0; step_n < {each}; step_n++) {{ const int at_n = {found.thread} * {each} + step_n; "
            f"own_n[step_n] = at_n < {found.many} ? {value} : 0; upto_n += own_n[step_n]; }}"], []  # fmt: skip


def _read(found: Walk, *, free: bool) -> list[Span] | None:
    """Reads of what the first thread has put the place in, as reads of the place itself, up to the next barrier, and
    that barrier left out where what follows writes to nothing that is read in front of it. None where the first thread
    does more than that, or it may be read in another way."""
    code, since = found.fn.code, found.span[1]
    told = re.fullmatch(rf"\s*((\w+)(?:\s*\[\s*\d+\s*\])?)\s*=\s*{found.place}\s*;\s*", found.behind)
    if told is None:
        return None
    place, array = told[1], told[2]
    made = re.search(rf"__shared__\s+(?P<kind>int|unsigned|float)\s[^;]*?\b{array}\s*(?=[\[,;])", found.fn.body)
    sections = list(_sections(code, since))
    if made is None or len(sections) < 2 or re.search(r"[&*]\s*\w+\s*=[^=;]*\b" + array + r"\b", found.fn.body):
        return None
    # The first section ends with the barrier that follows the walk.
    start, end, barrier = sections[1]
    text = code[start:end]
    if re.search(rf"\b{array}\b\s*(?:\[[^]]*\]\s*)?(?:[-+*/|&^%]|<<|>>)?=(?!=)|(?:\+\+|--|&)\s*{array}\b", text):
        return None
    kind = "" if made["kind"] == "int" else f"({made['kind']})"
    put: list[Span] = []
    for m in re.finditer(rf"(?<![\w.])(?<!->){re.escape(place)}(?!\s*\[)(?!\w)", text):
        whole = re.search(r"\b(?:int|unsigned)\s+\w+\s*=\s*$", text[: m.start()]) and re.match(r"\s*;", text[m.end() :])
        put.append((start + m.start(), start + m.end(), f"{'' if whole else kind}found_n"))
    if not put or not free:
        return put or None
    if barrier is None or len(sections) < 3 or not _apart(found.fn, text, code[sections[2][0] : sections[2][1]], place):
        return None
    return [*put, (*barrier, "")]


def _sections(code: str, since: int) -> Iterator[tuple[int, int, tuple[int, int] | None]]:
    """(start, end, the barrier that ends it) of what stands between barriers from a place on; nothing from a barrier on
    that is in a loop, or that only some come to."""
    start = since
    for m in re.finditer(SYNC, code[: code.rindex("}")]):
        if m.start() < since:
            continue
        text = code[since : m.start()]
        if text.count("{") != text.count("}") or (text.strip() and text.rstrip()[-1] not in ";}"):
            return
        yield start, m.start(), m.span()
        start = m.end()
    yield start, code.rindex("}"), None


def _apart(fn: Function, first: str, then: str, place: str) -> bool:
    """Whether a section reads no shared array that the next one uses, but as the place that is read elsewhere now, and
    writes to none."""
    made = [m[1] for m in re.finditer(r"__shared__\s([^;]*);", fn.body)]
    shared = {n for one in made for n in re.findall(r"(\w+)\s*(?=[\[,]|$)", one)}
    uses = re.sub(rf"(?<![\w.])(?<!->){re.escape(place)}(?!\s*\[)(?!\w)", " ", first)
    read = {n for n in shared if re.search(rf"\b{n}\b", uses)}
    written = any(re.search(rf"\b{n}\b[^;=<>!]*[^=<>!]=(?!=)|&\s*{n}\b", uses) for n in read)
    pointed = re.search(rf"[&*]\s*\w+\s*=[^=;]*\b(?:{'|'.join(shared)})\b", fn.body) if shared else None
    return not written and pointed is None and not any(re.search(rf"\b{n}\b", then) for n in read)
