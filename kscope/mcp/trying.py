"""What can be tried on a kernel (`kscope checklist` as a tool), with what a worklog says was tried."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from kscope.mcp.answers import Absent, ChecklistAnswer
from kscope.mcp.arguments import Checklist
from kscope.mcp.desk import Desk
from kscope.mcp.keys import find
from kscope.mcp.pages import page
from kscope.model.contract.analysis import Analysis
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.parsers import scratch
from kscope.worklog.entries import Entry, Idea

LARGEST = 64 << 20  # bytes of a worklog that is copied to be read; one of a thousand versions has some 10 MB
NO_WORKLOG = "what was tried before: name a worklog (kscope log add REPORT keeps one)"


def checklist(desk: Desk, asked: Checklist) -> ChecklistAnswer:
    from kscope.engine.comparing.pairing import name_of
    from kscope.worklog.checklist import Now
    from kscope.worklog.checklist import checklist as made

    path = desk.roots.file(asked.path)
    if desk.is_binary(path):
        raise KscopeError("usage", "machine code that nobody ran has no checklist", "name a kernel report", EXIT_USAGE)
    analysis, marks = desk.kept(path, ("marks",), lambda: _analysed(path))
    key, kernel = find(analysis.kernels, asked.key)
    lineage, ideas, held = _known(desk.roots.file(asked.worklog), name_of(kernel)) if asked.worklog else ([], [], {})
    found = made(Now(kernel, marks.get(kernel.id, {})), lineage, ideas, held)
    kept, after = page(found.items, asked.offset, asked.limit)
    return ChecklistAnswer(
        key=key, regime=found.regime, limiter=found.limiter, sentence=found.sentence, rows=kept,
        version=lineage[-1].number if lineage else None, total=len(found.items), next_offset=after,
        absent=[] if asked.worklog else [Absent(what=NO_WORKLOG)],
    )  # fmt: skip


def _analysed(path: Path) -> tuple[Analysis, dict[str, dict[str, float]]]:
    from kscope.engine.run import analyze_paths
    from kscope.worklog.marks import Witness

    witness = Witness(wanted=set())
    return analyze_paths([path], footprints=witness), witness.marks


def _known(path: Path, kernel: str) -> tuple[Sequence[Entry], Sequence[Idea], dict[str, str]]:
    """(versions of this kernel's ladder, what was decided, how promises held) of a worklog. A copy is read: SQLite
    writes beside what it opens. Raises KscopeError for what is no worklog."""
    from kscope.worklog.calibrate import calibrate, words
    from kscope.worklog.ladder import current, lineage
    from kscope.worklog.store import Worklog

    log_of_writes = path.with_name(f"{path.name}-wal")
    sides = [one for one in (path, log_of_writes) if one.is_file() and not (one is log_of_writes and one.is_symlink())]
    if sum(one.stat().st_size for one in sides) > LARGEST:
        raise KscopeError("too-large", f"the worklog has more than {LARGEST:,} bytes", "kscope checklist reads it")
    with scratch.folder() as folder:
        for one in sides:
            shutil.copyfile(one, Path(folder, one.name))
        log = Worklog(Path(folder, path.name))
        entries, ideas = log.entries(), log.ideas()
    mine = [one for one in entries if one.kernel == kernel]
    last = current(entries, mine[-1]) if mine else None
    return lineage(entries, last) if last is not None else [], ideas, dict(words(calibrate(entries)))
