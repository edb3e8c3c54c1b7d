"""A problem and its floor in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports.escape import prose
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.napkin import (
    crossings,
    levels,
    needs,
    ratio,
    sentence,
    stories,
    sweep_table,
    tile_table,
    title,
    told,
)

if TYPE_CHECKING:
    from kscope.napkin.answer import Answer


def markdown(answer: Answer) -> str:
    found = answer.estimate
    parts = [f"# {prose(title(found))}", f"**{found.regime.upper()}-BOUND** {prose(sentence(found))}",
             f"{prose(ratio(found))} Needs {prose(needs(found))}.", table(*levels(found))]  # fmt: skip
    if answer.tiles:
        parts += ["## Tiles", table(*tile_table(answer.tiles))]
    if answer.measured is not None:
        seen = answer.measured
        parts += ["## Measured", prose(told(seen)), bullets(prose(line) for line in [*stories(seen), *seen.notes])]
    if answer.sweep is not None:
        parts += [f"## Over {answer.sweep.name}", table(*sweep_table(answer.sweep)),
                  bullets(prose(line) for line in crossings(answer.sweep))]  # fmt: skip
    sources = [f"{level.name} attained: {level.source}" for level in found.levels]
    parts.append(bullets(prose(line) for line in [*found.notes, *sources]))
    return "\n\n".join(part for part in parts if part) + "\n"
