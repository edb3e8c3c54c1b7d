"""Kernels of one loop whose rounds only add to sums, which each thread adds to memory, or stores there, behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import Kernel, plain_ends, returning, uniform
from kscope.fixes.given.called import functions
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, blanked, loops
from kscope.fixes.tiling.hidden import hides_places

COUNTERS = ("int", "unsigned", "size_t", "long long")
EXACT = ("int", "unsigned", "unsigned int", "unsigned long long")
PURE = frozenset({
    "fabsf", "fabs", "abs", "sqrtf", "sqrt", "rsqrtf", "expf", "exp", "__expf", "logf", "__logf", "fmaxf", "fminf",
    "max", "min", "__ldg", "float", "double", "int", "unsigned", "size_t", "fmaf", "powf", "sinf", "cosf", "floorf",
    "__fdividef", "__popc", "__half2float", "__bfloat162float", "if", "for", "while", "make_float2", "make_float3",
    "make_float4", "sizeof",
})  # fmt: skip
_TOGETHER = re.compile(
    r"\b(?:__shared__|__\w*sync\w*|__\w*fence\w*|asm|goto|volatile|gridDim|atomic\w*)\b|::|#(?!\s*pragma)"
)
_ADDED = re.compile(
    r"(?<![\w.>)\]])(?:(?P<sum>\w+)\s*[-+]=(?P<value>[^;]*)|(?P<up>\w+)\s*\+\+|\+\+\s*(?P<one>\w+))\s*;"
)
_CHANGED = re.compile(
    r"(?<![\w.>\])])(\w+)(?:\s*\.\s*\w+|\s*\[[^][]*\])*\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*(\w+)"
)
_BRANCHES = re.compile(r"\s*(?:(?:if|for|while|do|switch|else)\b|\{)")
_DECLARED = re.compile(
    r"\s*(?!(?:else|return|case|goto|new|delete|throw|static|extern|do)\b)(?:const\s+)?"
    r"(?:unsigned\s+long\s+long|long\s+long|unsigned\s+int|[A-Za-z_]\w*)\s+(?=[A-Za-z_])(?P<rest>.*)$", re.S
)
_MEETS = re.compile(r"(?P<add>atomicAdd)\s*\((?P<to>[^;]*),\s*(?P<sum>\w+)\s*\)\s*;")
_STORES = re.compile(r"(?P<to>(?P<name>\w+)\s*\[(?P<at>[^][;=]*)\])\s*=\s*(?P<sum>\w+)\s*;")
_TEST = re.compile(r"if\s*\((?P<test>[^()=]*(?:[=!<>]=[^()=]*)*)\)\s*\{?")
_NOT_ZERO = r"\s*{}\s*(?:!=\s*0(?:\.0*f?|\.f)?\s*)?"
_SYNC = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_SHARED = re.compile(
    r"\s*__shared__\s+(?:(?:__align__|alignas)\s*\(\s*\d+\s*\)\s*)?[A-Za-z_]\w*\s+(?P<names>[^;=()]*);"
)


class Met(Struct, frozen=True):
    """Where a sum goes: the text of the place, the statement; the index of which array, where it is stored there."""

    to: str
    span: tuple[int, int]
    name: str = ""
    at: str = ""


class Sums(Struct, frozen=True):
    """The one loop of a kernel's own; of each sum that its rounds add to where it goes; whether all are whole numbers;
    whether the rounds' threads hand each other what they load."""

    loop: Loop
    step: str
    sums: dict[str, Met]
    exact: bool
    shared: bool


def summed(kernel: Kernel) -> Sums | None:
    """None where a round leaves anything but sums, or what is around the loop is more than declarations and their end.
    """
    loop, before, behind = _around(kernel)
    meets = _meets(kernel, behind)
    if loop is None or not meets or not _known(kernel):
        return None
    step, places = loop.step.partition("+=")[2].strip() or "1", [m.to for m in meets.values()]
    kinds, into = [_kind(before, name) for name in meets], [_pointed(kernel, m.to) for m in meets.values()]
    known = None not in kinds and _added(meets, into) and loop.kind in COUNTERS and plain_ends(loop, PURE)
    if not known or not re.fullmatch(r"[\w.]+", step):
        return None
    around = [*(_undeclared(one, list(meets)) for one in before), *places, f"{loop.start} {loop.end} {loop.step}"]
    if _names(list(meets), " ; ".join(around)) or _names([loop.name], " ; ".join(places)):
        return None
    shared = [n for m in map(_SHARED.fullmatch, before) if m is not None for n in _declares(m["names"])]
    exact = set(kinds) | set(into) <= set(EXACT)
    return Sums(loop, step, meets, exact, bool(shared)) if _rounds(kernel, loop, list(meets), step, shared) else None


def _added(meets: Mapping[str, Met], into: Sequence[str]) -> bool:
    """Whether atomicAdd takes what sums are stored to."""
    return all(kind in (*EXACT, "float", "double") or not m.name for m, kind in zip(meets.values(), into, strict=True))


def _rounds(kernel: Kernel, loop: Loop, sums: Sequence[str], step: str, shared: Sequence[str]) -> bool:
    """Whether rounds only add to the sums; and are the same for all threads of a block, where they meet."""
    body = kernel.text.code[slice(*loop.body)]
    if not shared:
        return _round(body, sums, [loop.name, step], ())
    same = all(uniform(kernel, text, loop.span[0]) for text in (loop.start, loop.end, step))
    return same and _round(_SYNC.sub(" ", body), sums, [loop.name, step], shared)


def _around(kernel: Kernel) -> tuple[Loop | None, list[str], Sequence[tuple[int, int]]]:
    """The one loop of a kernel's own statements, what they declare in front of it, and those behind it; no loop where
    the first do anything else."""
    code, leaves = kernel.text.code, returning(kernel)
    every = [(n, x) for n, s in enumerate(kernel.statements) for x in loops(code)
             if s[0] <= x.span[0] and s[1] == x.body[1] and _is_loop(code[s[0] : x.span[1]])]  # fmt: skip
    if len(every) != 1 or leaves is None:
        return None, [], ()
    ((at, loop),), guards = every, [leave[:2] for leave in leaves]
    before = [kernel.of(s) for s in kernel.statements[:at] if s not in guards]
    plain = [one for one in before if not _SHARED.fullmatch(one)]
    strange = any(_BRANCHES.match(one) or _TOGETHER.search(one) for one in plain)
    late = any(a > loop.span[0] for a, _ in guards) or (guards and len(plain) < len(before))
    return (None, [], ()) if strange or late else (loop, before, kernel.statements[at + 1 :])


def _meets(kernel: Kernel, tail: Sequence[tuple[int, int]]) -> dict[str, Met]:
    """Of each sum where it goes, in a kernel's last statements; nothing where one is anything else."""
    out: dict[str, Met] = {}
    tests = list[str]()
    for span in tail:
        one = kernel.of(span).strip()
        test = _TEST.match(one)
        bare = one[test.end() :].strip().rstrip("}").strip() if test is not None else one
        match = _MEETS.fullmatch(bare) or _STORES.fullmatch(bare)
        if match is None or match["sum"] in out:
            return {}
        start, stored = kernel.text.code.index(bare, span[0]), match.re is _STORES
        if test is not None and not re.fullmatch(_NOT_ZERO.format(match["sum"]), test["test"]):
            tests.append(test["test"])
        elif test is not None and stored:
            return {}
        name, at = (match["name"], match["at"]) if stored else ("", "")
        out[match["sum"]] = Met(match["to"], (start, start + len(bare)), name, at)
    plain = all("=" not in re.sub(r"[=!<>]=", "", test) and not _names(list(out), test) for test in tests)
    return out if plain else {}


def _is_loop(statement: str) -> bool:
    return re.fullmatch(r"\s*(?:#[^\n]*\n\s*)*for\b[^{}]*", statement) is not None


def _known(kernel: Kernel) -> bool:
    """Whether what is called gives a value and does nothing besides: functions of numbers that this file has, which ask
    for no place in the grid, and those of the library."""
    known = functions(kernel.lines, kernel.body)
    called = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", kernel.body)) - {"atomicAdd", "__syncthreads"}
    texts = [body for _, body in known.values()]
    file = "\n".join(map(blanked, kernel.lines))
    heads = [h for name in known for h in re.findall(rf"__device__[^;{{}}()]*\b{name}\s*\(([^()]*)\)", file)]
    inner = {name for text in texts for name in re.findall(r"\b([A-Za-z_]\w*)\s*\(", text)}
    strange = any(_TOGETHER.search(text) or re.search(r"\bblockIdx\b", text) for text in texts)
    strange = strange or any("*" in p and not re.match(r"\s*const\b", p) for h in heads for p in h.split(","))
    calls = (called | inner) - known.keys() - PURE
    strange = strange or re.search(r"\b(?:blockIdx|gridDim)\s*\.\s*[yz]\b", kernel.body) is not None
    strange = strange or hides_places(kernel.lines, kernel.text.code)
    return not strange and not calls and not re.search(r"[(,]\s*&(?!&)", _bare(kernel.body))


def _bare(body: str) -> str:
    """Without the places of atomics, whose address is taken."""
    return re.sub(r"\batomicAdd\s*\(\s*&", "atomicAdd(", body)


def _kind(before: Sequence[str], name: str) -> str | None:
    """The type of a sum that is declared as zero."""
    zero = rf"\b{name}\s*(?:=\s*)?\{{?\s*(?:=\s*)?0(?:\.0*f?|\.f|u|ull)?\s*\}}?\s*(?=[,;])"
    found = [one for one in before if re.search(zero, one)]
    made = re.match(r"\s*(unsigned\s+long\s+long|unsigned\s+int|unsigned|int|float|double)\s", "".join(found))
    return " ".join(made[1].split()) if made is not None and len(found) == 1 else None


def _undeclared(statement: str, sums: Sequence[str]) -> str:
    """A declaration without the sums' own names."""
    return re.sub(rf"\b(?:{'|'.join(sums)})\s*=\s*0", "", statement)


def _names(names: Sequence[str], text: str) -> bool:
    return any(re.search(rf"(?<![\w.]){name}\b", text) for name in names)


def _round(body: str, sums: Sequence[str], steady: Sequence[str], shared: Sequence[str]) -> bool:
    """Whether a round changes nothing but the sums, which it adds to, what it declares itself, and shared memory."""
    if re.search(r"\b(?:return|break|while|do|switch)\b", body) or _TOGETHER.search(body):
        return False
    rest, added = body, 0
    for match in reversed(list(_ADDED.finditer(body))):
        name = match["sum"] or match["up"] or match["one"]
        if name in sums:
            rest = rest[: match.start()] + (match["value"] or "").strip() + ";" + rest[match.end() :]
            added += 1
    own = {n for part in re.split(r"[;{}]|\bfor\s*\(", rest) if (m := _DECLARED.match(part)) is not None and "=" in part
           for n in _declares(m["rest"])}  # fmt: skip
    changed = {a or b for a, b in _CHANGED.findall(rest)}
    return bool(added) and changed <= own | {*shared} and not _names(sums, rest) and not own & {*sums, *steady, *shared}


def _declares(rest: str) -> list[str]:
    return [m[1] for part in split_declarators(rest) if (m := re.match(r"\s*\*?\s*(\w+)", part)) is not None]


def _pointed(kernel: Kernel, to: str) -> str:
    """The type of the array that an atomic adds to, as the kernel has it as a parameter."""
    name = re.match(r"\s*&?\s*\(?\s*(\w+)", to)
    kind = kernel.parameters.get(name[1], "") if name is not None else ""
    return kind.partition("*")[0].strip()
