"""Lanes of a warp that go different ways, as their elements say: a block looks at several elements a thread, puts them
in the order of their ways, and works on them in that order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.atomics.reading import Kernel, kernel_of
from kscope.fixes.given.conditions import proved
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import asked_here, closing, shape
from kscope.fixes.order.alike import CELLS, Side, alike, called, pointers
from kscope.fixes.order.pieces import GUARD, Element, changed_in, element, sliced
from kscope.fixes.order.sorting import Stored, sorting
from kscope.fixes.order.whole import body_edits, declared, named
from kscope.model.contract.findings import Finding
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.lazily import np

TIMES = (8, 4, 2, 1)  # elements a thread: the more, the fewer warps have two ways among theirs (judged)
FULL = 0.9  # of what the chip holds at once must be launched (judged)
MOST = 16  # ways that are told apart, each with a vote of the warp (judged)
PLAYED = 8  # old blocks that are played
WARP = 32
TOGETHER = ("SHFL", "VOTE", "MATCH", "REDUX")


class Ways(Struct, frozen=True):
    """`asked`: what is done to tell an element's way, guards among it; `way`: its number's text; `count` of them;
    `text`: of the branch, or of the test, as it stands in the kernel."""

    asked: tuple[str, ...]
    way: str
    count: int
    text: str


def fixes(asked: Asked) -> list[Fix]:
    setting, launch, code = asked.setting, asked.setting.launch, asked.setting.code
    kernel = kernel_of(setting)
    one = element(kernel) if kernel is not None else None
    found = ways(kernel, one) if kernel is not None and one is not None else None
    together = code.where(lambda ins, op: bool(op.kind & {"barrier", "mbarrier"}) or op.space == "shared"
                          or ins.opcode in TOGETHER)  # fmt: skip
    if kernel is None or one is None or found is None or launch is None or together:
        return []
    if launch.block[0] % WARP or max(*launch.block[1:], 1) > 1 or not asked_here(code, kernel.text, "TID"):
        return []
    stored = last_store(kernel, one)
    times = _times(setting, one, stored)
    if not times or not told(asked.finding, kernel, found.text):
        return []
    body = sorting(one, found.asked, found.way, found.count, launch.block[0], times, stored)
    played = same(kernel, one, found, body, launch.block[0], times) if body else 0
    edits = body_edits(setting, kernel.text, (kernel.opening, kernel.closing + 1), body) if played else []
    shared = _bytes(one, launch.block[0] * times, stored)
    return [_fix(asked, one, found, edits, times, (played, shared))] if edits else []


def last_store(kernel: Kernel, one: Element) -> Stored | None:
    """The store that every element ends with, where its place follows from the element alone."""
    rest, text = list(one.rest), "\n".join(one.rest)
    found = re.fullmatch(r"(?P<name>\w+)\s*\[(?P<at>[^\[\]=]*)\]\s*=(?!=)\s*(?P<value>[^;]*);", rest[-1].strip())
    if found is None or len(re.findall(rf"\b{found['name']}\b", kernel.body)) > 1:
        return None
    kind = pointers(kernel).get(found["name"], "")
    skipped = any(s.endswith(" continue;") for s in rest[_branch(rest)[0] :])
    moved = any(changed_in(d.name, text) for d in one.carried)
    own = any(named(d.name, found["at"]) for s in rest for d in declared(s))
    if kind not in ("float", "int", "unsigned") or skipped or moved or own:
        return None
    return Stored(found["name"], found["at"], found["value"], kind)


def _times(setting: Setting, one: Element, stored: Stored | None) -> int:
    """Elements a thread, so that the chip stays full and holds as many blocks; 0 where there are none."""
    launch, held = setting.launch, setting.occupancy()
    if launch is None or held is None or not setting.sms:
        return 0
    along, slots = launch.grid["xyz".index(one.axis)], held.blocks * setting.sms
    for n in TIMES:
        more = setting.occupancy(more_shared=_bytes(one, launch.block[0] * n, stored))
        fits = more is not None and more.blocks >= held.blocks
        if fits and along % n == 0 and (launch.blocks >= n * FULL * slots or n == 1):
            return n
    return 0


def _bytes(one: Element, elements: int, stored: Stored | None) -> int:
    words = sum(2 if d.kind == "size_t" else 1 for d in one.carried) + 2 * (stored is not None)
    return 4 * words * elements + 4 * MOST


def told(finding: Finding, kernel: Kernel, text: str) -> bool:
    """Whether the finding speaks of these lines."""
    at = kernel.text.code.find(text)
    first = kernel.text.first + kernel.text.code.count("\n", 0, at)
    lines = range(first, first + text.count("\n") + 1)
    return at >= 0 and any(x.line in lines for x in finding.locations)


def ways(kernel: Kernel, one: Element) -> Ways | None:
    """Of the first switch, or the longest if, or the last test that sends threads away; None where no datum decides."""
    rest = list(one.rest)
    n, branch = _branch(rest)
    told: tuple[str, str, int] | None = ("0", "", 1) if n else None
    if branch:
        told = _of_switch(branch) if branch.startswith("switch") else _of_if(branch)
    if told is None or told[2] > MOST:
        return None
    way, asks, count = told
    needs = sliced(rest[:n], asks)
    if needs is None or (count == 1 and not any("[" in part for part in needs)):
        return None
    if not branch:
        test = rest[n - 1][len("if (") : -len(") continue;")]
        branch = test[2:-1] if test.startswith("!(") and test not in kernel.text.code else test
    return Ways(tuple(needs), way, count, branch)


def _branch(rest: list[str]) -> tuple[int, str]:
    """(statements in front of it, its text) of a branch; the text is empty where tests alone tell threads apart."""
    switches = [n for n, text in enumerate(rest) if re.match(r"switch\b", text)]
    tests = [n for n, text in enumerate(rest) if GUARD.match(text) and not text.endswith(" continue;")]
    chosen = switches[:1] or sorted(tests, key=lambda n: -len(rest[n]))[:1]
    last = max((n + 1 for n, text in enumerate(rest) if text.endswith(" continue;")), default=0)
    return (chosen[0], rest[chosen[0]]) if chosen else (last, "")


def _of_switch(text: str) -> tuple[str, str, int] | None:
    """(number of the way, what it asks for, ways) of a switch over numbers."""
    head = re.match(r"switch\s*\(", text)
    close = closing(text, head.end()) if head is not None else None
    opened = text.find("{", close or 0)
    if head is None or close is None or opened < 0:
        return None
    key, labels, depth, at = text[head.end() : close].strip(), list[list[str]](), 0, opened + 1
    fresh = True
    while at < len(text) - 1:
        label = re.compile(r"(?:\bcase\b([^:?{};]+)|\bdefault\s*):(?!:)").match(text, at) if depth == 0 else None
        if label is not None:
            if fresh or not labels:
                labels.append([])
            labels[-1].append((label[1] or "").strip())
            at, fresh = label.end(), False
            continue
        depth += (text[at] in "({[") - (text[at] in ")}]")
        fresh = fresh or not text[at].isspace()
        at += 1
    groups = [one for one in labels if "" not in one]
    others = len(groups)
    if not groups or not re.fullmatch(r"[\w\s\[\].+\-*/%&|^<>()]+", key) or re.search(r"\+\+|--", key):
        return None
    chain = "".join(f"{' || '.join(f'key_n == {x}' for x in one)} ? {n} : " for n, one in enumerate(groups))
    return f"const auto key_n = {key};\n{chain}{others}", key, others + 1


def _of_if(text: str) -> tuple[str, str, int] | None:
    """The same of ifs and elses one after the other."""
    tests = list[str]()
    while head := GUARD.match(text):
        close = closing(text, head.end())
        if close is None:
            return None
        tests.append(text[head.end() : close].strip())
        rest = text[close + 1 :].lstrip()
        end = (closing(rest, 1) or 0) + 1 if rest[:1] == "{" else rest.find(";") + 1
        again = re.match(r"\s*else\b\s*", rest[end:])
        text = rest[end + again.end() :] if again is not None else ""
    if any(re.search(r"\+\+|--|(?<![=!<>])=(?!=)|\w\s*\(", t) for t in tests) or not tests:
        return None
    chain = "".join(f"({t}) ? {n} : " for n, t in enumerate(tests))
    return f"{chain}{len(tests)}", " ".join(tests), len(tests) + 1


def same(kernel: Kernel, one: Element, found: Ways, body: str, block: int, times: int) -> int:
    """How many results came out alike in both versions; 0 where one did not."""
    functions = called(kernel)
    if functions is None:
        return 0
    x, most = one.axis == "x", PLAYED * block
    grids = [(n, 1) if x else (1, n) for n in (PLAYED, PLAYED // times)]
    old = Side(kernel.text.code[kernel.opening : kernel.closing + 1], grids[0], (block, 1), opaque=functions)
    new = Side(body, grids[1], (block, 1), tickets=True, opaque=functions)
    numbers = [n for n, kind in kernel.parameters.items() if "*" not in kind]
    sizes = [dict.fromkeys(numbers, most - block // 2 - 1), dict.fromkeys(numbers, most)]
    sizes += [{**sizes[0], n: 0} for n in numbers[:MOST]]
    given = arrays_given(kernel, found, np.random.default_rng(block), one.found)
    return alike(kernel, old, new, sizes if numbers else [{}], given=given)


def arrays_given(kernel: Kernel, found: Ways, made: Any, finds: Sequence[str]) -> dict[str, Any]:
    """What arrays hold that an element's way is asked for, or the element itself. made: draws; finds: statements that
    find it."""
    given, asks = dict[str, Any](), " ".join((found.way, *found.asked))
    for name, kind in pointers(kernel).items():
        if kind in ("float", "double"):
            continue
        if re.search(rf"\b{name}\s*\[", asks):
            given[name] = made.integers(0, found.count + 2, CELLS)
        if re.search(rf"\b{name}\s*\[", " ".join(finds)):
            given[name] = made.permutation(CELLS)
    return given


def _fix(asked: Asked, one: Element, found: Ways, edits: list[Edit], times: int, sizes: tuple[int, int]) -> Fix:
    """sizes: results that were played, bytes of shared memory."""
    setting, launch, (played, shared) = asked.setting, asked.setting.launch, sizes
    assert launch is not None
    block = launch.block[0]
    grid = [n // times if axis == one.axis else n for axis, n in zip("xyz", launch.grid, strict=True)]
    given = [shape(grid), shape(launch.block), *([str(launch.shared_dynamic)] if launch.shared_dynamic else [])]
    warps = block * times // WARP
    before, after = lanes(setting, found.count), WARP / (1 + (found.count - 1) / warps)
    what = f"{found.count} ways" if found.count > 1 else "those that go on"
    even = Condition(holds=f"every launch has a multiple of {times} blocks along {one.axis}, of {block} threads",
                     state="check", why="shared memory holds the elements of so many")  # fmt: skip
    return Fix(
        kind="jam",
        title=f"{times * block} elements a block in the order of {what}: lanes of a warp go together",
        language="cuda",
        code=f"{setting.name}<<<{', '.join(given)}>>>(...);",
        edits=edits,
        parameters={"ways": found.count, "elements": times, f"grid.{one.axis}": grid["xyz".index(one.axis)]},
        conditions=[
            proved("every element is worked on once, with the same result", "values", played,
                   f"both versions played, {PLAYED} of the old blocks, every result compared"),
            proved("each thread works alone", "code", setting.code,
                   "no barrier, no shared memory, no exchange of lanes"),
            even,
        ],
        proof=[
            Proof(what="lanes at work of a warp, the mean", before=round(before, 1), after=round(after, 1),
                  unit="lanes", how=f"{found.count} ways over {warps} warps' elements: where one way ends and the next "
                  "begins, a warp has both")
        ],
        costs=[f"{shared} bytes of shared memory a block, three barriers",
               "neighbouring lanes no longer load for neighbouring elements"],
        price=asked.finding.estimate,
    )  # fmt: skip


def lanes(setting: Setting, count: int) -> float:
    """The mean of all instructions; of code that was not counted, what so many ways leave."""
    code = setting.code
    threads = getattr(code, "threads", None)
    ran = total(code.executed, range(len(code)))
    return total(threads, range(len(code))) / ran if threads is not None and any(threads) and ran else WARP / count
