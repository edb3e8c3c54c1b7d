"""Small fleets made of captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import make_fleet


@pytest.fixture(scope="session", autouse=True)
def extra() -> None:
    """The libraries of the extra `fleet`."""
    for name in ("pyarrow", "duckdb", "fsspec"):
        pytest.importorskip(name)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One kernel in eight nights, which changes in the fifth; two more in the first three, two reports damaged."""
    out = tmp_path_factory.mktemp("fleet") / "reports"
    pair = make_fleet.base("triton_matmul.stage4"), make_fleet.base("triton_matmul.stage1")
    for night in range(8):
        folder = out / f"date=2026-06-{night + 1:02}" / "job=nightly" / f"commit=c{night}"
        folder.mkdir(parents=True)
        when = 1_780_000_000 + 86_400 * night
        (folder / "matmul.ncu-rep").write_bytes(pair[night >= 4].made(when, 1 + 0.002 * (night % 3), None))
        for number, case in enumerate(("tile_sum.lanes", "gather.records") if night < 3 else (), start=1):
            data = make_fleet.base(case).made(when + number, 1 + 0.003 * ((night * 7) % 4), None)
            data = data[:300_000] if (night, number) in ((1, 1), (2, 2)) else data
            (folder / f"{case}.ncu-rep").write_bytes(data)
    return out
