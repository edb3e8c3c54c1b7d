"""Rounds of a loop whose loads wait for an index that the round loads first: the indices of several rounds are loaded
together, then what they lead to, then the sums are made in their old order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from kscope.features.patterns.loop_parallelism import elements_a_pass
from kscope.fixes.atomics.reading import Kernel, kernel_of, statements
from kscope.fixes.given.conditions import not_written, proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import closing, indented, statement_end
from kscope.fixes.order.alike import CELLS, Side, alike, called, pointers
from kscope.fixes.order.pieces import changed_in, sliced
from kscope.fixes.order.whole import body_edits, declared, named
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

TIMES = 8  # rounds that are on their way together (judged)
MOST = 4  # loads of a round: as many values of each round in registers (judged)
LENGTH = 21  # of the lists that are played, the longest
_FOR = re.compile(r"\bfor\s*\(")
_STEP = re.compile(r"\+\+\s*(?P<a>\w+)|(?P<b>\w+)\s*\+\+|(?P<c>\w+)\s*\+=\s*1")
_BREAK = re.compile(r"if\s*\((?P<test>.*)\)\s*\{?\s*break\s*;\s*\}?", re.S)
_ADDS = re.compile(r"\w+(?:\.\w)?\s*[-+*|&^]?=(?!=)[^;]*;|\w+(?:\.\w)?\s*(?:\+\+|--)\s*;")
_NEVER = re.compile(r"\?|&&|\|\||\b(?:asm|goto|atomic\w*|__\w*sync\w*|continue|return)\b|\+\+|--|\{")
_LOAD = re.compile(r"(?<![\w.])(?<!->)(?P<name>\w+)\s*\[")


class Load(Struct, frozen=True):
    """`name[at]` of statement `of`, kept as `kept`; `level`: how many loads its place waits for; `at` has those in
    front of it put in."""

    name: str
    kind: str
    at: str
    of: int
    level: int
    kept: str


class Walk(Struct, frozen=True):
    """`for (first; name < end; name++)`: `span` from its pragma or its word to the end of its statement; `steps`: the
    round's statements with loads put in; `test`: number of the one that leaves the loop, or none, and what it asks."""

    first: str
    name: str
    end: str
    span: tuple[int, int]
    steps: tuple[str, ...]
    loads: tuple[Load, ...]
    stop: int
    test: str


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    kernel = kernel_of(setting)
    if kernel is None or launch is None or launch.block[2] * launch.grid[2] > 1:
        return []
    for one in walks(kernel):
        first, last = (kernel.text.first + kernel.text.code.count("\n", 0, at) for at in one.span)
        if not any(first <= (x.line or 0) <= last for x in asked.finding.locations):
            continue
        if one.stop < 0 and _unrolled(setting, first, last):
            continue
        new = written(one)
        played = same(kernel, one, new, (launch.block[0], launch.block[1]))
        edits = body_edits(setting, kernel.text, one.span, new) if played else []
        if edits:
            return [_fix(asked, one, edits, played)]
    return []


def _unrolled(setting: Setting, first: int, last: int) -> bool:
    """Whether the compiler has loads of several rounds on their way already. Measured: rounds of four that it had put
    together became slower by eight (0.74x)."""
    code = setting.code
    loads = code.ran(code.where(lambda ins, op: op.space in ("global", "generic") and op.access == "load"))
    around = {code.cfg.loop_of[i] for i in loads if any(first <= line <= last for _, line in setting.sites(i))}
    return any(loop is not None and elements_a_pass(code, loop) > 1 for loop in around)


def walks(kernel: Kernel) -> list[Walk]:
    """Loops of one head without others in them."""
    out = list[Walk]()
    for first, name, end, span, body in counted(kernel):
        inner = body[1:-1] if body[:1] == "{" else body
        steps = [inner[slice(*s)] for s in statements(inner, 0, len(inner)) or ()]
        one = _walk(kernel, first, name, end, span, steps)
        out += [one] if one is not None else []
    return out


def counted(kernel: Kernel) -> Iterator[tuple[str, str, str, tuple[int, int], str]]:
    """Loops `for (first; name < end; name++) body` with their spans, from a pragma in front of them on."""
    code = kernel.text.code
    for match in _FOR.finditer(code, kernel.opening):
        close = closing(code, match.end())
        parts = code[match.end() : close].split(";") if close is not None else []
        if close is None or len(parts) != 3:
            continue
        begin = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        stop = statement_end(code, begin)
        step, test = _STEP.fullmatch(parts[2].strip()), re.fullmatch(r"(\w+)\s*<\s*([^<>=&|?]+)", parts[1].strip())
        name = (step["a"] or step["b"] or step["c"]) if step is not None else ""
        if stop is None or test is None or test[1] != name or re.search(r"\w\s*\(|\[", test[2]):
            continue
        pragma = re.search(r"#\s*pragma\s+unroll[^\n]*\n\s*$", code[: match.start()])
        start = pragma.start() if pragma is not None else match.start()
        yield parts[0].strip(), name, test[2].strip(), (start, stop), code[begin:stop]


def _walk(kernel: Kernel, first: str, name: str, end: str, span: tuple[int, int], steps: list[str]) -> Walk | None:
    tests = {n: m["test"] for n, s in enumerate(steps) if (m := _BREAK.fullmatch(s.strip())) is not None}
    stop, asks = next(iter(tests.items()), (-1, ""))
    steady = not any(changed_in(n, "\n".join(steps)) for n in {name, *re.findall(r"[A-Za-z_]\w*", end)})
    plain = all(n in tests or _plain(s) for n, s in enumerate(steps))
    if not steady or not plain or len(tests) > 1 or re.search(r"\[|\w\s*\(|(?<![=!<>])=(?!=)|\+\+|--", asks):
        return None
    found = _loads(kernel, pointers(kernel), [s if n not in tests else "" for n, s in enumerate(steps)])
    if found is None or not 1 < len(found[1]) <= MOST or max(x.level for x in found[1]) != 1:
        return None
    if any(named(n, kernel.text.code) for n in ("round_n", "here_n", "at_n", *(x.kept for x in found[1]))):
        return None
    return Walk(first, name, end, span, tuple(found[0]), tuple(found[1]), stop, asks)


def _plain(step: str) -> bool:
    """Whether a statement declares, or changes a value of its thread, in every round."""
    return not _NEVER.search(step) and bool(declared(step) or _ADDS.fullmatch(step.strip()))


def _loads(kernel: Kernel, kinds: dict[str, str], steps: list[str]) -> tuple[list[str], list[Load]] | None:
    """The statements with the values of their loads put in, and the loads, in an order in which they can be made; None
    where something else is indexed."""
    out, loads, waits = list[str](), list[Load](), dict[str, int]()
    for n, step in enumerate(steps):
        text = step
        while found := list(_LOAD.finditer(text)):
            last = found[-1]  # none is within another one's brackets behind it
            close = closing(text, last.end())
            kind = kinds.get(last["name"], "")
            if close is None or "const" not in kernel.parameters.get(last["name"], "") or not kind:
                return None
            at = text[last.end() : close]
            before = [waits[w] for w in re.findall(r"[A-Za-z_]\w*", at) if w in waits]
            again = next((x for x in loads if (x.name, x.at) == (last["name"], at)), None)
            count = sum(x.name == last["name"] for x in loads)
            kept = again.kept if again is not None else f"{last['name']}_of{count + 1 if count else ''}"
            if again is None:
                loads.append(Load(last["name"], kind, at, n, max(before, default=-1) + 1, kept))
                waits[kept] = loads[-1].level
            text = f"{text[: last.start()]}{kept}[round_n]{text[close + 1 :]}".replace(f"{kept}[round_n]", f"{kept}@")
        for made in declared(step):
            inside = [waits[w] for w in re.findall(r"[A-Za-z_]\w*", text) if w in waits]
            waits[made.name] = max(inside, default=-1)
        out.append(text)
    return [s.replace("@", "[round_n]") for s in out], [
        Load(x.name, x.kind, x.at.replace("@", "[round_n]"), x.of, x.level, x.kept) for x in loads
    ]


def _stage(one: Walk, level: int, *, early: bool) -> list[str] | None:
    """Loads of a level in front of the test that leaves, or behind it, with what their places ask for."""
    mine = [x for x in one.loads if x.level == level and (one.stop < 0 or (x.of < one.stop) == early)]
    needs = sliced(one.steps[: max((x.of for x in mine), default=0)], " ".join(x.at for x in mine))
    return None if needs is None else [*needs, *(f"{x.kept}[round_n] = {x.name}[{x.at}];" for x in mine)]


def _behind(one: Walk) -> list[str] | None:
    """Loads that wait, and those behind the test; None where a test waits for two."""
    if one.stop < 0:
        return _stage(one, 1, early=True)
    late, led = _stage(one, 0, early=False), _stage(one, 1, early=False)
    if late is None or led is None or _stage(one, 1, early=True):
        return None
    return list(dict.fromkeys([*late, *led]))


def written(one: Walk) -> str:
    """The loop as it will be; "" where what a load's place needs is not all there."""
    each = f"#pragma unroll\nfor (int round_n = 0; round_n < {TIMES}; round_n++)"

    def of(text: str, at: str = f"({one.name} + round_n)") -> str:
        return re.sub(rf"(?<![\w.])(?<!->){one.name}\b", at, text)

    def last(text: str) -> str:
        return of(text, "at_n")

    early, behind, asks = _stage(one, 0, early=True), _behind(one), sliced(one.steps[: max(one.stop, 0)], one.test)
    if early is None or behind is None or asks is None:
        return ""
    leaves = f"""{each} {{
if (round_n > 0) here_n[round_n] &= here_n[(round_n + {TIMES - 1}) % {TIMES}];
if (here_n[round_n]) {{
{chr(10).join(map(of, asks))}
if ({of(one.test)}) here_n[round_n] = false;
}}
}}"""
    # Loads of rounds behind the end are the last round's: without a branch they are all on their way at once.
    clamped = f"const auto at_n = {one.name} + round_n < {one.end} ? {one.name} + round_n : {one.end} - 1;"
    led_by = ["if (here_n[round_n]) {", *map(of, behind), "}"]
    if one.stop < 0:
        led_by = [clamped * any(named(one.name, s) for s in behind), *map(last, behind)]
    kept = " ".join(f"{x.kind} {x.kept}[{TIMES}];" for x in one.loads)
    return indented(
        f"""for ({one.first}; {one.name} < {one.end}; {one.name} += {TIMES}) {{
bool here_n[{TIMES}]; {kept}
{each} {{
{clamped}
here_n[round_n] = {one.name} + round_n < {one.end};
{chr(10).join(map(last, early))}
}}
{leaves if one.stop >= 0 else ''}
{each} {{
{chr(10).join(led_by)}
}}
{each} {{
if (here_n[round_n]) {{
{chr(10).join(of(s) for s in one.steps if s)}
}}
}}
if (!here_n[{TIMES - 1}]) {{
{each} {one.name} += here_n[round_n];
break;
}}
}}"""
    )


def same(kernel: Kernel, one: Walk, new: str, block: tuple[int, int]) -> int:
    """How many results came out alike in both versions; 0 where one did not."""
    functions, code = called(kernel), kernel.text.code
    if functions is None or not new:
        return 0
    bodies = (code[kernel.opening : kernel.closing + 1],
              code[kernel.opening : one.span[0]] + new + code[one.span[1] : kernel.closing + 1])  # fmt: skip
    old, other = (Side(body, (2, 1), block, opaque=functions) for body in bodies)
    made, given = np.random.default_rng(TIMES), {}
    for name, kind in pointers(kernel).items():
        if kind in ("int", "unsigned", "int64_t", "long long", "uint32_t"):
            drawn = made.integers(1, 500, CELLS)
            ends = (made.random(CELLS) < 1 / LENGTH) & (one.stop >= 0)
            given[name] = np.where(ends, -made.integers(0, 2, CELLS), drawn)
            if re.search(rf"\b{name}\s*\[", code[: one.span[0]] + one.first):  # where lists begin and end
                given[name] = np.cumsum(made.integers(0, LENGTH, CELLS))
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    sizes = [dict.fromkeys(numbers, size) for size in (7, 12, LENGTH)] if numbers else [{}]
    lists = [x.name for x in one.loads if x.of < one.stop]
    return alike(kernel, old, other, sizes, given=given, beyond=lists)


def _fix(asked: Asked, one: Walk, edits: list[Edit], played: int) -> Fix:
    code = asked.setting.code
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    names = [x.name for x in one.loads]
    lists = ", ".join(f"{x.name}[]" for x in one.loads if x.of < one.stop)
    behind = Condition(holds=f"{one.name} < {one.end} alone keeps {lists} within what is there", state="check",
                       why="entries behind the one that ends a list are loaded, too")  # fmt: skip
    return Fix(
        kind="unroll",
        title=f"{TIMES} rounds of {', '.join(dict.fromkeys(names))}[] on their way together, summed in their order",
        language="cuda",
        edits=edits,
        parameters={"rounds": TIMES},
        conditions=[
            proved("every result is the same", "values", played,
                   "both versions played on lists of several lengths, every result compared"),
            *not_written(code, loads),
            *([behind] if lists else []),
            Condition(holds=f"registers hold the values of {TIMES} rounds without spills", state="check",
                      why="kscope fix --check on the new cubin"),
        ],
        proof=[
            Proof(what="times that a thread waits for an index and for what it leads to, in eight rounds",
                  before=2 * TIMES, after=2, unit="waits",
                  how="as the text reads: a round's index, then its load; of eight rounds together"),
        ],
        costs=[f"{TIMES * len(names)} values a thread in registers"],
        price=asked.finding.estimate,
    )  # fmt: skip
