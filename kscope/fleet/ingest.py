"""Inputs into the dataset. A run is a plan of batches, written before anything is read: a run that was killed goes on
where it stopped, and what it leaves equals what it would have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from kscope.fleet import mapping
from kscope.fleet.one import Outcome, copied, hash_of, local, refused
from kscope.fleet.rows import Rows
from kscope.fleet.schema import TABLES
from kscope.fleet.sources import Faults, Source, find
from kscope.fleet.store import PART, Dataset, write
from kscope.model.errors import KscopeError

BATCH = 100  # inputs whose results are kept until they are written; what a kill costs at most


class Item(Struct, frozen=True):
    """One input of a plan. copy: its bytes are those of another input, in the dataset or earlier in the plan."""

    source: Source
    content: str = ""
    copy: bool = False


class Plan(Struct, frozen=True):
    """ingest: its name, by what it ingests; number: how many were there before."""

    ingest: str
    number: int
    items: list[Item]
    faults: list[tuple[str, str, str, str]] = []


class Ingested(Struct):
    """What a run did. again: of a run before that was not done, inputs that were left; known: inputs that the dataset
    had; faults: what could not be looked at, a line each."""

    new: int = 0
    copies: int = 0
    refused: int = 0
    known: int = 0
    again: int = 0
    ingests: list[str] = []
    faults: list[str] = []


Run = Callable[[mapping.Numbered], Iterator[mapping.Result]]
Progress = Callable[[int, int], None]


def ingest(paths: Sequence[str], into: Path, labels: Mapping[str, str], run: Run, progress: Progress) -> Ingested:
    """Add all inputs that the dataset has not. run: `mapping.here`, or what maps elsewhere. Raises KscopeError: nothing
    to read at any path, a dataset that cannot be written, another that writes."""
    data = Dataset.made(into)
    done = Ingested()
    with data.locked():
        for plan in _unfinished(data):
            done.again += len(plan.items)
            _carry_out(data, plan, run, progress, done)
        faults: Faults = []
        found = find(paths, labels, faults)
        done.faults = [str(error) for _, error in faults]
        if not found:
            raise faults[0][1] if faults else KscopeError("no-reports", "no inputs", "name reports, or folders of them")
        made = _plan(data, found, faults, done)
        if made is not None:
            folder = data.plans / made.ingest
            folder.mkdir(parents=True, exist_ok=True)
            write(folder / "plan.json", msgspec.json.encode(made).decode() + "\n")
            _carry_out(data, made, run, progress, done)
    return done


def _unfinished(data: Dataset) -> list[Plan]:
    """Runs that were killed, oldest first. Raises KscopeError for a plan that cannot be read."""
    out = []
    for path in sorted(data.plans.glob("*/plan.json")):
        try:
            plan = msgspec.json.decode(path.read_bytes(), type=Plan)
        except (OSError, msgspec.DecodeError) as error:
            raise KscopeError("corrupt", f"{path}: cannot be read ({error})", "delete its folder") from None
        if any(not (path.parent / f"{PART.format(n)}.json").exists() for n in range(_batches(plan))):
            out.append(plan)
    return sorted(out, key=lambda plan: plan.number)


def _batches(plan: Plan) -> int:
    return max(1, -(-len(plan.items) // BATCH))


def _plan(data: Dataset, found: Sequence[Source], faults: Faults, done: Ingested) -> Plan | None:
    """What is new among what was found. Inputs of the same size as others are read to tell copies apart."""
    known = data.known()
    same = {(url, mark) for url, mark, content, _ in known if content}
    contents = {content for _, _, content, _ in known if content}
    sizes = {size for _, _, content, size in known if content}
    fresh = [one for one in found if (one.url, one.fingerprint) not in same]
    done.known = len(found) - len(fresh)
    if not fresh:
        return None
    counts: dict[int, int] = {}
    for one in fresh:
        counts[one.size] = counts.get(one.size, 0) + 1
    items = []
    for one in fresh:
        content = _content(one) if one.size in sizes or counts[one.size] > 1 else ""
        items.append(Item(one, content, bool(content) and content in contents))
        if content:
            contents.add(content)
    said = [(path, error.code, error.message, error.hint) for path, error in faults]
    number = sum(1 for _ in data.plans.glob("*/plan.json"))
    name = msgspec.json.encode([number, [[i.source.url, i.source.fingerprint] for i in items]])
    return Plan(blake2b(name, digest_size=8).hexdigest(), number, items, said)


def _content(source: Source) -> str:
    """Hash of an input's bytes; "" where it cannot be read: who reads it next says why."""
    try:
        with local(source) as path:
            return hash_of(path)
    except Exception:
        return ""


def _carry_out(data: Dataset, plan: Plan, run: Run, progress: Progress, done: Ingested) -> None:
    """Write the batches of a plan that are not there; each as soon as its inputs are done, whatever the order."""
    left = {
        n for n in range(_batches(plan)) if not (data.plans / plan.ingest / f"{PART.format(n)}.json").exists()
    }
    tasks = [(n, item.source) for n, item in enumerate(plan.items) if n // BATCH in left and not item.copy]
    results: dict[int, dict[int, Outcome]] = {n: {} for n in left}
    for n, item in enumerate(plan.items):
        if item.copy and n // BATCH in left:
            results[n // BATCH][n] = copied(item.source, item.content)
    progress(0, len(tasks))
    for number in sorted(left):
        _settle(data, plan, number, results, done)
    for count, (n, outcome) in enumerate(run(tasks), start=1):
        if isinstance(outcome, KscopeError):
            source = plan.items[n].source
            outcome = refused(source, _content(source), outcome)
        results[n // BATCH][n] = outcome
        progress(count, len(tasks))
        _settle(data, plan, n // BATCH, results, done)
    done.ingests.append(plan.ingest)


def _settle(data: Dataset, plan: Plan, batch: int, results: dict[int, dict[int, Outcome]], done: Ingested) -> None:
    """Write a batch whose inputs are all done."""
    size = len(plan.items[batch * BATCH : (batch + 1) * BATCH])
    if batch not in results or len(results[batch]) < size:
        return
    found = results.pop(batch)
    rows: Rows = {table: [] for table in TABLES}
    for n in sorted(found):
        for table, some in found[n].rows.items():
            rows[table] += some
        state = found[n].rows["inputs"][0]["state"]
        done.new += state == "ingested"
        done.copies += state == "copy"
        done.refused += state == "refused"
    if batch == 0:
        rows["refused"] += [
            {"url": path, "what": "input", "code": code, "message": message.removeprefix(f"{path}: "), "hint": hint}
            for path, code, message, hint in plan.faults
        ]
    data.write_batch(plan.ingest, batch, rows)


def summary(done: Ingested) -> str:
    """One line."""
    parts = [f"{done.new:,} ingested"]
    parts += [f"{n:,} {what}" for n, what in ((done.copies, "copies"), (done.refused, "refused"),
                                              (done.known, "known already"),
                                              (len(done.faults), "that cannot be looked at")) if n]  # fmt: skip
    return ", ".join(parts)

