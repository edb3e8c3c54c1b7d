"""Tasks of the trial: a folder each, with what `kscope bench` needs (task.toml, the version to start from, a reference)
and trial.toml: which report its packs are made of."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from kscope.model.errors import EXIT_USAGE, KscopeError

TASKS = Path(__file__).parent / "tasks"


class _Trial(Struct, forbid_unknown_fields=True):
    """trial.toml. capture: a case of fixtures/h200, or a report beside it. step: which rewrite of the kernel this is.
    profiled: at which sizes. about: what is to be computed."""

    capture: str
    step: str
    profiled: str
    about: str


class Trial(Struct, frozen=True):
    """A task. start: the file to start from (`candidate` and `baseline` of task.toml); entry: the function that an
    answer must define; launch, shapes, multiple, aligned (its `layouts = false`): of task.toml, for the prompt."""

    name: str
    folder: Path
    start: str
    entry: str
    launch: str
    shapes: tuple[str, ...]
    multiple: dict[str, int]
    aligned: bool
    capture: str
    step: str
    profiled: str
    about: str

    @property
    def source(self) -> str:
        return (self.folder / self.start).read_text(encoding="utf-8")

    def report(self) -> Path:
        """The report that packs are made of. Raises KscopeError."""
        beside = self.folder / self.capture
        if beside.is_file():
            return beside
        from tests.support.reports import every_case, fixture

        if self.capture not in every_case():
            raise KscopeError("missing-file", f"{self.name}: no report {self.capture}", "a case of fixtures/h200")
        return fixture(self.capture)


def read(folder: Path, only: Sequence[str] = ()) -> list[Trial]:
    """The tasks of a folder, by name. Raises KscopeError."""
    found = [_task(file.parent) for file in sorted(folder.glob("*/trial.toml"))]
    names = {one.name for one in found}
    if unknown := set(only) - names:
        raise KscopeError("usage", f"no task {', '.join(sorted(unknown))}", f"of {', '.join(sorted(names))}",
                          EXIT_USAGE)  # fmt: skip
    if not found:
        raise KscopeError("missing-file", f"{folder}: no task", "a folder NAME with task.toml and trial.toml each")
    return [one for one in found if not only or one.name in only]


def _task(folder: Path) -> Trial:
    try:
        about = msgspec.convert(tomllib.loads((folder / "trial.toml").read_text(encoding="utf-8")), _Trial)
        task = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))["task"]
        start, _, function = str(task["candidate"]).partition(":")
        launch = str(task.get("launch", ""))
        return Trial(
            name=folder.name, folder=folder, start=start, entry=function or launch.partition("(")[0].strip(),
            launch=launch, shapes=tuple(task.get("shapes", ())), multiple=dict(task.get("multiple", {})),
            aligned=task.get("layouts") is False,
            capture=about.capture, step=about.step, profiled=about.profiled, about=about.about,
        )  # fmt: skip
    except (OSError, KeyError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise KscopeError("bad-task", f"{folder}: {error}", "task.toml and trial.toml, as in the tasks here") from None
