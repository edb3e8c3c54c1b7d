"""Task files: TOML, or a Python file with Model, get_inputs and get_init_inputs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from kscope.bench.task.spec import Param, Task, params, sizes, source
from kscope.bench.values.numbers import dtype
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.parsers.files.regular_files import opened

LARGEST = 1 << 20  # bytes of a task file


class _Task(Struct, forbid_unknown_fields=True):
    reference: str
    candidate: str = ""
    baseline: str = ""
    name: str = ""
    inputs: str = ""
    outputs: str = ""
    shapes: list[str] = []
    dtypes: list[str] = []
    framework: str = ""
    device: str = ""
    launch: str = ""
    flags: list[str] = []
    keywords: dict[str, str | int | float | bool] = {}
    derived: bool = True
    multiple: dict[str, int] = {}
    layouts: bool = True
    reduction: str = ""
    accumulate: str = "float32"
    compute: str = ""
    linear: bool | None = None
    tolerance: float | None = None
    changes: list[str] = []
    own: bool = False
    reuses_output: bool = False
    deterministic: bool = False
    special: str = "note"
    flop: str = ""
    ranges: dict[str, list[float] | str] = {}
    constant: list[str] = []


class _File(Struct, forbid_unknown_fields=True):
    task: _Task


def read(path: Path) -> Task:
    """The task of a TOML file; paths in it are from its folder. candidate stays empty where it names none. Raises
    KscopeError."""
    try:
        with opened(path) as file:  # a pipe or device would have no end
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise KscopeError("bad-task", f"{path}: too large for a task file", "name a TOML file with a [task]")
        given = msgspec.convert(tomllib.loads(data.decode()), _File).task
    except OSError as error:
        raise KscopeError("missing-file", f"{path}: {error.strerror or error}", "name a task file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise KscopeError("bad-task", f"{path}: {error}", "docs/bench.md lists the keys of a task") from None
    try:
        return _task(given, path)
    except KscopeError as error:
        raise KscopeError(error.code, f"{path}: {error.message}", error.hint, error.status) from None


def _task(given: _Task, path: Path) -> Task:
    folder = path.parent
    values: dict[str, Any] = {
        name: getattr(given, name) for name in (
            "name", "launch", "derived", "multiple", "layouts", "reduction", "compute", "linear", "tolerance", "own",
            "reuses_output", "deterministic", "flop",
        )
    }  # fmt: skip
    _one_of("framework", given.framework, ("", "numpy", "torch", "raw"))
    _one_of("device", given.device, ("", "cpu", "cuda"))
    _one_of("special", given.special, ("strict", "note", "no"))
    inputs = _ranged(params(given.inputs), given.ranges, given.constant)
    for name in given.changes:
        if name not in {one.name for one in inputs}:
            raise KscopeError("bad-task", f"changes names {name!r}, which is no input", "", EXIT_USAGE)
    reference = source(given.reference, folder)
    task = Task(
        source(given.candidate, folder) if given.candidate else reference,
        reference,
        source(given.baseline, folder) if given.baseline else None,
        inputs,
        params(given.outputs),
        tuple(sizes(one) for one in given.shapes) or ({},),
        tuple(dtype(one).name for one in given.dtypes) or ("float32",),
        flags=tuple(given.flags),
        keywords={k: str(v) for k, v in given.keywords.items()},
        changes=tuple(given.changes),
        accumulate=dtype(given.accumulate).name,
        file=str(path.absolute()),
        **values,
    )
    return msgspec.structs.replace(task, special=given.special,
                                   framework=given.framework or task.framework,
                                   device=given.device or task.device)  # fmt: skip


def _ranged(
    found: tuple[Param, ...], ranges: Mapping[str, list[float] | str], constant: list[str]
) -> tuple[Param, ...]:
    by_name = {one.name: one for one in found}
    for name in [*ranges, *constant]:
        if name not in by_name:
            raise KscopeError("bad-task", f"{name!r} is no input", f"inputs are {', '.join(by_name)}", EXIT_USAGE)
    for name, span in ranges.items():
        one = by_name[name]
        if isinstance(span, str):
            by_name[name] = msgspec.structs.replace(one, below=span)
        elif len(span) == 2 and span[0] < span[1]:
            by_name[name] = msgspec.structs.replace(one, low=float(span[0]), high=float(span[1]))
        else:
            raise KscopeError("bad-task", f"ranges.{name}: no range", "write [low, high] or a size", EXIT_USAGE)
    for name in constant:
        by_name[name] = msgspec.structs.replace(by_name[name], constant=True)
    return tuple(by_name.values())


def _one_of(key: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        words = ", ".join(one for one in known if one)
        raise KscopeError("bad-task", f"{key} cannot be {given!r}", f"write {words}", EXIT_USAGE)
