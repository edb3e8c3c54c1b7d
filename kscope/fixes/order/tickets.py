"""Places in lists that each thread asks a counter of its list for: a block counts those of several elements a thread
in shared memory, and asks once for each list."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import MODIFIED, Kernel, changed, kernel_of, returning, statements
from kscope.fixes.given.conditions import reads, shown
from kscope.fixes.given.rewrite import Call, calls_of
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import constants, evaluated
from kscope.fixes.given.text import closing, indented, shape
from kscope.fixes.memory import tickets
from kscope.fixes.order.alike import CELLS, Side, alike, pointers
from kscope.fixes.order.whole import Declared, body_edits, declared, named
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

TIMES = (8, 4, 2)  # elements a thread: their places, lists and indices are held in registers (judged)
COUNTED = 7  # below it, what the lists of a play hold before
PLAYED = 16  # old blocks that are played
ROUND, BLOCK, LIST = "round_n", "block_n", "list_n"
_USED = re.compile(r"[=(,+\-]\s*(?:\(\s*(?:int|unsigned)\s*\)\s*)?$")
_MEETS = re.compile(
    r"__shared__|\b__sync\w*|\b__\w+_sync\b|\b(?:asm|goto|static|gridDim|clock\w*)\b|#(?!\s*pragma\s+unroll)"
)
_DOES = re.compile(r"(?:if|for|while)\b|#|\{|[\w.\[\]]+\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)|\w+\s*\(")
_BRANCHES = re.compile(r"(?:if|for|while|do|switch)\b|\{")
_BOUND = re.compile(r"(?P<before>.*)(?P<by>[%&])\s*(?P<number>\(?\w+(?:\s*-\s*\d+)?\)?)", re.S)
_BYTES = ("unsigned char", "uint8_t")


class Ticket(Struct, frozen=True):
    """`head` is what is done up to the ticket, `tail` from its statement on, in which `call` stands, with what tells
    whether a thread goes on. name, kind: of the counters; at: the list's own name or text; apart: how far counters are
    from each other; count: lists."""

    head: str
    tail: str
    call: str
    name: str
    kind: str
    at: str
    apart: str
    count: int
    axis: str
    some: bool


def fixes(asked: Asked) -> list[Fix]:
    """Of several elements a thread, where that is shown; else of one."""
    setting = asked.setting
    kernel = kernel_of(setting)
    one = ticket(kernel) if kernel is not None else None
    times, before, after = _atomics(setting, one) if one is not None else (0, 0.0, 0.0)
    body = written(one, times) if one is not None and times else ""
    if kernel is None or one is None or not body:
        return tickets.fixes(asked)
    played = same(kernel, one, body, (setting.block[0], setting.block[1]), times)
    edits = body_edits(setting, kernel.text, (kernel.opening, kernel.closing + 1), body)
    return [_fix(asked, one, edits, times, played, (before, after))] if played else tickets.fixes(asked)


def _atomics(setting: Setting, one: Ticket) -> tuple[int, float, float]:
    """(old blocks that become one, atomics of lanes before, and after): 0 where too few blocks would be left."""
    launch, held = setting.launch, setting.occupancy()
    others = [n for a, n in zip("xyz", launch.grid, strict=True) if a != one.axis] if launch is not None else [2]
    if launch is None or held is None or max(*others, launch.block[2]) > 1:
        return 0, 0, 0
    along, slots = launch.grid["xyz".index(one.axis)], held.blocks * setting.sms
    times = next((n for n in TIMES if along % n == 0 and launch.blocks >= n * slots), 1)
    code = setting.code
    atoms = code.ran(code.where(lambda ins, op: op.access in ("atomic", "reduction")))
    before = total(getattr(code, "threads", [32 * n for n in code.executed]), atoms)
    after = launch.blocks // times * one.count
    return (times if times > 1 and after < before else 0), before, after


def _fix(
    asked: Asked, one: Ticket, edits: list[Edit], times: int, played: int, atomics: tuple[float, float]
) -> Fix:  # fmt: skip
    setting, launch = asked.setting, asked.setting.launch
    assert launch is not None
    grid = [n // times if axis == one.axis else n for axis, n in zip("xyz", launch.grid, strict=True)]
    given = [shape(grid), shape(launch.block), *([str(launch.shared_dynamic)] if launch.shared_dynamic else [])]
    return Fix(
        kind="aggregate",
        title=f"{one.name}[] asked once for each list by each block, which counts {times} elements a thread",
        language="cuda",
        code=f"{setting.name}<<<{', '.join(given)}>>>(...);",
        edits=edits,
        parameters={"lists": one.count, "elements": times, f"grid.{one.axis}": max(grid)},
        conditions=[
            shown(played > 0, "no two elements get the same place, and none is left out", "values", played,
                  f"both versions played, {PLAYED} of the old blocks, every result compared"),
            reads(f"there are {one.count} lists", "the list's number is cut to that"),
            Condition(holds="the order within a list does not matter", state="check", why="atomics have none"),
            Condition(holds=f"every launch has a multiple of {times} blocks along {one.axis}", state="check"),
        ],
        proof=[
            Proof(
                what="atomics on global memory", before=atomics[0], after=atomics[1], unit="atomics",
                how=f"of all lanes; at most {one.count} of each block, of {launch.blocks // times} blocks",
            )
        ],
        costs=[f"{8 * one.count} bytes of shared memory a block, three barriers",
               f"the values of {times} elements in registers"],
        price=asked.finding.estimate,
    )  # fmt: skip


def same(kernel: Kernel, one: Ticket, body: str, block: tuple[int, int], times: int) -> int:
    """How many results came out alike in both versions; 0 where one did not."""
    x = one.axis == "x"
    grids = [(n, 1) if x else (1, n) for n in (PLAYED, PLAYED // times)]
    old, new = (Side(text, grid, block, tickets=True) for text, grid in zip((_code(kernel), body), grids, strict=True))
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    threads = PLAYED * block[0] * block[1]
    sizes = [dict.fromkeys(numbers, size) for size in (threads - block[0] // 2 - 1, threads)] if numbers else [{}]
    counters = np.arange(CELLS) % COUNTED  # lists that hold something
    return alike(kernel, old, new, sizes, given={one.name: counters})


def _code(kernel: Kernel) -> str:
    return kernel.text.code[kernel.opening : kernel.closing + 1]


def ticket(kernel: Kernel) -> Ticket | None:
    """The one ticket of a kernel whose threads do nothing else together; None where it is another kernel."""
    code = kernel.text.code
    calls = [c for c in calls_of(code, "atomicAdd") if c.start > kernel.opening]
    axes = set(re.findall(r"\bblockIdx\s*\.\s*([xyz])", kernel.body))
    if len(calls) != 1 or len(axes) != 1 or len(re.findall(r"\batomic", kernel.body)) != 1 or _bound_to_place(kernel):
        return None
    (call,) = calls
    parts = _parts(kernel, call.start) if _USED.search(code[: call.start]) else None
    counter = _counter(kernel, call)
    if parts is None or counter is None:
        return None
    name, kind, at, apart = counter
    count = _lists(kernel, parts[0], at)
    if count is None or not 1 < count <= tickets.MOST:
        return None
    some = "continue;" in parts[0]
    return Ticket(*parts, code[call.start : call.end], name, kind, at, apart, count, axes.pop(), some)


def _bound_to_place(kernel: Kernel) -> bool:
    """Whether threads meet, or change what would be another block's in the next round."""
    given = "|".join(kernel.parameters)
    moved = rf"(?<![\w.])(?<!->)(?:{given}){MODIFIED}|(?:\+\+|--)\s*(?:{given})\b"
    words = set(re.findall(r"\w+", kernel.text.code))
    return bool({ROUND, BLOCK, LIST} & words or _MEETS.search(kernel.body) or re.search(moved, kernel.body))


def _counter(kernel: Kernel, call: Call) -> tuple[str, str, str, str] | None:
    """Name and type of the counters, the list's number, and how far they are apart, of an atomic that adds one."""
    place = re.fullmatch(r"&\s*(\w+)\s*\[(.*)\]|(\w+)\s*\+\s*(.+)", call.arguments[0], re.S)
    if place is None or len(call.arguments) != 2 or not re.fullmatch(r"\(?1[uU]?\)?", call.arguments[1]):
        return None
    name, index = (place[1], place[2].strip()) if place[1] else (place[3], place[4].strip())
    kind = pointers(kernel).get(name, "").replace("unsigned int", "unsigned")
    found = re.fullmatch(r"(?P<list>\w+|\(.*\)|[^*]*)\s*(?P<apart>\*\s*\w+)?", index, re.S)
    if kind not in ("int", "unsigned") or found is None or len(re.findall(rf"\b{name}\b", kernel.body)) != 1:
        return None
    return name, kind, found["list"].strip(), found["apart"] or ""


def _parts(kernel: Kernel, at: int) -> tuple[str, str] | None:
    """What stands in front of the ticket's statement, and the rest, with returns as ends of a round: also where both
    are in the kernel's last statement, an if."""
    guards = returning(kernel)
    n = next((n for n, (start, end) in enumerate(kernel.statements) if start <= at < end), None)
    if guards is None or n is None:
        return None
    tests = {(start, end): test for start, end, test in guards}
    before, rest = (
        [f"if ({tests[s]}) continue;" if s in tests else kernel.of(s) for s in part]
        for part in (kernel.statements[:n], kernel.statements[n:])
    )
    if not _BRANCHES.match(rest[0]):
        return "\n".join(before), "\n".join(rest)
    inside = _inside(kernel, kernel.statements[n], at) if len(rest) == 1 else None
    return ("\n".join([*before, inside[0]]), inside[1]) if inside is not None else None


def _inside(kernel: Kernel, span: tuple[int, int], at: int) -> tuple[str, str] | None:
    """The same of an if without an else."""
    one = kernel.of(span)
    head = re.match(r"if\s*\(", one)
    close = closing(one, head.end()) if head is not None else None
    if head is None or close is None or re.search(r"\belse\b", one):
        return None
    first = span[0] + close + 1 + len(one[close + 1 :]) - len(one[close + 1 :].lstrip())
    braces = kernel.text.code[first] == "{"
    inside = statements(kernel.text.code, first + 1, span[1] - 1) if braces else [(first, span[1])]
    mine = next((k for k, (a, b) in enumerate(inside or ()) if a <= at < b), None)
    if inside is None or mine is None or _BRANCHES.match(kernel.of(inside[mine])):
        return None
    before = [f"if (!({one[head.end() : close]})) continue;", *(kernel.of(s) for s in inside[:mine])]
    return "\n".join(before), "\n".join(kernel.of(s) for s in inside[mine:])


def _lists(kernel: Kernel, head: str, at: str) -> int | None:
    """How many lists there are: what a number that is never negative is cut to, or a byte."""
    value, kind = at, ""
    if re.fullmatch(r"\w+", at):
        made = [d for s in statements(head, 0, len(head)) or () for d in declared(head[slice(*s)]) if d.name == at]
        if len(made) != 1 or changed(kernel.body, at) != 1 or made[0].array:
            return None
        value, kind = made[0].value, made[0].kind
    value = _bare(value)
    loaded = re.fullmatch(r"(?:\(\s*\w+\s*\)\s*)?(\w+)\s*\[[^][]*\]", value)
    if loaded is not None:
        pointed = " ".join(re.sub(r"\bconst\b|\*|__restrict__", "", kernel.parameters.get(loaded[1], "")).split())
        return 256 if pointed in _BYTES else None
    cut = _BOUND.fullmatch(value)
    if cut is None or cut["before"].count("(") != cut["before"].count(")") or re.search(r"[?|^,]", cut["before"]):
        return None
    number = evaluated(cut["number"].rstrip("uU"), constants(kernel.lines))
    unsigned = kind in ("unsigned", "size_t", "uint32_t", "unsigned int") or cut["number"].lower().endswith("u")
    if number is None or number < 1 or (cut["by"] == "%" and not unsigned):
        return None
    return number if cut["by"] == "%" else number + 1


def _bare(value: str) -> str:
    while value[:1] == "(" and closing(value, 1) == len(value) - 1:
        value = value[1:-1].strip()
    return value


def written(one: Ticket, times: int) -> str:
    """The body as it will be, from brace to brace; "" where a name of the head is none that an array can keep."""
    kept = _kept(one)
    at = one.at if re.fullmatch(r"\w+", one.at) else f"{one.name}_list"
    own, here, mine, base = (f"{one.name}_{n}" for n in ("own", "here", "mine", "base"))
    text = one.head + one.tail
    if kept is None or any(named(n, text) for n in (own, here, mine, base, f"{one.name}_list")):
        return ""
    each = f"#pragma unroll\n  for (int {ROUND} = 0; {ROUND} < {times}; {ROUND}++)"
    block = f"const unsigned {BLOCK} = blockIdx.{one.axis} * {times} + {ROUND};"
    arrays = [f"{d.kind} {d.name}_of[{times}];" for d in kept] + [f"bool {here}[{times}];"] * one.some
    back = [f"{'const ' if d.const else ''}{d.kind} {d.name} = {d.name}_of[{ROUND}];" for d in kept]
    tail = one.tail.replace(one.call, f"({base}[{at}] + {own}[{ROUND}])", 1)
    head, tail = (re.sub(rf"\bblockIdx\s*\.\s*{one.axis}\b", BLOCK, part) for part in (one.head, tail))
    flags = [f"{here}[{ROUND}] = {n};" if one.some else "" for n in ("false", "true")]
    flat = not re.search(r"\bthreadIdx\s*\.\s*[yz]", text)
    first = "threadIdx.x" if flat else "threadIdx.x + blockDim.x * threadIdx.y"
    step = "blockDim.x" if flat else "blockDim.x * blockDim.y"
    lists = f"for (int {LIST} = {first}; {LIST} < {one.count}; {LIST} += {step})"
    place = f"{LIST} {one.apart}".strip()
    return indented(
        f"""{{
  __shared__ {one.kind} {mine}[{one.count}], {base}[{one.count}];
  {lists} {mine}[{LIST}] = 0;
  __syncthreads();
  {one.kind} {own}[{times}]; {' '.join(arrays)}
  {each} {{
  {block if BLOCK in head else ''}
  {flags[0]}
  {head}
  {f'const int {at} = {one.at};' if at != one.at else ''}
  {' '.join(f'{d.name}_of[{ROUND}] = {d.name};' for d in kept)}
  {flags[1]}
  }}
  {each} {f'if ({here}[{ROUND}]) ' * one.some}{own}[{ROUND}] = atomicAdd(&{mine}[{at}_of[{ROUND}]], 1);
  __syncthreads();
  {lists} {base}[{LIST}] = {mine}[{LIST}] ? atomicAdd(&{one.name}[{place}], {mine}[{LIST}]) : 0;
  __syncthreads();
  {each} {{
  {f'if (!{here}[{ROUND}]) continue;' * one.some}
  {block if BLOCK in tail else ''}
  {' '.join(back)}
  {tail}
  }}
}}"""
    )


def _kept(one: Ticket) -> list[Declared] | None:
    """What the head declares and the tail asks for; None where that is no number, or the head does something else."""
    kept: list[Declared] = []
    for span in statements(one.head, 0, len(one.head)) or ():
        text = one.head[slice(*span)]
        made = declared(text)
        if not made and not _DOES.match(text):
            return None
        kept += [d for d in made if named(d.name, f"{one.tail} {one.at}")]
    if not re.fullmatch(r"\w+", one.at):
        kept.append(Declared(f"{one.name}_list", "int", True, one.at, False))
    taken = any(d.array or named(f"{d.name}_of", one.head + one.tail) for d in kept)
    return None if taken else kept
