"""Whether what is proposed for a capture is the version that was measured to be better, or as good: by what each kind
of change takes away, computed of the proposal and counted in the better version's own report.

    from tools.fixes_pairs import judged

Words: `same` (the launch is the better version's, or the compiled proposal has its instructions), `as good` (at most
TOLERATED times what the better version needs), `less` (it needs more), `none` (no change, or a refusal).
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from kscope.fixes.given.setting import Setting
from kscope.model.contract.fixes import Fix
from kscope.model.errors import KscopeError
from tests.support import captures, reports
from tests.support.with_sources import diagnosed
from tools.fixes_measures import MEASURES, TOLERATED, Compared, Judged, Word, against, facts

BUILT = Path(__file__).resolve().parent.parent / "fixtures" / "fixes" / "built.toml"
MEASURED = BUILT.parent / "measured.toml"
LAUNCHED = ("block.x", "block.y", "grid.x", "grid.y", "shared_dynamic")


@cache
def setting(case: str) -> Setting | None:
    from kscope.engine.findings.mended import setting_of

    known = facts(case)
    return setting_of(known, None) if known.code is not None else None


@cache
def built() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Rows of what was pasted and compiled, by capture, rule and kind."""
    if not BUILT.exists():
        return {}
    rows = tomllib.loads(BUILT.read_text("utf-8"))["built"]
    return {(r["case"], r["rule"], r["kind"]): r for r in rows}


def judged(case: str, better: str, code: str, fix: Fix, gain: float) -> Judged:
    """A change of one capture against the better version, which is `gain` times as fast."""
    if fix.refused:
        return Judged("none", "", reason=f"refused: {fix.refused}")
    row = built().get((case, code, fix.kind))
    try:
        fast = setting(better)
    except KscopeError:
        fast = None
    slow = setting(case)
    if fast is None or slow is None:
        by_time = _timed(case, better, code, fix, gain)
        by_code = _from_source(row, by_time, fix)
        timed = by_time.word == "as good" and (by_code is None or by_code.word != "same")
        return by_time if timed else by_code or by_time
    if same := _same(fix, slow, fast, row):
        return Judged("same", same)
    asked = Compared(fix, case, better, slow, fast, code, row)
    by_time = _timed(case, better, code, fix, gain)
    if _beside(case, code, fix):  # both were timed in one run: what is left of whatever says less
        return by_time
    found = next((one for measure in MEASURES.get(fix.kind, ()) if (one := measure(asked)) is not None), None)
    # Barriers that are gone say nothing of the work that is left: where it was timed, the time does.
    timed = by_time.before is not None and found is not None and found.what.startswith("barriers")
    if found is not None and not timed and (found.word != "less" or by_time.word == "less"):
        return found
    if by_time.before is not None:
        return by_time
    return Judged("less", "", reason="nothing in the code shows what this change takes away, and it was not timed")


def _timed(case: str, better: str, code: str, fix: Fix, gain: float) -> Judged:
    """By times alone: of a better version that was not captured, or where the code does not show it."""
    mine = _measured(case, code, fix)
    captured = better in captures.tables(reports.FIXTURES)
    if not mine:
        return Judged("less", "", reason=f"{better} was not captured, and this change not timed: nothing to compare")
    before, after = (mine[0][f"{when}_us"] for when in ("before", "after"))
    beside = mine[0].get("better_us", before / gain)  # in the same run, where it was timed there
    word: Word = "as good" if after <= TOLERATED * beside else "less"
    why = mine[0].get("beside") or ("" if captured else f"{better} was not captured")
    return Judged(word, "us, timed", before, after, beside, why)


def _measured(case: str, code: str, fix: Fix) -> list[dict[str, Any]]:
    """Times of a change, by this rule or by another that prints it too."""
    rows = tomllib.loads(MEASURED.read_text("utf-8"))["proposals"]
    of_case = [p for p in rows if (p["case"], p["kind"]) == (case, fix.kind)]
    return [p for p in of_case if p["rule"] == code] or [p for p in of_case if _is_also(case, p["rule"], fix)]


def _beside(case: str, code: str, fix: Fix) -> bool:
    return any("better_us" in p for p in _measured(case, code, fix)[:1])


def _is_also(case: str, code: str, fix: Fix) -> bool:
    """Whether another rule prints this very change, so that its time is this one's."""
    return any(one.code == fix.code for f in diagnosed(case).findings if f.code == code for one in f.fixes)


def _from_source(row: dict[str, Any] | None, by_time: Judged, fix: Fix) -> Judged | None:
    """By the code of both, compiled: the same instructions, or, of a change that was not timed, as little of what it
    takes away. None where that does not show the proposal as good: accesses that are wide enough for `--check` may be
    twice as many."""
    if row is None or row["has"] not in ("yes", "partly") or "better_code" not in row:
        return None
    if row["better_code"] == row.get("code"):
        return Judged("same", "the code of both, compiled: all instructions by opcode")
    if by_time.before is not None or "better_new" not in row or fix.kind == "neighbours":
        return None
    found = against(f"{row['what']}, both compiled", row["old"], row["new"], row["better_new"])
    return found if found.word == "as good" else None


def _same(fix: Fix, slow: Setting, fast: Setting, row: dict[str, Any] | None) -> str:
    """What is the same: the launch that is proposed, or the instructions of the compiled proposal."""
    launch = fast.launch
    asked = {k: v for k, v in fix.parameters.items() if k in LAUNCHED}
    if launch is not None and asked and not fix.edits and fix.kind in ("block_size", "shared_bytes"):
        has = {
            "block.x": launch.block[0], "block.y": launch.block[1], "grid.x": launch.grid[0], "grid.y": launch.grid[1],
            "shared_dynamic": launch.shared_dynamic,
        }  # fmt: skip
        if all(has[k] == v for k, v in asked.items()):
            return "the launch"
    if row is not None and row.get("code") == digest(fast):
        return f"the code: {len(fast.code)} instructions by opcode"
    return ""


def digest(one: Setting) -> str:
    """Instructions by opcode, as a few letters; padding behind the end left out."""
    counted = Counter(ins.opcode for ins in one.code.program.instructions if ins.opcode not in ("NOP", "BRA"))
    return hashlib.sha256(repr(sorted(counted.items())).encode()).hexdigest()[:12]
