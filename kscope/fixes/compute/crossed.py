"""Every row of one array with every column of another, by anything but a product: differences, smallest sums. A kernel
with tiles in shared memory and several results a thread, with the same parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.fixes.given.conditions import not_written, proved, reads, shown
from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import WRITES, Loop, kernel_text, loops, plain
from kscope.model.contract.fixes import Condition, Fix, Proof

if TYPE_CHECKING:
    from kscope.fixes.compute.semirings import Semiring

SHAPES = ((128, 8, 8), (64, 4, 16))
"""Rows and columns of a block's tile, of a thread's results, and steps between two barriers: for 256 threads 128 or 64
steps of each thread (judged: as the measured versions of manhattan.one and of the products have it)."""
THREADS = 256
LOCALS = {"a_tile", "b_tile", "t", "row", "col", "from_a", "from_b", "sum", "k0", "k", "u", "v", "i", "j", "place"}
"""Names of KERNEL's own."""

HEAD = re.compile(r"\bvoid\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\((?P<parameters>[^)]*)\)")
_TERM = re.compile(r"(\w+)\*(\w+)\+(\w+)")
_USE = re.compile(r"(?<![\w.])(?<!->)(\w+)\s*\[([^][]+)\]")
_PLACE = re.compile(r"blockIdx\.(?P<axis>[xy])\*(?P<per>\d+)\+threadIdx\.(?:x(?P<how>[%/])(?P<wide>\d+)|(?P<own>[xy]))")
_PURE = re.compile(r"[-+*&|^.()\s\w,]*")
_NAME = re.compile(r"\b(?!(?:fabsf|fminf|fmaxf|abs|min|max|u|v|s)\b)[A-Za-z_]\w*\b")
_KINDS = r"float|int|int32_t|unsigned int|unsigned|uint32_t"
KERNEL = """__global__ void __launch_bounds__({threads}) {name}_tiles({parameters}) {{
  __shared__ {kind} a_tile[{deep}][{tile} + 4], b_tile[{deep}][{tile}];
  int t = threadIdx.x, row = t / {across}, col = t % {across};
  const {kind}* from_a = {A} + (size_t)blockIdx.y * {tile} * {d}; const {kind}* from_b = {B} + blockIdx.x * {tile};
  {kind} sum[{each}][{each}];
  #pragma unroll
  for (int i = 0; i < {each}; i++)
    #pragma unroll
    for (int j = 0; j < {each}; j++) sum[i][j] = {first};
  for (int k0 = 0; k0 < {d}; k0 += {deep}) {{
    #pragma unroll
    for (int i = t; i < {tile} * {deep}; i += {threads}) {{
      a_tile[i % {deep}][i / {deep}] = from_a[(size_t)(i / {deep}) * {d} + k0 + i % {deep}];
      b_tile[i / {tile}][i % {tile}] = from_b[(size_t)(k0 + i / {tile}) * {m} + i % {tile}];
    }}
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < {deep}; k++) {{
      {kind} u[{each}], v[{each}];
      #pragma unroll
      for (int i = 0; i < {each}; i++) {{ u[i] = a_tile[k][row * {each} + i]; v[i] = b_tile[k][col + i * {across}]; }}
      #pragma unroll
      for (int i = 0; i < {each}; i++)
        #pragma unroll
        for (int j = 0; j < {each}; j++) {step}
    }}
    __syncthreads();
  }}
  #pragma unroll
  for (int i = 0; i < {each}; i++)
    #pragma unroll
    for (int j = 0; j < {each}; j++) {{
      size_t place = (size_t)(blockIdx.y * {tile} + row * {each} + i) * {m} + blockIdx.x * {tile} + col + j * {across};
      {C}[place] = sum[i][j];
    }}
}}
// launch: {name}_tiles<<<dim3({gx}, {gy}), {threads}>>>(...);"""


Place = tuple[str, int, int]
"""Axis of the blocks, threads of a block along it, and by how many a thread's number is divided; 0: its own axis."""


class Crossed(Struct, frozen=True):
    """`for k < d: s = f(s, a[i * d + k], b[k * m + j])`, `c[i * m + j] = s`: names, where s starts, the step with u, v
    and s in it, how blocks and threads make i and j, type of the elements."""

    a: str
    b: str
    c: str
    d: str
    m: str
    first: str
    step: str
    rows: Place
    columns: Place
    kind: str = "float"

    @property
    def product(self) -> bool:
        """Whether it is the product of square matrices of floats, which compute.product answers."""
        return self.d == self.m and self.kind == "float" and self.step == "sum[i][j] += u[i] * v[j];"


def fixes(asked: Asked) -> list[Fix]:
    setting, code, launch = asked.setting, asked.setting.code, asked.setting.launch
    text = kernel_text(setting)
    head = HEAD.search(text.code) if text is not None else None
    one = crossed(text.code) if text is not None else None
    if text is None or head is None or one is None or launch is None or launch.grid[2] > 1 or not setting.sms:
        return []
    size = {"x": launch.grid[0], "y": launch.grid[1]}
    rows, columns = (size[axis] * per for axis, per, _ in (one.rows, one.columns))
    if one.rows[0] == one.columns[0] or not _dealt(one, launch.block) or one.product:
        return []
    fits = [(t, e, n) for t, e, n in SHAPES if rows % t == columns % t == 0 and rows * columns // t**2 >= setting.sms]
    if not fits or re.search(rf"\b{head['name']}_tiles\b|_tile\b", text.code) or hides(head["parameters"]):
        return []
    tile, each, deep = fits[0]
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    conditions = [
        reads(f"each of {one.c} is made of a row of {one.a} and a column of {one.b}", "its loop and its store"),
        proved(f"{rows} rows and {columns} columns come out even", "launch", [*launch.grid[:2], *launch.block],
               f"the blocks and threads of the launch, by {tile}"),
        Condition(holds=f"{one.d} is a multiple of {deep}", state="check", why="there is no test for the rest"),
        *not_written(code, loads),
        shown(_played(tile, each), "each result is made once", "values", tile * tile,
              "places of a block's threads and results, written out"),
    ]  # fmt: skip
    return [tiled(asked, head, one, (one.d, one.m), (columns // tile, rows // tile), fits[0], conditions)]


def tiled(
    asked: Asked, head: re.Match[str], one: Crossed | Semiring, along: tuple[str, str], grid: tuple[int, int],
    shape: tuple[int, int, int], conditions: list[Condition], now: tuple[float, float] = (2, 0), *costs: str,
) -> Fix:  # fmt: skip
    """KERNEL filled in. along: its d and m; grid: blocks along x and y; shape: results of a block and a thread along a
    side, depth of a tile; now: loads of global and of shared memory a step."""
    (tile, each, deep), (d, m), (gx, gy) = shape, along, grid
    new = KERNEL.format(
        threads=THREADS, name=head["name"], parameters=head["parameters"], tile=tile, deep=deep, across=tile // each,
        each=each, kind=one.kind, A=one.a, B=one.b, C=one.c, d=d, m=m, first=one.first, step=one.step, gx=gx, gy=gy,
    )  # fmt: skip
    return Fix(
        kind="tile",
        title=f"tiles of {tile} x {tile} a block, {each} x {each} results a thread",
        language="cuda",
        code=new,
        parameters={"tile": tile, "depth": deep, "sums": each * each, "block.x": THREADS, "grid.x": gx, "grid.y": gy},
        conditions=conditions,
        proof=[
            Proof(what="elements loaded from global memory a step", before=round(now[0], 4), after=round(2 / tile, 4),
                  how=f"{tile} rows and columns of depth {deep} serve {tile} x {tile} x {deep} steps"),
            Proof(what="loads of shared memory a step", before=round(now[1], 4), after=2 / each,
                  how=f"{2 * each} values serve {each} x {each}"),
        ],
        costs=[f"{4 * deep * (2 * tile + 4)} bytes of shared memory a block", *costs],
        price=asked.finding.estimate,
    )  # fmt: skip


def hides(parameters: str, *others: str) -> bool:
    """Whether a name of KERNEL's own is a parameter's, or one that it needs."""
    return bool(LOCALS & {*re.findall(r"(\w+)\s*(?:,|$)", parameters), *others})


def crossed(code: str) -> Crossed | None:
    """What a kernel is, if that is all it does; None for anything else."""
    every, opening = loops(code), code.find("{")
    if len(every) != 1 or re.search(r"\b(?:if|while|return|__shared__|atomic\w*|__sync\w*)\b", code[opening:]):
        return None
    (loop,) = every
    stores = re.findall(r"(?<![\w.])(?<!->)(\w+)\s*\[([^][]+)\]\s*=(?!=)\s*(\w+)\s*;", code[loop.body[1] :])
    if loop.start != "0" or loop.step not in (f"{loop.name}++", f"++{loop.name}") or len(stores) != 1:
        return None
    ((c, at, s),) = stores
    stepped = _step(code, loop, s)
    first = re.search(rf"\b(?P<kind>{_KINDS})\s+{s}\s*=\s*(?P<is>[-+\w.]+)\s*[;,]", code[: loop.span[0]])
    out = _TERM.fullmatch(plain(at))
    if stepped is None or first is None or out is None:
        return None
    step, (a, at_a), (b, at_b) = stepped
    x, y = _TERM.fullmatch(plain(at_a)), _TERM.fullmatch(plain(at_b))
    if x is None or y is None or x[3] != loop.name:
        return None
    i, d, m, j = x[1], x[2], y[2], y[3]
    right = y[1] == loop.name and out.groups() == (i, m, j) and plain(loop.end) == d and len({a, b, c}) == 3
    rows, columns, kind = _place(i, code, "/"), _place(j, code, "%"), first["kind"]
    typed = _typed(code[:opening], kind, (a, b, c), (d, m)) and _fixed(first["is"], code[opening:])
    if not right or not typed or rows is None or columns is None:
        return None
    return Crossed(a, b, c, d, m, first["is"], step, rows, columns, kind)


def _alone(code: str, loop: Loop, s: str) -> bool:
    """Whether a kernel is declarations of numbers, the loop, and the store: it changes no sum that is there, and stores
    nothing else."""
    before = re.sub(r"#\s*pragma\s+unroll[^\n]*", "", code[code.find("{") + 1 : loop.span[0]])
    tail = code[loop.body[1] : code.rfind("}")]
    declared = [p for p in before.split(";") if p.strip()]
    numbers = re.compile(rf"\s*(?:const\s+)?(?:{_KINDS}|size_t|long long)\s+\w+\s*=(?!=)[^;\[]*", re.S)
    inside, everywhere = (len(re.findall(WRITES.replace("{x}", s), x)) for x in (code[slice(*loop.body)], code))
    ends = tail.count(";") == 1 and before.strip()[-1:] == ";"
    return everywhere == 1 + inside and ends and all(map(numbers.fullmatch, declared))


def _typed(head: str, kind: str, arrays: Sequence[str], sizes: Sequence[str]) -> bool:
    """Whether parameters are arrays of a type, and ints."""
    same = all(re.search(rf"(?<!\w )\b{kind}\s*\*\s*(?:__restrict__\s+)?{n}\s*(?=[,)])|"
                         rf"\bconst {kind}\s*\*\s*(?:__restrict__\s+)?{n}\s*(?=[,)])", head)
               for n in arrays)  # fmt: skip
    return same and all(re.search(rf"\bint\s+{n}\s*(?=[,)])", head) for n in sizes)


def _fixed(value: str, body: str) -> bool:
    """Whether a start is a number, or a macro's name: no name that the kernel gives a value."""
    if re.fullmatch(r"[-+]?(?:\d|\.\d)[\w.+-]*", value):
        return True
    name = value.lstrip("-+")
    return re.fullmatch(r"[A-Z][A-Z0-9_]*", name) is not None and not re.search(rf"\b{name}\s*=", body)


def _step(code: str, loop: Loop, s: str) -> tuple[str, tuple[str, str], tuple[str, str]] | None:
    """(the step with `sum[i][j]`, `u[i]` and `v[j]`, (name, index) of both arrays) of a loop of one statement."""
    body = code[slice(*loop.body)].strip()
    body = body[1:-1].strip() if body.startswith("{") else body
    uses = list(_USE.finditer(body))
    if body.count(";") != 1 or [len(uses), len({u[1] for u in uses}), _alone(code, loop, s)] != [2, 2, True]:
        return None
    if {*re.findall(r"\b[uvs]\b", _USE.sub("", body))} - {s}:
        return None  # the kernel's own
    bare = body.replace(uses[0][0], "u").replace(uses[1][0], "v")
    added = re.fullmatch(rf"{s}\s*(?P<op>[+|^])=\s*(?P<of>[^;]+);", bare)
    kept = re.fullmatch(rf"{s}\s*=\s*(?P<call>fminf|fmaxf|min|max)\s*\(.*\)\s*;", bare)
    if kept is not None:
        calls = calls_of(bare, kept["call"])
        arguments = calls[0].arguments if calls else ()
        of = next((x for x in arguments if x != s), "") if s in arguments and len(arguments) == 2 else ""
        step = f"sum[i][j] = {kept['call']}(sum[i][j], {{}});"
    elif added is not None:
        of, step = added["of"].strip(), f"sum[i][j] {added['op']}= {{}};"
    else:
        return None
    if not of or _NAME.search(of) or re.search(rf"\b{s}\b", of) or not _PURE.fullmatch(of):
        return None
    of = re.sub(r"\bv\b", "v[j]", re.sub(r"\bu\b", "u[i]", of))
    first, second = ((use[1], use[2]) for use in uses)
    if _TERM.fullmatch(plain(first[1])) and plain(first[1]).endswith(f"+{loop.name}"):
        return step.format(of), first, second
    return step.format(re.sub(r"u\[i\]|v\[j\]", lambda m: "v[j]" if m[0][0] == "u" else "u[i]", of)), second, first


def _dealt(one: Crossed, block: tuple[int, int, int]) -> bool:
    """Whether a block's threads are its places, once each."""
    (axis, rows, wide), (other, columns, wide_too) = one.rows, one.columns
    if wide or wide_too:
        return wide == wide_too == columns and block == (rows * columns, 1, 1)
    return {axis: rows, other: columns} == {"x": block[0], "y": block[1]} and block[2] == 1


def _place(name: str, code: str, how: str) -> Place | None:
    """Of `blockIdx.y * 8 + threadIdx.x / 32` (how: `/`), `blockIdx.x * 32 + threadIdx.x % 32`, `.. + threadIdx.y`."""
    match = _PLACE.fullmatch(plain(name, code))
    if match is None:
        return None
    per, wide = int(match["per"]), int(match["wide"] or 0)
    if match["own"] is None and match["how"] != how:
        return None
    return (match["axis"], per, wide) if match["own"] in (None, match["axis"]) else None


def _played(tile: int, each: int) -> bool:
    """Whether threads and their results are all places of a tile, once each."""
    across = tile // each
    done = {
        (t // across * each + i, t % across + j * across)
        for t in range(THREADS) for i in range(each) for j in range(each)
    }  # fmt: skip
    return len(done) == tile * tile == THREADS * each * each and max(max(p) for p in done) < tile
