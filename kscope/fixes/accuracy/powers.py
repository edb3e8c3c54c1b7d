"""Powers of doubles by halves: products and a square root."""

from __future__ import annotations

import re
from collections.abc import Callable

from kscope.arch import table
from kscope.fixes.atomics.regions import regions
from kscope.fixes.given.conditions import reads
from kscope.fixes.given.rewrite import Call, Place, changed, replaced
from kscope.fixes.given.setting import Asked
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
_LESS = re.compile(r"\(?\s*-\s*(\d+(?:\.(?:0*|50*))?)\s*\)?")


def fixes(asked: Asked) -> list[Fix]:
    places, whole = _places(asked), _integers(asked)
    known = table("functions")
    made: list[tuple[int, bool]] = []
    exact: list[str] = []

    def one(call: Call) -> str | None:
        if len(call.arguments) == 2 and (said := _of_integers(call, whole)):
            exact.append(said)
            return said
        less = _LESS.fullmatch(call.arguments[1]) if len(call.arguments) == 2 else None
        if less is not None:  # the same above it, as a divisor
            above = one(Call(call.start, call.end, (call.arguments[0], less[1])))
            return f"(1.0 / {above})" if above is not None else None
        match = _HALVES.fullmatch(call.arguments[1]) if len(call.arguments) == 2 else None
        if match is None or int(match[1]) > LARGEST or (int(match[1]) == 0 and not match[2]):
            return None
        n, half = int(match[1]), bool(match[2]) and match[2].startswith("5")
        made.append((n, half))
        product = f"power<{n}>({call.arguments[0]})" if n > 1 else f"({call.arguments[0]})" if n else ""
        root = f"sqrt({call.arguments[0]})" if half else ""
        return f"({' * '.join(x for x in (product, root) if x)})"

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
            code=POWER if needs else "",
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


def _all(text: str, one: Callable[[Call], str | None]) -> str:
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


def _integers(asked: Asked) -> set[str]:
    """Names that are declared as integers and as nothing else."""
    code = "\n".join(text.code for text in regions(asked.setting))
    declared = re.findall(r"\b([A-Za-z_]\w*)\s+(\w+)\s*(?=[=;,)])", code)
    named = {name for kind, name in declared if _WHOLE.fullmatch(kind)}
    return named - {name for kind, name in declared if not _WHOLE.fullmatch(kind) and kind not in ("return", "else")}


def _of_integers(call: Call, whole: set[str]) -> str:
    """A power of 2 or of -1 by an integer, without pow; "" for others."""
    base, exponent = call.arguments
    names = re.findall(r"[A-Za-z_]\w*", exponent)
    if not names or not set(names) <= whole or not re.fullmatch(r"[\w\s+\-*()]+", exponent):
        return ""
    if re.fullmatch(r"2(?:\.0*)?", base):
        return f"ldexp(1.0, (int)({exponent}))"
    return f"((({exponent}) & 1) ? -1.0 : 1.0)" if re.fullmatch(r"\(?-\s*1(?:\.0*)?\)?", base) else ""
