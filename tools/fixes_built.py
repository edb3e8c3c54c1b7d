"""Pastes each change of our captures into its source as it is printed, compiles it, and asks `--check` whether the new
code has what was proposed.

    python tools/fixes_built.py [--case CASE] [--keep DIR]     (nvcc must be there; writes fixtures/fixes/built.toml)

Of a source file the kernel, what it calls and what stands at file scope are compiled; other kernels and the host's
functions are left out, as a change may ask the host for something else (a divisor, another launch).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kscope.engine.code.fixing import Subject, check, subjects  # noqa: E402
from kscope.engine.code.programs import sources_below  # noqa: E402
from kscope.model.contract.fixes import Checked, Fix  # noqa: E402
from kscope.model.errors import KscopeError  # noqa: E402
from tests.support import captures, reports  # noqa: E402
from tools.fixes_better import better_row, better_subject  # noqa: E402
from tools.fixes_pairs import digest  # noqa: E402

KERNELS = ROOT / "fixtures" / "kernels"
FILE = ROOT / "fixtures" / "fixes" / "built.toml"
FOLDERS = (KERNELS, KERNELS / "unseen")
TRACE = ROOT / "kscope" / "trace"  # a header that kernels with roles include
SWITCHES = ("-cubin", "-O3", "-std=c++17", "-lineinfo", "-arch=sm_90a", "-w")
_OTHER = re.compile(r"^\s*(?:template\s*<[^{}]*>\s*)?(?:struct|union|class|enum|namespace|using|typedef|extern)\b")

_CALLED = re.compile(r"\s*[A-Z_]+\s*\(", re.ASCII)  # CASE(..), a macro called at file scope: no semicolon ends it


def source_of(fix: Fix, case: str) -> Path | None:
    """The file that a change is about: of its lines, or of the capture."""
    names = {Path(e.file).name for e in fix.edits}
    if not names:
        table = captures.tables(reports.FIXTURES)[case]["kernel"]
        names = {Path(table["source"]).name} if str(table.get("source", "")).endswith(".cu") else set()
    if len(names) != 1:
        return None
    (name,) = names
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), None)


def to_paste(fix: Fix) -> bool:
    """Whether a change alters the kernel: a launch, a switch of the compiler, words for Triton do not."""
    own = bool(fix.edits) or fix.kind == "tile" or "instance" in fix.parameters
    return fix.language == "cuda" and not fix.refused and own


def pasted(text: str, fix: Fix, kernel: str) -> str:
    """A source with the lines changed and the functions to add where the change says, a whole kernel before the old
    one. Raises ValueError where a line is another one than the change says."""
    lines = text.split("\n")
    for edit in fix.edits:
        if lines[edit.line - 1].rstrip("\r") != edit.was:
            raise ValueError(f"line {edit.line} is another one")
        lines[edit.line - 1] = edit.becomes
    if fix.above:
        lines.insert(fix.above - 1, fix.code)
    new = "\n".join(lines)
    if fix.above or "{" not in fix.code:
        return new
    for start, end in chunks(new):
        if re.search(rf"\b{kernel}\s*\(", head_of(new[start:end])) and "__global__" in new[start:end]:
            return new[:start] + "\n" + fix.code + "\n" + new[start:]
    raise ValueError(f"no kernel {kernel}")


def chunks(text: str) -> list[tuple[int, int]]:
    """Spans of what stands at file scope: declarations, functions, lines of the preprocessor."""
    bare = blanked(text)
    out, depth, start, n = [], 0, 0, 0
    while n < len(bare):
        c = bare[n]
        if c == "#" and not bare[bare.rfind("\n", 0, n) + 1 : n].strip() and depth == 0:
            end = bare.find("\n", n)
            while end > 0 and bare[end - 1] == "\\":
                end = bare.find("\n", end + 1)
            n = len(bare) if end < 0 else end
            out.append((start, n))
            start = n
            continue
        depth += (c in "{(") - (c in "})")
        called = c == ")" and _CALLED.match(bare[start : n + 1])
        if depth == 0 and (called or c == ";" or (c == "}" and not re.match(r"\s*[;,]|\s*\w+\s*;", bare[n + 1 :]))):
            out.append((start, n + 1))
            start = n + 1
        n += 1
    return [*out, (start, len(text))]


def blanked(text: str) -> str:
    """A text whose comments, strings and characters are blanks; every place stays where it is."""
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def head_of(chunk: str) -> str:
    return blanked(chunk).partition("{")[0]


def alone(text: str, names: list[str]) -> str:
    """A source without the host's functions and without other kernels; what goes leaves its line ends."""
    out = []
    for start, end in chunks(text):
        chunk = text[start:end]
        bare = blanked(chunk)
        function = "{" in bare and "(" in head_of(chunk) and not bare.lstrip().startswith("#")
        if _CALLED.match(bare):
            chunk = re.sub(r"[^\n]", "", chunk)
        elif function and not _OTHER.match(bare) and "constexpr" not in head_of(chunk):
            other = "__global__" in bare and not any(re.search(rf"\b{n}\s*\(", head_of(chunk)) for n in names)
            if other or not re.search(r"__global__|__device__|\bDEV\b|#\s*define", bare):
                chunk = re.sub(r"[^\n]", "", chunk)
        out.append(chunk)
    return "".join(out)


def instance(name: str, kernel: str, new: str) -> str:
    """`void f<(int)2>(float*)` as `g<(int)2>`, g the new name; the plain name where there are no arguments."""
    at = re.search(rf"\b{kernel}\s*<", name)
    if at is None:
        return new
    depth, n = 1, at.end()
    while depth and n < len(name):
        depth += (name[n] == "<") - (name[n] == ">")
        n += 1
    return new + name[at.end() - 1 : n]


def compiled(text: str, folder: Path, name: str) -> tuple[Path | None, str]:
    """The cubin, or None and the compiler's first complaint."""
    source, cubin = folder / f"{name}.cu", folder / f"{name}.cubin"
    source.write_text(text, encoding="utf-8")
    command = ["nvcc", *SWITCHES, *(f"-I{f}" for f in (*FOLDERS, TRACE)), str(source), "-o", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == 0:
        return cubin, ""
    complaint = next((x for x in (done.stderr + done.stdout).splitlines() if "error" in x), "no word from nvcc")
    return None, complaint.replace(str(folder), "").lstrip("/")[:200]


def made(fix: Fix, kernel: str) -> str:
    """The kernel that a change makes beside the old one, the last where it makes several; else the old one's name."""
    names = re.findall(r"__global__[^;{}]*?\b(\w+)\s*\([^()]*\)\s*\{", fix.code) if fix.kind == "tile" else []
    return f"{kernel}_tiles" if f"{kernel}_tiles" in names else names[-1] if names else kernel


def build(case: str, old: Subject, fix: Fix, folder: Path) -> tuple[Path | None, str]:
    """The cubin of the kernel with a change."""
    file = source_of(fix, case)
    if file is None:
        return None, "its source is not here"
    kernel = old.setting.name
    new = made(fix, kernel)
    try:
        text = pasted(file.read_text("utf-8"), fix, kernel)
    except ValueError as error:
        return None, str(error)
    template = new == kernel or re.search(rf"\btemplate\s*<[^{{}};]*\b{new}\s*\(", fix.code)
    keep = instance(old.name, kernel, new) if template else new
    if "instance" in fix.parameters:
        keep = f"{new}<{fix.parameters['instance']}>"
    text = alone(text, [kernel, new]) + f"\nvoid* kept() {{ return (void*)&{keep}; }}\n"
    return compiled(text, folder, f"{case}.{fix.kind}")


def lines_of(name: str) -> Any:
    above, below = (sources_below(folder) for folder in FOLDERS)
    return above(name) or below(name)


def one(case: str, folder: Path, kind: str = "") -> list[dict[str, Any]]:
    """Rows of a capture: each change that alters its kernel (of one kind alone, where it is said), whether it compiles,
    what `--check` says of it."""
    (old, *_) = subjects(str(reports.fixture(case)), None, lines_of)
    rows = []
    label = captures.labels(captures.tables(reports.FIXTURES))[case]
    held = (label.get("fixed") or label.get("next")) in captures.tables(reports.FIXTURES)
    better = None if held else better_subject(case, old, folder)
    seen: set[tuple[str, str]] = set()
    for finding in old.findings:
        for fix in finding.fixes:
            if not to_paste(fix) or (finding.code, fix.kind) in seen or kind not in ("", fix.kind):
                continue
            seen.add((finding.code, fix.kind))
            row: dict[str, Any] = {"case": case, "rule": finding.code, "kind": fix.kind}
            cubin, complaint = build(case, old, fix, folder)
            if cubin is None:
                rows.append(row | {"has": "no build", "what": complaint})
                continue
            said = _checked(old, finding.code, fix, cubin)
            rows.append(row | said | (better_row(better, fix, finding.code) if better is not None else {}))
    return rows


def _checked(old: Subject, code: str, fix: Fix, cubin: Path) -> dict[str, Any]:
    import msgspec

    finding = next(f for f in old.findings if f.code == code)
    only = msgspec.structs.replace(finding, fixes=[fix])
    before = Subject(old.name, old.setting, [only], old.us)
    try:
        after = subjects(str(cubin), None, lines_of)
        found: list[Checked] = check([before], after, code)
    except KscopeError as error:
        return {"has": "unknown", "what": str(error)}
    (said,) = found
    words = {"has": said.has, "what": said.what or "its code does not show it", "old": said.old, "new": said.new}
    mine = [s for s in after if re.search(rf"\b({old.setting.name}|{made(fix, old.setting.name)})\b", s.name)]
    return words | ({"code": digest(mine[0].setting)} if len(mine) == 1 else {})


def written(rows: list[dict[str, Any]]) -> str:
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"V([\d.]+)", version)
    out = [
        "# Written by tools/fixes_built.py: changes pasted into fixtures/kernels as printed, compiled for sm_90a, and",
        "# what `kscope fix REPORT --check NEW.cubin` says of the new code.", "",
        f'nvcc = "{release[1] if release else ""}"', "",
    ]  # fmt: skip
    for row in sorted(rows, key=lambda r: (r["case"], r["rule"], r["kind"])):
        out.append("[[built]]")
        for key, value in row.items():
            words = str(value).replace("\\", "/").replace('"', "'")
            out.append(f"{key} = {value:g}" if isinstance(value, (int, float)) else f'{key} = "{words}"')
        out.append("")
    return "\n".join(out)


def cases() -> list[str]:
    tables = captures.tables(reports.FIXTURES)
    return [c for c, label in captures.labels(tables).items() if label.get("fixed") or label.get("next")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    args = parser.parse_args()
    if shutil.which("nvcc") is None:
        sys.exit("nvcc is not here: it compiles the changed sources")
    known = tomllib.loads(FILE.read_text("utf-8"))["built"] if FILE.exists() and args.case else []
    rows: list[dict[str, Any]] = [r for r in known if r["case"] not in (args.case or ())]
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for case in args.case or cases():
            mine = one(case, folder)
            rows += mine
            for row in mine:
                print(*row.values(), sep=" | ", flush=True)
    FILE.write_text(written(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
