"""Accurate math functions: the intrinsic or the formula that does, with the errors of CUDA's tables and the
instructions of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from kscope.arch import table
from kscope.fixes.accuracy.spots import Spot, for_host, helper_of, priced, spots
from kscope.fixes.given.rewrite import Call, Place, calls_of, changed, replaced
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof

POWER = """template <int N> __device__ __forceinline__ float power(float x) {
  if constexpr (N == 0) return 1.f;
  else if constexpr (N % 2) return x * power<N - 1>(x);
  else { float h = power<N / 2>(x); return h * h; }
}"""
LARGEST = 64  # exponent up to which multiplications are fewer than those of powf
SMALL = 0.02  # of what fast versions of all calls save, up to which a line is not worth its accuracy (judged)
NAMES = {
    "exp": ("expf", "exp10f"), "log": ("logf", "log10f"), "log2": ("log2f",), "sin or cos": ("sinf", "cosf", "tanf"),
    "pow": ("powf",),
}  # fmt: skip
"""What FUNCTIONS calls a function (kscope.features.patterns.accurate_math): its names that have an intrinsic."""
ROOTS = ("division", "square root")
_OVER_ROOT = re.compile(r"(?<![*/])/\s*(?:std::)?sqrtf\s*(?=\()")
_OVER_ANY_ROOT = re.compile(r"(?<![*/])/\s*(?:std::)?sqrtf?\s*(?=\()")
_ONE = re.compile(r"(?<![\w.])(?<![eE][-+])1(?:\.0?f?)?\s*$")
_STANDARD = re.compile(r"(?:(?:::)?\bcuda::)?\bstd::(?=(?:__\w+f|\w+<\d+>)\()")
_ELSEWHERE = re.compile(r"\b(?!std\b)\w+\s*::\s*(?:exp|exp10|log|log2|log10|sin|cos|tan|pow)f?\s*\(")
_WHOLE = re.compile(r"(\d+)(?:\.0*)?f?")


def fixes(asked: Asked) -> list[Fix]:
    found = spots(asked.setting)
    every = sum(s.saved for s in found)
    mine = [(s, place) for s in found if (place := _named(s)) is not None]
    worth: dict[tuple[str, int], float] = {}
    for spot, place in mine:
        worth[place.file, place.number] = worth.get((place.file, place.number), 0.0) + spot.saved
    where = {(p.file, p.number): p for _, p in mine if worth[p.file, p.number] >= SMALL * every}
    where = {key: p for key, p in where.items() if not for_host(asked.setting.lines(p.file), p.number)}
    texts = [line for file in sorted({file for file, _ in where}) for line in asked.setting.lines(file)]
    change = _Change({_bare(p) for s, p in mine if s.function == "square root"}, texts)
    edits = changed([where[key] for key in sorted(where)], change.of)
    if not edits:
        return []
    at = {(e.file, e.line) for e in edits}
    taken = [s for s, p in mine if (p.file, p.number) in at]
    return priced(_fix(change, edits), asked.finding.estimate, found, taken)


def _named(spot: Spot) -> Place | None:
    """The innermost line that calls the function by a name, which an intrinsic can replace."""
    for place in spot.places:
        text = _bare(place)
        if _ELSEWHERE.search(text):
            continue
        names = NAMES.get(spot.function, ())
        if any(calls_of(text, name) or _by_overload(text, name) for name in names):
            return place
        over = _OVER_ANY_ROOT if spot.function == "square root" else _OVER_ROOT
        if spot.function in ROOTS and over.search(text) and not _wide(text):
            return place
    return None


def _bare(place: Place) -> str:
    """A line without what is commented behind it."""
    return place.text.partition("//")[0]


def _by_overload(text: str, name: str) -> bool:
    """Calls by the name that floats and doubles share: the machine code has the float's function there."""
    return bool(calls_of(text, name.removesuffix("f"))) and not _wide(text)


def _wide(text: str) -> bool:
    return re.search(
        r"\bdouble\b|(?<![\w.])(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)(?![\w.])",
        text,
    ) is not None  # fmt: skip


class _Change:
    """Lines with intrinsics, and what became of how many calls. rooted: lines on which floats have a square root;
    lines: of the files."""

    def __init__(self, rooted: Collection[str] = (), lines: Sequence[str] = ()) -> None:
        self.rooted = rooted
        self.counts: dict[str, int] = {}
        name, self.power = helper_of(POWER, lines)
        self.powers = _Powers(name)
        self.shared = False

    def of(self, text: str) -> str:
        over = _OVER_ANY_ROOT if text in self.rooted else _OVER_ROOT
        for match in [] if _wide(text) else list(over.finditer(text))[::-1]:
            self.counts["rsqrtf"] = self.counts.get("rsqrtf", 0) + 1
            one = _ONE.search(text, 0, match.start())
            alone = one is not None and not text[: one.start()].rstrip().endswith(("/", "%"))
            first, new = (one.start(), "rsqrtf") if one is not None and alone else (match.start(), "* rsqrtf")
            text = text[:first] + new + text[match.end() :]
        overloads = not _wide(text)
        text = self._replaced(text, "powf", self.powers.of, overloads)
        for name, row in table("functions").items():
            if "fast" in row and re.fullmatch(r"\w+f", name):
                count = sum(len(calls_of(text, n)) for n in (name, name.removesuffix("f"))[: 1 + overloads])
                if count:
                    self.counts[name] = self.counts.get(name, 0) + count
                    text = self._replaced(text, name, _renamed(row["fast"]), overloads)
        return _STANDARD.sub("", text)

    def _replaced(self, text: str, name: str, by: Callable[[Call], str | None], overloads: bool) -> str:
        new = replaced(text, name, by)
        if not overloads:
            return new
        again = replaced(new, name.removesuffix("f"), by)
        self.shared = self.shared or again != new
        return again


def _fix(change: _Change, edits: list[Edit]) -> Fix:
    known, powers = table("functions"), change.powers
    changes = [(name, known[name], n) for name, n in change.counts.items()]
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
    if change.shared:
        conditions.append(
            Condition(holds="no other use of these lines is with doubles", state="check",
                      why="a name that floats and doubles share; this kernel calls the float's")
        )  # fmt: skip
    titles = [row.get("fast", name) for name, row, _ in changes] + [f"{powers.name}<N>"] * bool(powers.count)
    return Fix(
        kind="math_function",
        title=", ".join(titles),
        language="cuda",
        code=change.power if powers.count else "",
        edits=edits,
        conditions=conditions,
        proof=[
            Proof(
                what=f"instructions of the {sum(change.counts.values()) + powers.count} calls, all paths",
                before=before, after=after, unit="inst",
                how="both compiled by nvcc 13.0 for sm_90 (arch/functions.toml)",
            )
        ],
    )  # fmt: skip


class _Powers:
    """powf of whole exponents, as multiplications; how many calls, and multiplications."""

    def __init__(self, name: str = "power") -> None:
        self.name = name
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
        return f"{self.name}<{n}>({call.arguments[0]})"


def _renamed(fast: str) -> Callable[[Call], str]:
    return lambda call: f"{fast}({', '.join(call.arguments)})"
