"""The result of a sweep of which nothing was run now: its variants, as the journal has them."""

from __future__ import annotations

from collections.abc import Sequence

from kscope._version import __version__
from kscope.bench.session.machine import gpu, processor
from kscope.bench.task.spec import Task
from kscope.bench.values.result import SCHEMA, Result, Variant, Word
from kscope.bench.values.words import dims_of


def of_variants(task: Task, variants: Sequence[Variant]) -> Result:
    """The verdict of the best variant; incorrect where none is right."""
    timed = [
        one for one in variants if one.candidate_us is not None and one.verdict not in ("incorrect", "not comparable")
    ]
    best = min(timed, key=lambda one: one.candidate_us or 0.0, default=None)
    here = gpu() if task.device == "cuda" else None
    verdict: Word = "incorrect"
    if best is not None and best.verdict != "not run" and best.verdict != "failed":
        verdict = best.verdict
    if best is not None:
        values = " ".join(f"{key}={value}" for key, value in best.values.items())
        where = f"{best.candidate_us:.4g} us, {dims_of(best.dims)}"
        sentence = f"{best.verdict}: {values} is the fastest of {len(variants)} variants ({where})"
    else:
        sentence = f"incorrect: none of {len(variants)} variants is right"
    return Result(
        schema=SCHEMA,
        kscope=__version__,
        candidate=task.candidate.text,
        reference=task.reference.text,
        baseline=(task.baseline or task.reference).text,
        device=(here or processor()).name,
        verdict=verdict,
        sentence=sentence,
        variants=list(variants),
    )
