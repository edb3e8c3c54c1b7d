"""Sums over rows of different lengths, a row a thread: several lanes of a warp take a row, and add up by shuffles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.features.estimate.gains import expected_at_most
from kscope.fixes.atomics.reading import MODIFIED
from kscope.fixes.atomics.regions import clear
from kscope.fixes.given.conditions import proved, reads
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, Span, Text, kernel_text, loops, outside, plain, shape, spans_edited
from kscope.fixes.shared_sums.carried import carried
from kscope.model.contract.fixes import Condition, Fix, Proof

WARP, LEAST = 32, 2
TALLEST = 1 << 16  # blocks along y (CUDA C++ Programming Guide, compute capabilities)
_NEVER = re.compile(
    r"\b(?:__shared__|__sync\w*|\w+_sync|goto|asm|volatile|atomic\w*|cg|cooperative_groups|tiled_partition)\b|::\s*sync\b"
)
_COUNT = re.compile(r"(?:\+\+\s*{n}|{n}\s*\+\+|{n}\s*\+=\s*1)")
_KINDS = "float|double|int|unsigned|unsigned int"
_NOTHING = r"(?:\{\s*0?(?:\.0*)?f?\s*\}|0(?:\.0*)?f?)"
_SUM = r"(?P<sum>[A-Za-z_]\w*)\s*(?P<at>\[\s*\w+\s*\])?\s*"
_ADDED = re.compile(
    rf"{_SUM}(?:\+=\s*(?P<value>[^;]+)|=\s*(?:std\s*::\s*)?(?:__)?fmaf?(?:_rn)?\s*\((?P<fused>[^;]+),\s*(?P=sum)\s*"
    rf"(?:\[\s*\w+\s*\])?\s*\)|=\s*(?P=sum)\s*(?:\[\s*\w+\s*\])?\s*\+\s*(?P<plus>[^;]+))\s*;"
)


class Row(Struct, frozen=True):
    """`index`: span of the expression that is the row's number, along `axis` of the block; `sums`: (name, size of an
    array or "") of what the loop adds up."""

    axis: str
    index: tuple[int, int]
    loop: Loop
    sums: tuple[tuple[str, str], ...]


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, text = asked.setting, asked.setting.launch, kernel_text(asked.setting)
    if text is None or launch is None or launch.block[2] > 1 or launch.block[0] & (launch.block[0] - 1):
        return []
    if setting.shared or setting.code.where(lambda ins, op: "barrier" in op.kind or ins.opcode == "SHFL"):
        return []
    found = row(clear(text.code), setting.instance, setting.lines(text.file))
    if found is None:
        return []
    n = "xyz".index(found.axis)
    within = WARP if n == 0 else WARP // launch.block[0]
    lanes = _lanes(setting, text, found, min(within, launch.block[n]))
    if launch.blocks * launch.threads * lanes >= 1 << 31:
        return []  # the row's number is of 32 bits
    if n and launch.grid[n] * lanes >= TALLEST:
        return []
    if lanes < LEAST or launch.block[n] % lanes or (n == 0 and launch.block[1] > 1):
        return []
    grid = [side * lanes if k == n else side for k, side in enumerate(launch.grid)]
    edits = spans_edited(setting, text, _spans(clear(text.code), found, lanes))
    return [_fix(asked, found, lanes, grid, edits)] if edits else []


def _fix(asked: Asked, found: Row, lanes: int, grid: list[int], edits: list) -> Fix:  # type: ignore[type-arg]
    setting, launch = asked.setting, asked.setting.launch
    assert launch is not None
    price = asked.finding.estimate
    names = " and ".join(name for name, _ in found.sums)
    return Fix(
        kind="lane_mapping",
        title=f"{lanes} lanes for each row, which add up {names} by shuffles",
        language="cuda",
        code=f"dim3 block({', '.join(map(str, launch.block))}), grid({', '.join(map(str, grid))});",
        edits=edits,
        parameters={f"grid.{found.axis}": grid["xyz".index(found.axis)]},
        conditions=[
            proved("no thread needs another", "code", setting.code, "no barrier, no shared memory, no shuffle"),
            reads("each round is done once", f"every {lanes}th by a lane, from its own number on"),
            reads("nothing but the sums is carried on", "the loop's other names are given values in each round"),
            Condition(holds=f"rows are counted by the block's size along {found.axis}", state="assumed",
                      why="as the row's number reads"),
            reads("lanes of a row are there together", "they have one row, and take the same ways"),
            Condition(holds=f"every launch has {lanes} threads for each row, in blocks of {shape(launch.block)}",
                      state="check", why="the grid is larger"),
            Condition(holds="the order in which a sum is added up does not matter", state="check",
                      why="parts of floats round differently"),
        ],
        proof=[
            Proof(what="rounds of a lane, of a row", before=1, after=1 / lanes,
                  how=f"every {lanes}th round; as many lanes as a row has elements, the mean, at most")
        ],
        costs=[f"{lanes} times the threads", "shuffles for each sum"],
        price=expected_at_most(price, float(lanes)) if price is not None else None,
    )  # fmt: skip


def row(code: str, instance: str = "", lines: Sequence[str] = ()) -> Row | None:
    """The one loop of a kernel over a row's elements, between the row's number and the stores of its sums."""
    opening = code.find("{")
    body = code[opening:]
    if opening < 0 or _NEVER.search(body):
        return None
    outer = [one for one in loops(code) if _counts(one) and not _fixed(code, one)]
    if len(outer) != 1 or re.search(r"\b(?:while|do|switch)\b", body):
        return None
    (loop,) = outer
    where = _index(code, opening)
    sums = _sums(code, loop, opening, instance) if where is not None else ()
    if where is None or not sums or not _tail(code, loop, sums) or carried(code, loop, lines):
        return None
    return Row(where[0], where[1], loop, sums)


def _counts(loop: Loop) -> bool:
    return re.fullmatch(_COUNT.pattern.replace("{n}", loop.name), loop.step.strip()) is not None


def _fixed(code: str, loop: Loop) -> bool:
    """Whether a loop has the same rounds for every row: from 0 to a constant or a number."""
    end = loop.end.strip()
    declared = re.search(rf"\b{end}\s*(?:=|\[)", code) if re.fullmatch(r"\w+", end) else None
    constant = re.fullmatch(r"\d+|[A-Za-z_]\w*", end) is not None and declared is None
    return loop.start.strip() == "0" and constant


def _index(code: str, opening: int) -> tuple[str, tuple[int, int]] | None:
    """(axis, span) of the one expression that makes a row's number of the thread's place."""
    for axis in "yx":
        threads = re.findall(rf"\bthreadIdx\s*\.\s*{axis}\b", code[opening:])
        if len(threads) != 1:
            if threads and axis == "y":
                return None
            continue
        blocks = len(re.findall(rf"\bblockIdx\s*\.\s*{axis}\b", code[opening:]))
        grids = re.search(rf"\bgridDim\s*\.\s*{axis}\b", code[opening:])
        made = re.search(rf"\b\w+\s*=\s*([^;,=]*\bthreadIdx\s*\.\s*{axis}\b[^;,]*?)\s*[;,]", code[opening:])
        if made is None or blocks != 1 or grids is not None:
            return None
        other = r"[\w.]+"
        bare = plain(made[1], "").strip("()")
        first, block = rf"threadIdx\.{axis}", rf"blockIdx\.{axis}"
        forms = (rf"{block}\*{other}\+{first}", rf"{other}\*{block}\+{first}", rf"{first}\+{block}\*{other}",
                 rf"{first}\+{other}\*{block}")  # fmt: skip
        if not any(re.fullmatch(form, bare) for form in forms):
            return None
        return axis, (opening + made.start(1), opening + made.end(1))
    return None


def _sums(code: str, loop: Loop, opening: int, instance: str) -> tuple[tuple[str, str], ...]:
    """What a loop adds up; none where it does something else."""
    body = code[slice(*loop.body)]
    added = list(_ADDED.finditer(body))
    names = list(dict.fromkeys(m["sum"] for m in added))
    rest = outside(body, [m.span() for m in added])
    out = []
    for name in names:
        size = _zero(code[opening : loop.span[0]], name, instance)
        others = [m["value"] or m["fused"] or m["plus"] for m in added]
        if size is None or re.search(rf"\b{name}\b", rest) or any(re.search(rf"\b{name}\b", x) for x in others):
            return ()
        out.append((name, size))
    if re.search(r"\b(?:return|break|continue)\b", body) or re.search(rf"(?:\]|\)|\*\s*\w+){MODIFIED}", _no_head(rest)):
        return ()
    return tuple(out) if all(_own(code, body, m, loop) for m in _assigned(rest)) else ()


def _no_head(text: str) -> str:
    """Without declarations of pointers, which look like stores."""
    return re.sub(r"\b[A-Za-z_]\w*\s*\*\s*(?:const\s+|__restrict__\s+)*\w+\s*=", "", text)


def _assigned(text: str) -> list[str]:
    found = re.finditer(rf"(?<![\w.>\])])([A-Za-z_]\w*){MODIFIED}|(?:\+\+|--)\s*([A-Za-z_]\w*)", text)
    return list(dict.fromkeys(m[1] or m[2] for m in found))


def _own(code: str, body: str, name: str, loop: Loop) -> bool:
    """Whether a name of a round has a value of that round before it is asked for, and nobody asks behind the loop."""
    kind = r"(?:const\s+)?(?!return\b|else\b)(?:[A-Za-z_][\w:<>]*[\s*&]+){1,3}"
    if re.search(rf"(?:^|[;{{}}(])\s*{kind}(?:[^;(){{}}]*,\s*)?{name}\s*[=;,\[]", body):
        return True
    first = re.search(rf"\b{name}\b", body)
    if first is None or re.match(rf"{name}\s*=(?!=)", body[first.start() :]) is None:
        return False
    before = body[: first.start()]
    if re.match(rf"[^;]*\b{name}\b", body[first.end() :]):
        return False  # it is made of what it was
    whole = before.count("{") - before.count("}") == body[:1].count("{") and before.rstrip()[-1:] in (";", "{", "}", "")
    return whole and re.search(rf"\b{name}\b", code[loop.body[1] :]) is None


def _zero(before: str, name: str, instance: str) -> str | None:
    """The size of an array of sums, "" of one; None where it does not start at zero, or lanes cannot hand it on."""
    kinds = _KINDS
    if re.search(r"\b(?:float|double)\b", instance.partition("(")[0]):
        kinds += r"|[A-Z]\w*|\w+_t"  # of the template
    for statement in re.finditer(rf"(?:^|[;{{}}])\s*(?:{kinds})\s+([^;]*\b{name}\b[^;]*);", before):
        for part in split_declarators(statement[1]):
            said = re.fullmatch(rf"\s*{name}\s*(?:\[\s*(\w+)\s*\])?\s*=\s*{_NOTHING}\s*", part)
            if said is not None:  # and stays there
                return None if re.search(rf"\b{name}\b", before[statement.end() :]) else said[1] or ""
    return None


def _tail(code: str, loop: Loop, sums: tuple[tuple[str, str], ...]) -> bool:
    """Whether a loop is one that all lanes of a row come to, with nothing but the use of its sums behind it."""
    before = code[: loop.span[0]]
    depth = before.count("{") - before.count("}")
    inside = re.search(r"\b(?:for|while)\s*\([^{}]*\)\s*\{[^{}]*$", before)
    behind, stores = code[loop.body[1] :], rf"(?:\]|\)|\*\s*\w+){MODIFIED}"
    if re.search(stores, _no_head(re.sub(r"\w+\s*\[[^\];]*\]\s*=\s*\{", "", before[code.find("{") :]))):
        return False
    bare = re.sub(r"\s*#[^\n]*\n\s*$", "", before).rstrip()
    stored = re.search(stores, behind)
    used = all(re.search(rf"\b{name}\b", behind) for name, _ in sums)
    return depth <= 2 and inside is None and bare[-1:] in (";", "{", "}") and stored is not None and used


def _lanes(setting: Setting, text: Text, found: Row, most: int) -> int:
    """As many lanes as a row has elements, the mean, as a power of two."""
    code = setting.code
    threads, launch = getattr(code, "threads", None), setting.launch
    if threads is None or launch is None:
        return 0
    first, last = (text.first + text.code.count("\n", 0, at) for at in found.loop.body)
    inside = code.ran([i for i in range(len(code)) if code.cfg.depth[i] and code[i].file == text.file
                       and first <= (code[i].line or 0) <= last and code.classes[i].access == "load"])  # fmt: skip
    by_line: dict[int, list[int]] = {}
    for i in inside:
        by_line.setdefault(code[i].line or 0, []).append(i)
    # Unrolled rounds are loads of one line each: as many as the largest count tells at least.
    rounds = max((threads[i] for i in inside), default=0.0) / (launch.blocks * launch.threads)
    return min(most, 1 << max(0, int(rounds).bit_length() - 1)) if rounds >= 1 else 0


def _spans(code: str, found: Row, lanes: int) -> list[Span]:
    loop, axis = found.loop, found.axis
    part, step = f"threadIdx.{axis} % {lanes}", loop.span
    start, end = found.index
    begin = f"({loop.start})" if re.search(r"[?<>=&|^]|->", re.sub(r"\[[^][]*\]", "", loop.start)) else loop.start
    head = f"for ({loop.kind} {loop.name} = {begin} + {part}; {loop.name} < {loop.end}; {loop.name} += {lanes})"
    far = "d_n" if axis == "x" else "d_n * blockDim.x"
    added = []
    for name, size in found.sums:
        to = f"{name}[k_n]" if size else name
        each = f"#pragma unroll\n  for (int k_n = 0; k_n < {size}; k_n++)\n" if size else ""
        turn = f"for (int d_n = {lanes // 2}; d_n; d_n /= 2) {to} += __shfl_xor_sync(row_n, {to}, {far});"
        added.append(f"{each}#pragma unroll\n  {'  ' if size else ''}{turn}\n")
    mask = "~0u" if lanes == WARP else f"{hex((1 << lanes) - 1)}u << (threadIdx.x % 32 / {lanes} * {lanes})"
    made = f"const unsigned row_n = {mask};  // the lanes of this row"
    if axis == "y":
        first = f"(threadIdx.y / {lanes} * {lanes} * blockDim.x + threadIdx.x) % 32"
        made = f"unsigned row_n = 0;  // the lanes of this row and column\n  for (int k_n = 0; k_n < {lanes}; k_n++) "
        made += f"row_n |= 1u << ({first} + k_n * blockDim.x);"
    text = f"\n  {made}\n{''.join(added)}  if ({part}) return;"
    return [(start, end, f"({code[start:end]}) / {lanes}"), (*step, head), (loop.body[1], loop.body[1], text)]
