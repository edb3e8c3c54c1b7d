"""Pictures, notebooks and tables."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kscope.model.contract.analysis import Analysis
from tests.cli.running import kscope
from tests.support import traces
from tests.support.reports import fixture


@pytest.mark.parametrize("case", ["sgemm.blocktile2d", "bank_conflict.slow"])
def test_svg(case: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "p.svg"
    done = kscope("analyze", str(fixture(case)), "--plot", str(out))
    assert done.returncode == 0, done.stderr
    assert "Wrote" in done.stderr
    assert done.stdout.strip(), "the report itself is still written"
    assert ElementTree.parse(out).getroot().tag.endswith("svg")


def test_png_of_a_recording(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "p.png"
    done = kscope("analyze", str(traces.path("train_step")), "--plot", str(out))
    assert done.returncode == 0, done.stderr
    assert out.read_bytes().startswith(b"\x89PNG")
    again = kscope("analyze", str(traces.path("train_step")), "--plot", str(out))
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_unknown_picture_is_refused_before_the_work() -> None:
    done = kscope("analyze", "/no/such/report.ncu-rep", "--plot", "p.gif")
    assert done.returncode == 2
    assert ".svg" in done.stderr


def test_without_matplotlib(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'matplotlib' else find(n, *a)\n"
        f"from kscope.cli.main import main; main(['analyze', {str(fixture('bank_conflict.slow'))!r}, '--plot', "
        f"{str(tmp_path / 'p.svg')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_analyze_without_plot_imports_no_matplotlib() -> None:
    code = (
        "import sys\ntry:\n    from kscope.cli.main import main\n"
        f"    main(['analyze', {str(fixture('bank_conflict.slow'))!r}, '--format', 'html'])\n"
        "except SystemExit: pass\n"
        "heavy = {m.partition('.')[0] for m in sys.modules} & {'matplotlib', 'pandas', 'numpy'}\n"
        "print('HEAVY', *heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().endswith("HEAVY"), done.stderr[-300:]


def test_notebook(analysis: Callable[[str], Analysis]) -> None:
    one = analysis("bank_conflict.slow")
    text = one._repr_html_()
    assert "MEM103" in text
    assert "transpose_tile" in text
    assert "<script" not in text
    hostile = msgspec.structs.replace(one.kernels[0], demangled="<img src=x onerror=alert(1)>")
    assert "<img" not in msgspec.structs.replace(one, kernels=[hostile])._repr_html_()


def test_dataframe(analysis: Callable[[str], Analysis]) -> None:
    pytest.importorskip("pandas")
    table = analysis("multi_kernels").to_dataframe()
    assert len(table) == len(analysis("multi_kernels").kernels)
    assert list(table.total_us) == sorted(table.total_us, reverse=True)
    first = table.iloc[0]
    kernel = next(k for k in analysis("multi_kernels").kernels if k.id == first.id)
    assert (first.regime, first.limiter) == (kernel.verdict.regime, kernel.verdict.limiter)
    assert first.first_rule == next(f.code for f in kernel.findings if f.severity != "info")


def test_dataframe_of_nothing() -> None:
    pytest.importorskip("pandas")
    table = Analysis(kscope="0").to_dataframe()
    assert table.empty
    assert "regime" in table.columns


@pytest.mark.parametrize("case", ["sgemm.blocktile2d", "qk.float", "small_grid.slow"])
def test_marks_of_suggestions_do_not_overlap(case: str) -> None:
    """Nor does the legend lie on what is drawn."""
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from kscope.engine.run import analyze_paths
    from kscope.model.contract.detail import Detail
    from kscope.reports import plot

    detail = Detail()
    figure = plot._kernels(analyze_paths([fixture(case)], detail=detail).kernels, detail)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    axes = figure.axes[0]
    marks = [t.get_bbox_patch().get_window_extent() for t in axes.texts if t.get_text().isdigit()]
    assert len(marks) >= 2
    for i, one in enumerate(marks):
        assert not any(one.overlaps(other) for other in marks[i + 1 :])
        assert axes.get_window_extent().contains(one.x0, one.y0) and axes.get_window_extent().contains(one.x1, one.y1)
    assert not axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())
