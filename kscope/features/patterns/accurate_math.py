"""Calls of accurate float functions, each with the instructions that it takes: what a fast version would replace.

A call is found by an instruction that only it has (the anchor). Its own instructions are computed from its arguments
and constants alone, before the anchor or behind it. Source: SASS of the CUDA 13 math library (nvcc 13.0, sm_90)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct, structs

from kscope.features.sass.cfg import calls_made
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.isa.families import family
from kscope.model.operand import Operand
from kscope.model.program import Instruction

CONE = 64  # instructions of one call at most: sinf, the longest without its slow path, has 30
RARE = 0.1  # of a call's executions: a way round that is taken less often is the slow path
COMPUTED = frozenset({"fma", "fmaheavy", "alu", "xu", "fp16"})


class Function(Struct, frozen=True):
    """fast: instructions of the fast version (scaling that -use_fast_math leaves out counted half), in words `advice`;
    behind: steps from the anchor to the result, opcodes on the way; entry: what arguments come to first, if not the
    anchor; holds: a function that is part of it; flag: -use_fast_math chooses it."""

    name: str
    fast: int
    behind: int
    opcodes: frozenset[str]
    advice: str
    entry: frozenset[str] = frozenset()
    holds: str = ""
    flag: bool = True


_POLYNOMIAL, _ANGLE, _TEST = family("polynomial_step"), family("angle_step"), family("float_test")
_DOUBLED, _FUSED = family("argument_doubled"), family("division_step")
FUNCTIONS = {
    f.name: f
    for f in (
        Function("division", 3, 6, family("division_step"), "__fdividef(a, b), or a multiplication by the reciprocal"),
        Function("division of halves", 2, 0, frozenset(), "in float, products with one reciprocal", flag=False),
        Function("reciprocal", 2, 4, family("reciprocal_step"), "__fdividef(1, x)"),
        Function("square root", 3, 3, family("root_step"), "x * rsqrtf(x); rsqrtf where it divides"),
        Function("exp", 4, 2, family("exponential_step"), "__expf, or exp2f with the factor folded in"),
        Function("log", 3, 16, _POLYNOMIAL, "__logf"),
        Function("log2", 2, 13, _POLYNOMIAL, "__log2f", family("integer_sum")),
        Function("sin or cos", 2, 16, _POLYNOMIAL, "__sinf, __cosf where arguments are small"),
        Function("tanh", 2, 8, _POLYNOMIAL, "the tanh.approx.f32 instruction (11 bits)"),
        # No intrinsic stands for these: fast is the plain formula, or a polynomial of two degrees less (nvcc 13.0).
        Function("hypot", 5, 10, family("length_step"), "sqrtf(x * x + y * y)", family("larger"), "square root"),
        Function("atan2", 15, 14, _ANGLE, "signs and y against x times a constant where the angle is only compared, or "
                 "a shorter polynomial of __fdividef", _TEST, "division", flag=False),
        Function("atan", 12, 11, _ANGLE, "a shorter polynomial", _TEST, flag=False),
        Function("sinpi or cospi", 3, 5, _ANGLE, "__sinf, __cosf of pi times x", _DOUBLED, flag=False),
        Function("erf", 13, 11, _POLYNOMIAL, "a shorter polynomial, __expf(-x x); of a GELU its tanh form", flag=False),
        Function("asin or acos", 10, 9, _ANGLE, "the cosine or sine where angles are only compared, or a shorter "
                 "polynomial", _TEST, flag=False),
    )
}  # fmt: skip


class MathCall(Struct, frozen=True):
    """`function` of FUNCTIONS; `anchor`; `members`: its instructions, the anchor among them and the slow path where it
    ran; `steady`: the argument (the divisor of a division) is the same in all rounds of the loop around; `root`: a
    division by a square root, which rsqrtf does in one."""

    function: str
    anchor: int
    members: tuple[int, ...]
    steady: bool
    root: bool = False


def accurate_calls(code: Listing) -> list[MathCall]:
    """The calls that ran, in address order. Two divisions by one value share its reciprocal's instructions."""
    slow = dict(ways_round(code))
    away = frozenset(i for way in slow.values() for i in way)
    out = []
    for i, name, arguments, changing in _anchors(code.structure):
        if not code.executed[i]:
            continue
        function, at = FUNCTIONS[name], i
        if function.entry:
            at, arguments = _entry(code, i, function.entry)
            changing = arguments
        inputs = _inputs(code, i, at, arguments)
        around = away if i not in away else frozenset()
        inside = _members(code, i, inputs, function, around)
        if inside is None:
            continue
        members = {*inside, i}
        for special in _specials(code, inputs) if at == i else ():
            members |= {special, *(_members(code, special, inputs, function, around) or ())}
        members |= _branched(code, members, slow)
        out.append(MathCall(name, i, tuple(sorted(code.ran(members))), _steady(code, at, changing)))
    out = _whole(out)
    roots = {i for c in out if c.function == "square root" for i in c.members}
    return [structs.replace(c, root=c.function == "division" and _divisors(code, c.anchor) <= roots) for c in out]


def _inputs(code: Listing, anchor: int, at: int, arguments: list[int]) -> set[tuple[int, int]]:
    """(register, what makes it) of the arguments that an instruction reads. What makes an argument before the loop ran
    seldom, too: only what did so inside is a slow path's."""
    often, loop = RARE * code.executed[anchor], code.cfg.loop_of[anchor]
    return {
        (r, p) for r in arguments for p in code.defuse.producers(at, r)
        if code.executed[p] > often or (loop is not None and code.cfg.loop_of[p] != loop)
    }  # fmt: skip


def _branched(code: Listing, members: set[int], slow: dict[int, list[int]]) -> set[int]:
    """The branches that these decide, with the slow paths that they lead to and the fences around."""
    found: set[int] = set()
    for branch in [c for m in members for c in code.defuse.consumers(m) if code[c].opcode == "BRA"]:
        found |= {branch, *slow.get(code.cfg.block_of[branch], ()), *_fence(code, branch)}
    return found


def _whole(calls: list[MathCall]) -> list[MathCall]:
    """Calls with what they hold: the root inside a hypot is no call of its own."""
    out, inner = [], set[int]()
    for call in calls:
        holds, own = FUNCTIONS[call.function].holds, set(call.members)
        parts = [c for c in calls if c.function == holds and not own.isdisjoint(c.members)]
        inner |= {c.anchor for c in parts}
        out.append(structs.replace(call, members=tuple(sorted(own.union(*(c.members for c in parts))))))
    return [c for c in out if c.anchor not in inner]


def _entry(code: Listing, anchor: int, opcodes: frozenset[str]) -> tuple[int, list[int]]:
    """The nearest instruction of these before the anchor that it depends on, with the registers that it reads; the
    anchor without any where there is none."""
    seen, queue = {anchor}, [anchor]
    for i in queue:
        if code[i].opcode in opcodes:
            return i, [o.vector for o in code[i].operands[1:] if o.vector is not None]
        if len(queue) < CONE:
            # Slow paths are functions behind the kernel.
            near = {p for ps in code.defuse.sources(i).values() for p in ps if p < anchor and _computes(code, p)} - seen
            seen |= near
            queue += sorted(near, reverse=True)
    return anchor, []


def _divisors(code: Listing, check: int) -> set[int]:
    """What computes the divisor of a division, as far as it ran; the check itself where that is a constant."""
    register = code[check].operands[2].vector
    return set(code.ran(code.defuse.producers(check, register))) if register is not None else {check}


def shared_divisors(code: Listing, calls: Iterable[MathCall]) -> set[int]:
    """Anchors of divisions by a value that another division has too."""
    by: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for call in calls:
        if call.function.startswith("division"):
            guess = (i for i in call.members if code.classes[i].pipe == "xu" and call.function != "division")
            divisor = code[at := next(guess, call.anchor)].operands[2 if at == call.anchor else 1].vector
            if divisor is not None:
                by.setdefault((code.defuse.producers(at, divisor), (divisor,)), []).append(call.anchor)
    return {i for anchors in by.values() if len(anchors) > 1 for i in anchors}


@once_per_code
def _anchors(code: Structure) -> list[tuple[int, str, list[int], list[int]]]:
    """(instruction, what `_anchor` says of it), in address order. But for FCHK each has its number written into it."""
    checks = [i for group in code.by_name for i in group if code[i].opcode == "FCHK"]
    found = ((i, _anchor(code[i])) for i in sorted({*code.literals, *checks}))
    return [(i, *about) for i, about in found if about is not None]


def _anchor(ins: Instruction) -> tuple[str, list[int], list[int]] | None:
    """The function that only this instruction belongs to, registers of its arguments, and those of them of which a
    steady value is worth something: the divisor of a division."""
    if ins.opcode == "FCHK":
        both = [o.vector for o in ins.operands[1:3]]
        return "division", [r for r in both if r is not None], [r for r in both[1:] if r is not None]
    for test, name, place in _ANCHORS:
        if len(ins.operands) > place and test(ins):
            register = ins.operands[place].vector
            return (name, [register], [register]) if register is not None else None
    return None


def _has(opcodes: Collection[str], *values: float) -> Callable[[Instruction], bool]:
    def near(operand: Operand) -> bool:
        return (number := operand.number) is not None and any(abs(abs(number) - v) <= 1e-6 * v for v in values)

    return lambda ins: ins.opcode in opcodes and any(map(near, ins.operands))


def _adds(value: int) -> Callable[[Instruction], bool]:
    def same(operand: Operand) -> bool:
        return operand.kind == "integer" and (operand.value - value) % (1 << 32) == 0

    return lambda ins: ins.opcode in family("integer_sum") and any(map(same, ins.operands))


_ANCHORS: tuple[tuple[Callable[[Instruction], bool], str, int], ...] = (
    (_adds(0x1800000), "reciprocal", 1),  # the exponent's neighbours: subnormal, infinite
    (_adds(-0xD000000), "square root", 1),  # is it normal, and small enough?
    (_has(_FUSED, 1.925963033500011079e-08), "exp", 1),  # the rest of log2 e
    (_adds(-0x3F2AAAAB), "log", 1),  # two thirds: the middle of the mantissa's range
    (_has(_FUSED, 0.1716887056827545166), "log2", 1),
    (_has(("FMUL",), 0.63661974668502807617), "sin or cos", 1),  # 2 / pi
    (_has(("FMUL",), 2.8853900432586669922), "tanh", 1),  # 2 / ln 2
    (_adds(0x7E800000), "hypot", 1),  # 2^126 over the larger's power of two
    (_has(_FUSED, 0.015681877732276916504), "atan2", 1),  # second coefficients of the polynomials
    (_has(_FUSED, 0.014396979473531246185), "atan", 1),
    (_has(_FUSED, 2.550144195556640625), "sinpi or cospi", 1),
    (_has(("FSETP",), 1.0029599666595458984), "erf", 2),  # from where on it is 1 - exp of a polynomial
    (_has(_FUSED, 0.018773360177874565125, 0.016980519518256187439), "asin or acos", 1),
)


def _members(
    code: Listing, anchor: int, inputs: set[tuple[int, int]], function: Function, away: frozenset[int]
) -> set[int] | None:
    """What is computed from the arguments and constants alone on the way to the anchor and from it to the result; away:
    what is called on the way round."""
    found = _before(code, anchor, inputs, away)
    if found is None:
        return None
    edge = {anchor}
    for _ in range(function.behind):
        ahead = {c for i in edge for c in code.defuse.consumers(i)} - found - {anchor}
        edge = set()
        for c in ahead:
            if code[c].opcode not in function.opcodes or code.cfg.loop_of[c] != code.cfg.loop_of[anchor]:
                continue
            closed = _before(code, c, inputs, away)
            if closed is not None and len(found | closed) <= CONE:
                found |= {*closed, c}
                edge.add(c)
    return found


def _before(code: Listing, index: int, inputs: set[tuple[int, int]], away: frozenset[int]) -> set[int] | None:
    """The instructions from the arguments to this one; None where anything else has a say."""
    found: set[int] = set()
    work = [index]
    while work:
        i = work.pop()
        for r, producers in code.defuse.sources(i).items():
            for p in producers:
                if (r, p) in inputs or p in found or p == index:
                    continue
                if p in away or code.executed[p] <= RARE * code.executed[index]:
                    continue  # the slow path, or what came before the loop
                if not _computes(code, p) or len(found) >= CONE:
                    return None
                found.add(p)
                work.append(p)
    return found


def _computes(code: Listing, index: int) -> bool:
    return (op := code.classes[index]).access is None and (op.pipe in COMPUTED or bool(op.kind & {"predicate", "move"}))


def _specials(code: Listing, inputs: set[tuple[int, int]]) -> set[int]:
    """Reciprocals and roots of the arguments: the first guess that an accurate version refines."""
    return {
        c for r, p in inputs for c in code.defuse.consumers(p)
        if code[c].opcode == "MUFU" and r in code[c].uses and not code[c].mods[0].endswith("64H")
    }  # fmt: skip


def _fence(code: Listing, branch: int) -> list[int]:
    """The BSSY before and the BSYNC behind a branch around a slow path."""
    block = code.cfg.block_of[branch]
    near = range(code.cfg.blocks[block].start, branch)
    opened = next((i for i in reversed(near) if code[i].opcode == "BSSY"), None)
    if opened is None:
        return []
    name = code[opened].operands[0]
    behind = range(branch, min(len(code), branch + CONE))
    return [opened, *[i for i in behind if code[i].opcode == "BSYNC" and code[i].operands[0] == name][:1]]


def ways_round(code: Listing) -> Iterator[tuple[int, list[int]]]:
    """Blocks that end in a branch around a call, with all that the way through the call executes."""
    for call in calls_made(code.program, code.cfg):
        first = code.cfg.blocks[call.block]
        own = [*range(first.start, first.end)]
        own += [i for b in call.body for i in range(code.cfg.blocks[b].start, code.cfg.blocks[b].end)]
        for before in first.predecessors:
            if code[code.cfg.blocks[before].end - 1].opcode == "BRA":
                yield before, own


def _steady(code: Listing, anchor: int, registers: list[int]) -> bool:
    """No round of the loop around makes these values anew."""
    loop = code.cfg.loop_of[anchor]
    if loop is None or not registers:
        return False
    inside = set(code.cfg.loops[loop].instructions)
    return all(p not in inside for r in registers for p in code.defuse.producers(anchor, r))
