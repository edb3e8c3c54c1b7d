"""Powers of doubles by halves: products and a square root."""

from __future__ import annotations

import re

from kscope.arch import table
from kscope.fixes.given.rewrite import Call, Place, changed, replaced
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof

POWER = """template <int N> __device__ __forceinline__ double power(double x) {
  if constexpr (N == 0) return 1.0;
  else if constexpr (N % 2) return x * power<N - 1>(x);
  else { double h = power<N / 2>(x); return h * h; }
}"""
LARGEST = 16  # exponent up to which products are fewer instructions than pow (arch/functions.toml)
_HALVES = re.compile(r"(\d+)(?:\.(0*|50*))?")


def fixes(asked: Asked) -> list[Fix]:
    places = []
    for file, number in sorted({(x.file, x.line) for x in asked.finding.locations if x.file and x.line}):
        lines = asked.setting.lines(file)
        if 0 < number <= len(lines):
            places.append(Place(file, number, lines[number - 1]))
    known = table("functions")
    made: list[tuple[int, bool]] = []

    def one(call: Call) -> str | None:
        match = _HALVES.fullmatch(call.arguments[1]) if len(call.arguments) == 2 else None
        if match is None or int(match[1]) > LARGEST or (int(match[1]) == 0 and not match[2]):
            return None
        n, half = int(match[1]), bool(match[2]) and match[2].startswith("5")
        made.append((n, half))
        product = f"power<{n}>({call.arguments[0]})" if n > 1 else f"({call.arguments[0]})" if n else ""
        root = f"sqrt({call.arguments[0]})" if half else ""
        return f"({' * '.join(x for x in (product, root) if x)})"

    edits = changed(places, lambda text: replaced(text, "pow", one))
    if not edits:
        return []
    products = sum(max(0, n.bit_length() - 1 + n.bit_count() - 1) + (n > 0 and half) for n, half in made)
    after = products + sum(half for _, half in made) * known["sqrt"]["instructions"]
    needs = any(n > 1 for n, _ in made)
    return [
        Fix(
            kind="math_function",
            title="powers of halves as products and square roots",
            language="cuda",
            code=POWER if needs else "",
            edits=edits,
            conditions=[
                Condition(holds="no base is minus infinity", state="check", why="its root is NaN, its power is not"),
                Condition(holds="half an ulp for each product and root, where pow has 2 ulp", state="check"),
            ],
            proof=[
                Proof(
                    what=f"instructions of the {len(made)} calls, all paths", after=after,
                    before=len(made) * known["pow"]["instructions"], unit="inst",
                    how="both compiled by nvcc 13.0 for sm_90 (arch/functions.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip
