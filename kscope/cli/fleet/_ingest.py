"""`kscope fleet ingest`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--into", metavar="DATASET", required=True, type=click.Path(path_type=Path),
              help="The dataset, a folder; made where there is none.")
@click.option("--label", "labels", metavar="NAME=VALUE", multiple=True,
              help="A label of all inputs, as job=nightly, model=llama, commit=4f1c, date=2026-11-22; folders called "
                   "NAME=VALUE give labels too.")
@click.option("--jobs", metavar="N", type=click.IntRange(1, 256), help="Processes; default: one for each core.")
@click.option("--cluster", metavar="URL",
              help="Work on a cluster that runs: dask://HOST:PORT, ray://HOST:PORT. Its workers need kscope and the "
                   "inputs.")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
def ingest(
    paths: tuple[str, ...], into: Path, labels: tuple[str, ...], jobs: int | None, cluster: str | None, format_: str
) -> None:
    """Add reports, traces, exports and binaries to a dataset, each once.

    PATH is a file, a folder, an archive (.zip, .tar, .tar.gz) or a URL that fsspec opens (s3://, gs://, abfs://). An
    input is known by its content: a second run adds what is new, and goes on where one that was killed stopped. What
    cannot be read is listed in the dataset with its reason.
    """
    from kscope.cli.shared._output import say, write_stdout
    from kscope.cli.shared._progress import progress_bar
    from kscope.fleet import mapping
    from kscope.fleet.ingest import ingest as add
    from kscope.fleet.ingest import summary
    from kscope.fleet.missing import needed
    from kscope.parsers.files.forked import cores

    needed("pyarrow")
    processes = jobs or cores()
    if cluster:
        needed("distributed" if cluster.startswith("dask") else "ray")

    def run(tasks: mapping.Numbered):  # type: ignore[no-untyped-def]
        if cluster:
            return mapping.by_cluster(tasks, cluster)
        count = min(processes, len(tasks))
        return mapping.by_processes(tasks, count) if count > 1 else mapping.here(tasks)

    given = _labels(labels)
    with progress_bar() or nullcontext() as bar:
        done = add(paths, into, given, run, lambda n, total: bar(str(into), n, total) if bar else None)
    for fault in done.faults:
        say(f"kscope: {fault}")
    if format_ == "json":
        import msgspec

        write_stdout(msgspec.json.encode(done).decode() + "\n")
        return
    if done.again:
        say(f"kscope: went on with a run of {done.again:,} inputs that was not done")
    write_stdout(f"{summary(done)}: {into}\n")


def _labels(words: tuple[str, ...]) -> dict[str, str]:
    out = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise click.BadParameter(f"{word!r} is not NAME=VALUE", param_hint="--label")
        out[name] = value
    return out
