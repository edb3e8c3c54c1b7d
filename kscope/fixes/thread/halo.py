"""Blocks whose outer threads only load the edge of a tile: whole warps that load the tile with its edge in a loop, and
all of whose threads write, of a wider tile. What each element takes stays as the text has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.fixes.atomics.reading import Kernel, changed, kernel_of
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.source import evaluated, split_declarators
from kscope.fixes.given.text import closing, plain
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import constants, function
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kscope.fixes.given.setting import Asked, Setting

THREADS, WIDE = 256, 64  # of a block, and results of a row of it: two warps, as the measured version has them (judged)
MOST = 128  # results of a row of it: larger tiles hold as many threads up as they save edges (judged)
SHARE = 0.9  # of the threads that write at most: for fewer idle ones a new kernel is not worth its lines (judged)
WAVES = 2  # of blocks that must be left, so that the last one is not half of the time (judged)
HELD = 2048 // THREADS  # blocks of an SM
_BARRIER = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_SHARED = re.compile(r"^__shared__\s+[\w ]+?\s(?P<name>\w+)\s*\[(?P<rows>[^][]+)\]\s*\[(?P<wide>[^][]+)\]\s*;$")
_DECLARED = re.compile(r"^(?:const\s+)?(?:int|unsigned|unsigned int|size_t)\s+(?P<all>[^;{}]*);$")
_BLOCK = re.compile(r"\bblockIdx\s*\.\s*x\s*\*\s*(?P<per>\w+(?:\s*\.\s*x)?|\([^()]*\))")
_DEVICE = re.compile(
    r"__device__\s[^;{}()]*?\b(?P<name>\w+)\s*\((?:const )?\w+ (?P<of>\w+)\)\s*\{\s*return (?P<is>[^;{}]*);\s*\}"
)
_STRANGE = re.compile(
    r"\b(?:return|while|goto|break|gridDim|warpSize|__sync\w+|__shfl\w*|atomic\w+|threadIdx\s*\.\s*z)\b"
)


class Halo(Struct, frozen=True):
    """`shared`: declarations as they are to be; `loading`, `writing`: texts of both parts with `thread_x`, `thread_y`
    for a thread's place; `size`: threads that load along x and y; `first`, `inner`: of those that write; `wider`: times
    that the new tile has the results of the old one's row."""

    shared: tuple[str, ...]
    loading: tuple[str, ...]
    writing: tuple[str, ...]
    size: tuple[int, int]
    first: tuple[int, int]
    inner: tuple[int, int]
    wider: int


def fixes(asked: Asked) -> list[Fix]:
    setting, kernel, launch = asked.setting, kernel_of(asked.setting), asked.setting.launch
    if kernel is None or launch is None or not launch.threads % 32 or launch.grid[2] > 1 or launch.block[2] > 1:
        return []
    known = constants(setting.lines(kernel.text.file), kernel.text.code)
    one = halo(kernel, launch.block[:2], known)
    if one is None or one.inner[0] * one.inner[1] > SHARE * launch.threads * one.wider or launch.grid[0] % one.wider:
        return []
    if launch.blocks // one.wider < WAVES * HELD * setting.sms:
        return []
    body = written(one)
    alike = _alike(setting, kernel, body, one, known)
    return [_fix(asked, kernel, one, body, alike)] if alike is not None else []


def halo(kernel: Kernel, block: tuple[int, int], known: Mapping[str, int]) -> Halo | None:
    """A kernel's two parts around its one barrier; None where it is anything else."""
    parts = [kernel.of(s).strip() for s in kernel.statements]
    middle = next((n for n, p in enumerate(parts) if _BARRIER.fullmatch(p)), 0)
    tiles = [m for p in parts if (m := _SHARED.match(p)) is not None]
    made = {name: p for p in parts for name in _names(p)}
    if not middle or not tiles or not _plain(kernel, len(tiles), made):
        return None
    loading, after = [p for p in parts[:middle] if not _SHARED.match(p)], parts[middle + 1 :]
    values = {**known, "blockDim.x": block[0], "blockDim.y": block[1]}
    own = _written_by(after, made, block, values)
    if own is None or own[0][0] == (0, 0):
        return None
    (first, inner), last = own
    wider = _times(inner[0])
    more = inner[0] * (wider - 1)
    shared = _all(_wider(m, values, more, block) for m in tiles)
    writing = [*_needed(loading, made, " ".join([*after[:-1], last])), *after[:-1], last]
    texts = _all(_anew(p, values, inner[0], more, block) for p in (*loading, *writing))
    if not wider or shared is None or texts is None:
        return None
    size, count = (block[0] + more, block[1]), len(loading)
    return Halo(shared, texts[:count], texts[count:], size, first, (inner[0] * wider, inner[1]), wider)


def _times(inner: int) -> int:
    """How many of the old tile's rows a row of the new one has; 0 where none fills warps."""
    several = range(1, MOST // inner + 1)
    return next((f for f in several if inner * f >= WIDE and not inner * f % 32), 0)


def _all(texts: Iterable[str | None]) -> tuple[str, ...] | None:
    """None where one is missing."""
    found = [*texts]
    right = tuple(t for t in found if t is not None)
    return right if len(right) == len(found) else None


def _plain(kernel: Kernel, tiles: int, made: Mapping[str, str]) -> bool:
    """Whether there is one barrier, nothing that threads do another way round, and names that keep their values."""
    body = kernel.body
    if len(_BARRIER.findall(body)) != 1 or _STRANGE.search(_BARRIER.sub("", body)):
        return False
    taken = re.search(r"\b(?:thread_x|thread_y|at|round)\b", kernel.text.code)
    return taken is None and body.count("__shared__") == tiles and all(changed(body, n) <= 1 for n in made)


def _names(statement: str) -> list[str]:
    """What a declaration of whole numbers makes, of no element of an array."""
    match = _DECLARED.match(statement)
    if match is None or "[" in match["all"]:
        return []
    return [part.partition("=")[0].strip() for part in split_declarators(match["all"])]


def _needed(loading: Sequence[str], made: Mapping[str, str], use: str) -> list[str]:
    """Declarations that a text uses, with those that they use."""
    wanted, size = {n for n in made if re.search(rf"(?<![\w.]){n}\b", use)}, -1
    while size != len(wanted):
        size = len(wanted)
        wanted |= {n for w in [*wanted] for n in made if re.search(rf"(?<![\w.]){n}\b", made[w])}
    return [p for p in loading if wanted & {*_names(p)}]


Place = tuple[int, int]


def _written_by(
    after: Sequence[str], made: Mapping[str, str], block: Place, values: Mapping[str, int]
) -> tuple[tuple[Place, Place], str] | None:  # fmt: skip
    """((first, count) along both sides of the threads that the last statement is for, that statement for them)."""
    head = re.match(r"if\s*\(", after[-1]) if after else None
    close = closing(after[-1], head.end()) if head is not None else None
    if head is None or close is None or any(not _names(p) for p in after[:-1]) or re.search(r"\belse\b", after[-1]):
        return None
    test, then = after[-1][head.end() : close], after[-1][close + 1 :].strip()
    if "||" in re.sub(r"\([^()]*\)", "", test):
        return None
    text = " ".join({*made.values()})
    asked: list[str] = []
    rest: list[str] = []
    for one in re.split(r"&&", test):
        names = {*re.findall(r"[A-Za-z_]\w*(?:\.[xy])?", plain(one, text).replace(" ", ""))}
        mine = any(n.startswith("threadIdx") for n in names) and names <= {"threadIdx.x", "threadIdx.y", *values}
        (asked if mine else rest).append(one)
    found = _rectangle(" && ".join(plain(a, text) for a in asked), block, values) if asked else None
    return (found, f"if ({'&&'.join(rest).strip()}) {then}" if rest else then) if found is not None else None


def _rectangle(test: str, block: Place, values: Mapping[str, int]) -> tuple[Place, Place] | None:
    """(first, count) along both sides of the threads that pass a test; None where they are no rectangle."""
    from kscope.fixes.given.played import play

    out = np.zeros(block[0] * block[1], dtype=np.int64)
    try:
        play(f"{{ if ({test}) out[threadIdx.y * {block[0]} + threadIdx.x] = 1; }}", (1, 1), block, {"out": out}, values)
    except Unplayable:
        return None
    on = out.reshape(block[1], block[0])
    rows, columns = (np.flatnonzero(on.any(axis)) for axis in (1, 0))
    if not len(rows) or on.sum() != len(rows) * len(columns):
        return None
    whole = np.ptp(rows) + 1 == len(rows) and np.ptp(columns) + 1 == len(columns)
    return ((int(columns[0]), int(rows[0])), (len(columns), len(rows))) if whole else None


def _value(text: str, values: Mapping[str, int]) -> int | None:
    bare = re.sub(r"\s", "", text)
    for name in ("blockDim.x", "blockDim.y"):
        bare = bare.replace(name, str(values[name]))
    return evaluated(bare, values)


def _wider(match: re.Match[str], values: Mapping[str, int], more: int, block: Place) -> str | None:
    """A tile's declaration with so many columns more."""
    rows, wide = _value(match["rows"], values), _value(match["wide"], values)
    if rows != block[1] or wide is None or wide < block[0]:
        return None
    return f"{match[0][: match.start('wide') - match.start()]}{wide + more}];"


def _anew(text: str, values: Mapping[str, int], inner: int, more: int, block: Place) -> str | None:
    """A text for the wider tile: blocks of so many results more, a thread's place by name."""
    for match in _BLOCK.finditer(text):
        if _value(match["per"].strip("()"), values) != inner:
            return None
    if len(re.findall(r"\bblockIdx\s*\.\s*x\b", text)) != len(_BLOCK.findall(text)):
        return None
    out = _BLOCK.sub(f"blockIdx.x * {inner + more}", text)
    out = re.sub(r"\bthreadIdx\s*\.\s*([xy])\b", r"thread_\1", out)
    out = re.sub(r"\bblockDim\s*\.\s*x\b", str(block[0] + more), out)
    return re.sub(r"\bblockDim\s*\.\s*y\b", str(block[1]), out)


def written(one: Halo) -> str:
    """The kernel's body anew."""
    (wide, high), (x, y), (across, down) = one.size, one.first, one.inner
    loop, full = "  #pragma unroll\n  for (int round = 0; round < {}; round++) {{", wide * high
    lines = [f"  {s}" for s in one.shared]
    lines += [loop.format(-(-full // THREADS)), f"    const int at = threadIdx.x + round * {THREADS};"]
    lines += [f"    const int thread_x = at % {wide}, thread_y = at / {wide};"]
    test = f"    if (round < {full // THREADS} || at < {full}) {{"  # none in full rounds: their loads wait together
    lines += [test, *(f"      {p}" for p in one.loading), "    }", "  }", "  __syncthreads();"]
    lines += [*_places(loop, across, down, x, y), *(f"    {p}" for p in one.writing), "  }"]
    return "{\n" + "\n".join(lines) + "\n}"


def _places(loop: str, across: int, down: int, x: int, y: int) -> list[str]:
    """The loop over a thread's results, to be closed, and their places: one below the other where the tile's width
    allows, which then share what they read; else a row of threads after the other."""
    shift = [f" + {n}" if n else "" for n in (x, y)]
    high = THREADS // across
    if not THREADS % across and not down % high:
        each = down // high
        place = f"threadIdx.x / {across} * {each} + round{shift[1]}"
        return [loop.format(each), f"    const int thread_x = threadIdx.x % {across}{shift[0]}, thread_y = {place};"]
    head = f"  #pragma unroll\n  for (int at = threadIdx.x; at < {across} * {down}; at += {THREADS}) {{"
    return [head, f"    const int thread_x = at % {across}{shift[0]}, thread_y = at / {across}{shift[1]};"]


def _alike(setting: Setting, kernel: Kernel, body: str, one: Halo, known: Mapping[str, int]) -> Same | None:
    """Both texts played; None where a result is another one. Constants that are what the launch covers are played as
    what the played one does."""
    fn, launch = function(setting), setting.launch
    if fn is None or launch is None or fn.call is not None or fn.values:
        return None
    across, down = one.inner[0] // one.wider, one.inner[1]
    whole = launch.grid[0] * across, launch.grid[1] * down
    was = kernel.text.code[kernel.opening : kernel.closing + 1]
    lines = "\n".join(setting.lines(kernel.text.file))
    sides: tuple[list[Side], list[Side]] = ([], [])
    for grid in ((1, 2), (2, 1)):
        covers = grid[0] * one.inner[0], grid[1] * down
        small = {n: max(covers) if whole[0] == whole[1] else covers[whole.index(v)]
                 for n, v in known.items() if v in whole}  # fmt: skip
        for side, text, wide, block in (
            (sides[0], was, grid[0] * one.wider, launch.block[:2]), (sides[1], body, grid[0], (THREADS, 1)),
        ):  # fmt: skip
            side.append(Side(_inlined(text, lines), (wide, grid[1]), block, small))
    alike = same(fn, *sides, known)
    return None if alike is None or alike.near or alike.ties else alike


def _inlined(text: str, lines: str) -> str:
    """A text with calls of functions of one number that are one expression as that expression."""
    for match in _DEVICE.finditer(lines):
        for _ in range(text.count(match["name"])):
            calls = calls_of(text, match["name"])
            if not calls or len(calls[0].arguments) != 1:
                break
            put = re.sub(rf"\b{match['of']}\b", f"({calls[0].arguments[0]})", match["is"])
            text = f"{text[: calls[0].start]}({put}){text[calls[0].end :]}"
    return text


def _fix(asked: Asked, kernel: Kernel, one: Halo, body: str, alike: Same) -> Fix:
    launch, name = asked.setting.launch, asked.setting.name
    assert launch is not None
    code = kernel.text.code
    open_ = code.index("(", re.search(rf"\b{name}\s*\(", code).start())  # type: ignore[union-attr]
    given = code[open_ + 1 : closing(code, open_ + 1)]
    along, wide = launch.grid[0] // one.wider, one.inner[0] * one.inner[1]
    grid = f"dim3({along}, {launch.grid[1]})"
    loaded = one.size[0] * one.size[1]
    return Fix(
        kind="tile",
        title=f"blocks of {THREADS} threads that all write, tiles of {one.inner[0]} x {one.inner[1]} with their edge",
        language="cuda",
        code=f"__global__ void __launch_bounds__({THREADS}) {name}_tiles({given}) {body}\n"
             f"// launch: {name}_tiles<<<{grid}, {THREADS}>>>(...);",
        parameters={"block.x": THREADS, "block.y": 1, "grid.x": along, "grid.y": launch.grid[1]},
        conditions=[
            alike.shown,
            proved("the blocks come out even", "launch", launch.grid[:1],
                   f"{launch.grid[0]} is a multiple of {one.wider}"),
            Condition(holds=f"every launch has a multiple of {one.wider} blocks along x, of {launch.block[0]} x "
                      f"{launch.block[1]} threads", state="check", why="as this one has"),
        ],
        proof=[
            Proof(what="lanes of each warp that hold a thread", before=round(launch.threads / launch.warps, 2),
                  after=32, how=f"{THREADS} threads are whole warps"),
            Proof(what="threads that load for each result", before=round(launch.threads * one.wider / wide, 3),
                  after=round(loaded / wide, 3), how=f"{one.size[0]} x {one.size[1]} elements for {wide} results"),
        ],
        costs=[f"{4 * alike.shared:+d} bytes of shared memory a block" if alike.shared else "no shared memory more"],
        price=asked.finding.estimate,
    )  # fmt: skip
