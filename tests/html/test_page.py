"""The file itself: self-contained, escaped, within its budgets, current. No browser needed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscope.model.contract.analysis import Analysis
from kscope.reports import Options, render
from kscope.reports.html.page import ASSETS, embed
from tests.support.reports import fixture

FRONTEND = Path(__file__).resolve().parents[2] / "reports" / "frontend"
BUDGET = 400_000


def payload(text: str) -> Any:
    """What the front end reads."""
    (found,) = re.findall(r'<script type="application/json" id="kscope-data">(.*?)</script>', text, re.S)
    packed = json.loads(found)
    return json.loads(zlib.decompress(base64.b64decode(packed["data"])))


def test_one_file_without_addresses(written: Callable[[str], Path]) -> None:
    text = written("bank_conflict.slow").read_text("utf-8")
    assert len(re.findall(r"<script", text)) == 2
    for tag in ("<link", "<img", "<iframe", "<object", "src=", "@import", "url(http"):
        assert tag not in text.replace("url(#", ""), tag


def test_policy_names_what_is_in_the_file(written: Callable[[str], Path]) -> None:
    text = written("bank_conflict.slow").read_text("utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.S)
    for body in (script, style):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_size_without_the_data(written: Callable[[str], Path]) -> None:
    text = written("bank_conflict.slow").read_text("utf-8")
    bare = re.sub(r'(id="kscope-data">).*?(</script>)', r"\1\2", text, flags=re.S)
    assert len(bare.encode()) <= BUDGET


@pytest.mark.parametrize("case", ["bank_conflict.slow", "spill.slow", "multi_kernels"])
def test_size_of_the_data(case: str, written: Callable[[str], Path], report: Callable[[str], Path]) -> None:
    text = written(case).read_text("utf-8")
    (data,) = re.findall(r'id="kscope-data">(.*?)</script>', text, re.S)
    assert len(data) <= 0.15 * report(case).stat().st_size


def test_data_is_the_analysis(written: Callable[[str], Path], analysis: Callable[[str], Analysis]) -> None:
    data = payload(written("bank_conflict.slow").read_text("utf-8"))
    assert data["analysis"] == json.loads(msgspec.json.encode(analysis("bank_conflict.slow")))
    code = data["detail"]["kernels"][0]["code"]
    count = len(code["pcs"])
    columns = ("sass", "file", "line", "samples", "executed", "lanes", "loop")
    assert {len(code[c]) for c in columns} == {count}
    assert sum(code["samples"]) > 1000
    hot = data["analysis"]["kernels"][0]["hot"][0]
    at = code["pcs"].index(hot["pc"])
    assert code["sass"][at] == hot["sass"]
    assert code["samples"][at] / sum(code["samples"]) == pytest.approx(hot["share"], abs=1e-4)


def test_embedded_json_cannot_end_its_element() -> None:
    text = embed({"name": "</script><!--<script>\u2028&"})
    assert not set("<>&\u2028\u2029") & set(text)


def test_hostile_names_are_escaped_in_the_static_part(analysis: Callable[[str], Analysis]) -> None:
    one = analysis("bank_conflict.slow")
    name = "</script><img src=x onerror=alert(1)>"
    kernel = msgspec.structs.replace(one.kernels[0], name=name, demangled=name)
    text = render("html", msgspec.structs.replace(one, kernels=[kernel]), Options())
    assert "<img" not in text
    assert "&lt;img" in text
    assert payload(text)["analysis"]["kernels"][0]["name"] == name


def test_works_without_detail(analysis: Callable[[str], Analysis]) -> None:
    assert payload(render("html", analysis("bank_conflict.slow"), Options()))["detail"] == {}


def test_a_name_that_is_not_unicode(analysis: Callable[[str], Analysis]) -> None:
    one = msgspec.structs.replace(analysis("bank_conflict.slow"), kscope="\udcff")
    assert payload(render("html", one, Options()))["analysis"]["kscope"] == "?"


def test_assets_are_current() -> None:
    """The committed assets were built from the sources beside them."""
    digest = hashlib.sha256()
    for path in sorted((FRONTEND / "src").iterdir(), key=lambda p: p.name):
        digest.update(f"{path.name}\0{path.read_text('utf-8')}\0".encode())
    built = json.loads((ASSETS / "sources.json").read_text("utf-8"))
    assert built["sha256"] == digest.hexdigest(), "run `make frontend`"
    for name in ("report.js", "report.css"):
        assert built[name] == hashlib.sha256((ASSETS / name).read_bytes()).hexdigest(), f"{name} was edited by hand"


def test_types_are_those_of_the_model() -> None:
    """reports/frontend/src/schema.ts is what tools/frontend_types.py makes of kscope.model."""
    done = subprocess.run([sys.executable, FRONTEND.parents[1] / "tools" / "frontend_types.py", "--check"], timeout=60)
    assert done.returncode == 0, "run `make frontend`"


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((FRONTEND / "package-lock.json").read_text("utf-8"))
    named = json.loads((FRONTEND / "package.json").read_text("utf-8"))["devDependencies"]
    assert lock["packages"][""]["devDependencies"] == named
    others = [entry for path, entry in lock["packages"].items() if path]
    assert others and all(entry["integrity"] and "resolved" not in entry for entry in others)


def test_assets_are_what_the_sources_build() -> None:
    if shutil.which("node") is None or not (FRONTEND / "node_modules" / "esbuild").exists():
        pytest.skip("node or reports/frontend/node_modules is not here: make frontend")
    done = subprocess.run(["node", "build.mjs", "--check"], cwd=FRONTEND, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_command(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    command = [sys.executable, "-m", "kscope", "analyze", str(fixture("bank_conflict.slow")), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert payload(out.read_text("utf-8"))["detail"]["kernels"][0]["occupancy"]["steps"]
