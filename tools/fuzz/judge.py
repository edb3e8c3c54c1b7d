"""What of a command's end is a finding: whatever the contract, or the promises of SECURITY.md, do not have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tools.fuzz.child import MEMORY, Ended
from tools.fuzz.inputs import Input

FINE = (0, 1, 2, 3, 4)
_MEMORY = b"asks for more memory than there is"
_OURS = ("kscope: ", "FAIL ", '{"error":', "Usage: ", "Try ", "Error: ", "Wrote ", "skipped ")
_FENCED = re.compile(rb"\b([A-Z]\w*(?:Error|Exception|Iteration|Warning))\b(?:: |\))", re.MULTILINE)


def findings(one: Input, ended: Ended) -> list[tuple[str, str]]:
    """(kind, what was seen) of everything that must not be; empty for an end as promised."""
    found: list[tuple[str, str]] = []
    last = ended.errors.decode("utf-8", "replace").strip().split("\n")[-1]
    if ended.late:
        found.append(("time", f"still running after {ended.wall:.0f} s, {ended.cpu:.0f} s of CPU"))
    elif ended.status < 0:
        found.append(("signal", f"died of signal {-ended.status}"))
    elif ended.status not in FINE:
        found.append(("status", f"exit {ended.status}: {last}"))
    if ended.memory * 1024 > MEMORY or _MEMORY in ended.errors or _MEMORY in ended.out:
        found.append(("memory", f"{ended.memory >> 10} MiB: {last}"))
    if ended.orphans:
        found.append(("orphan", f"{ended.orphans} processes were left"))
    if ended.left and not ended.late:  # whoever is killed cannot clear up
        found.append(("leftover", " ".join(ended.left)))
    if not ended.late and ended.status in FINE:
        found += [("output", fault) for fault in _of_output(one, ended)]
    return found


def contained(ended: Ended) -> str:
    """The exception of kscope itself that a fence or a rule's frame caught, as the output names it, "" for none: no
    finding, and still worth a look."""
    match = _FENCED.search(ended.errors + b"\n" + ended.out)
    return match[1].decode() if match else ""


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _of_output(one: Input, ended: Ended) -> Iterator[str]:
    for name, data in (("standard output", ended.out), ("standard error", ended.errors)):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            yield f"{name} is not UTF-8"
            continue
        if "Traceback (most recent call last)" in text:
            yield f"a traceback on {name}: {text.strip().splitlines()[-1]}"
        page = text.startswith("<!doctype html>")  # its script and style have what they need
        if odd := sorted({c for c in text if c != "\n" and not (page and c > "\x9f") and not c.isprintable()}):
            yield f"characters that nobody sees on {name}: {odd[:5]!a}"
    lines = ended.errors.decode("utf-8", "replace").splitlines()
    for line in lines:
        if not line.startswith(_OURS) and not any(seen.startswith("Usage: ") for seen in lines):
            yield f"a line that is not ours on standard error: {line[:200]}"
    if ended.status in (2, 3, 4) and not lines:
        yield f"exit {ended.status} without a word"
    if ended.status == 3 and len([line for line in lines if not line.startswith(("FAIL ", "kscope: skipped "))]) > 1:
        yield f"exit 3 with {len(lines)} lines"
    form = one.words[one.words.index("--format") + 1] if "--format" in one.words else ""
    if form in ("json", "sarif", "chrome") and ended.out:
        try:
            json.loads(ended.out, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            yield f"the JSON cannot be read: {error}"
    if ended.status in (0, 1) and not ended.out:
        yield "nothing on standard output"
