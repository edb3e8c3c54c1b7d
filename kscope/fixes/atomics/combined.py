"""Atomics of all threads of a block on one address, whose result nobody uses: the block combines them, and does one."""

from __future__ import annotations

import re

from kscope.fixes.atomics.helpers import OPERATIONS, combined, combining, neutral
from kscope.fixes.atomics.reading import Kernel, kernel_of, returning
from kscope.fixes.atomics.targets import WARP, Atomic, atomics_of, lanes, of_the_block, outside
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.kernel import Launch

LEAST = 4  # atomics of a block that become one, below which its barrier and shuffles are not worth it (judged)
MOST = 4  # of them in a kernel: each takes a register and a barrier (judged)
_FLOATS = ("float", "double")
_BEFORE = re.compile(r"(?:[;{}]|\belse|^)\s*$")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    kernel, atoms = kernel_of(setting), outside(setting)
    if kernel is None or launch is None or launch.threads % WARP or not of_the_block(setting, atoms):
        return []
    found, guards = atomics_of(kernel), returning(kernel)
    if not 0 < len(found) <= MOST or guards is None or not all(unused(kernel, one.call) for one in found):
        return []
    before, after = lanes(setting, atoms), launch.blocks * len(found)
    spans = _spans(kernel, found, guards)
    helpers = _helpers(kernel, found, launch)
    edits = spans_edited(setting, kernel.text, spans) if helpers and before >= LEAST * after else []
    return [_fix(asked, found, helpers, edits, (before, after))] if edits else []


def _fix(
    asked: Asked, found: list[Atomic], helpers: dict[str, str], edits: list[Edit], atomics: tuple[float, float]
) -> Fix:
    """helpers: text by function; atomics: of all lanes, before and after."""
    setting, names = asked.setting, list(dict.fromkeys(one.name for one in found))
    atoms = outside(setting)
    played = [combined(function, text) for function, text in helpers.items()]
    sums = any(one.kind in _FLOATS for one in found)
    return Fix(
        kind="aggregate",
        title=f"{' and '.join(names)}: what a block's threads have is combined first, one atomic a block",
        language="cuda",
        code="\n".join(helpers.values()),
        edits=edits,
        conditions=[
            proved("all threads of a block do it at one address", "code", atoms,
                   "neither a thread's number nor a loaded value reaches the address"),
            shown(all(played), "a block's value is that of its threads", "values", sum(played),
                  "blocks of 32 to 1,024 threads played with numbers drawn at random"),
            proved("warps are whole", "launch", setting.launch.block if setting.launch else (), "a multiple of 32"),
            reads("all threads of the block get to the barrier", "no return and no branch around it"),
            Condition(holds="every launch has blocks of a multiple of 32 threads", state="check"),
            Condition(holds="nobody waits for a part of the result", state="check", why="it comes at the block's end"),
            *([Condition(holds="the order in which floats are added does not matter", state="check",
                         why="atomics have none")] if sums else []),
        ],
        proof=[
            Proof(what="atomics on global memory", before=atomics[0], after=atomics[1], unit="atomics",
                  how="of all lanes; one of each block")
        ],
        costs=["at most 256 bytes of shared memory a block, a barrier"],
        price=asked.finding.estimate,
    )  # fmt: skip


def unused(kernel: Kernel, call: tuple[int, int]) -> bool:
    """Whether a call is a statement of its own."""
    code = kernel.text.code
    before = re.sub(r"#[^\n]*\n\s*$", "", code[kernel.opening : call[0]])
    if not re.match(r"\s*;", code[call[1] :]):
        return False
    if _BEFORE.search(before):
        return True
    depth, n = 0, len(before.rstrip()) - 1
    while n >= 0 and before.rstrip().endswith(")"):
        depth += (before[n] == ")") - (before[n] == "(")
        if not depth:
            return re.search(r"\b(?:if|for|while)\s*$", before[:n]) is not None
        n -= 1
    return False


def _helpers(kernel: Kernel, found: list[Atomic], launch: Launch) -> dict[str, str]:
    """The functions to add; none where two would have one name, or the file has one of it already."""
    flat = launch.block[1] * launch.block[2] == 1 and not re.search(r"\bthreadIdx\.[yz]", kernel.body)
    kinds = {(one.function, one.kind) for one in found}
    out = {f: combining(f, kind, flat=flat, again=len(found) > 1) for f, kind in sorted(kinds)}
    if len(out) < len(kinds):
        return {}
    for function, text in out.items():
        named = any(re.search(rf"\b{OPERATIONS[function].name}\b", line) for line in kernel.lines)
        if named and not (len(out) == 1 and text in "\n".join(kernel.lines)):
            return {}
    return out


def _spans(kernel: Kernel, found: list[Atomic], guards: list[tuple[int, int, str]]) -> list[Span]:
    """A call that is a statement of the kernel's own becomes the helper's. Any other one changes a value of its thread,
    which the helper takes behind the statement that it is in: where threads return before, at the kernel's end."""
    code, spans = kernel.text.code, list[Span]()
    early = [g for g in guards if g[0] < max(one.statement[0] for one in found)]
    if early and (
        "__syncthreads" in kernel.body or early != guards or early[-1][0] > min(one.statement[0] for one in found)
    ):
        return []
    ends = ""
    for number, one in enumerate(found):
        helper = OPERATIONS[one.function].name
        if not early and kernel.of(one.statement).startswith(one.function):
            spans.append((one.call[0], one.call[0] + len(one.function), helper))
            continue
        mine = f"{one.name}_mine{number or ''}"
        from_ = early[0][0] if early else one.statement[0]
        if re.search(rf"\b{mine}\b", code) or not _visible(kernel, one, from_):
            return []
        declared = f"{one.kind} {mine} = {neutral(one.function, one.kind)};\n{_margin(code, from_)}"
        spans.append((from_, from_, declared))
        head, tail = _into(one, mine)
        spans += [(one.call[0], one.at, head), (one.call[1] - 1, one.call[1], tail)]
        call = f"\n  {helper}({one.address}, {mine});"
        ends += call
        if not early:
            spans.append((one.statement[1], one.statement[1], call))
    for start, end, test in early:
        spans.append((start, end, f"if (!({test})) {{"))
    if early:
        spans.append((kernel.closing, kernel.closing, f"{'}' * len(early)}{ends}\n"))
    return _joined(spans)


def _into(one: Atomic, mine: str) -> tuple[str, str]:
    """What stands before an atomic's value, and behind it, where it goes into its thread's."""
    if one.function in ("atomicMax", "atomicMin"):
        return f"{mine} = {one.function[-3:].lower()}({mine}, ({one.kind})(", "))"
    sign = {"atomicAdd": "+=", "atomicAnd": "&=", "atomicOr": "|=", "atomicXor": "^="}[one.function]
    return f"{mine} {sign} ({one.kind})(", ")"


def _visible(kernel: Kernel, one: Atomic, at: int) -> bool:
    """Whether all names of an address are there at a place: parameters, or what the kernel has made before."""
    before = kernel.text.code[:at]
    return all(
        name in kernel.parameters or re.search(rf"\b{name}\s*=(?!=)", before) or name not in kernel.body.replace(
            one.address, "")
        for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", one.address)
        if name not in ("blockIdx", "gridDim", "blockDim")
    )


def _margin(code: str, at: int) -> str:
    """The blanks in front of what a place's line begins with."""
    line = code[code.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))] or ("" if line.startswith("#") else "  ")


def _joined(spans: list[Span]) -> list[Span]:
    """Insertions at one place in the order in which they were made, before what is replaced from there on."""
    out: list[Span] = []
    for start, end, new in sorted(spans, key=lambda one: (one[0], one[1])):
        if out and out[-1][0] == out[-1][1] == start:
            out[-1] = (start, end, out[-1][2] + new)
        else:
            out.append((start, end, new))
    return out
