"""Statements that add a product to a local sum: on tensor cores, by wmma, as numbers; and so for many rounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.rewrite import calls_of
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import closing

_TYPE = (r"unsigned\s+int|unsigned|int|float|double|u?int32_t|half2|__half2|half|__half|float[234]|u?int[234]"
         r"|__nv_bfloat16|__nv_bfloat162|(?:nvcuda\s*::\s*)?(?:wmma\s*::\s*)?fragment\s*<[^;]*?>")  # fmt: skip
_DECLARED = re.compile(
    rf"(?:(?<=[;{{}}(])|(?<=\n))\s*(?P<words>(?:(?:const|constexpr|volatile|__shared__|static|extern)\s+)*)"
    rf"(?P<kind>{_TYPE})\s+(?P<rest>[^;]+);"
)
_SUMS = {"float": "float", "double": "double", "int": "int", "int32_t": "int", "unsigned": "unsigned",
         "unsigned int": "unsigned", "uint32_t": "unsigned"}  # fmt: skip
_NAME = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
_PLACE = r"[A-Za-z_]\w*(?:\s*\[[^][]*\])*(?:\.[xyzw])?"
_ASM = re.compile(
    r'asm\s*(?:volatile|__volatile__)?\s*\(\s*(?P<text>(?:"[^"]*"\s*)+):(?P<outs>[^:]*):(?P<ins>[^:]*)\)\s*;', re.S
)
_MMA = re.compile(r"mma(?:\.sp(?:::ordered_metadata)?)?\.sync\.aligned\.[\w.]+")
_OPERAND = re.compile(r'\s*"(?P<how>[+=]?)(?P<kind>[frd])"\s*\((?P<what>.*)\)\s*', re.S)
_ADDED = re.compile(rf"(?P<sum>{_PLACE})\s*\+=\s*(?P<what>[^;=]+);", re.S)
_FUSED = re.compile(rf"(?P<sum>{_PLACE})\s*=\s*(?:fmaf?|__fmaf_rn)\s*\((?P<what>[^;=]+)\)\s*;", re.S)
_ACTS = re.compile(r"\w\s*\(|\+\+|--|=|->|\*")
_ELEMENT = re.compile(r"[fsubte]\w*\d+(?:x\d)?|bf16|tf32|e[45]m[23]|b1")
_HOLDS = {"f": {"float"}, "d": {"double"}, "r": {"int", "unsigned"}}
_DIMENSIONS = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
PRODUCT = "product_n"
HALVES = 2  # instructions that nvcc makes of a product of fragments, 16 x 8 each (seen in its code for sm_90)


class _Operand(Struct, frozen=True):
    """Of an assembly statement: "+", "=" or "", what holds it, and the expression."""

    how: str
    kind: str
    what: str


class Added(Struct, frozen=True):
    """The statement's sums as places, the names that they begin with (bases), names of what is multiplied, the type
    of a sum; `made`: the product alone, put into PRODUCT."""

    bases: tuple[str, ...]
    places: tuple[str, ...]
    uses: frozenset[str]
    kind: str
    made: str
    matrices: bool
    fragment: bool = False

    @property
    def instructions(self) -> int:
        """Of the tensor cores, for a product."""
        return int(self.matrices) * (HALVES if self.fragment and self.kind != "double" else 1)

    def times(self, rounds: str) -> str:
        """The sums after so many rounds."""
        if self.fragment:
            one = _summed(self.kind, f"{self.places[0]}.x[element_n]", f"{PRODUCT}.x[element_n]", rounds)
            each = f"for (int element_n = 0; element_n < {PRODUCT}.num_elements; element_n++) {one}"
            return f"{{ auto {PRODUCT} = {self.places[0]}; {self.made} {each} }}"
        if not self.made:
            return ""
        if not self.matrices:
            return _summed(self.kind, self.places[0], self.made, rounds)
        added = " ".join(_summed(self.kind, p, f"{PRODUCT}[{n}]", rounds) for n, p in enumerate(self.places))
        return f"{{ {self.kind} {PRODUCT}[{len(self.places)}] = {{}}; {self.made} {added} }}"


def _summed(kind: str, place: str, product: str, rounds: str) -> str:
    if kind == "float":
        return f"{place} = fmaf((float){rounds}, {product}, {place});"
    if kind == "double":
        return f"{place} = fma((double){rounds}, {product}, {place});"
    return f"{place} = ({kind})((unsigned){place} + (unsigned){rounds} * (unsigned)({product}));"


class Names:
    """What a kernel's names are, as its text declares them: once each."""

    def __init__(self, code: str) -> None:
        head = code[: code.find("{")]
        self.kinds: dict[str, str] = {}
        twice = set[str]()
        for words, kind, rest in self._declared(code, head):
            for part in split_declarators(rest):
                match = re.match(r"\s*([*&]*)\s*(?:__restrict__\s+)?(\w+)\s*(\[)?", part)
                if match is None:
                    continue
                odd = match[1] or re.search(r"volatile|__shared__|static|extern", words)
                twice |= {match[2]} & set(self.kinds)
                self.kinds[match[2]] = "" if odd else " ".join(kind.split()) + ("[" if match[3] else "")
        self.kinds |= dict.fromkeys(twice, "")
        body = code[len(head) :]
        taken = set(re.findall(r"(?<!&)(?<![\w)\]])\s*&\s*([A-Za-z_]\w*)", body))
        taken |= set(re.findall(r"&\s*\w+\s*=\s*([A-Za-z_]\w*)", body))
        self.kinds |= dict.fromkeys(taken & set(self.kinds), "")

    @staticmethod
    def _declared(code: str, head: str) -> list[tuple[str, str, str]]:
        found = [(m["words"], m["kind"], m["rest"]) for m in _DECLARED.finditer(code)]
        for part in split_declarators(head[head.find("(", head.find("__launch_bounds__") + 18 if "__launch" in head
                                                     else 0) + 1 : head.rfind(")")]):  # fmt: skip
            match = re.fullmatch(rf"\s*(?:const\s+)?(?P<kind>{_TYPE})(?:\s+const)?\s+(?P<rest>\w+)\s*", part)
            found += [("", match["kind"], match["rest"])] if match is not None else []
        return found

    def steady(self, name: str) -> bool:
        """Whether a name is a value of the thread's own: no other can change it."""
        return name in _DIMENSIONS or self.kinds.get(name, "") != ""

    def plain(self, name: str) -> bool:
        return self.kinds.get(name, "") in ("int", "unsigned", "unsigned int", "int32_t", "uint32_t")

    def sum_of(self, name: str) -> str:
        """The type of a sum: of itself, of an array's elements or of a fragment's; "" where it is none."""
        kind = self.kinds.get(name, "").rstrip("[")
        if "fragment" in kind:
            given = re.search(r"<(.*)>", kind)
            parts = [p.strip() for p in split_declarators(given[1])] if given is not None else []
            return _SUMS.get(parts[4], "") if len(parts) == 5 and parts[0].endswith("accumulator") else ""
        return _SUMS.get(kind, "")


def statement(text: str, names: Names) -> Added | None:
    """What a statement adds, and to what; None where it does anything else."""
    if text.startswith("asm"):
        return _assembly(text, names)
    if re.match(r"(?:\w+\s*::\s*)*mma_sync\s*\(", text):
        return _fragments(text, names)
    added, fused = _ADDED.fullmatch(text), _FUSED.fullmatch(text)
    match = added or fused
    if match is None:
        return None
    what, base = match["what"].strip(), _names(match["sum"])[0]
    if fused is not None:
        given = [x.strip() for x in split_declarators(what)]
        if len(given) != 3 or _bare(given[2]) != _bare(match["sum"]):
            return None
        what = f"({given[0]}) * ({given[1]})"
    index = frozenset(_names(match["sum"])[1:])
    calls = re.search(r"\w\s*\(|\+\+|--|->", what)
    kind = names.sum_of(base)
    if calls or not kind or "fragment" in names.kinds[base]:
        return None
    whole = "." not in what and all(names.sum_of(n) in ("int", "unsigned") for n in _names(what))
    if kind in ("int", "unsigned") and not whole:
        return None  # a fraction that is cut in each round
    return Added((base,), (match["sum"],), frozenset(_names(what)) | index, kind, f"({what})", matrices=False)


def _names(text: str) -> list[str]:
    return _NAME.findall(text)


def _bare(text: str) -> str:
    return "".join(text.split())


def _assembly(text: str, names: Names) -> Added | None:
    """mma.sync whose sums are what it adds to: "+f", or the same place as output and input."""
    match = _ASM.fullmatch(text)
    given = _operands(match) if match is not None else []
    if match is None or not given:
        return None
    name, groups = _said(match["text"])
    form = _letter(name)
    if not form or len(groups) != 4 or max(map(max, groups)) >= len(given):
        return None
    outs, ends = [given[n] for n in groups[0]], [given[n] for n in groups[3]]
    if not _tied(groups, given) or {o.kind for o in outs} != {form}:
        return None
    places, inside = [o.what for o in outs], [o.what for o in given if o not in outs and o not in ends]
    bases = _apart(places)
    kinds = {names.sum_of(b) for b in bases}
    if len(kinds) != 1 or not kinds <= _HOLDS[form]:
        return None
    made = _swapped(text, match, {_bare(p): f"{PRODUCT}[{n}]" for n, p in enumerate(places)})
    return Added(bases, tuple(places), _uses(places, inside), kinds.pop(), made, matrices=True)


def _uses(places: Sequence[str], inside: Sequence[str]) -> frozenset[str]:
    """Names that an instruction's products and the places of its sums are told by."""
    return frozenset({*_names(" ".join(inside)), *(n for p in places for n in _names(p)[1:])})


def _apart(places: Sequence[str]) -> tuple[str, ...]:
    """What places begin with, where all are different ones as their text reads."""
    alike = len(set(map(_bare, places))) < len(places) or not all(re.fullmatch(_PLACE, p) for p in places)
    return () if alike else tuple(dict.fromkeys(_names(p)[0] for p in places))


def _said(text: str) -> tuple[str, list[list[int]]]:
    """An instruction's name, and the numbers of its operands in brackets."""
    said = "".join(re.findall(r'"([^"]*)"', text)).replace("\\n", " ").replace("\\t", " ").strip().rstrip(";")
    name, _, rest = said.partition(" ")
    groups = [[int(n) for n in re.findall(r"%(\d+)", g)] for g in re.findall(r"\{([^{}]*)\}", rest)]
    return name, groups if all(groups) else []


def _operands(match: re.Match[str]) -> list[_Operand]:
    """Of an assembly statement, in the order of their numbers; none where one is more than a value."""
    parts = [p for side in ("outs", "ins") for p in split_declarators(match[side]) if p.strip()]
    found = [m for m in map(_OPERAND.fullmatch, parts) if m is not None and not _ACTS.search(m["what"])]
    return [_Operand(m["how"], m["kind"], m["what"].strip()) for m in found] if len(found) == len(parts) else []


def _tied(groups: list[list[int]], given: list[_Operand]) -> bool:
    """Whether what an instruction adds to are the places where it puts its sums, which are all that it sets."""
    outs, ends = groups[0], groups[3]
    if outs != [n for n, o in enumerate(given) if o.how]:
        return False
    if outs == ends:
        return all(given[n].how == "+" for n in outs)
    same = [_bare(given[n].what) for n in outs] == [_bare(given[n].what) for n in ends]
    return same and all(given[n].how == "=" for n in outs)


def _letter(name: str) -> str:
    """What holds a sum of an instruction: f, d, or r where it is a whole number; "" for others."""
    kinds = [p for p in name.split(".") if _ELEMENT.fullmatch(p)]
    if not _MMA.fullmatch(name) or ".satfinite" in name or len(kinds) < 4 or kinds[-4] != kinds[-1]:
        return ""
    return {"f32": "f", "f64": "d", "s32": "r"}.get(kinds[-1], "")


def _swapped(text: str, match: re.Match[str], new: Mapping[str, str]) -> str:
    """The statement with its sums' places replaced."""
    out, at = "", match.start("outs")
    out = text[:at]
    while True:
        opened = re.compile(r'"[+=]?[frd]"\s*\(').search(text, at)
        if opened is None:
            return out + text[at:]
        close = closing(text, opened.end())
        assert close is not None
        what = text[opened.end() : close]
        out += text[at : opened.end()] + new.get(_bare(what), what)
        at = close


def _fragments(text: str, names: Names) -> Added | None:
    call = re.fullmatch(r"(?P<of>(?:\w+\s*::\s*)*)mma_sync\s*\(.*\)\s*;", text, re.S)
    given = calls_of(text.replace("::", "  "), "mma_sync")
    if call is None or len(given) != 1 or len(given[0].arguments) != 4:
        return None
    to, a, b, c = given[0].arguments
    base = _names(to)[0] if re.fullmatch(_PLACE, to) else ""
    kind = names.sum_of(base)
    if _bare(to) != _bare(c) or "fragment" not in names.kinds.get(base, "") or kind not in ("float", "double", "int"):
        return None
    if not all(re.fullmatch(_PLACE, x) for x in (a, b)):
        return None
    zero = {"float": "0.0f", "double": "0.0", "int": "0"}[kind]
    of = "".join(call["of"].split())
    made = f"{of}fill_fragment({PRODUCT}, {zero}); {of}mma_sync({PRODUCT}, {a}, {b}, {PRODUCT});"
    uses = frozenset({*_names(a), *_names(b), *_names(to)[1:]})
    return Added((base,), (to,), uses, kind, made, matrices=True, fragment=True)
