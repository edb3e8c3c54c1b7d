"""Two binaries to a SassComparison: functions paired, listings aligned, figures and findings of both sides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kscope._version import __version__
from kscope.engine.code.lint import lint
from kscope.engine.comparing.pairing import Rule, filled
from kscope.features.patterns.local_memory import spills_and_arrays
from kscope.features.sass.align import ALIKE, Pair, align, code_of, likeness, shape
from kscope.features.sass.listing import Listing
from kscope.model.contract.analysis import Input, SkippedInput
from kscope.model.contract.comparison import Change
from kscope.model.contract.sass_diff import AddedFunction, FunctionDiff, SassComparison, SassLine
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.faults import AGAIN, in_words, show_traceback
from kscope.model.program import Cubin, Instruction, Program
from kscope.model.quoted import quoted

CONTEXT = 3  # unchanged lines around a change
_Pair = tuple[Program, Program, str]


def sass_diff(
    before: str, after: str, old: Sequence[Cubin], new: Sequence[Cubin], rules: Sequence[Rule] = ()
) -> SassComparison:
    """Compare the machine code of two files: images of the same target with each other, of different targets where
    each side holds one image alone. rules: functions paired by hand. Raises KscopeError (status 2) where a rule pairs
    nothing."""
    pairs, notes = _images(old, new)
    functions: list[FunctionDiff] = []
    by_hand: list[str] = []
    left: list[Program] = []
    right = [p for cubin in new if not any(cubin is b for _, b in pairs) for p in cubin.functions]
    failed: list[SkippedInput] = []
    for a, b in pairs:
        matched, alone_a, alone_b = _matched(a.functions, b.functions, rules)
        functions += [one for pair in matched if (one := _fenced(pair, after, failed)) is not None]
        by_hand += [_shown(x) for x, _, by in matched if by == "by hand"]
        left += alone_a
        right += alone_b
    if failed and not functions:
        raise KscopeError("unanalysable", f"{before}, {after}: {_note(failed[0])}", AGAIN)
    if idle := [rule for rule in rules if not any(re.search(rule.old, name) for name in by_hand)]:
        message = f"--match {idle[0]}: no function before and after that it names"
        raise KscopeError("no-match", message, "kscope sass shows the names", EXIT_USAGE)
    functions.sort(key=lambda f: f.identical)
    added = [_added(q, after, failed) for q in right]
    return SassComparison(
        kscope=__version__, before=Input(path=before, kind="cubin"), after=Input(path=after, kind="cubin"),
        functions=functions, only_before=[_shown(p) for p in left], only_after=[_shown(q) for q in right],
        added=added, notes=[*notes, *map(_note, failed)], skipped=failed,
    )  # fmt: skip


def _images(old: Sequence[Cubin], new: Sequence[Cubin]) -> tuple[list[tuple[Cubin, Cubin]], list[str]]:
    """Images to compare, and what is to say of their targets."""
    if len(old) == len(new) == 1:
        a, b = old[0], new[0]
        return [(a, b)], [f"different targets: {a.arch} and {b.arch}"] if a.arch != b.arch else []
    targets = {cubin.arch: cubin for cubin in new}
    lost = sorted({c.arch for c in old} ^ set(targets))
    pairs = [(cubin, targets[cubin.arch]) for cubin in old if cubin.arch in targets]
    return pairs, [f"on one side only: {', '.join(lost)}"] if lost else []


def _fenced(pair: _Pair, after: str, failed: list[SkippedInput]) -> FunctionDiff | None:
    """One function; None, and a word in `failed`, where comparing it comes to an error."""
    try:
        return _function(*pair)
    except Exception as error:
        show_traceback(error)
        failed.append(_failed(after, pair[1], error))
        return None


def _added(program: Program, after: str, failed: list[SkippedInput]) -> AddedFunction:
    """A function of the new side alone, with what the lints find in it."""
    try:
        found = lint(Listing(program)).findings
    except Exception as error:
        show_traceback(error)
        failed.append(_failed(after, program, error))
        found = []
    return AddedFunction(name=program.name, demangled=_shown(program), arch=program.arch, findings=found)


def _failed(path: str, program: Program, error: Exception) -> SkippedInput:
    return SkippedInput(input=path, what=f"function {quoted(_shown(program))}", message=in_words(error))


def _note(skip: SkippedInput) -> str:
    return f"{skip.what.removeprefix('function ')} cannot be compared: {skip.message}"


def match(
    old: Sequence[Program], new: Sequence[Program], rules: Sequence[Rule] = ()
) -> tuple[list[_Pair], list[str], list[str]]:
    """Functions of both sides that are the same one: by hand, by name, by name without arguments, by their code, and,
    as a guess, the last one left. Then the names of what is left on either side."""
    pairs, left, right = _matched(old, new, rules)
    return pairs, [_shown(p) for p in left], [_shown(q) for q in right]


def _matched(
    old: Sequence[Program], new: Sequence[Program], rules: Sequence[Rule]
) -> tuple[list[_Pair], list[Program], list[Program]]:
    left, right = list(old), list(new)
    pairs = _by_hand(left, right, rules)
    for by, key in (("name", _name), ("name without arguments", _bare)):
        names = Counter(key(p) for p in right)
        for p in list(left):
            same = [q for q in right if key(q) == key(p)]
            if len(same) == 1 and names[key(p)] == 1 and sum(key(x) == key(p) for x in left) == 1:
                pairs.append((p, same[0], by))
                left.remove(p)
                right.remove(same[0])
    pairs += _by_code(left, right)
    if len(left) == len(right) == 1:
        pairs.append((left[0], right[0], "elimination"))
        left, right = [], []
    return pairs, left, right


def _by_hand(left: list[Program], right: list[Program], rules: Sequence[Rule]) -> list[_Pair]:
    pairs: list[_Pair] = []
    for rule in rules:
        for p in list(left):
            found = re.search(rule.old, _shown(p))
            same = [q for q in right if found and filled(rule, found).search(_shown(q))]
            if same:
                pairs.append((p, same[0], "by hand"))
                left.remove(p)
                right.remove(same[0])
    return pairs


def _by_code(left: list[Program], right: list[Program]) -> list[_Pair]:
    """The most alike first; takes what it pairs from both lists."""
    shapes = {id(p): shape(p.instructions) for p in (*left, *right)} if left and right else {}
    scores = [(likeness(shapes[id(p)], shapes[id(q)]), p, q) for p in left for q in right]
    pairs: list[_Pair] = []
    for score, p, q in sorted(scores, key=lambda s: -s[0]):
        if score >= ALIKE and any(p is x for x in left) and any(q is x for x in right):
            pairs.append((p, q, "code"))
            left[:] = [x for x in left if x is not p]
            right[:] = [x for x in right if x is not q]
    return pairs


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

