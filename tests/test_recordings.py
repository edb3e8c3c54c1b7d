"""The judge of public recordings (tools/recordings.py), on our own: the recordings themselves are not ours."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support import traces

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import recordings  # noqa: E402 - tools/ is no package

LABELS: list[dict[str, Any]] = tomllib.loads(recordings.LABELS.read_text(encoding="utf-8"))["recording"]


def label(name: str, *right: str) -> dict[str, Any]:
    return {"repository": "a/b", "path": f"{name}.json", "sha256": hashlib.sha256(traces.plain(name)).hexdigest(),
            "right": list(right), "why": "so", "judged": "before"}  # fmt: skip


def test_labels_are_whole_and_of_many_programs() -> None:
    assert len(LABELS) >= 40 and len({one["repository"] for one in LABELS}) >= 20
    assert len({one["sha256"] for one in LABELS}) == len(LABELS)
    for one in LABELS:
        assert one["right"] and set(one["right"]) <= {*recordings.VERDICTS, recordings.ABSTAIN}
        assert not set(one.get("later", [])) & set(one["right"])
        assert one["judged"] in recordings.TIMES and one["why"] and len(one["sha256"]) == 64
        assert len(one["commit"]) == 40 and one["path"]


def test_found_by_what_it_holds_whatever_packs_it(tmp_path: Path) -> None:
    data = traces.plain("launch_bound")
    (tmp_path / "a.json").write_bytes(data)
    (tmp_path / "b.gz").write_bytes(gzip.compress(data))
    (tmp_path / "c.xz").write_bytes(lzma.compress(data))
    wanted = hashlib.sha256(data).hexdigest()
    assert {recordings.content_hash(p) for p in tmp_path.iterdir()} == {wanted}
    (tmp_path / "d.gz").write_bytes(gzip.compress(data)[:1000])  # damaged: not one of them, and no end of the run
    rows = list(recordings.judged(tmp_path, [label("launch_bound", "launch")]))
    assert [(r.said, r.held) for r in rows] == [("launch", "right")]


@pytest.mark.parametrize(
    ("right", "held"),
    [(["launch"], "right"), (["host", "launch"], "right"), (["compute"], "wrong"), (["abstain"], "wrong")],
)
def test_right_and_wrong(right: list[str], held: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(traces.plain("launch_bound"))
    (row,) = recordings.judged(tmp_path, [label("launch_bound", *right)])
    assert row.held == held and row.looked_up == (held == "wrong") and "OVERHEAD-BOUND on launches" in row.sentence
    (row,) = recordings.judged(tmp_path, [label("launch_bound", *right) | {"later": ["launch"]}])
    assert row.held == held and not row.looked_up


def test_no_verdict_where_one_was_there_is_abstained(tmp_path: Path) -> None:
    few = traces.trace(tmp_path, traces.launch(1, 0, 10, 5), "few.json")
    told = {"sha256": hashlib.sha256(few.read_bytes()).hexdigest()}
    (row,) = recordings.judged(tmp_path, [label("launch_bound", "launch") | told])
    assert (row.said, row.held) == ("abstain", "abstained") and "one GPU operation" in row.sentence
    (row,) = recordings.judged(tmp_path, [label("launch_bound", "abstain") | told])
    assert row.held == "right"
    lines = recordings.table([row])
    assert "| written before the first analysis | 1 | 1 (100%) | 0 (0%) | 0 (0%) | 0 |" in lines


def test_what_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"nothing": 1}')
    told = {"sha256": hashlib.sha256(bad.read_bytes()).hexdigest()}
    (row,) = recordings.judged(tmp_path, [label("launch_bound", "abstain") | told])
    assert (row.said, row.held) == ("refused", "wrong") and str(tmp_path) not in row.sentence
