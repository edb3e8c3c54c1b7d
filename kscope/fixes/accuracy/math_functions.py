"""Accurate math functions: the intrinsic or the formula that does, with the errors of CUDA's tables and the
instructions of both."""

from __future__ import annotations

import re
from collections.abc import Callable

from kscope.arch import table
from kscope.fixes.given.rewrite import Call, Place, calls_of, changed, replaced
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Fix, Proof

POWER = """template <int N> __device__ __forceinline__ float power(float x) {
  if constexpr (N == 0) return 1.f;
  else if constexpr (N % 2) return x * power<N - 1>(x);
  else { float h = power<N / 2>(x); return h * h; }
}"""
LARGEST = 64  # exponent up to which multiplications are fewer than those of powf
_OVER_ROOT = re.compile(r"/\s*sqrtf\s*(?=\()")
_WHOLE = re.compile(r"(\d+)(?:\.0*)?f?")


def fixes(asked: Asked) -> list[Fix]:
    lines = {(p.file, p.line) for p in asked.finding.locations if p.file is not None and p.line is not None}
    where = []
    for file, number in sorted(lines):
        text = asked.setting.lines(file)
        if 0 < number <= len(text):
            where.append(Place(file, number, text[number - 1]))
    known = table("functions")
    counts: dict[str, int] = {}
    powers = _Powers()

    def change(text: str) -> str:
        roots = len(_OVER_ROOT.findall(text))
        if roots:
            counts["rsqrtf"] = counts.get("rsqrtf", 0) + roots
            text = re.sub(r"(?<![\w.])1(?:\.0?f?)?\s*/\s*sqrtf\s*(?=\()", "rsqrtf", text)
            text = _OVER_ROOT.sub("* rsqrtf", text)
        text = replaced(text, "powf", powers.of)
        for name, row in known.items():
            if "fast" in row and (found := len(calls_of(text, name))):
                counts[name] = counts.get(name, 0) + found
                text = replaced(text, name, _renamed(name, row["fast"]))
        return text

    edits = changed(where, change)
    if not edits:
        return []
    changes = [(name, known[name], n) for name, n in counts.items()]
    before = sum(row["instructions"] * n for _, row, n in changes) + powers.count * known["powf"]["instructions"]
    after = sum(row["fast_instructions"] * n for _, row, n in changes) + powers.multiplications
    conditions = [
        Condition(
            holds=f"{row.get('fast', name)}: {row['fast_error']}, where it was {row['error']}", state="check",
            why=row.get("range", ""),
        )
        for name, row, _ in changes
    ]  # fmt: skip
    if powers.count:
        conditions.append(Condition(holds="powers by multiplication: half an ulp each", state="check"))
    return [
        Fix(
            kind="math_function",
            title=", ".join([row.get("fast", name) for name, row, _ in changes] + ["power<N>"] * bool(powers.count)),
            language="cuda",
            code=POWER if powers.count else "",
            edits=edits,
            conditions=conditions,
            proof=[
                Proof(
                    what=f"instructions of the {sum(counts.values()) + powers.count} calls, all paths", before=before,
                    after=after, unit="inst", how="both compiled by nvcc 13.0 for sm_90 (arch/functions.toml)",
                )
            ],
            price=asked.finding.estimate,
        )
    ]  # fmt: skip


class _Powers:
    """powf of whole exponents, as multiplications; how many calls, and multiplications."""

    def __init__(self) -> None:
        self.count = self.multiplications = 0

    def of(self, call: Call) -> str | None:
        if len(call.arguments) != 2:
            return None
        match = _WHOLE.fullmatch(call.arguments[1])
        if match is None or not 0 < int(match[1]) <= LARGEST:
            return None
        n = int(match[1])
        self.count += 1
        self.multiplications += n.bit_length() - 1 + n.bit_count() - 1
        return f"power<{n}>({call.arguments[0]})"


def _renamed(name: str, fast: str) -> Callable[[Call], str]:
    return lambda call: f"{fast}({', '.join(call.arguments)})"
