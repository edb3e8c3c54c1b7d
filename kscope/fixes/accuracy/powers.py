"""Powers of doubles by halves: products and a square root."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set

from kscope.arch import table
from kscope.fixes.accuracy.spots import for_host, helper_of
from kscope.fixes.atomics.regions import regions
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.rewrite import PURE, Call, Place, changed, replaced
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.source import body, split_declarators
from kscope.fixes.given.text import LONGEST, blanked
from kscope.model.contract.fixes import Condition, Fix, Proof

POWER = """template <int N> __device__ __forceinline__ double power(double x) {
  if constexpr (N == 0) return 1.0;
  else if constexpr (N % 2) return x * power<N - 1>(x);
  else { double h = power<N / 2>(x); return h * h; }
}"""
LARGEST = 16  # exponent up to which products are fewer instructions than pow (arch/functions.toml)
LDEXP = 17  # instructions of ldexp(1.0, n), counted in code of nvcc 13.0 for sm_90
_WHOLE = re.compile(r"u?int(?:8|16|32|64)?(?:_t)?|unsigned|size_t|long|short|char|uint")
_HALVES = re.compile(r"(\d+)(?:\.(0*|50*))?")
_DECLARED = re.compile(
    r"\b(?!return\b|else\b|case\b|const\b|__restrict__\b)(?P<kind>[A-Za-z_]\w*)[\s*&]+(?:(?:const|__restrict__)\s+)*"
    r"(?P<rest>(?:[*&]?\s*\w+(?:\[\w*\]|\s*=[^;,(){}]*(?:\([^()]*\)[^;,(){}]*)*)?\s*,\s*)*)"
    r"[*&]?(?P<last>\w+)\s*(?=[=;,)\[({])", re.ASCII
)  # fmt: skip
_LESS = re.compile(r"\(?\s*-\s*(\d+(?:\.(?:0*|50*))?)\s*\)?")


def fixes(asked: Asked) -> list[Fix]:
    setting = asked.setting
    places = [p for p in _places(asked) if not for_host(setting.lines(p.file), p.number)]
    code = _around(setting, places)
    whole, unsigned, doubles = _integers(code), _unsigned(code), _doubles(code)
    name, helper = helper_of(POWER, [line for f in sorted({p.file for p in places}) for line in setting.lines(f)])
    known = table("functions")
    made: list[tuple[int, bool]] = []
    exact: list[str] = []

    def one(call: Call) -> str | None:
        if len(call.arguments) == 2 and (said := _of_integers(call, whole, unsigned)):
            exact.append(said)
            return said
        found = _halves(call, doubles, name)
        if found is not None:
            made.append(found[:2])
        return found[2] if found is not None else None

    edits = changed(places, lambda text: _all(text, one))
    if not edits or len({e.file for e in edits}) > 1:
        return []
    products = sum(max(0, n.bit_length() - 1 + n.bit_count() - 1) + (n > 0 and half) for n, half in made)
    after = products + sum(half for _, half in made) * known["sqrt"]["instructions"]
    needs = any(n > 1 for n, _ in made)
    return [
        Fix(
            kind="math_function",
            title="powers of halves as products and square roots" if made else
                  "powers of 2 and of -1 by integers without pow",
            language="cuda",
            code=helper if needs else "",
            edits=edits,
            conditions=[
                *([Condition(holds="no base is minus infinity", state="check",
                             why="its root is NaN, its power is not")] if any(half for _, half in made) else []),
                *([Condition(holds="half an ulp for each product and root, where pow has 2 ulp", state="check")]
                  if made else []),
                *([reads("the exponents are integers", "as they are declared: powers of 2 are exact, as pow has them")]
                  if exact else []),
            ],
            proof=[
                Proof(
                    what=f"instructions of the {len(made) + len(exact)} calls, all paths",
                    after=after + LDEXP * len(exact),
                    before=(len(made) + len(exact)) * known["pow"]["instructions"], unit="inst",
                    how="both compiled by nvcc 13.0 for sm_90 (arch/functions.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


def _halves(call: Call, doubles: Set[str], name: str = "power") -> tuple[int, bool, str] | None:
    """(whole part of the exponent, whether a half is over, the power as products and a root)."""
    if len(call.arguments) != 2:
        return None
    base, exponent = call.arguments
    less = _LESS.fullmatch(exponent)
    if less is not None:  # the same above it, as a divisor
        above = _halves(Call(call.start, call.end, (base, less[1])), doubles, name)
        return (*above[:2], f"(1.0 / {above[2]})") if above is not None else None
    match = _HALVES.fullmatch(exponent)
    if match is None or int(match[1]) > LARGEST or (int(match[1]) == 0 and not match[2]):
        return None
    n, half = int(match[1]), bool(match[2]) and match[2].startswith("5")
    if n and half and not _repeatable(base):
        return None
    double = base if _double(base, doubles) else f"(double)({base})"
    product = f"{name}<{n}>({base})" if n > 1 else f"({double})" if n else ""
    root = f"sqrt({double})" if half else ""
    return (n, half, f"({' * '.join(x for x in (product, root) if x)})") if product or root else None


def _repeatable(text: str) -> bool:
    """Whether an expression may be computed twice: it does nothing but have a value."""
    called = {m[1] for m in re.finditer(r"([\w:.>]+)\s*(?:<[^<>()]*>\s*)?\(", text)}
    return not re.search(r"\+\+|--|(?<![=<>!])=(?!=)", text) and {c.removeprefix("std::") for c in called} <= PURE


def _double(text: str, doubles: Set[str]) -> bool:
    """Whether an expression is made of doubles alone: of floats and integers there would be another root."""
    while (less := re.sub(r"\[[^][]*\]", "", text)) != text:
        text = less
    names = re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*\b(?!\s*\()", text)
    return bool(names) and set(names) <= doubles and not re.search(r"(?<!\ber)f\s*\(|\b__\w+\s*\(", text)


def _doubles(code: str) -> set[str]:
    """Names that a text declares as doubles, or as pointers to such, and as nothing else."""
    declared = declarations(code)
    return {n for kind, n in declared if kind == "double"} - {n for kind, n in declared if kind != "double"}


def declarations(code: str) -> list[tuple[str, str]]:
    """(type, name) of declarations, each name of a list."""
    out = list[tuple[str, str]]()
    for match in _DECLARED.finditer(code):
        names = [part.partition("=")[0].strip(" *&\n").partition("[")[0] for part in split_declarators(match["rest"])]
        out += [(match["kind"], name) for name in (*names, match["last"]) if name]
    values = {name for _, name in out}
    return [(kind, name) for kind, name in out if kind not in values]  # the others are products


def _all(text: str, one: Callable[[Call], str | None]) -> str:
    if re.search(r"::\s*std\s*::\s*pow\b", text):
        return text
    new = replaced(text, "std::pow", one)
    return new if re.search(r"::\s*pow\b", new) else replaced(new, "pow", one)


def _places(asked: Asked) -> list[Place]:
    """Lines that the finding names, and those of the functions that the kernel runs: pow is a call of its own."""
    setting = asked.setting
    where = {(x.file, x.line) for x in asked.finding.locations if x.file and x.line}
    for text in regions(setting):
        for n, line in enumerate(text.code.split("\n")):
            where |= {(text.file, text.first + n)} if re.search(r"\bpow\s*\(", line) else set()
    places = []
    for file, number in sorted(where):
        lines = setting.lines(file)
        if 0 < number <= len(lines):
            places.append(Place(file, number, lines[number - 1]))
    return places


def _around(setting: Setting, places: Sequence[Place]) -> str:
    """The texts of the functions that lines are of."""
    texts = [text.code for text in regions(setting)]
    for place in places if not texts else ():
        lines = setting.lines(place.file)
        alone = re.search(r"\b__(?:global|device)__\b.*\{", place.text) is not None  # a function of one line
        inside = body(lines, place.number) if not alone else range(place.number, place.number + 1)
        texts.append("\n".join(blanked(lines[n - 1]) for n in inside))
    return "\n".join(dict.fromkeys(text for text in texts if len(text) <= LONGEST))


def _integers(code: str) -> set[str]:
    """Names that are declared as integers and as nothing else."""
    declared = declarations(code)
    return {name for _, name in declared} - {name for kind, name in declared if not _WHOLE.fullmatch(kind)}


def _unsigned(code: str) -> set[str]:
    return {m[1] for m in re.finditer(r"\b(?:unsigned|size_t|uint\w*)\b[^;(){}=]*?\b(\w+)\s*(?=[=;,)])", code)}


def _of_integers(call: Call, whole: Set[str], unsigned: Set[str] = frozenset()) -> str:
    """A power of 2 or of -1 by an integer, without pow; "" for others, and where a difference may wrap around."""
    base, exponent = call.arguments
    names = re.findall(r"[A-Za-z_]\w*", exponent)
    if not names or not set(names) <= whole or not re.fullmatch(r"[\w\s+\-*()]+", exponent):
        return ""
    if "-" in exponent and unsigned & set(names):
        return ""
    if re.fullmatch(r"2(?:\.0*)?", base):
        return f"ldexp(1.0, (int)({exponent}))"
    return f"((({exponent}) & 1) ? -1.0 : 1.0)" if re.fullmatch(r"\(?-\s*1(?:\.0*)?\)?", base) else ""
