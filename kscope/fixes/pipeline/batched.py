"""Products of wgmma that are waited for one by one: several of them between a fence and their wait."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing
from kscope.fixes.atomics.effects import changed
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import evaluated
from kscope.fixes.given.text import Loop, by_line, closing, kernel_text, loops, spans_edited, statement_end
from kscope.fixes.pipeline.rounds import given, live, numbers
from kscope.model.contract.fixes import Condition, Fix, Proof

TOGETHER = 16
"""Products behind one wait (measured: 2.18x of one by one for m64n64k16; four and more keep the pipe full)."""
LEAST = 4
_ROLES = {
    "fence": "wgmma.fence", "commit": "wgmma.commit_group", "wait": "wgmma.wait_group", "product": "wgmma.mma_async",
}  # fmt: skip
_KNOWN = {"warpgroup_arrive": "fence", "warpgroup_commit_batch": "commit", "warpgroup_wait": "wait"}
"""CUTLASS's names of them."""
_CALL = re.compile(r"(?:\w+::)*(\w+)\s*(?:<\s*(\w+)\s*>\s*)?\(")
_PRAGMA = re.compile(r"#\s*pragma\s+unroll[^\n]*\n")


class Rounds(Struct, frozen=True):
    """A loop whose rounds are `fence; products; commit; wait` and nothing else: their texts, and how many products a
    round has, as written (`count`) and here."""

    loop: Loop
    fence: str
    products: str
    behind: str
    count: str
    each: int


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    issued = code.ran(code.where(lambda ins, op: ins.opcode.endswith("GMMA")))
    waits = code.ran(code.where(lambda ins, op: ins.opcode == "WARPGROUP" and "DEPBAR" in ins.mods))
    text = kernel_text(setting)
    if not issued or not waits:
        return []
    each = total(code.executed, issued) / max(1.0, total(code.executed, waits))
    refused = [_refused(each)] if any(code.cfg.loop_of[i] is not None for i in issued) else []
    if text is None:
        return refused
    lines, instance = setting.lines(text.file), given(setting, text)
    known = numbers(setting, text, instance)
    way = live(text.code, instance.values)
    found = [r for one in loops(way) if (r := rounds(way, one, "\n".join(lines), known)) is not None]
    if len(found) != 1:
        return refused
    (one,) = found
    few = _few(one, known)
    pure, new = _run(code, issued, few) if few else _pure(code, issued), _written(one, few)
    edits = spans_edited(setting, text, by_line(way, (one.loop.span[0], one.loop.body[1], new))) if new else []
    if not edits or not pure:
        return refused
    played = _played()
    order = [] if few else [shown(played > 0, "the same products in the same order", "values", played,
                                  "loops of many lengths and steps, what is left one by one")]  # fmt: skip
    return [
        Fix(
            kind="stages",
            title=f"{few or TOGETHER} products behind one wait{'' if few else ', and what is left of them one by one'}",
            language="cuda",
            edits=edits,
            parameters={"products": few or TOGETHER},
            conditions=[
                reads("a round is a fence, products, a commit and their wait", f"the loop over {one.loop.name}"),
                proved("nothing else of a round touches memory, a barrier or the sums", "code", pure,
                       "instructions of the loops that hold the products, or between them"),
                *order,
                Condition(
                    holds="products of one shape add to the same registers in the order in which they are issued",
                    state="assumed", why="PTX ISA, wgmma.fence",
                ),
            ],
            proof=[
                Proof(what="products that one wait is for", before=round(each, 2), after=few or TOGETHER,
                      how=f"{one.each} a round now"),
            ],
            costs=[] if few else [f"code of {TOGETHER} products, and of the rest"],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _refused(each: float) -> Fix:
    """A wait that leaves one in flight was tried, and changed nothing, as the compiler waits by itself where a loop
    carries the sums (its note C7515)."""
    return Fix(
        kind="stages",
        title="several products behind one wait",
        proof=[Proof(what="products that one wait is for", before=round(each, 2), after=LEAST)],
        refused=(
            f"{each:.1f} products stand between a fence and their wait. A wait that leaves one group in flight "
            "brings nothing where the loop carries the sums: the compiler waits then. Issue four and more between "
            "wgmma.fence and commit_group: the loop goes on by as many, which its text alone does not allow"
        ),
    )


def _pure(code: Listing, issued: list[int]) -> int:
    """Instructions of the loops around these products, if none of them is more than the products, their waits and the
    counting of rounds; 0 else."""
    around = {loop for i in issued if (loop := code.cfg.loop_of[i]) is not None}
    body = {i for loop in around for i in code.cfg.loop_body(loop)}
    if len(around) == 0 or any(code.cfg.loop_of[i] is None for i in issued):
        return 0
    return len(body) if all(_plain(code, i) for i in body) else 0


def _run(code: Listing, issued: list[int], many: int) -> int:
    """Instructions from the first to the last of so many products, if nothing else is between them; 0 if not."""
    run: list[int] = []
    for i in issued:
        between = range(run[-1] + 1, i) if run else ()
        run = [*run, i] if all(_plain(code, n) and not code[n].opcode.startswith("B") for n in between) else [i]
        if len(run) >= many:
            return run[-1] - run[0] + 1
    return 0


def _plain(code: Listing, i: int) -> bool:
    ins, op = code[i], code.classes[i]
    sums = re.match(r"[FDH](?:ADD|MUL|FMA|SETP|MNMX|SEL)|MUFU|SHFL|CALL|I2F|F2", ins.opcode) is not None
    memory = op.access is not None and "constant_read" not in op.kind
    return not memory and not op.kind & {"barrier", "mbarrier"} and not sums


def rounds(code: str, loop: Loop, around: str, known: Mapping[str, int]) -> Rounds | None:
    """around: the file, where the functions stand that issue, commit and wait."""
    body = code[slice(*loop.body)].strip()
    step = re.fullmatch(rf"{loop.name}\s*\+=\s*(\w+)|{loop.name}\s*\+\+|\+\+\s*{loop.name}", loop.step)
    if not body.startswith("{") or step is None or re.search(r"[<>=!&|?,]", loop.end):
        return None
    parts = _statements(body[1:-1])
    if parts is None or len(parts) != 4 or "#" in code[: loop.span[0]].rstrip().rpartition("\n")[2]:
        return None
    fence, products, commit, wait = parts
    roles = [_role(p, around) for p in (fence, commit, wait)]
    many = _many(products, around, known)
    if roles != ["fence", "commit", "wait"] or many is None or changed(products) - many[2] or changed(loop.end):
        return None
    used = set(re.findall(r"\w+", products)) & {f"{loop.name}_first", "round"}
    return None if used else Rounds(loop, fence, products, f"{commit} {wait}", many[0], many[1])


def _statements(text: str) -> list[str] | None:
    out, at = [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        end = statement_end(text, at)
        if end is None:
            return None
        out.append(text[at:end])
        at = end
    return out


def _role(statement: str, around: str) -> str | None:
    """What a statement does of these: by the assembly in it, or in the function that it calls. A wait is for all."""
    asm = re.match(r"asm\s+volatile\s*\(", statement)
    call = _CALL.match(statement)
    if asm is not None:
        return _of(statement, "0" if re.search(r"wait_group[.\w]*\s+0\b", statement) else "")
    if call is None or closing(statement, call.end()) != len(statement.rstrip(" ;")) - 1:
        return None
    given = call[2] or statement[call.end() : statement.rfind(")")].strip()
    if call[1] in _KNOWN:
        role = _KNOWN[call[1]]
        return role if role != "wait" or given == "0" else None
    found = list(re.finditer(rf"__device__[^;{{}}]*\b{call[1]}\s*\([^;{{}}]*\)\s*\{{", around))
    end = closing(around, found[0].end()) if len(found) == 1 else None
    inner = around[found[0].end() : end].strip() if end is not None else ""
    if not inner.startswith("asm") or statement_end(inner, 0) != len(inner):
        return None
    none = re.search(r"wait_group[.\w]*\s+0\b", inner) is not None
    return _of(inner, "0" if none else given)


def _of(text: str, given: str) -> str | None:
    roles = [role for role, name in _ROLES.items() if name in text]
    if len(roles) != 1 or (roles[0] == "wait" and given != "0"):
        return None
    return roles[0]


def _many(products: str, around: str, known: Mapping[str, int]) -> tuple[str, int, set[str]] | None:
    """How many products a statement issues, as it is written and here, and the names that its loop counts by."""
    bare = _PRAGMA.sub("", products).strip()
    inner = loops(bare)
    if not inner:
        one = bare[1:-1].strip() if bare.startswith("{") else bare
        return ("1", 1, set()) if _role(one, around) == "product" else None
    (first, *others) = inner
    if others or first.span[0] or first.start != "0" or not re.search(r"\+\+", first.step):
        return None
    count = evaluated(first.end, known)
    within = _many(bare[slice(*first.body)], around, known)
    if count is None or within is None or within[1] != 1 or bare[first.body[1] :].strip():
        return None
    return first.end, count, {first.name}


def _few(one: Rounds, known: Mapping[str, int]) -> int:
    """Products of all rounds, if their number is known and no more than one wait is good for; 0 else."""
    step = one.loop.step.partition("+=")[2].strip() or "1"
    start, end, by = (evaluated(t, known) for t in (one.loop.start, one.loop.end, step))
    if start is None or end is None or not by:
        return 0
    many = -(-(end - start) // by)
    return many * one.each if 1 < many <= TOGETHER // one.each else 0


def _written(one: Rounds, few: int) -> str:
    """The loop by groups, and what is left; of few rounds all in one group."""
    loop, name = one.loop, one.loop.name
    step = loop.step.partition("+=")[2].strip() or "1"
    products = one.products if one.products.startswith("#") else f"    {one.products}"
    if few:
        head = f"for ({loop.kind} {name} = {loop.start}; {name} < {loop.end}; {loop.step})"
        return f"{{ {one.fence}\n    #pragma unroll\n    {head} {{\n{products}\n    }}\n    {one.behind} }}"
    if TOGETHER // one.each < 2 or TOGETHER % one.each:
        return ""
    many = str(TOGETHER) if one.count == "1" else f"({TOGETHER} / ({one.count}) > 1 ? {TOGETHER} / ({one.count}) : 1)"
    own = re.search(rf"\b{name}\b", one.products) is not None
    place = f"const {loop.kind} {name} = {name}_first + round * {step};" if own else ""
    return (
        f"{{ constexpr int rounds = {many};  // {TOGETHER} products behind one wait\n"
        f"  {loop.kind} {name}_first = {loop.start};\n"
        f"  for (; {name}_first + (rounds - 1) * {step} < {loop.end}; {name}_first += rounds * {step}) {{\n"
        f"    {one.fence}\n    #pragma unroll\n    for (int round = 0; round < rounds; round++) {{ {place}\n"
        f"{products}\n    }}\n    {one.behind}\n  }}\n"
        f"  #pragma unroll 1\n"
        f"  for ({loop.kind} {name} = {name}_first; {name} < {loop.end}; {loop.step}) {{\n    {one.fence}\n"
        f"{products}\n    {one.behind}\n  }} }}"
    )


def _played() -> int:
    """How many rounds were played, if groups and what is left of them are the same rounds in the same order; 0 else."""
    played = 0
    for many in range(1, TOGETHER + 1):
        for step in (1, 2, 3, 16):
            for end in range(0, 3 * many * step + 2, max(1, step - 1)):
                first, went = 0, []
                while first + (many - 1) * step < end:
                    went += [first + n * step for n in range(many)]
                    first += many * step
                went += range(first, end, step)
                if went != list(range(0, end, step)):
                    return 0
                played += len(went)
    return played


def waits_one_by_one(code: Listing) -> int:
    """Loops that wait for their products one by one or nearly so, where no loop has four and more behind a wait."""
    found = []
    for number in {code.cfg.loop_of[i] for i in code.where(lambda ins, op: ins.opcode.endswith("GMMA"))} - {None}:
        body = [code[i] for i in code.cfg.loop_body(number)] if number is not None else []
        products = sum(ins.opcode.endswith("GMMA") for ins in body)
        waits = sum(ins.opcode == "WARPGROUP" and "DEPBAR" in ins.mods for ins in body)
        found.append(products >= LEAST * waits)
    return 0 if any(found) else len(found)
