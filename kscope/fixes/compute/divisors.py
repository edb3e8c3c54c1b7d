"""Divisions by integers that the launch passes: one multiplication by a constant that the host computes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from kscope.arch import table
from kscope.features.patterns.math_functions import integer_divisions
from kscope.fixes.compute.narrow import short_ways
from kscope.fixes.compute.wrapped import WRITES, Wrap, wraps
from kscope.fixes.given.conditions import proved, reads, shown
from kscope.fixes.given.rewrite import Place, changed, places
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import blanked
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

TYPES = ("long long", "unsigned", "unsigned int", "int64_t", "uint32_t", "int")
LONG = ("long long", "int64_t")
SAME = {"unsigned int": "unsigned", "uint32_t": "unsigned", "int64_t": "long long", "short": "int", "int32_t": "int"}
_PARAMETER = re.compile(
    rf"(?<![\w*&])(?<!signed )(?<!short )(?<!long )(?:const\s+)?({'|'.join(TYPES)})\s+(\w+)\s*(?=[,)])", re.ASCII
)
_WHOLE = (
    r"\b((?:unsigned\s+)?long\s+long|unsigned\s+int|unsigned|size_t|u?int(?:32|64)_t|long|short|int)\s+"
    r"(?:[^;(){{}}]*,\s*)?{}\s*[=;,)]"
)
_PRODUCT = re.compile(r"([/%])\s*\(\s*(\w+(?:\s*\*\s*\w+)+)\s*\)", re.ASCII)
EDGES = (1, 2, 3, 5, 7, 10, 641, 65535, 65536, 65537, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1)


def fixes(asked: Asked) -> list[Fix]:
    code = asked.setting.code
    seeds = integer_divisions(code)
    where = places(asked.setting, seeds)
    heads = {head for p in where if (head := _head(asked, p)) is not None}
    if len(heads) != 1:
        return []
    (head,) = heads
    known = {name: kind for kind, name in _PARAMETER.findall(head.text)}
    body = [Place(head.file, n, text) for n, text in _body(asked, head)]
    around, body, edits = _around(body, set(known))
    divisors = sorted({n for p in body for n in _divisors(p.text) if n in known})
    kinds = {known[n] for n in divisors}
    if len(kinds) > 1 or _others(body, divisors, *kinds):
        return []
    if not divisors:
        gone = Proof(what="remainders of neighbours", before=len(around), after=0, how="a comparison for each")
        made = _fix(asked, _compared(around), edits, around, len(seeds))
        return [msgspec.structs.replace(made, proof=[gone])] if around else []
    (kind,) = kinds
    signature = changed([head], lambda text: _typed(text, divisors))
    split = changed([p for p in body if p.number != head.number], lambda text: _split(text, divisors))
    if len(signature) != 1:
        return []
    ways = [f"divide by {', '.join(divisors)} with one multiplication, its factor from the host", _compared(around)]
    made = _fix(asked, "; ".join(w for w in ways if w), _together(signature, _onto(edits, split)), around, len(seeds))
    checked, right = _run()
    ran = Proof(what="quotients that are right", before=checked, after=right, how="edges and their neighbours")
    conditions = [*_conditions(short_ways(code) if kind in LONG else [], checked, right), *made.conditions]
    return [
        msgspec.structs.replace(
            made, code=_struct(kind), parameters={"divisors": ", ".join(divisors)}, conditions=conditions,
            proof=[*made.proof, ran],
        )
    ]  # fmt: skip


def _changes(body: Sequence[Place], names: Sequence[str]) -> bool:
    return any(re.search(WRITES.replace("{x}", n), p.text) for p in body for n in names)


def _others(body: Sequence[Place], names: Sequence[str], kind: str = "") -> bool:
    """Whether one of these changes, divides something of another type, or may be zero where it is asked for that."""
    if not names or _changes(body, names):
        return bool(names)
    text = "\n".join(blanked(p.text) for p in body)
    floats = set(re.findall(r"\b(?:float|double|half|__half)\s+(?:[^;(){}]*,\s*)?(\w+)\s*[=;,)]", text))
    value = rf"(?:\b(?:{'|'.join(sorted(floats)) or '-'})\b(?:\s*\[[^][]*\])?|\d\.\d*f?|\.\d+f?|\d[eE][-+]?\d+f?|"
    value += r"\(\s*(?:float|double)\s*\)\s*[\w.\[\]]+|\b[a-z]\w*f\s*\([^()]*\)|\b(?:float|double)\s*\([^()]*\))"
    each = "|".join(names)
    start = r"(?<![<>!=]=)(?<![<>!=]= )(?<![\w.<>+*/%-] )(?<![\w.<>+*/%-])"
    asked = rf"{start}(?:{each})\s*(?:\?|&&|\|\||[=!]=\s*0\b|>\s*[01]\b)|(?:!\s*|\bif\s*\(\s*)(?:{each})\s*(?=[)&|?])"
    divided = set(re.findall(rf"(?<![\w.])(\w+(?:\.[xyz])?)\s*[/%]\s*(?:{each})\b", text))
    declared = {n: re.search(_WHOLE.format(re.escape(n)), text) for n in divided}
    types = {m[1] for m in declared.values() if m is not None} | {"unsigned" for n in divided if "." in n}
    other = {SAME.get(t, t) for t in types} - {SAME.get(kind, kind)}
    return bool(other) or re.search(rf"{value}\s*/\s*(?:{each})\b|{asked}", text) is not None


def _conditions(fitting: Sequence[int], checked: int, right: int) -> list[Condition]:
    """fitting: branches around the 64-bit way of divisions, which was never gone."""
    return [
        shown(
            right == checked, "quotients are exact for 0 <= n < 2^32 and 1 <= d < 2^32", "values", checked,
            "floor(n m / 2^32) with m = floor((2^32 - 1) / d) is at most one too small, and is corrected",
        ),
        proved(
            "no numerator of this launch is negative or 2^32 and more", "code", fitting,
            "each 64-bit division asks for it, and the way of those that do not fit was never executed",
        ) if fitting else Condition(holds="no numerator is negative or 2^32 and more", state="check"),
        Condition(holds="the kernel is launched by <<<>>>, where the host's integers convert", state="check"),
    ]  # fmt: skip


def _fix(asked: Asked, title: str, edits: Sequence[Edit], around: Sequence[Wrap], count: int) -> Fix:
    cost = table("functions")["integer_division"]
    names = sorted({(w.name, w.length) for w in around})
    lie = ", ".join(f"0 <= {x} < {n}" for x, n in names)
    why = "remainders, quotients, loops and tests before them"
    within = reads(lie, why) if all(w.counted for w in around) else Condition(
        holds=lie, state="check", why=f"below by {why}; that nothing is negative the text does not show",
    )  # fmt: skip
    return Fix(
        kind="divisor",
        title=title,
        language="cuda",
        edits=list(edits),
        conditions=[within] if around else [],
        proof=[
            Proof(
                what="instructions a division", before=cost["instructions"], after=cost["fast_instructions"],
                unit="inst", how=f"both compiled by nvcc 13.0 for sm_90; {count} divisions here",
            )
        ],
        price=asked.finding.estimate,
    )  # fmt: skip


def _compared(around: Sequence[Wrap]) -> str:
    return f"neighbours modulo {', '.join(sorted({w.length for w in around}))} by a comparison" if around else ""


def _around(body: Sequence[Place], lengths: set[str]) -> tuple[list[Wrap], list[Place], list[Edit]]:
    """Neighbours on a torus, the lines without their divisions, and the edits that make these lines."""
    text = "\n".join(blanked(p.text) for p in body)
    kept_lengths = {n for n in lengths if not re.search(WRITES.replace("{x}", n), text)}
    found, starts = wraps(text, kept_lengths), [0]
    for p in body:
        starts.append(starts[-1] + len(p.text) + 1)
    out, kept, edits = [], [], []
    for p, start, end in zip(body, starts, starts[1:], strict=False):
        line = p.text
        mine = [w for w in found if start <= w.span[0] and w.span[1] < end]
        for w in reversed(mine):
            line = line[: w.span[0] - start] + w.span[2] + line[w.span[1] - start :]
        kept += mine
        out.append(Place(p.file, p.number, line))
        if mine:
            edits.append(Edit(file=p.file, line=p.number, was=p.text, becomes=line))
    return kept, out, edits


def _onto(edits: Sequence[Edit], later: Sequence[Edit]) -> list[Edit]:
    """Edits and those of the lines that they make."""
    first, second = {e.line: e for e in edits}, {e.line: e for e in later}
    both = [msgspec.structs.replace(e, was=first[n].was) if n in first else e for n, e in second.items()]
    return [*both, *(e for n, e in first.items() if n not in second)]


def quotient(n: int, d: int) -> int:
    """What the printed code computes, in 32 bits."""
    m = 0xFFFFFFFF // d
    q = n * m >> 32
    return (q + 1 if (n - q * d) & 0xFFFFFFFF >= d else q) & 0xFFFFFFFF


def _run() -> tuple[int, int]:
    pairs = {(n + o & 0xFFFFFFFF, d) for d in EDGES for n in (0, *EDGES, *(k * d for k in EDGES)) for o in (-1, 0, 1)}
    return len(pairs), sum(quotient(n, d) == n // d for n, d in pairs)


def _struct(kind: str) -> str:
    return f"""struct Divider {{  // of numbers below 2^32
  unsigned d, m;
  __host__ __device__ Divider({kind} d) : d((unsigned)d), m(0xffffffffu / (unsigned)d) {{}}
  __host__ __device__ operator {kind}() const {{ return ({kind})d; }}
  __device__ unsigned of(unsigned n) const {{ unsigned q = __umulhi(n, m); return n - q * d >= d ? q + 1 : q; }}
}};
__device__ inline {kind} operator/({kind} n, Divider d) {{ return ({kind})d.of((unsigned)n); }}
__device__ inline {kind} operator%({kind} n, Divider d) {{ return n - ({kind})(d.of((unsigned)n) * d.d); }}"""


def _head(asked: Asked, place: Place) -> Place | None:
    """The line that declares the kernel around a place, if it holds all parameters."""
    lines = asked.setting.lines(place.file)
    for n in range(place.number, 0, -1):
        if "__global__" in lines[n - 1]:
            text = lines[n - 1]
            return Place(place.file, n, text) if "(" in text and "{" in text else None
    return None


def _body(asked: Asked, head: Place) -> list[tuple[int, str]]:
    lines = asked.setting.lines(head.file)
    depth, out = 0, []
    for n in range(head.number, len(lines) + 1):
        text = lines[n - 1]
        out.append((n, text))
        depth += text.count("{") - text.count("}")
        if depth <= 0:
            break
    return out


def _divisors(text: str) -> set[str]:
    single = set(re.findall(r"[/%]\s*([A-Za-z_]\w*)\b(?!\s*[(\[.])", text, re.ASCII))
    return single | {n for _, product in _PRODUCT.findall(text) for n in re.findall(r"\w+", product)}


def _typed(text: str, divisors: Sequence[str]) -> str:
    return _split(_PARAMETER.sub(lambda m: f"Divider {m[2]}" if m[2] in divisors else m[0], text), divisors)


def _split(text: str, divisors: Sequence[str]) -> str:
    """`/ (a * b)` as `/ a / b`: the same for what is not negative, and each divides by a factor that is known."""

    def apart(match: re.Match[str]) -> str:
        names = re.findall(r"\w+", match[2])
        if match[1] == "%" or not all(n in divisors for n in names):
            return match[0]
        return " ".join(f"/ {n}" for n in names)

    return _PRODUCT.sub(apart, text)


def _together(*groups: Sequence[Edit]) -> list[Edit]:
    return sorted((e for g in groups for e in g), key=lambda e: (e.file, e.line))
