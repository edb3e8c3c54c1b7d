"""The committed outputs of the captures are what kscope says today; `make golden` rewrites them."""

from __future__ import annotations

import difflib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from kscope.model.analysis import Analysis
from tests.support import reports

ROOT = Path(__file__).resolve().parents[1]
BYTES = 5 << 20


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden", ROOT / "tools" / "golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden"] = module
    spec.loader.exec_module(module)
    return module


golden = load()


@pytest.mark.parametrize("case", reports.every_case())
def test_unchanged(case: str, analysis: Callable[[str], Analysis]) -> None:
    for name, now in golden.golden(case, analysis(case)).items():
        path = golden.FOLDER / name
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        if before != now:
            lines = difflib.unified_diff(before.splitlines(), now.splitlines(), str(path), "now", lineterm="", n=1)
            shown = "\n".join([line for line, _ in zip(lines, range(40), strict=False)])
            pytest.fail(f"{path.relative_to(ROOT)} has changed: run `make golden` and review\n{shown}", pytrace=False)


def test_nothing_is_left_over() -> None:
    expected = {f"{case}.{suffix}" for case in reports.every_case() for suffix in ("json", "txt")}
    files = list(golden.FOLDER.iterdir()) if golden.FOLDER.is_dir() else []
    assert {f.name for f in files} == expected, "run `make golden`"
    assert sum(f.stat().st_size for f in files) < BYTES


def test_no_path_of_this_machine(analysis: Callable[[str], Analysis]) -> None:
    files = golden.golden("bank_conflict.slow", analysis("bank_conflict.slow"))
    assert not any(str(ROOT) in text for text in files.values())
    assert '"fixtures/h200/bank_conflict.slow/report.ncu-rep.xz"' in files["bank_conflict.slow.json"]


def test_json_is_still_an_analysis(analysis: Callable[[str], Analysis]) -> None:
    """Shortened, not reshaped: it reads back, and the diagnosis is the same."""
    whole = analysis("bank_conflict.slow").kernels[0]
    text = golden.golden("bank_conflict.slow", analysis("bank_conflict.slow"))["bank_conflict.slow.json"]
    (k,) = msgspec.json.decode(text, type=Analysis).kernels
    assert k.verdict.regime == whole.verdict.regime and [f.code for f in k.findings] == [f.code for f in whole.findings]
    assert len(k.hot) == golden.HOT and all(len(n.message) <= golden.MESSAGE + 1 for n in k.nvidia)


def test_rounding() -> None:
    given = {"a": [1.23456, 123456.0, 0.000123456], "b": 7, "c": None, "d": f"{ROOT}/fixtures/x", "hot": list(range(9))}
    expected = {"a": [1.23, 123000.0, 0.000123], "b": 7, "c": None, "d": "fixtures/x", "hot": [0, 1, 2, 3, 4]}
    assert golden.shortened(given) == expected


def test_the_tool_finds_drift(tmp_path: Path) -> None:
    files = {"a.json": json.dumps({"a": 1}), "a.txt": "text\n"}
    golden.write(tmp_path, files)
    assert golden.drift(tmp_path, files) == []
    (tmp_path / "a.txt").write_text("changed")
    (tmp_path / "gone.json").write_text("{}")
    assert golden.drift(tmp_path, {**files, "b.txt": "new"}) == ["a.txt", "b.txt", "gone.json"]
    golden.write(tmp_path, files)
    assert golden.drift(tmp_path, files) == [] and not (tmp_path / "gone.json").exists()
