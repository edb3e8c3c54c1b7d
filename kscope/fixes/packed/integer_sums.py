"""Sums of products of bytes that were made floats: kept as integers to their end, four products an instruction, and the
lanes' sums added by one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.fixes.given.conditions import shown
from kscope.fixes.given.rewrite import declarations, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Span, by_line, kernel_text, spans_edited
from kscope.fixes.packed.dots import Dots, dots
from kscope.model.contract.fixes import Condition, Fix, Proof
from kscope.model.lazily import np

MOST = {"int": 2**31 // 2**14 - 1, "unsigned": 2**32 // 255**2}
"""Products of bytes whose sum an integer holds for sure."""
REDUCED = 80  # compute capability from which a warp adds integers by one instruction (CUDA C++ Programming Guide)
ROUNDS = 64  # of four products, so that sums stay below 2^24
_BYTES = re.compile(r"\b(?P<const>const\s+)?(?P<kind>u?char4)\s+(?P<rest>[A-Za-z_][^;]*);")
_POINTER = re.compile(r"\b(?P<kind>u?char4)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)\s*(?=[,)=])")
_READ = re.compile(r"^(?P<array>\w+)\s*(?P<index>\[.*\])$", re.S)
_ZERO = re.compile(r"^(?:0|0\.0?f?|\{\s*(?:0|0\.0?f?)?\s*\})$")
_SUMMED = (
    r"__device__[^;{{}}]*\bfloat\s+{name}\s*\(\s*float\s+(?P<v>\w+)\s*\)\s*\{{\s*(?:#\s*pragma\s+unroll[ \t]*\n\s*)?"
    r"for\s*\(\s*int\s+(?P<o>\w+)\s*=\s*16\s*;\s*(?P=o)(?:\s*>\s*0)?\s*;\s*(?P=o)\s*(?:>>=\s*1|/=\s*2)\s*\)\s*"
    r"(?P=v)\s*\+=\s*__shfl_xor_sync\s*\(\s*(?P<mask>[\w~]+)\s*,\s*(?P=v)\s*,\s*(?P=o)\s*\)\s*;\s*"
    r"return\s+(?P=v)\s*;\s*\}}"
)
_EXCHANGED = (
    r"for\s*\(\s*int\s+(?P<o>\w+)\s*=\s*(?P<from>\d+)\s*;\s*(?P=o)(?:\s*>\s*0)?\s*;\s*(?P=o)\s*(?:>>=\s*1|/=\s*2)"
    r"\s*\)\s*(?P<sum>{element})\s*\+=\s*__shfl_(?P<how>xor|down)_sync\s*\(\s*(?P<mask>[\w~]+)\s*,\s*(?P=sum)\s*,\s*"
    r"(?P=o)\s*\)\s*;"
)
_HANDED = re.compile(r"(?:[(,=]|\breturn)\s*&$|&\s*\w+\s*[={(]$|(?<![\w\])])\s*\[[^][]*$|\"\s*\($")
"""Behind what a name is more than its value: its address, a reference, a capture, or an operand of assembly."""
_EVERY = re.compile(r"^(?:~0u?|0x[fF]{8}[uU]?|-1)$")


class Kept(Struct, frozen=True):
    """Names of sums that become integers, of what type, the spans, and whether warps' sums are added by an instruction.
    """

    names: tuple[str, ...]
    kind: str
    spans: tuple[Span, ...]
    reduced: bool


def fixes(asked: Asked) -> list[Fix]:
    setting, code = asked.setting, asked.setting.code
    text = kernel_text(setting)
    found = code.ran(code.where(lambda ins, op: ins.opcode in ("I2F", "I2FP")))
    if text is None or not found:
        return []
    kept = integers(text.code, "\n".join(setting.lines(text.file)) if code.program.sm >= REDUCED else "")
    edits = spans_edited(setting, text, [one for s in kept.spans for one in by_line(text.code, s)]) if kept else []
    if kept is None or not edits:
        return []
    where = {text.first + text.code.count("\n", 0, s[0]) for s in kept.spans if "__dp4a" in s[2]}
    mine = [i for i in found if {p.number for p in places(setting, [i])} & where]
    before, exact = total(code.executed, mine), _same()
    return [
        Fix(
            kind="math_function",
            title=f"sums of products of bytes as integers, four at a time by __dp4a{_reduced(kept)}",
            language="cuda",
            edits=edits,
            conditions=[
                shown(exact > 0, "sums below 2^24 are the same, for floats hold them exactly", "values", exact,
                      "bytes summed both ways; a larger sum is rounded once, not in every round"),
                Condition(holds=f"a sum has at most {MOST[kept.kind]} products", state="check",
                          why="an integer holds as many for sure"),
            ],
            proof=[
                Proof(what="conversions of bytes that warps execute", before=before, after=0, unit="inst",
                      how=f"{len(mine)} in the lines of the products; a sum is converted once, at its end"),
                Proof(what="sums that come out the same", before=exact, after=exact, how=f"{ROUNDS} rounds each"),
            ],
            price=asked.finding.estimate,
        )
    ] if mine else []  # fmt: skip


def _reduced(kept: Kept) -> str:
    return ", a warp's by __reduce_add_sync" if kept.reduced else ""


def integers(code: str, file: str) -> Kept | None:
    """What becomes of a kernel whose sums of such products are read only behind them. file: text in which a function
    that adds the values of a warp may stand. None where a sum has anything else added, or stands for more than its
    value."""
    bytes_ = _bytes(code)
    found = [d for d in dots(code) if bytes_ is not None and bytes_.kinds(d)]
    if bytes_ is None or len(used := {kind for d in found for kind in bytes_.kinds(d)}) != 1:
        return None
    kind = "int" if used == {"char4"} else "unsigned"
    names = tuple(dict.fromkeys(_of(d.sum) for d in found))
    spans: list[Span] = []
    for name in names:
        mine = _uses(code, name, names, found, file, kind)
        if mine is None:
            return None
        spans += mine
    whole = _words(code, found, bytes_, kind)
    spans += [(*d.span, _product(d, [name for name, _ in whole], kind)) for d in found]
    spans += [span for _, of in whole for span in of]
    return Kept(names, kind, tuple(dict.fromkeys(spans)), any("__reduce_add" in s[2] for s in spans))


class _Bytes(Struct, frozen=True):
    """Types of a kernel's groups of four bytes: of pointers to them, and of local ones."""

    pointers: Mapping[str, str]
    locals: Mapping[str, str]

    def kinds(self, one: Dots) -> set[str]:
        """Of what products are made of; none where one of them is anything else."""
        every = [x for pair in one.pairs for x in pair]
        found = [(self.pointers if "[" in x else self.locals).get(_of(x), "") for x in every]
        return set(found) if "" not in found else set()


def _bytes(code: str) -> _Bytes | None:
    """None where a name is a pointer at one place and a value at another, or of another type."""
    pointers = {m["name"]: m["kind"] for m in _POINTER.finditer(code)}
    locals_ = {n: m["kind"] for m in _BYTES.finditer(code) for n in _declared(m["rest"])}
    others = {name for kind, name in declarations(code) if kind != {**pointers, **locals_}.get(name, kind)}
    return None if others or set(pointers) & set(locals_) else _Bytes(pointers, locals_)


def _of(text: str) -> str:
    """The name that a place begins with."""
    name = re.match(r"\w+", text)
    return name[0] if name is not None else ""


def _declared(rest: str) -> list[str]:
    return [_of(part.strip()) for part in split_declarators(rest)]


def _ambiguous(code: str, name: str) -> bool:
    """Whether a name is declared several times, or never."""
    return len([n for _, n in declarations(code) if n == name]) != 1


def _product(one: Dots, words: Sequence[str], kind: str) -> str:
    out = one.sum
    for pair in one.pairs:
        a, b = (x if x in words else f"*reinterpret_cast<const {kind}*>(&{x})" for x in pair)
        out = f"__dp4a({a}, {b}, {out})"
    return f"{one.sum} = {out};"


def _uses(
    code: str, name: str, names: Sequence[str], found: Sequence[Dots], file: str, kind: str
) -> list[Span] | None:  # fmt: skip
    """Spans of a sum's declaration and of where it is read; None where it is anything else."""
    first = None if _ambiguous(code, name) else _first(code, name, names, kind)
    if first is None:
        return None
    element = rf"{name}\s*\[[^][]*\]" if re.search(rf"\b{name}\s*\[", first[2]) else rf"{name}\b(?!\s*\[)"
    meetings = list(re.finditer(_EXCHANGED.format(element=element), code))
    spans: list[Span] = [first, *(s for m in meetings if file and (s := _exchanged(m)))]
    taken = [first[:2], *(d.span for d in found), *(m.span() for m in meetings)]
    for use in re.finditer(rf"(?<![\w.])(?<!->){name}\b", code):
        if any(a <= use.start() < b for a, b in taken):
            continue
        read = _read(code, use.start(), element, file)
        if read is None:
            return None
        spans.append(read)
    return spans


def _first(code: str, name: str, names: Sequence[str], kind: str) -> Span | None:
    """The declaration of a sum that starts from zero, as one of integers; None for any other."""
    declared = re.search(rf"(?<=[;{{}}])\s*\bfloat\s+(?P<rest>[^;()*&]*\b{name}\b[^;()*&]*);", code)
    parts = [p.strip() for p in split_declarators(declared["rest"])] if declared is not None else []
    own = next((p for p in parts if _of(p) == name), "")
    head = re.match(rf"{name}\s*(?P<sizes>(?:\[[^][]*\]\s*)*)=\s*(?P<value>.*)$", own, re.S)
    if declared is None or head is None or _ZERO.match(head["value"].strip()) is None or head["sizes"].count("[") > 1:
        return None
    mine = [re.sub(r"\b0\.0?f?", "0", p) for p in parts if _of(p) in names]
    rest = [p for p in parts if _of(p) not in names]
    one = f"{kind} {', '.join(mine)};" + (f" float {', '.join(rest)};" if rest else "")
    return declared.end() - len(declared[0].lstrip()), declared.end(), one


def _exchanged(match: re.Match[str]) -> Span | None:
    """A loop of exchanges as one instruction, where it is over all lanes; integers are exchanged as they are else."""
    whole = match["how"] == "xor" and match["from"] == "16" and _EVERY.match(match["mask"])
    if not whole or not _butterfly():
        return None
    return *match.span(), f"{match['sum']} = __reduce_add_sync({match['mask']}, {match['sum']});"


def _read(code: str, at: int, element: str, file: str) -> Span | None:
    """How a value of a sum is read, as a float; None where it is changed, or its address is taken."""
    value = re.match(element, code[at:])
    if value is None:
        return None
    before, after = code[:at].rstrip(), code[at + value.end() :].lstrip()
    changed = re.match(r"(?:[-+*/%|&^]|<<|>>)?=(?!=)|\+\+|--|\.|->", after) or before.endswith(("++", "--"))
    if changed or _HANDED.search(before) or _taken(code[:at], file):
        return None
    call = re.search(r"(?<![\w.:>])(?P<name>\w+)\s*\($", before)
    if call is not None and call["name"] not in ("if", "while", "for", "switch"):
        summed = re.search(_SUMMED.format(name=call["name"]), file) if after.startswith(")") else None
        alone = len(re.findall(rf"(?<!\w){call['name']}\s*\(\s*\w+\s+\w+\s*\)\s*\{{", file)) == 1
        if summed is not None and alone and _EVERY.match(summed["mask"]) and _butterfly():
            end = code.index(")", at + value.end()) + 1
            return call.start(), end, f"(float)__reduce_add_sync({summed['mask']}, {value[0]})"
    return at, at + value.end(), f"(float){value[0]}"


def _taken(before: str, file: str) -> bool:
    """Whether a name that follows is given to a function that may change it."""
    depth = 0
    for n in range(len(before) - 1, -1, -1):
        depth += (before[n] == ")") - (before[n] == "(")
        if before[n] in ";{}":
            break
        name = re.search(r"(\w+)\s*(?:<[^<>;]*>\s*)?$", before[:n]) if depth < 0 else None
        if name is not None and name[1] not in ("if", "for", "while", "switch", "return"):
            by_reference = rf"\b{name[1]}\s*\([^(){{}};]*\w\s*&\s*\w[^(){{}};]*\)\s*\{{"
            return name[1] == "swap" or re.search(by_reference, file) is not None
        depth = max(depth, 0)
    return False


def _words(
    code: str, found: Sequence[Dots], bytes_: _Bytes, kind: str
) -> list[tuple[str, list[Span]]]:
    """Locals that can be read as words from the start, for nothing but these sums asks for them, with the spans of
    their declarations: bytes that the compiler takes apart and puts together cost more than their products."""
    out: list[tuple[str, list[Span]]] = []
    inside = "".join(code[a:b] for a, b in (d.span for d in found))
    for m in _BYTES.finditer(code):
        parts = [p.strip().partition("=") for p in split_declarators(m["rest"])]
        new = []
        for left, equals, right in parts:
            name, read = left.strip(), _READ.match(right.strip())
            uses = len(re.findall(rf"(?<![\w.])(?<!->){name}\b", code)) - 1
            mine = len(re.findall(rf"(?<![\w.])(?<!->){name}\b", inside))
            if not equals or read is None or uses != mine or bytes_.pointers.get(read["array"]) != m["kind"]:
                break
            new.append(f"{name} = reinterpret_cast<const {kind}*>({read['array']}){read['index']}")
        else:
            span = (*m.span(), f"{m['const'] or ''}{kind} {', '.join(new)};")
            out += [(p[0].strip(), [span] if n == 0 else []) for n, p in enumerate(parts)]
    return out


def _same() -> int:
    """How many sums of products of bytes were made in both ways, if all come out the same; 0 otherwise."""
    drawn = np.random.default_rng(0)
    least = drawn.integers(-128, 128, (256, ROUNDS, 4, 2))
    least[0], least[1] = -128, (-128, 127)
    floats = np.zeros(len(least), dtype=np.float32)
    for step in range(ROUNDS):
        for part in range(4):
            floats = floats + least[:, step, part, 0].astype(np.float32) * least[:, step, part, 1].astype(np.float32)
    whole = least.prod(axis=3).sum(axis=(1, 2))
    return len(whole) if bool((whole == floats).all()) and int(np.abs(whole).max()) < 2**24 else 0


def _butterfly() -> bool:
    """Whether exchanges over 16, 8, 4, 2 and 1 lanes leave the sum of all in each."""
    drawn = np.random.default_rng(1).integers(-1000, 1000, 32)
    lanes, values = np.arange(32), drawn.copy()
    for apart in (16, 8, 4, 2, 1):
        values = values + values[lanes ^ apart]
    return bool((values == drawn.sum()).all())
