"""The better version of a pair that was timed and not captured: its kernel compiled from the source as it is, for what
the code alone shows of it.

    from tools.fixes_better import better_row

Which kernel a case starts is read from its CASE line, with the file's macros put in (cpp must be there).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from kscope.engine.code.fixing import Subject, subjects
from kscope.fixes.given.setting import Setting
from kscope.fixes.left import left
from kscope.model.contract.fixes import Fix
from tests.support import captures, reports
from tools.fixes_pairs import digest

_MARK = "CASE_HERE"


def launched(source: Path, case: str) -> str:
    """`kernel` or `kernel<arguments>` of what a case starts; "" where its text does not say."""
    program, _, variant = case.partition(".")
    text = re.sub(r"(?m)^\s*#\s*include.*$", "", source.read_text("utf-8"))
    if shutil.which("cpp") is None:
        return ""
    command = ["cpp", "-P", "-w", f"-DCASE(NAME,VARIANT,...)={_MARK} NAME VARIANT __VA_ARGS__", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    found = re.search(rf"{_MARK} {program} {variant} (.*?)(?={_MARK}|__global__|\Z)", done.stdout, re.DOTALL)
    body = found[1] if found is not None else ""
    start = re.search(r"(?:\bk\s*=\s*|[{;]\s*)(\w+(?:\s*<[^<>]*>)?)\s*(?:;[^}]*?\bk)?<<<", body)
    return re.sub(r"\s+", "", start[1]) if start is not None else ""


def better_subject(case: str, old: Subject, folder: Path) -> Subject | None:
    """The kernel of the better version of a case, taken for launched in the old one's blocks; None where it does not
    compile alone."""
    from tools.fixes_built import FOLDERS, alone, compiled, lines_of

    tables = captures.tables(reports.FIXTURES)
    label = captures.labels(tables)[case]
    better = label.get("fixed") or label.get("next")
    name = Path(str(tables[case]["kernel"].get("source", ""))).name
    source = next((f / name for f in FOLDERS if (f / name).is_file()), None)
    if source is None or better is None or not name.endswith(".cu"):
        return None
    instance = launched(source, better)
    kernel = instance.partition("<")[0]
    if not kernel:
        return None
    text = alone(source.read_text("utf-8"), [kernel]) + f"\nvoid* kept() {{ return (void*)&{instance}; }}\n"
    cubin, _ = compiled(text, folder, f"{case}.better")
    found = [s for s in subjects(str(cubin), None, lines_of) if re.search(rf"\b{kernel}\b", s.name)] if cubin else []
    if len(found) != 1:
        return None
    (one,) = found
    launch = old.setting.launch
    setting = Setting(one.setting.code, one.setting.lines, launch, one.setting.name, instance=one.setting.instance)
    return Subject(one.name, setting, (), None)


def better_row(one: Subject, fix: Fix, rule: str) -> dict[str, Any]:
    """What its code shows: its instructions by opcode, how much it has of what the change takes away."""
    row: dict[str, Any] = {"better_code": digest(one.setting)}
    now = left(fix.kind, one.setting, rule)
    return row | ({"better_new": now[1]} if now is not None else {})
