"""Two analyses into one Comparison: which kernel became which, what changed, and whether the promises held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscope._version import __version__
from kscope.engine.comparing.against import against
from kscope.engine.comparing.compare_timelines import compare_timelines
from kscope.engine.comparing.credit import went
from kscope.engine.comparing.pairing import GUESSES, Rule, name_of, pair
from kscope.engine.comparing.parts import NOISE, estimated, faster, moved, promises, real, words
from kscope.features.views.footprint import Footprint, Footprints
from kscope.model.contract.analysis import Analysis, Finding, KernelAnalysis, TimelineAnalysis, Verdict
from kscope.model.contract.comparison import Change, Comparison, KernelPair, MatchedBy, Outcome, Promise, TimelinePair
from kscope.model.contract.limiters import LIMITERS
from kscope.model.quoted import quoted

DEVICES = "different GPUs: "
GUESSED = "a guess, since {}: {}"
_WHY: dict[MatchedBy, str] = {
    "elimination": "these two alone were left",
    "position": "as many were left on both sides, paired in order",
}


def compare(
    before: Analysis,
    after: Analysis,
    rules: Sequence[Rule] = (),
    prints: tuple[Footprints, Footprints] | None = None,
) -> Comparison:
    """Pair the kernels of two analyses and say what changed. Kernels in the order of the time they took before.

    rules: pairs by hand. prints: footprints of both sides (`analyze_paths`); without them no kernels are paired by
    their code, and every finding that the new version passes counts as fixed. Raises KscopeError (status 2) where a
    rule finds no kernel.
    """
    old_prints, new_prints = (side.by_kernel for side in prints) if prints else ({}, {})
    pairs, left, right = pair(before.kernels, after.kernels, rules, old_prints, new_prints)
    found = [_pair(a, b, how, old_prints.get(a.id), new_prints.get(b.id)) for a, b, how in pairs]
    sure = [p for p in found if p.speedup and not p.guess]
    old, new = sum(_time(p.before) for p in sure), sum(_time(p.after) for p in sure)
    timelines = []
    if len(before.timelines) == len(after.timelines):
        timelines = [
            compare_timelines(a, b)
            for a, b in zip(before.timelines, after.timelines, strict=True)
        ]
    return Comparison(
        kscope=__version__, before=before.inputs, after=after.inputs, pairs=found, timelines=timelines,
        only_before=[name_of(k) for k in left], only_after=[name_of(k) for k in right],
        speedup=old / new if new else None, skipped=[*before.skipped, *after.skipped],
        notes=_notes(before, after, found),
    )  # fmt: skip


def comparable(pair: KernelPair | TimelinePair) -> bool:
    """Whether a pair tells what became slower: both times are known, of what ran on a GPU, and it is no guess."""
    if not pair.speedup:
        return False
    if isinstance(pair, KernelPair):
        return not pair.guess
    return bool(pair.before.coverage.operations and pair.after.coverage.operations)


def _time(kernel: KernelAnalysis) -> float:
    """Microseconds of one launch; the median where identical launches were folded."""
    return kernel.duration_us or 0.0


def _pair(
    before: KernelAnalysis, after: KernelAnalysis, how: MatchedBy, old: Footprint | None, new: Footprint | None
) -> KernelPair:
    guess = how in GUESSES
    speedup = _time(before) / _time(after) if _time(before) and _time(after) else None
    fixed, gone, unknown = _left(before, after, old, new)
    now, known = real(after.findings), {g.code for g in before.findings}
    sentence = _sentence(before, after, speedup)
    promised = [] if guess or speedup is None else _promises(fixed, speedup)
    return KernelPair(
        before=before, after=after, matched_by=how, speedup=speedup, guess=guess,
        sentence=GUESSED.format(_WHY[how], sentence) if guess else sentence,
        fixed=_codes(fixed), gone=_codes(gone), unknown=_codes(unknown),
        new=[code for code in _codes(now) if code not in known],
        remaining=[code for code in _codes(now) if code in known],
        promises=promised, changes=_changes(before, after), next=now[0] if now else None,
        against=against(before, after, old, new) if not guess and _short(speedup, promised) else [],
    )  # fmt: skip


def _short(speedup: float | None, promised: Sequence[Promise]) -> bool:
    """Whether it is slower, or below what was promised for what it repairs."""
    return speedup is not None and (speedup < 1 - NOISE or any(p.outcome == "below" for p in promised))


def _left(
    before: KernelAnalysis, after: KernelAnalysis, old: Footprint | None, new: Footprint | None
) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """Findings that the new version no longer has: repaired; silent without that; and those whose rule could not
    look."""
    there = set(_codes(after.findings))
    blind = {item.code for item in after.not_applicable} | {error.code for error in after.errors}
    left = [f for f in real(before.findings) if f.code not in there]
    silent = [f for f in left if f.code not in blind]
    told = old is not None and new is not None
    fixed = [f for f in silent if not told or went(f, (before, after, old, new))]
    return fixed, [f for f in silent if f not in fixed], [f for f in left if f.code in blind]


def _codes(findings: Sequence[Finding]) -> list[str]:
    return [f.code for f in findings]


def _promises(fixed: Sequence[Finding], speedup: float) -> list[Promise]:
    """Promises of what was repaired. Findings that overlap in samples count as one repair: whoever removes the one
    removes the other, and the gains were never meant to be added."""
    promised = estimated(fixed)
    alone = all(f.code in g.overlaps or g.code in f.overlaps for f in promised[:1] for g in promised[1:])
    return promises(fixed, alone, lambda e: (speedup, _outcome(speedup, e.low, e.high)))


def _outcome(measured: float, low: float, high: float) -> Outcome:
    """Within the run-to-run noise of a bound counts as inside."""
    if measured < low * (1 - NOISE):
        return "below"
    return "above" if measured > high * (1 + NOISE) else "inside"


def _sentence(before: KernelAnalysis, after: KernelAnalysis, speedup: float | None) -> str:
    was, now = before.verdict, after.verdict
    old, new = (_bound(v) for v in (was, now))
    return f"{faster(speedup)}, " + (f"still {new}" if old == new else f"from {old} to {new}")


def _bound(verdict: Verdict) -> str:
    if verdict.regime == "unknown":
        return "a limit that is not known"
    return f"{verdict.regime}-bound on {LIMITERS[verdict.limiter].kernel or words(verdict.limiter)}"


def _changes(before: KernelAnalysis, after: KernelAnalysis) -> list[Change]:
    """Figures of launch, units, traffic and stalls that moved, in that order."""
    rows = [
        Change(what="time", unit="us", before=before.duration_us, after=after.duration_us),
        Change(what="registers a thread", unit="", before=before.launch.registers, after=after.launch.registers),
        Change(what="shared memory a block", unit="B", before=_shared(before), after=_shared(after)),
        Change(what="threads", unit="", before=_threads(before), after=_threads(after)),
        Change(what="waves", unit="", before=before.launch.waves, after=after.launch.waves),
        Change(what="DRAM bytes", unit="B", before=_bytes(before), after=_bytes(after)),
        Change(what="FLOP", unit="", before=_flops(before), after=_flops(after)),
    ]
    units = {u.unit: u.pct for u in before.utilization}, {u.unit: u.pct for u in after.utilization}
    for unit in dict.fromkeys([*units[0], *units[1]]):
        rows.append(Change(what=f"{unit} busy", unit="%", before=units[0].get(unit), after=units[1].get(unit)))
    stalls = {s.reason: s.share_adjusted for s in before.stalls}, {s.reason: s.share_adjusted for s in after.stalls}
    for reason in dict.fromkeys([*stalls[0], *stalls[1]]):
        a, b = (side.get(reason) for side in stalls)
        rows.append(
            Change(
                what=f"waits on {words(reason)}", unit="%", before=None if a is None else a * 100,
                after=None if b is None else b * 100,
            )
        )
    return [row for row in rows if moved(row)]


def _shared(kernel: KernelAnalysis) -> float:
    return kernel.launch.shared_static + kernel.launch.shared_dynamic


def _threads(kernel: KernelAnalysis) -> float:
    total = 1.0
    for n in (*kernel.launch.grid, *kernel.launch.block):
        total *= n
    return total


def _bytes(kernel: KernelAnalysis) -> float | None:
    roof = kernel.roofline
    return roof.bytes_per_s * _time(kernel) * 1e-6 if roof and kernel.duration_us else None


def _flops(kernel: KernelAnalysis) -> float | None:
    roof = kernel.roofline
    rate = roof.flops_per_s if roof else None
    return rate * _time(kernel) * 1e-6 if rate is not None and kernel.duration_us else None


def devices_differ(comparison: Comparison) -> str:
    """`different GPUs: A before, B after`, of what was compared; empty where they are the same or unknown."""
    return next((note for note in comparison.notes if note.startswith(DEVICES)), "")


def _devices(kernels: Iterable[KernelAnalysis], timelines: Iterable[TimelineAnalysis]) -> list[str]:
    return sorted({k.device.name for k in kernels} | {d.name for t in timelines for d in t.devices if d.name})


def _notes(before: Analysis, after: Analysis, pairs: Sequence[KernelPair]) -> list[str]:
    """What makes the comparison doubtful."""
    notes = []
    devices = [_devices(side.kernels, side.timelines) for side in (before, after)]
    if devices[0] != devices[1] and all(devices):
        old, new = (", ".join(map(quoted, side)) for side in devices)
        notes.append(f"{DEVICES}{old} before, {new} after")
    if guessed := [p for p in pairs if p.guess]:
        a, b = quoted(name_of(guessed[0].before)), quoted(name_of(guessed[0].after))
        more = f" and {len(guessed) - 1} more" if len(guessed) > 1 else ""
        why = "nothing but their place pairs them: no promise is held against that"
        notes.append(f"{a} and {b}{more}: {why}; --match OLD=NEW says which became which")
    if before.timelines and after.timelines and len(before.timelines) != len(after.timelines):
        count = f"{len(before.timelines)} and {len(after.timelines)}"
        notes.append(f"the two sides hold {count} recordings, which were not paired: compare one with one")
    return notes
