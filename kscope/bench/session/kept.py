"""Results that outlive a run: an earlier one to compare with, and the worklog."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kscope.bench.values.result import SCHEMA, Result
from kscope.bench.values.words import dims_of
from kscope.model.errors import KscopeError
from kscope.parsers.files.regular_files import opened
from kscope.worklog.ladder import current
from kscope.worklog.store import Worklog


def read(path: Path) -> Result:
    """A result that `--format json` wrote. Raises KscopeError (status 3)."""
    try:
        with opened(path) as file:
            found = msgspec.json.decode(file.read(), type=Result)
    except OSError as error:
        raise KscopeError(
            "missing-file", f"{path}: {error.strerror}", "name a file of kscope bench --format json"
        ) from None
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        raise KscopeError("bad-result", f"{path}: no result of kscope bench", "write one with --format json") from None
    if found.schema != SCHEMA:
        raise KscopeError("bad-result", f"{path}: schema {found.schema[:40]!r}", "write it again with this kscope")
    return found


def slower(now: Result, before: Result | None, percent: float) -> tuple[list[str], list[str]]:
    """(violations, what could not be looked at): against the baseline, and against an earlier result where given. A
    violation is a line as other gates print it: `FAIL SLOWER fast.py:rms m=4096 float32, cold: 41 us, ...`."""
    if now.verdict in ("incorrect", "not comparable"):
        return [f"FAIL {now.verdict.upper().replace(' ', '-')} {now.candidate} {now.sentence}"], []
    broken, blind = [], []
    factor, fail = 1 + percent / 100, f"FAIL SLOWER {now.candidate}"
    for one in now.timings:
        where = f"{dims_of(one.dims)} {one.dtype}, {one.cache}"
        if before is None:
            if one.high is None:
                blind.append(f"{where}: no baseline")
            elif one.high < 1 / factor:
                broken.append(f"{fail} {where}: {one.candidate_us:.4g} us, baseline {one.baseline_us:.4g} us")
            continue
        old = next((b for b in before.timings if (b.dims, b.dtype, b.cache) == (one.dims, one.dtype, one.cache)), None)
        if old is None:
            blind.append(f"{where}: not in the earlier result")
        elif one.candidate_us > factor * old.candidate_us:
            broken.append(f"{fail} {where}: {one.candidate_us:.4g} us, {old.candidate_us:.4g} us before")
    if not now.timings:
        blind.append("nothing was timed")
    return broken, blind


def note(log: Worklog, result: Result) -> int | None:
    """Add the result to the version that is worked on; its number, None where there is no version. The whole result is
    an object of the worklog, named in the note."""
    if not log.exists:
        return None
    entries = log.entries()
    entry = current(entries, None)
    if entry is None:
        return None
    name = log.objects.put(msgspec.json.encode(result), "bench-json")
    log.say(entry, "note", f"bench {result.candidate} against {result.baseline}: {result.sentence} [{name[:12]}]")
    return entry.number
