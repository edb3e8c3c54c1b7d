"""Kernels whose threads each have one loop of rounds that only add to sums, and store the sums behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from kscope.fixes.atomics.reading import MODIFIED, Kernel, kernel_of, whole
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, blanked, closing, loops

ADDED = {
    "float": ("float", ""), "double": ("double", ""), "int": ("int", ""), "unsigned": ("unsigned", ""),
    "float2": ("float", "xy"), "float3": ("float", "xyz"), "float4": ("float", "xyzw"), "int2": ("int", "xy"),
    "int4": ("int", "xyzw"), "double2": ("double", "xy"),
}  # fmt: skip
"""Types of sums that atomicAdd takes, or whose parts it does: what a part is, and the parts."""

_BEGINS = r"(?:^|[;{}(\n])\s*"
_TYPES = r"(?:(?:const|unsigned|int|float|double|size_t|long|bool|auto|short|char|half|__half|[a-z]+[234])\s*)+"
_PURE = frozenset({
    "fabsf", "fabs", "abs", "sqrtf", "sqrt", "rsqrtf", "rsqrt", "expf", "exp", "__expf", "exp2f", "logf", "log",
    "__logf", "log2f", "__log2f", "sinf", "cosf", "__sinf", "__cosf", "tanhf", "powf", "__powf", "fmaxf", "fminf",
    "fmax", "fmin", "max", "min", "__ldg", "fmaf", "fma", "__fmaf_rn", "__fdividef", "__frcp_rn", "__half2float",
    "__bfloat162float",
    "float", "double", "int", "unsigned", "size_t", "if", "for", "__popc", "__dp4a", "floorf", "erff", "__float2int_rn",
    "__int_as_float", "__float_as_int",
})  # fmt: skip
_NEVER = re.compile(
    r"\b(?:break|return|goto|continue|while|do|switch|static|__sync\w*|\w*atomic\w*|new|delete|auto\s*&)\b|\]\s*\("
    r"|(?:\.\s*[A-Za-z_]|->\s*)\w*\s*\(|\w\s*<[\w\s,:]*>\s*\("  # methods, templates: what they change is not seen
    rf"|->\s*\w+(?:\.\w+|\[[^\]]*\])*{MODIFIED}|\)\s*(?:\.\s*\w+|\[[^\]]*\])*{MODIFIED}"
    r"|(?:^|[(,=?:{;])\s*&\s*\w|\*\s*\w+\s*[-+*/]?=(?!=)"
)
_ZERO = r"(?:0+(?:\.0*)?f?|\.0+f?|\{\s*(?:0(?:\.0*)?f?\s*,?\s*)*\}|make_\w+\(\s*(?:0(?:\.0*)?f?\s*,?\s*)+\))"
_STORE = re.compile(r"(?P<name>\w+)\s*\[(?P<at>[^;=]*)\]\s*=(?!=)\s*(?P<value>[^;]*);")
DEEPEST = 3  # calls within calls that are looked at


class Store(Struct, frozen=True):
    """`name[at] = ..;`: what is added to which part of it, and where the statement stands."""

    name: str
    at: str
    values: tuple[tuple[str, str], ...]
    span: tuple[int, int]


class Summed(Struct, frozen=True):
    """`start`: where the loop begins, its pragma too; `step` of its number; `loaded`: types of what one round loads,
    where the text says it; `called`: the functions of the file that it calls."""

    kernel: Kernel
    loop: Loop
    start: int
    step: int
    stores: tuple[Store, ...]
    loaded: tuple[str, ...]
    called: str

    @property
    def atomics(self) -> int:
        return sum(len(one.values) for one in self.stores)

    def asks(self, axis: str) -> bool:
        """Whether the kernel, or what it calls, names the grid along an axis."""
        text = self.kernel.body + self.called
        return re.search(rf"\b(?:blockIdx|gridDim)\s*(?:\.\s*{axis}\b|[^.\s])", text) is not None


def summed(setting: Setting) -> Summed | None:
    kernel = kernel_of(setting)
    return found_in(kernel) if kernel is not None else None


def found_in(kernel: Kernel) -> Summed | None:
    """The loop that ends just before the kernel's last statements, which store its sums."""
    code = kernel.text.code
    every = [one for one in loops(code) if kernel.opening < one.span[0]]
    if not every or len(re.findall(r"\b(?:for|while|do)\b", code)) != len(every):
        return None
    loop = every[0]
    nested = every[1:]
    step = re.fullmatch(rf"(?:{loop.name}\s*\+\+|\+\+\s*{loop.name}|{loop.name}\s*\+=\s*(\d+))", loop.step)
    if any(not loop.body[0] <= one.span[0] < loop.body[1] for one in nested) or step is None or loop.kind != "int":
        return None
    if loop.end.startswith("=") or not whole(kernel, loop.end):
        return None
    start = _start(kernel, loop)
    sums = _sums(kernel, loop)
    stores = _stores(kernel, loop, sums) if sums and start is not None else None
    body = code[slice(*loop.body)]
    called = _called(kernel, body, sums)
    if start is None or not stores or called is None or not _steady(kernel, loop, body):
        return None
    loaded = _loaded(kernel, body, called) if not nested else ()
    return Summed(kernel, loop, start, int(step[1] or 1), tuple(stores), loaded, called)


def _loaded(kernel: Kernel, body: str, called: str) -> tuple[str, ...]:
    """Types of what a round loads from parameters; none where it may load otherwise."""
    if re.search(r"[\[*]\s*\(|->|\*\)|__ldg|\[", called) or re.search(r"\*\s*\)|->|_cast\b", body):
        return ()
    found = set(re.findall(r"\b(\w+)\s*(\[[^\]]*\])", body))
    kinds = [kernel.parameters.get(name, "").partition("*") for name, _ in found]
    return tuple(kind[0].replace("const", "").strip() if kind[1] else "" for kind in kinds)


def _start(kernel: Kernel, loop: Loop) -> int | None:
    """Where the loop begins, if every thread that has not returned comes to it: within no branch but `if (..) {`, which
    the stores are in too."""
    before = kernel.text.code[kernel.opening + 1 : loop.span[0]]
    pragma = re.search(r"[ \t]*#\s*pragma[^\n]*\n\s*$", before)
    start = kernel.opening + 1 + (pragma.start() + len(pragma[0]) - len(pragma[0].lstrip()) if pragma else len(before))
    bare = before[: pragma.start()].rstrip() if pragma else before.rstrip()
    if bare[-1:] not in (";", "{", "}", "") or re.search(r"\b(?:else|for|while|switch|do|case)\b", bare):
        return None
    return start if "#" not in bare and "struct" not in bare else None


def _steady(kernel: Kernel, loop: Loop, body: str) -> bool:
    """Whether the loop's bounds are the same in all rounds, and are no calls."""
    for bound in (loop.start, loop.end):
        if re.search(r"\w\s*\(|\+\+|--|[?&|,]", re.sub(r"\b(?:min|max|int)\s*\(", "(", bound).replace(",", "")):
            return False
        names = re.findall(r"(?<![\w.])[A-Za-z_]\w*", bound)
        written = any(re.search(rf"(?<![\w.])(?<!->){n}\b(?:\.\w+|\[[^\]]*\])*{MODIFIED}", body) for n in names)
        if loop.name in names or written:
            return False
    return True


def _sums(kernel: Kernel, loop: Loop) -> dict[str, str]:
    """Sums by name, with their types: zero in front of the loop, and in it added to, and nothing else. None at all
    where a round changes anything else that is not its own."""
    code = kernel.text.code
    body = code[slice(*loop.body)]
    if _NEVER.search(body):
        return {}
    own = _own(body)
    if own & (_own(code[kernel.opening + 1 : loop.span[0]]) | kernel.parameters.keys()):
        return {}  # which of two of one name is meant
    after = r"(?<![\w.>\])])(\w+)((?:\s*\.\s*\w+|\s*\[[^\]]*\])*)\s*(<<=|>>=|[-+*/%&|^]?=(?!=)|\+\+|--)"
    changed = [m.groups() for m in re.finditer(after, body)]
    before = re.findall(r"(?:\+\+|--)\s*(\w+)", body)
    out: dict[str, str] = {}
    for name, part, sign in [*changed, *((n, "", "++") for n in before)]:
        if name in own:
            continue
        kind = _zero_before(kernel, loop, name)
        parts = ADDED[kind][1] if kind in ADDED else ""
        of = part.replace(" ", "")
        whole = not of if not parts else of[:1] == "." and of[1:] in tuple(parts)
        if kind not in ADDED or not whole or sign not in ("+=", "-="):
            return {}
        out[name] = kind
    named = {n: len(re.findall(rf"(?<![\w.]){n}\b", body)) for n in out}
    return out if all(named[n] == sum(c[0] == n for c in changed) for n in out) else {}


def _own(body: str) -> set[str]:
    """Names that a round declares."""
    out = set(re.findall(rf"{_BEGINS}{_TYPES}\s*\b(\w+)\s*(?:[=;,\[]|\{{)", body))
    for line in re.findall(rf"{_BEGINS}({_TYPES}\s*\b\w+\s*(?:=[^;]*)?,[^;]*)(?=;)", body):
        for part in split_declarators(line):
            named = re.match(rf"\s*(?:{_TYPES})?\b(\w+)\s*(?:=|$|\[)", part)
            out |= {named[1]} if named is not None else set()
    return out


def _zero_before(kernel: Kernel, loop: Loop, name: str) -> str:
    """The type of a name that is declared as zero in front of a loop and named nowhere else there."""
    before = kernel.text.code[kernel.opening + 1 : loop.span[0]]
    words = r"(?:[^;{}]|\{[^{}]*\})*"
    declared = re.findall(rf"(?:^|[;{{}}\n])\s*(\w+)\s+({words}\b{name}\b{words});", before)
    if len(declared) != 1 or len(re.findall(rf"(?<![\w.]){name}\b", before)) != 1:
        return ""
    kind, rest = declared[0]
    zero = any(re.fullmatch(rf"\s*{name}\s*(?:=\s*{_ZERO}|\{{\s*\}})\s*", part) for part in split_declarators(rest))
    return kind if zero else ""


def _stores(kernel: Kernel, loop: Loop, sums: dict[str, str]) -> list[Store] | None:
    """What stands behind the loop: stores of the sums, each once, and closing braces."""
    code, at, out = kernel.text.code, loop.body[1], list[Store]()
    rest = code[at : kernel.closing]
    for match in _STORE.finditer(rest):
        name, kind = match["name"], kernel.parameters.get(match["name"], "")
        pointed = re.fullmatch(r"(\w+) \*(?: ?(?:__restrict__|__restrict|const))*", kind.strip())
        values = _values(match["value"].strip(), pointed[1] if pointed is not None else "", sums)
        inside = re.search(rf"\b(?:{'|'.join(map(re.escape, (*sums, loop.name)))})\b|\+\+|--|\w\s*\(", match["at"])
        if not values or inside is not None or len(re.findall(rf"(?<![\w.]){name}\b", kernel.body)) != 1:
            return None
        out.append(Store(name, match["at"].strip(), tuple(values), (at + match.start(), at + match.end())))
    if _STORE.sub("", rest).strip(" \n\t}") or not out or len({one.name for one in out}) != len(out):
        return None
    return out


def _values(value: str, kind: str, sums: dict[str, str]) -> list[tuple[str, str]]:
    """(part of the element, what is added to it) of a stored value: a sum, one times what does not change, or a vector
    of sums."""
    if kind not in ADDED:
        return []
    part, parts = ADDED[kind]
    if not parts:
        name = _sum_of(value, sums)
        own = sums.get(name.partition(".")[0], "")
        return [("", value)] if name and ADDED[own][0] == kind and ("." in name) == bool(ADDED[own][1]) else []
    if sums.get(value) == kind:
        return [(f".{p}", f"{value}.{p}") for p in parts]
    made = re.fullmatch(rf"make_{kind}\s*\((.*)\)", value, re.S)
    given = [one.strip() for one in split_declarators(made[1])] if made is not None else []
    out = [(f".{p}", v) for p, v in zip(parts, given, strict=False) if not re.fullmatch(r"0(?:\.0*)?f?", v)]
    right = all((n := _sum_of(v, sums)) and ADDED[sums[n.partition(".")[0]]][0] == part for _, v in out)
    return out if right and len(given) == len(parts) else []


def _sum_of(value: str, sums: dict[str, str]) -> str:
    """The one sum, or part of it, that a value is, or of floats that it is a multiple of by a name or number; "" for
    any other."""
    one, factor = r"(\w+(?:\.[xyzw])?)", r"([\w.]+(?:\[\w+\])?)"
    whole = re.fullmatch(one, value)
    times = re.fullmatch(rf"{one}\s*[*/]\s*{factor}", value)
    turned = re.fullmatch(rf"{factor}\s*\*\s*{one}", value)
    pairs = [(m[a], m[b]) for m, a, b in ((times, 1, 2), (turned, 2, 1)) if m is not None]
    for name, other in [(whole[1], "")] if whole is not None else pairs:
        own, also = name.partition(".")[0], re.split(r"\W", other)[0]
        if own in sums and (not other or (also not in sums and ADDED[sums[own]][0] in ("float", "double"))):
            return name
    return ""


def _called(kernel: Kernel, body: str, sums: Sequence[str] | dict[str, str], depth: int = 0) -> str | None:
    """The text of the file's functions that a round calls; None where one is not there, or may change what it is given
    (a reference, a pointer)."""
    source = "\n".join(blanked(line) for line in kernel.lines)
    out = ""
    for name in set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", body)) - _PURE:
        if name.startswith("make_") or name in ("__launch_bounds__",):
            continue
        heads = list(re.finditer(rf"\b__device__\b[^;{{}}()]*\b{name}\s*\(", source))
        if not heads or depth >= DEEPEST:
            return None
        for head in heads:
            close = closing(source, head.end())
            given = source[head.end() : close] if close is not None else "&"
            opening = source.find("{", close or 0)
            end = closing(source, opening + 1) if opening >= 0 else None
            if end is None or re.search(r"(?:^|,)\s*(?!const\b)[^,]*[&*]", given):
                return None
            inside = source[opening + 1 : end]
            more = _called(kernel, re.sub(r"\breturn\s*\(", "(", inside), sums, depth + 1)
            if more is None or re.search(r"\b(?:static|asm|__sync\w*|atomic\w*|goto)\b", inside):
                return None
            out += inside + more
    return out
