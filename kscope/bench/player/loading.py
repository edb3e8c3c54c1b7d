"""A candidate's Python as something to call: a function, an nn.Module, a Triton kernel with its launch."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

USUAL = ("candidate", "solution", "kernel_fn", "ModelNew", "Model", "forward", "run", "main")
"""Names that are taken where none is given: those of KernelBench and GPU MODE among them."""


class Unusable(Exception):
    """The source names nothing that can be called."""


def module(path: str, name: str) -> ModuleType:
    """Import a file, with its folder on the path, or a module by name (the folder of work is on the path)."""
    if not path:
        sys.path.insert(0, "")
        return importlib.import_module(name)
    sys.path.insert(0, str(Path(path).parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise Unusable(f"{path}: no Python")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def named(within: ModuleType, name: str, role: str = "") -> Any:
    """The object of that name; without one, the usual ones. role `reference` prefers Model to ModelNew. Raises
    Unusable."""
    if name:
        found: Any = within
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            raise Unusable(f"{within.__name__} has no {name!r}")
        return found
    usual = ("reference", "Model", "ref", *USUAL) if role == "reference" else USUAL
    for one in usual:
        if callable(getattr(within, one, None)):
            return getattr(within, one)
    own = [
        f for n, f in vars(within).items() if inspect.isfunction(f) and f.__module__ == within.__name__ and n[0] != "_"
    ]
    if len(own) == 1:
        return own[0]
    raise Unusable(f"{within.__name__} has {len(own)} functions: name one after a colon")


def described(call: Any) -> list[dict[str, Any]]:
    """Inputs that the module of an nn.Module makes itself (`get_inputs`, as KernelBench calls it)."""
    made = sys.modules[getattr(call, "__module__", type(call).__module__)].get_inputs()
    return [
        {"shape": list(one.shape), "dtype": str(one.dtype).removeprefix("torch."), "span": _span(one)}
        if hasattr(one, "shape")
        else {"value": one}
        for one in made
    ]


def _span(one: Any) -> list[float]:
    """The least and the largest value."""
    return [float(one.min()), float(one.max())] if one.numel() else [0.0, 0.0]


def is_module(found: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and inspect.isclass(found) and issubclass(found, torch.nn.Module)


def is_triton(found: Any) -> bool:
    return type(found).__module__.startswith("triton.") and type(found).__name__ in (
        "JITFunction",
        "Autotuner",
        "Heuristics",
    )


def launcher(launch: str, name: str, found: Any, names: list[str], keywords: Mapping[str, Any]) -> Callable[..., Any]:
    """`kernel[(ceil_div(n, 1024),)](x, y, n, BLOCK=1024)` as a function of its arrays; dimensions are put into its
    globals with each case."""
    space = {
        name.rpartition(".")[2] or "kernel": found,
        "kernel": found,
        "ceil_div": lambda a, b: -(-a // b),
        **keywords,
    }
    source = f"def _launch({', '.join(names)}):\n    {launch}\n"
    exec(compile(source, "<launch>", "exec"), space)  # the task's own words, beside the code that they start
    made: Callable[..., Any] = space["_launch"]
    return made
