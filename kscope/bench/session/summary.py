"""The result of a sweep of which nothing was run now: its variants, as the journal has them."""

from __future__ import annotations

from collections.abc import Sequence

from kscope._version import __version__
from kscope.bench.session.machine import gpu, processor
from kscope.bench.task.spec import Task
from kscope.bench.values.result import SCHEMA, Result, Variant
from kscope.bench.values.variants import decide


def of_variants(task: Task, variants: Sequence[Variant]) -> Result:
    """Its verdict is that of the fastest variant of each shape."""
    here = gpu() if task.device == "cuda" else None
    verdict, sentence = decide(variants)
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
