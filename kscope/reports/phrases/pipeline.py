"""A warp-specialised kernel in words and rows: its phases, roles, what the raw stalls hide, how the fixed part
amortises, what is no advice here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import counted
from kscope.reports import words

if TYPE_CHECKING:
    from kscope.model.contract.analysis import KernelAnalysis
    from kscope.model.contract.specialization import Phases, Role, WarpSpecialization

UNITS = {"tensor": "tensor", "dram": "DRAM", "l2": "L2"}
COLUMNS = ("role", "warps", "priming", "issued", "covered wait", "exposed wait", "drain")
TIERS = {
    "A": "samples with time stamps",
    "B": "PM-sampled timelines and samples by instruction",
    "C": "samples by instruction alone: priming and coverage are bounds",
}
LOSSES = {
    "fill": "fill", "drain": "drain", "uneven": "uneven work of the SMs",
    "turnover": "blocks that start again", "data": "waits for data",
    "epilogue": "storing results", "loop": "between products", "pipe": "products below the attainable rate",
}  # fmt: skip
MOVED = 0.02
BLURRED = 0.03  # error of a role's share from the sampler alone, from which a denser one is worth a run
SHORTEST = 256  # cycles between samples: the least that an H200 takes (ncu 2025.3 reports it for interval 0 and for 3)


def phases(ph: Phases) -> str:
    """Fill, plateau, bubbles and drain in one line."""
    if not ph.resolved:
        return (
            f"too few bins of {ph.bin_us:.1f} us to resolve the phases: fill {ph.fill_us:.1f} us and drain "
            f"{ph.drain_us:.1f} us, each within {ph.bin_us:.1f} us"
        )
    drops = (
        f", {ph.bubbles} bubble{'s' * (ph.bubbles > 1)} worth {ph.bubble_us:.1f} us" if ph.bubbles else ", no bubbles"
    )
    plateau = f" at {ph.plateau_pct:.0f} %" if ph.plateau_pct is not None else ""
    return (
        f"fill {ph.fill_us:.1f} us, steady {ph.steady_us:.1f} us{plateau}{drops}, drain {ph.drain_us:.1f} us "
        f"(+-{ph.error_us:.1f}), {ph.outside_us:.1f} us "
        "before and after all blocks"
    )


def retries(role: Role) -> str:
    """What the exact retry counts say, in words."""
    out = []
    for r in role.retries:
        share = r.failed / r.made if r.made else 0.0
        what = "data" if r.waits_for == "memory" else "free slots" if role.role == "producer" else "others"
        out.append(f"waits for {what} not over at once: {words.percent(share)} ({r.failed:,.0f} of {r.made:,.0f})")
    return "; ".join(out)


def rows(ws: WarpSpecialization) -> list[tuple[str, ...]]:
    """One row a role: shares in percent, the widest bounds behind them."""
    out = []
    for role in ws.roles:
        s = role.share
        values = (s.priming, s.steady_issued, s.covered_wait, s.exposed_wait, s.drain)
        out.append((one_line(role.role), f"{role.warps:g}", *(f"{100 * v:.0f}" for v in values)))
    return out


def bounds(role: Role) -> str:
    """Bounds of covered and exposed waiting."""
    if role.low is None or role.high is None:
        return ""
    low, high = role.low, role.high
    return (
        f"covered {100 * low.covered_wait:.0f}-{100 * high.covered_wait:.0f}, "
        f"exposed {100 * low.exposed_wait:.0f}-{100 * high.exposed_wait:.0f}"
    )


def lost(ws: WarpSpecialization) -> str:
    """Where the time of the unit goes."""
    if ws.lost is None:
        return ""
    parts = [(getattr(ws.lost, n), text) for n, text in LOSSES.items()]
    return ", ".join(f"{text} {words.percent(v)}" for v, text in sorted(parts, reverse=True) if v >= 0.005)


def hidden(kernel: KernelAnalysis) -> str:
    """Raw beside adjusted stalls where coverage moves them."""
    moved = [s for s in kernel.stalls if s.share_raw - s.share_adjusted >= MOVED]
    return ", ".join(
        f"{words.reason(s.reason)} {words.percent(s.share_raw)} -> {words.percent(s.share_adjusted)} "
        f"({100 * s.low:.0f}-{100 * s.high:.0f})"
        for s in sorted(moved, key=lambda s: s.share_adjusted - s.share_raw)[:4]
    )


def sampling(ws: WarpSpecialization) -> str:
    """How far the sampler alone may put a role's shares off, where a shorter interval would help."""
    worst = max(ws.roles, key=lambda r: r.sampling_error, default=None)
    if worst is None or worst.sampling_error <= BLURRED or not ws.sampled_every or ws.sampled_every <= SHORTEST:
        return ""
    return (
        f"one warp an SM every {ws.sampled_every:,.0f} cycles: the shares of the {one_line(worst.role)} may be off by "
        f"{100 * worst.sampling_error:.0f} points, the others by less; ncu --warp-sampling-interval 0 looks every "
        f"{SHORTEST} cycles"
    )


def amortisation(ws: WarpSpecialization) -> str:
    """T(n) = T_fixed + n t as a short series."""
    found = [a for a in ws.amortisation if a.work != 1.0]
    now = next((a for a in ws.amortisation if a.work == 1.0), None)
    if now is None:
        return ""
    fixed = now.us * now.fixed_pct / 100
    series = ", ".join(f"{a.work:g}x the work {a.us:.0f} us ({a.fixed_pct:.0f} %)" for a in found)
    return f"T(n) = {fixed:.1f} us + n x {now.us - fixed:.1f} us; fixed now {now.fixed_pct:.0f} %; {series}"


def remarks(kernel: KernelAnalysis, ws: WarpSpecialization) -> list[tuple[str, str]]:
    pairs = [
        ("lost", lost(ws)),
        ("raw stalls mislead", hidden(kernel)),
        ("amortises", amortisation(ws)),
        ("sampled seldom", sampling(ws)),
        ("not advice here", ", ".join(one_line(x) for x in ws.not_advice)),
    ]
    return [(lead, text) for lead, text in pairs if text]


def lines(kernel: KernelAnalysis) -> list[str]:
    """One fact a line, for the report for a language model."""
    ws = kernel.warp_specialization
    if ws is None:
        return []
    out = []
    if ws.timeline is not None:
        out.append(f"{ws.timeline.unit} timeline: {phases(ws.timeline)}")
    for row, role in zip(rows(ws), ws.roles, strict=True):
        shares = ", ".join(f"{name} {value} %" for name, value in zip(COLUMNS[2:], row[2:], strict=True))
        more = f"; {text}" if (text := retries(role)) else ""
        out.append(f"role {row[0]}, {counted(role.warps, 'warp', 'g')} a block: {shares} ({bounds(role)}){more}")
    out += [f"{lead}: {text}" for lead, text in remarks(kernel, ws)]
    out.append(source(ws))
    return out


def source(ws: WarpSpecialization) -> str:
    """What the shares of the roles come from."""
    return f"by {TIERS[ws.tier]}"


def ring(ws: WarpSpecialization) -> str:
    """`a ring of 4 stages of 32 KB`, empty where none was found."""
    if not ws.stages:
        return ""
    size = f" of {ws.stage_bytes / 1024:g} KB" if ws.stage_bytes else ""
    return f"one stage{size}, no ring" if ws.stages == 1 else f"a ring of {ws.stages} stages{size}"
