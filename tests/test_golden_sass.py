"""The committed listings are what `kscope sass --annotate` prints today; `make golden` rewrites them."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_sass", ROOT / "tools" / "golden_sass.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_sass"] = module
    spec.loader.exec_module(module)
    return module


golden = load()


@pytest.mark.parametrize("name", sorted(golden.CASES))
def test_unchanged(name: str) -> None:
    path = golden.FOLDER / f"{name}.txt"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    now = golden.golden(name)
    if before != now:
        lines = difflib.unified_diff(before.splitlines(), now.splitlines(), str(path), "now", lineterm="", n=1)
        shown = "\n".join([line for line, _ in zip(lines, range(40), strict=False)])
        pytest.fail(f"{path.relative_to(ROOT)} has changed: run `make golden` and review\n{shown}", pytrace=False)
    assert str(ROOT) not in now


def test_nothing_is_left_over() -> None:
    assert {f.stem for f in golden.FOLDER.iterdir()} == set(golden.CASES), "run `make golden`"
