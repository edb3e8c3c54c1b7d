"""`kscope napkin`: the floor of a problem on the back of a napkin."""

from __future__ import annotations

from pathlib import Path

import click

from kscope.cli.shared._options import by_suffix

FORMATS = ("text", "json", "md")
SUFFIXES = {".json": "json", ".md": "md", ".txt": "text"}


@click.command()
@click.argument("words", metavar="OPERATION SIZES...", nargs=-1)
@click.option("--chip", metavar="CHIP", help="Of `kscope arch`; default: the GPU that was measured last, else h100.")
@click.option("--dtype", metavar="TYPE", help="fp32, bf16, fp8 ...: of the elements.")
@click.option("--causal", is_flag=True, help="Attention that sees no later key.")
@click.option("--kv-heads", metavar="N", type=click.IntRange(1), help="Heads of keys and values (GQA, MQA).")
@click.option("--tile", "tile_sizes", metavar="MxN", multiple=True, help="Only these tiles of a product (repeatable).")
@click.option("--measured", metavar="TIME",
              help="What it takes, such as 5.1ms: how far from the floor, and what explains it.")
@click.option("--sweep", "swept", metavar="SIZE=A,B,C|A..B", help="One size over values, with the crossover.")
@click.option("--published", is_flag=True, help="Do not use rates that `kscope arch --measure` found here.")
@click.option("--list", "listed", is_flag=True, help="List the operations with their sizes and options.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: by the suffix of -o, else text.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--no-color", is_flag=True, help="No colour (NO_COLOR is obeyed too).")
def napkin(
    words: tuple[str, ...], chip: str | None, dtype: str | None, causal: bool, kv_heads: int | None,
    tile_sizes: tuple[str, ...], measured: str | None, swept: str | None, published: bool, listed: bool,
    format_: str | None, output: Path | None, force: bool, no_color: bool,
) -> None:  # fmt: skip
    """Estimate an operation: bytes, FLOP and the floor in time, before a line is written.

    \b
    kscope napkin gemm 4096 4096 4096 bf16 --chip h100
    kscope napkin attention 2 32 4096 128 --causal --kv-heads 8 --measured 610us
    kscope napkin gemm 1 8192 8192 bf16 --sweep m=1..8192

    Sizes may be 4096, 4k, 1e6 or 128x512; a type, flags and options such as `batch=8` may stand among them.
    `--list` shows them all.
    """
    from kscope.cli.shared import _output

    output = None if str(output) == "-" else output
    format_ = format_ or by_suffix(output, SUFFIXES)
    if output:
        _output.check_target(output, [], force=force)
    if listed:
        return _output.write_stdout(_list())
    if not words:
        raise click.UsageError("Missing argument 'OPERATION SIZES...'; `kscope napkin --list` shows them.")
    from kscope.napkin.answer import answer
    from kscope.napkin.asked import ask
    from kscope.napkin.sweep import parse
    from kscope.napkin.tiles import SHAPES
    from kscope.reports import napkin as report

    more = (["causal"] if causal else []) + ([f"kv_heads={kv_heads}"] if kv_heads else [])
    given = answer(
        ask([*words, *more], dtype), _roofs(chip, published=published),
        shapes=tuple(_tile(size) for size in tile_sizes) or SHAPES,
        measured_us=_time(measured) if measured else None, swept=parse(swept) if swept else None,
    )  # fmt: skip
    if format_ == "json":
        text = report.as_json(given)
    elif format_ == "md":
        from kscope.reports.markdown.napkin import markdown

        text = markdown(given)
    else:
        text = report.text(given, **_output.look(no_color, to_file=output is not None))
    if output:
        _output.write_file(output, text, force=force)
    else:
        _output.write_stdout(text)


def _roofs(name: str | None, *, published: bool):  # type: ignore[no-untyped-def]
    """Rates of the chip that was named; without one, of the GPU that was measured here."""
    from kscope.arch.chips import find
    from kscope.arch.user import latest, measured
    from kscope.napkin.roofs import roofs

    mine = None if published else (latest() if name is None else None)
    chip = find(mine.chip if mine is not None else "h100" if name is None else name)
    mine = mine or (None if published else measured(chip.key))
    return roofs(chip, mine.rates, f"measured here on {mine.day}") if mine is not None else roofs(chip)


def _tile(text: str) -> tuple[int, int]:
    sides = text.lower().split("x")
    if len(sides) != 2 or not all(side.isdigit() and 0 < int(side) <= 65536 for side in sides):
        raise click.BadParameter(f"{text!r} is no tile: write 128x256", param_hint="--tile")
    return int(sides[0]), int(sides[1])


def _time(text: str) -> float:
    from kscope.napkin.measured import parse_time

    try:
        return parse_time(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time: write 5.1ms or 180us", param_hint="--measured") from None


def _list() -> str:
    from kscope.napkin.operations import OPERATIONS

    lines = []
    for name, spec in OPERATIONS.items():
        options = " ".join(f"{k}={v if isinstance(v, str) else format(v, 'g')}" for k, v in spec.options.items())
        lines.append(f"{name:14} {' '.join(spec.sizes)}" + (f"   [{options}]" if options else "") + f"   {spec.what}")
    return "\n".join(lines) + "\n"
