"""Two binaries to a SassComparison: functions paired, listings aligned, figures and findings of both sides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kscope import __version__
from kscope.engine.lint import lint
from kscope.features.patterns.local_memory import spills_and_arrays
from kscope.features.sass.align import Pair, align, code_of
from kscope.features.sass.listing import Listing
from kscope.model.analysis import Input
from kscope.model.comparison import Change
from kscope.model.errors import KscopeError
from kscope.model.faults import AGAIN, in_words, show_traceback
from kscope.model.program import Cubin, Instruction, Program
from kscope.model.sass_diff import FunctionDiff, SassComparison, SassLine

CONTEXT = 3  # unchanged lines around a change
_Matched = tuple[Program, Program, str]


def sass_diff(before: str, after: str, old: Sequence[Cubin], new: Sequence[Cubin]) -> SassComparison:
    """Compare the machine code of two files: images of the same target with each other, of different targets where
    each side holds one image alone."""
    notes = []
    pairs: list[tuple[Cubin, Cubin]] = []
    if len(old) == len(new) == 1:
        pairs = [(old[0], new[0])]
        if old[0].arch != new[0].arch:
            notes.append(f"different targets: {old[0].arch} and {new[0].arch}")
    else:
        targets = {cubin.arch: cubin for cubin in new}
        pairs = [(cubin, targets[cubin.arch]) for cubin in old if cubin.arch in targets]
        lost = sorted({c.arch for c in old} ^ set(targets))
        if lost:
            notes.append(f"on one side only: {', '.join(lost)}")
    functions: list[FunctionDiff] = []
    left: list[str] = []
    right: list[str] = []
    failed: list[str] = []
    for a, b in pairs:
        matched, alone_a, alone_b = match(a.functions, b.functions)
        for x, y, by in matched:
            try:
                functions.append(_function(x, y, by))
            except Exception as error:
                show_traceback(error)
                failed.append(f"{_shown(y)} cannot be compared: {in_words(error)}")
        left += alone_a
        right += alone_b
    if failed and not functions:
        raise KscopeError("unanalysable", f"{before}, {after}: {failed[0]}", AGAIN)
    functions.sort(key=lambda f: f.identical)
    return SassComparison(
        kscope=__version__, before=Input(path=before, kind="cubin"), after=Input(path=after, kind="cubin"),
        functions=functions, only_before=left, only_after=right, notes=[*notes, *failed],
    )  # fmt: skip


def match(
    old: Sequence[Program], new: Sequence[Program]
) -> tuple[list[_Matched], list[str], list[str]]:
    """Functions of both sides that are the same one: by name, by name without arguments, and the last one left."""
    pairs: list[_Matched] = []
    left, right = list(old), list(new)
    for by, key in (("name", _name), ("name without arguments", _bare)):
        names = Counter(key(p) for p in right)
        for p in list(left):
            same = [q for q in right if key(q) == key(p)]
            if len(same) == 1 and names[key(p)] == 1 and sum(key(x) == key(p) for x in left) == 1:
                pairs.append((p, same[0], by))
                left.remove(p)
                right.remove(same[0])
    if len(left) == len(right) == 1:
        pairs.append((left[0], right[0], "elimination"))
        left, right = [], []
    return pairs, [_shown(p) for p in left], [_shown(q) for q in right]


def _name(program: Program) -> str:
    return program.name


def _shown(program: Program) -> str:
    return program.demangled or program.name


def _bare(program: Program) -> str:
    """`void scale<float, 4>(float*)` as `scale`."""
    name = _shown(program).removeprefix("void ")
    return re.split(r"[<(]", name, maxsplit=1)[0]


def _function(a: Program, b: Program, by: str) -> FunctionDiff:
    old, new = code_of(a), code_of(b)
    lines = align(old, new)
    kinds = Counter(_kind(pair) for pair in lines)
    left, right = Listing(a), Listing(b)
    found_a, found_b = lint(left).findings, lint(right).findings
    codes_a, codes_b = {f.code for f in found_a}, {f.code for f in found_b}
    return FunctionDiff(
        before=a.name, after=b.name, demangled=_shown(b), arch_before=a.arch, arch_after=b.arch,
        matched_by=by,  # type: ignore[arg-type]
        identical=not (kinds["changed"] or kinds["removed"] or kinds["added"]),
        same=kinds["same"], changed=kinds["changed"], removed=kinds["removed"], added=kinds["added"],
        figures=_moved(_figures(left, len(old)), _figures(right, len(new))),
        mix=_moved(_counted(_mix(left)), _counted(_mix(right))),
        accesses=_moved(_counted(_widths(left)), _counted(_widths(right))),
        fixed=sorted(codes_a - codes_b), remaining=sorted(codes_a & codes_b),
        new=[f for f in found_b if f.code not in codes_a],
        hunks=_hunks(lines, old, new),
    )  # fmt: skip


def _kind(pair: Pair) -> str:
    a, b, same = pair
    return "added" if a is None else "removed" if b is None else "same" if same else "changed"


def _hunks(lines: Sequence[Pair], old: Sequence[Instruction], new: Sequence[Instruction]) -> list[list[SassLine]]:
    """Runs of differing lines, CONTEXT unchanged ones around them."""
    near = {j for i, pair in enumerate(lines) if _kind(pair) != "same" for j in range(i - CONTEXT, i + CONTEXT + 1)}
    hunks: list[list[SassLine]] = []
    last = -2
    for i in sorted(near):
        if not 0 <= i < len(lines):
            continue
        if i != last + 1:
            hunks.append([])
        last = i
        a, b, _ = lines[i]
        x, y = old[a] if a is not None else None, new[b] if b is not None else None
        hunks[-1].append(
            SassLine(
                kind=_kind(lines[i]),  # type: ignore[arg-type]
                before_pc=x.pc if x else None, after_pc=y.pc if y else None,
                before=x.text if x else None, after=y.text if y else None,
            )
        )  # fmt: skip
    return hunks


def _figures(code: Listing, instructions: int) -> dict[tuple[str, str], float | None]:
    resources = code.program.resources
    spills, _, _ = spills_and_arrays(code)
    stores = sum(code[i].opcode == "STL" for i in spills)
    loops = [lp for lp in code.cfg.loops if code.executed[lp.instructions[0]] > 0]
    inner = max((len(lp.instructions) for lp in loops if lp.innermost), default=0)
    return {
        ("instructions", "inst"): instructions,
        ("registers", "register"): resources.registers if resources else None,
        ("stack", "byte"): resources.stack if resources else None,
        ("static shared memory", "byte"): resources.shared if resources else None,
        ("spill stores", "inst"): stores,
        ("refills", "inst"): len(spills) - stores,
        ("loops", "loop"): len(loops),
        ("largest innermost loop", "inst"): inner,
    }


def _mix(code: Listing) -> Counter[str]:
    return Counter(code.classes[i].pipe for i in code.ran(range(len(code))) if code.classes[i].pipe != "none")


def _widths(code: Listing) -> Counter[str]:
    """Memory instructions by opcode and bits a lane; what a descriptor moves has no width."""
    out: Counter[str] = Counter()
    for i in code.ran(range(len(code))):
        op = code.classes[i]
        if op.access is not None and op.space not in (None, "constant"):
            out[f"{code[i].opcode}.{8 * op.bytes}" if op.bytes else code[i].opcode] += 1
    return out


def _counted(counts: Counter[str]) -> dict[tuple[str, str], float | None]:
    return {(name, "inst"): n for name, n in counts.items()}


def _moved(
    before: dict[tuple[str, str], float | None], after: dict[tuple[str, str], float | None]
) -> list[Change]:
    """What differs, in the order of the first side; a kind of instruction that one side lacks counts 0 there."""
    out = []
    for what, unit in [*before, *(k for k in after if k not in before)]:
        old, new = before.get((what, unit), 0), after.get((what, unit), 0)
        if old != new:
            out.append(Change(what=what, unit=unit, before=old, after=new))
    return out

