"""Places that each thread asks a counter for: the block counts what its threads ask for, and asks once."""

from __future__ import annotations

import re

from kscope.features.sass.columns import total
from kscope.fixes.atomics.helpers import placed, placing
from kscope.fixes.atomics.reading import MODIFIED, Kernel, handed_out, kernel_of, returning, statements
from kscope.fixes.atomics.targets import BITS, WARP, Atomic, atomics_of, of_the_block, outside
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Span, closing, spans_edited
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

HELPER = "block_places"
LEAST = 4  # warps of a block, each of which asks once (the compiler adds up within one): fewer barely pay (judged)
_CONTROL = re.compile(r"(?:if|for|while|do|switch|else|return)\b|[{#]")
_CHOICE = re.compile(r"\?|&&|\|\||[{]")
_ONE = re.compile(r"\(?\s*(?:unsigned\s*)?\(?\s*[1-9]\d*[uUlL]*\s*\)?")


def fixes(asked: Asked) -> list[Fix]:
    setting, launch = asked.setting, asked.setting.launch
    kernel, atoms = kernel_of(setting), outside(setting)
    if kernel is None or launch is None or launch.threads % WARP or not of_the_block(setting, atoms):
        return []
    found, guards = atomics_of(kernel), returning(kernel)
    if len(found) != 1 or guards is None or found[0].function != "atomicAdd" or found[0].kind not in BITS:
        return []
    (one,) = found
    always = not guards and _straight(kernel, one, one.statement)
    spans = _spans(kernel, one, guards)
    constant = _ONE.fullmatch(one.value) is not None
    if not always and not constant and one.address != one.name:
        return []  # a block none of whose threads would have asked must not touch a place that may not be there
    flat = launch.block[1] * launch.block[2] == 1 and not re.search(r"\bthreadIdx\.[yz]", kernel.body)
    helper = placing(one.kind, flat=flat, idle=not always and constant)
    asking = max(setting.code.executed[i] for i in atoms)
    if _named(kernel, helper) or asking < LEAST * launch.blocks:
        return []
    edits = spans_edited(setting, kernel.text, spans)
    return [_fix(asked, one, helper, edits, constant=constant)] if edits else []


def _fix(asked: Asked, one: Atomic, helper: str, edits: list[Edit], *, constant: bool) -> Fix:
    setting, played = asked.setting, placed(helper)
    launch, atoms = setting.launch, outside(setting)
    counted = getattr(setting.code, "threads", setting.code.executed)
    return Fix(
        kind="aggregate",
        title=f"{one.name} asked once by each block, for the places of all its threads",
        language="cuda",
        code=helper,
        edits=edits,
        conditions=[
            proved("all threads of a block ask one counter", "code", atoms,
                   "neither a thread's number nor a loaded value reaches the address"),
            shown(played > 0, "no two threads get the same place, and none is left out", "values", played,
                  "blocks of 32 to 1,024 threads played with numbers drawn at random"),
            proved("warps are whole", "launch", launch.block if launch else (), "a multiple of 32"),
            reads("all threads of the block get to the barriers", "no return and no branch around them"),
            Condition(holds="every launch has blocks of a multiple of 32 threads", state="check"),
            Condition(holds="the order of the places does not matter", state="check", why="atomics have none"),
        ],
        proof=[
            Proof(what="atomics on global memory", before=max(total(counted, [i]) for i in atoms),
                  after=launch.blocks if launch else 0, unit="atomics", how="of all lanes; one of each block")
        ],
        costs=["at most 264 bytes of shared memory a block, two barriers"],
        price=asked.finding.estimate,
    )  # fmt: skip


def _named(kernel: Kernel, helper: str) -> bool:
    """Whether the file has another function of the helper's name."""
    return helper not in "\n".join(kernel.lines) and any(re.search(rf"\b{HELPER}\b", line) for line in kernel.lines)


def _straight(kernel: Kernel, one: Atomic, statement: tuple[int, int]) -> bool:
    """Whether whoever comes to a statement does its atomic, once, and uses what comes of it."""
    text = kernel.of(statement)
    others = text[: one.call[0] - statement[0]] + text[one.call[1] - statement[0] :]
    return not _CONTROL.match(text) and not _CHOICE.search(others) and re.fullmatch(r"\s*;?\s*", others) is None


def _spans(kernel: Kernel, one: Atomic, guards: list[tuple[int, int, str]]) -> list[Span]:
    """The helper in place of the atomic, where all threads come by: at the atomic itself, or in front of the branch
    that it is in, or of the return that spares some threads."""
    called = (one.call[0], one.call[0] + len("atomicAdd"), HELPER)
    if _straight(kernel, one, one.statement):
        if not guards or guards[0][0] > one.statement[0]:
            return [called]
        (start, end, test), *more = guards
        if more or "__syncthreads" in kernel.body or not _early(kernel, one, (end, one.statement[0]), start):
            return []
        return _before(kernel, one, f"!({test})", (start, end, f"if (!{one.name}_here) return;"))
    branch = _branch(kernel, one)
    if branch is None or any(g[0] < one.statement[0] for g in guards):
        return []
    test, (start, end), inside = branch
    if not _early(kernel, one, (inside, one.call[0]), start):
        return []
    return _before(kernel, one, test, (start, end, f"if ({one.name}_here)"))


def _before(kernel: Kernel, one: Atomic, test: str, head: tuple[int, int, str]) -> list[Span]:
    """test: which threads ask; head: what stands there instead of the test's place."""
    here, place = f"{one.name}_here", f"{one.name}_place"
    if re.search(rf"\b(?:{here}|{place})\b", kernel.text.code):
        return []
    start, end, new = head
    asked = f"{HELPER}({one.address}, {here} ? {one.value} : 0)"
    made = f"const bool {here} = {test};\n  const {one.kind} {place} = {asked};\n  {new}"
    return [(start, end, made), (one.call[0], one.call[1], place)]


def _branch(kernel: Kernel, one: Atomic) -> tuple[str, tuple[int, int], int] | None:
    """(test, span of `if (test)`, start of what it guards) of an if whose own statement has the atomic."""
    code, (start, end) = kernel.text.code, one.statement
    head = re.match(r"if\s*\(", code[start:end])
    close = closing(code, start + head.end()) if head is not None else None
    if head is None or close is None:
        return None
    test = code[start + head.end() : close]
    inside = close + 1 + len(code[close + 1 : end]) - len(code[close + 1 : end].lstrip())
    braces = code[inside] == "{"
    guarded = statements(code, inside + 1, end - 1) if braces else statements(code, inside, end)
    holds = next((s for s in guarded or () if s[0] <= one.call[0] < s[1]), None)
    others = ";" in test or re.search(r"(?<![=!<>])=(?!=)|\+\+|--", test) or re.search(r"\belse\b", code[inside:end])
    if holds is None or others or not _straight(kernel, one, holds) or (not braces and holds[0] != inside):
        return None
    return test, (start, close + 1), inside


def _early(kernel: Kernel, one: Atomic, between: tuple[int, int], before: int) -> bool:
    """Whether what a thread asks for, and whom, is known at a place before, and nothing between changes it."""
    code = kernel.text.code
    passed = code[between[0] : between[1]]
    around = code[kernel.opening : one.call[0]] + code[one.call[1] :]
    for name in set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", f"{one.value} {one.address}")):
        if re.search(rf"(?<![\w.]){name}\b(?:\s*\[[^\]]*\]|\.\w+)*{MODIFIED}|\b[a-z_]\w*[\s*&]+{name}\s*[;,]", passed):
            return False
        if handed_out(name, passed, code[kernel.opening :]):
            return False
        if re.search(rf"\b{name}\b", around) and not re.search(rf"\b{name}\b", code[:before]):
            return False  # made on the way
    return not re.search(r"__syncthreads|\b(?:continue|break|return)\b", passed)
