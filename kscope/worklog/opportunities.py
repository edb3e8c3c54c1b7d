"""The table of opportunities (opportunities.toml), and by which marks a version is seen to have tried one."""

from __future__ import annotations

import difflib
import operator
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.worklog.entries import Attempt

EFFORT = ("", "minutes", "an hour", "half a day", "days", "a rewrite")
Marks = Mapping[str, float]
_COMPARED: dict[str, Callable[[float, float], bool]] = {"=": operator.eq, ">": operator.gt, "<": operator.lt}


class Opportunity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the table; its fields are described there."""

    id: str
    title: str
    effort: int
    effort_why: str
    rules: tuple[str, ...] = ()
    limiters: tuple[str, ...] = ()
    needs: str = ""
    when: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()

    def too_early(self, marks: Marks) -> str:
        """The condition that the code does not meet yet, in words; "" where all are met, or there are no marks of
        code."""
        if "instructions" not in marks:
            return ""
        return next((_in_words(one) for one in self.when if not _holds(one, marks)), "")

    def recognised(self, before: Marks, after: Marks) -> str:
        """The first mark that shows that a version tried it, in words; "" for none."""
        if "instructions" not in before or "instructions" not in after:
            return ""
        return next((said for one in self.tried if (said := _moved(one, before, after))), "")


@cache
def opportunities() -> dict[str, Opportunity]:
    """All rows by their id, easiest first; in one effort those with rules first, then in the order of the table."""
    text = Path(__file__).with_name("opportunities.toml").read_text(encoding="utf-8")
    rows = [msgspec.convert({"id": key, **row}, Opportunity) for key, row in tomllib.loads(text).items()]
    return {row.id: row for row in sorted(rows, key=lambda row: (row.effort, not row.rules))}


def find(name: str) -> Opportunity:
    """By id, or by the code of a rule that one row alone has. Raises KscopeError (status 2)."""
    known = opportunities()
    if name in known:
        return known[name]
    named = [row for row in known.values() if name.upper() in row.rules]
    if len(named) == 1:
        return named[0]
    near = [row.id for row in named] or difflib.get_close_matches(name, known, 3, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "kscope checklist -v lists all of them"
    raise KscopeError("no-opportunity", f"no opportunity {name!r}", hint, EXIT_USAGE)


def attempts(before: Marks, after: Marks, fixed: list[str], told: tuple[str, ...]) -> list[Attempt]:
    """What a version tried against its parent: what the user says, what marks show, and what its repaired findings
    (`fixed`: codes) prove, of rows that were not too early for the parent."""
    found = [Attempt(opportunity=find(name).id, how="told", told=True) for name in told]
    for row in opportunities().values():
        if any(one.opportunity == row.id for one in found) or row.too_early(before):
            continue
        how = row.recognised(before, after)
        if not row.tried:
            how = next((f"{code} is repaired" for code in row.rules if code in fixed), "")
        if how:
            found.append(Attempt(opportunity=row.id, how=how))
    return found


def _holds(condition: str, marks: Marks) -> bool:
    mark, sign, value = condition.split()
    return _COMPARED[sign](marks.get(mark, 0.0), float(value))


def _in_words(condition: str) -> str:
    mark, sign, _ = condition.split()
    name = MARKS.get(mark, mark.replace("_", " "))
    return f"the code has {name} already" if sign == "=" else f"the code has no {name} yet"


def _moved(change: str, before: Marks, after: Marks) -> str:
    if change == "told":
        return ""
    mark, verb, *factor = change.split()
    was, now = before.get(mark), after.get(mark)
    name = MARKS.get(mark, mark.replace("_", " "))
    if verb == "appears":
        return f"{name} appeared" if not was and now else ""
    if not was or now is None:
        return ""
    by = float(factor[0])
    if (now >= was * by) if verb == "rises" else (now * by <= was):
        return f"{name} from {was:.3g} to {now:.3g}" if now else f"{name} went"
    return ""


MARKS = {
    "wgmma": "wgmma", "mma_sync": "mma.sync", "tcgen05": "tcgen05", "fma": "multiply-adds",
    "shared_reads": "reads of shared memory", "shared_writes": "tiles in shared memory", "cp_async": "cp.async",
    "tma": "TMA copies", "ldmatrix": "ldmatrix", "double": "double precision", "local": "local memory accesses",
    "conversions": "conversions", "barriers": "barriers", "setmaxnreg": "setmaxnreg", "shuffles": "shuffles",
    "fences": "memory fences", "global_atomics": "global atomics", "shared_atomics": "shared atomics",
    "tma_stores": "TMA stores", "mbarriers": "mbarriers", "instructions": "instructions executed",
    "global_load_bytes": "bytes a lane and global load", "global_store_bytes": "bytes a lane and global store",
    "fma_a_shared_read": "multiply-adds a shared read", "sector_excess": "sectors over those needed",
    "conflict_excess": "shared wavefronts over those needed", "occupancy": "occupancy in %",
    "cluster": "blocks a cluster", "shared_bytes": "shared memory a block", "blocks": "blocks",
}  # fmt: skip
"""Names of marks in sentences."""
