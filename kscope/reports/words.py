"""Words and numbers that every reporter for people shares: labels, units, names made short."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kscope.model.contract.limiters import SHORT
from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.model.units import at_most, counted, span
from kscope.model.units import precision as precision
from kscope.model.units import si as in_units
from kscope.model.units import times as times
from kscope.reports._reasons import REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import (
        Estimate,
        Evidence,
        Finding,
        Headroom,
        KernelAnalysis,
        Location,
        ProblemFit,
        Roofline,
        Verdict,
    )

UNSURE = 0.6
"""Confidence of a verdict below which reports say how sure it is. Judged."""


def limiter(name: str) -> str:
    """Words for a limiter of the contract: at most 14 characters."""
    return SHORT.get(name, name.replace("_", " "))


def badge(verdict: Verdict) -> tuple[str, str]:
    """(the regime as a word in capitals, the rest of the sentence). A verdict of a kscope before 0.2 has no parts: its
    whole sentence stands behind the limiter."""
    if verdict.regime == "unknown":
        return "LIMIT UNKNOWN:", one_line(verdict.body) or one_line(verdict.sentence)
    word = f"{verdict.regime.upper()}-BOUND"
    joint = "by" if verdict.regime == "overhead" else "on"
    body = one_line(verdict.body) or f"{joint} {limiter(verdict.limiter)}: {one_line(verdict.sentence)}"
    return word if body.startswith(("on ", "by ")) else f"{word},", body


def reason(name: str) -> str:
    """A warp state in words; its name comes from a metric of the report, and one that is not known is quoted."""
    return name.replace("_", " ") if name in REASONS else quoted(name, 40)


def total_us(kernel: KernelAnalysis) -> float:
    """Time of all identical launches together, 0 where the report has none."""
    return kernel.repeats.total_us if kernel.repeats else kernel.duration_us or 0.0


def by_time(kernels: Sequence[KernelAnalysis]) -> list[KernelAnalysis]:
    return sorted(kernels, key=total_us, reverse=True)


def time(us: float | None) -> str:
    """Microseconds as ns, us, ms or s, three digits or more."""
    if us is None:
        return "time unknown"
    for scale, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "us")):
        if us >= scale:
            return f"{us / scale:.{1 if us / scale >= 9.995 else 2}f} {unit}"
    return f"{us * 1e3:.0f} ns"


def number(value: float | None) -> str:
    """A measured value: thousands separated, four significant digits, None as `not collected`."""
    if value is None:
        return "not collected"
    if value != value or value in (float("inf"), float("-inf")):
        return "not a number"
    if value == int(value) or abs(value) >= 1e4:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:.4g}"


def si(value: float, unit: str) -> str:
    """1.58 TB/s from 1.58e12."""
    return in_units(float(value), unit)


def rates(roof: Roofline) -> str:
    """Arithmetic and memory rates of a roofline point, each against its peak where that is known."""
    flops, moved = si(roof.flops_per_s or 0.0, "FLOP/s"), si(roof.bytes_per_s, "B/s")
    if roof.peak_flops_per_s:
        flops += f" of {si(roof.peak_flops_per_s, 'FLOP/s')}"
    if roof.peak_bytes_per_s:
        moved += f" of {si(roof.peak_bytes_per_s, 'B/s')}"
    arithmetic = f"{precision(one_line(roof.precision))} {flops}" if roof.flops_per_s else "no floating-point work"
    arithmetic = "operations not counted" if roof.flops_per_s is None else arithmetic
    return f"{arithmetic}, DRAM {moved}"


def problem(fit: ProblemFit) -> list[str]:
    """A kernel beside the problem that it was to solve: what is needed, the floor, and what differs."""
    needed = [si(fit.flop_needed, "FLOP")] if fit.flop_needed else []
    moved = si(fit.read_bytes_needed + fit.written_bytes_needed, "B")
    floor = f"at least {time(fit.floor_us)}, {time(fit.attained_us)} at the rates of the best kernels"
    return [f"{one_line(fit.text)} needs {' and '.join([*needed, moved])} of {one_line(fit.chip)}: {floor}",
            *map(one_line, fit.says)]  # fmt: skip


def percent(share: float) -> str:
    """A share 0..1 as whole percent, `<1 %` rather than a zero that is none."""
    return "<1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def headroom(room: Headroom) -> str:
    """The bound of what a kernel can gain; past a hundred the figure says nothing more: 2.8x, >100x."""
    return at_most(room.speedup_bound)


def expectation(estimate: Estimate | None) -> str:
    """`expect 2.2x (1.8 - 2.4, capped by L2)`, with a word more where the gain was measured, not modelled."""
    if estimate is None:
        return "gain not estimated"
    cap = f", capped by {one_line(estimate.capped_by)}" if estimate.capped_by else ""
    kind = ", measured" if estimate.kind == "measured" else ""
    bounds = span(estimate.low, estimate.high, estimate.speedup)
    return f"expect {times(estimate.speedup)} ({bounds}{cap}{kind})"


def evidence(item: Evidence) -> str:
    """`metric = value unit`, the form in which every number is quoted."""
    unit = one_line(item.unit)
    value = one_line(item.value) if isinstance(item.value, str) else number(item.value)
    return f"{one_line(item.metric)} = {value}{' ' + unit if unit else ''}"


def place(location: Location, *, full: bool = False) -> str:
    """`file.cu:75`, or the program counter where the report has no line for it."""
    if location.file and location.line:
        name = one_line(location.file)
        return f"{name if full else basename(name)}:{location.line}"
    return f"pc {location.pc:#06x}"


def further(finding: Finding, shown: int) -> str:
    """What a finding is about beyond the places shown: `+12 more, waited for by 48 % at all 14`."""
    every = max(len(finding.covered), len(finding.locations))
    if every <= shown:
        return ""
    shares = [x.share for x in finding.locations if x.share is not None]
    share = finding.covered_share
    if share is None and shares and not finding.covered:
        share = min(sum(shares), 1.0)
    return f"+{every - shown} more" + (f", waited for by {percent(share)} at all {every}" if share is not None else "")


def told_apart(one: str, two: str) -> tuple[str, str]:
    """Short names of two paths: their last parts, with as many folders before them as it takes to differ."""
    a, b = (re.split(r"[\\/]+", path.rstrip("\\/")) for path in (one, two))
    for count in range(1, max(len(a), len(b)) + 1):
        if a[-count:] != b[-count:]:
            return "/".join(a[-count:]), "/".join(b[-count:])
    return a[-1], b[-1]


def basename(path: str) -> str:
    """The last part of a path of either system: reports travel."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def dims(shape: Sequence[int]) -> str:
    """256x256 from (256, 256, 1): trailing ones are left out."""
    kept = list(shape)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(str(n) for n in kept)


def launch(kernel: KernelAnalysis) -> str:
    """Grid, block, cluster, registers, shared memory and waves in words."""
    at = kernel.launch
    parts = [f"grid {dims(at.grid)}", f"block {dims(at.block)}"] if at.known else ["grid and block not collected"]
    if max(at.cluster, default=1) > 1:
        parts.append(f"cluster {dims(at.cluster)}")
    if at.registers:  # no kernel has none: 0 is what a report without LaunchStats leaves
        parts.append(counted(at.registers, "register"))
    if shared := at.shared_static + at.shared_dynamic:
        parts.append(f"{shared / 1024:.3g} KiB shared")
    if at.waves is not None:
        parts.append(counted(at.waves, "wave", ".3g"))
    return ", ".join(parts)


def device(kernel: KernelAnalysis) -> str:
    """`NVIDIA H200 (sm_90)`."""
    return f"{one_line(kernel.device.name)} (sm_{kernel.device.cc.replace('.', '')})"


def repeats(kernel: KernelAnalysis) -> str:
    """Count and spread of identical launches, empty for a single one."""
    many = kernel.repeats
    if many is None or many.count < 2:
        return ""
    return f"{many.count} launches, {time(many.min_us)} to {time(many.max_us)}, median {time(many.median_us)}"


CAST = re.compile(r"(?<=[<, ])\((?:(?:un)?signed|int|bool|char|short|long|\s)+\)(?=-?\d)")


def shorten(name: str, limit: int) -> str:
    """A demangled name in at most `limit` characters: parameters go first, then template arguments, then the
    return type and the namespaces; what is still too long loses its middle. Template arguments that are numbers lose
    the type that ncu writes before them, `gemm<(int)4>`."""
    name = CAST.sub("", one_line(name).removeprefix("void "))
    if len(name) <= limit:
        return name
    head, arguments = _split_parameters(name)
    tries = [f"{head}(...)" if arguments else head, head]
    if (bare := _elide_templates(head)) is not None:
        bare = _without_return_type(bare)
        tries += [f"{bare}(...)" if arguments else bare, bare]
        tail = re.split(r"::(?!.*::)", bare)[-1]
        if not tail.startswith(("operator", "{", "(")):  # which would say nothing alone
            tries += [tail, tail.replace("<...>", "")]
    for attempt in tries:
        if len(attempt) <= limit:
            return attempt
    return middle(tries[-1], limit)


def middle(text: str, limit: int) -> str:
    """Cut the middle out: the ends tell two kernels apart."""
    if len(text) <= limit:
        return text
    keep = max(limit - 3, 1)
    return f"{text[: keep - keep // 2]}...{text[len(text) - keep // 2 :] if keep // 2 else ''}"[:limit]


def without_parameters(name: str) -> str:
    """The demangled name as far as its parameter list."""
    return _split_parameters(CAST.sub("", one_line(name)))[0]


def _split_parameters(name: str) -> tuple[str, bool]:
    """The name without its last balanced (...), and whether there was one."""
    if not name.endswith(")"):
        return name, False
    depth = 0
    for i in range(len(name) - 1, 0, -1):
        depth += (name[i] == ")") - (name[i] == "(")
        if depth == 0:
            return name[:i], True
    return name, False


def _without_return_type(name: str) -> str:
    """The part behind the last space that stands in no parentheses: templates' names carry what they return."""
    if "operator" in name:
        return name
    depth = 0
    for i in range(len(name) - 1, 0, -1):
        depth += (name[i] == ")") - (name[i] == "(")
        if name[i] == " " and depth == 0:
            return name[i + 1 :].lstrip("*&") or name
    return name


def _elide_templates(name: str) -> str | None:
    """Outermost template arguments as <...>; None where the brackets do not balance (operators, hostile names). What
    stands in parentheses inside of them is an expression: `enable_if<((8)>(0)), int>`."""
    text = re.sub(r"operator\s*(<=>|<<=?|>>=?|<=?|>=?|->\*?)", lambda m: "\0" * len(m[0]), name)
    out, depth, inner = [], 0, 0
    for shown, char in zip(name, text, strict=True):
        if depth and char in "()":
            inner += 1 if char == "(" else -1
        elif inner > 0:
            continue
        elif char == "<":
            if depth == 0:
                out.append("<...>")
            depth += 1
        elif char == ">":
            depth -= 1
            if depth < 0:
                return None
        elif depth == 0:
            out.append(shown)
    return "".join(out) if depth == 0 else None
