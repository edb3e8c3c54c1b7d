"""The next step of occupancy that registers bar: how many to save, and which values are kept longest where most are."""

from __future__ import annotations

from collections import Counter

from kscope.features.sass.liveness import KINDS
from kscope.fixes.given.setting import Asked
from kscope.model.contract.fixes import Fix, Proof

SHOWN = 3  # lines whose values are named


def fixes(asked: Asked) -> list[Fix]:
    """No code: nothing proves that fewer registers do not spill. What to look at instead."""
    setting, code = asked.setting, asked.setting.code
    launch, now = setting.launch, setting.occupancy()
    if launch is None or now is None or "registers" not in now.limits:
        return []
    step = min((s for s in now.steps if s.warps > now.warps), key=lambda s: s.warps, default=None)
    most, peak = code.liveness.peak()
    if step is None or not most:
        return []
    kept = _kept(asked, peak)
    longest = ", ".join(f"{count} of {where} ({length} instructions)" for where, count, length in kept[:SHOWN])
    place = f"line {code[peak].line}" if code[peak].line is not None else f"0x{code[peak].pc:x}"
    return [
        Fix(
            kind="launch_bounds",
            title=(
                f"launch bounds alone, for {step.blocks} blocks an SM: {step.registers} registers a thread instead of "
                f"{launch.registers}"
            ),
            parameters={"blocks": step.blocks, "registers": step.registers, "peak": most},
            proof=[
                Proof(
                    what="warps that an SM holds", before=now.warps, after=step.warps, unit="warps",
                    how=f"at {step.registers} registers (arch/sm.toml)",
                )
            ],
            refused=(
                f"bounds of ({launch.threads}, {step.blocks}) take away {launch.registers - step.registers} "
                "registers, and nothing proves that it does not spill (kscope sass --tune-registers tries). "
                f"{most} values are alive at {place}" + (f"; kept longest across it: {longest}" if longest else "")
            ),
        )
    ]  # fmt: skip


def _kept(asked: Asked, peak: int) -> list[tuple[str, int, int]]:
    """(line that makes them, how many, instructions from there to their last use in the order of the code) of values
    that are alive before and after the peak, those kept longest first."""
    code = asked.setting.code
    first, stop = KINDS["R"]
    across = {r for r in code.liveness.before(peak) if first <= r < stop} & set(code.liveness.after(peak))
    made: dict[int, int] = {}
    for i in range(peak):
        for r in code[i].defs:
            if r in across:
                made[r] = i
    used: dict[int, int] = {}
    for r in across:
        for i in range(peak, len(code)):
            if r in code[i].uses:
                used[r] = i
            if i > peak and r in code[i].defs:
                break
    spans: Counter[str] = Counter()
    lengths: dict[str, int] = {}
    for r, start in made.items():
        line = code[start].line
        where = f"line {line}" if line is not None else f"{code[start].name} at 0x{code[start].pc:x}"
        spans[where] += 1
        lengths[where] = max(lengths.get(where, 0), used.get(r, peak) - start)
    return sorted(((w, n, lengths[w]) for w, n in spans.items()), key=lambda row: -row[2])
