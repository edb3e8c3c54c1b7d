"""Are verdicts right on recordings of strangers: Nsight Systems' exports and traces of the torch profiler?

    python tools/recordings.py FOLDER [--labels LABELS.toml] [--out PAGE.md] [--each]

FOLDER holds recordings that you fetched, under any name (tools/recordings.toml says whose they are and where they lie);
they are found by the sha256 of their content, unpacked. A recording is right where its verdict is among those of its
label; abstained where kscope says why the recording does not tell although the label names a verdict; wrong otherwise:
a verdict that the label does not have, one where the recording tells nothing, or a file that cannot be read. What only
a second look allows (`later`) counts as wrong, and apart. --each: a line a recording, else those that are not right.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from kscope.engine.run import analyze_paths  # noqa: E402
from kscope.model.contract.job import JobAnalysis  # noqa: E402
from kscope.model.contract.timeline_analysis import TimelineAnalysis  # noqa: E402
from kscope.model.errors import KscopeError  # noqa: E402

LABELS = HERE / "recordings.toml"
VERDICTS = ("compute", "memory", "launch", "host", "synchronization", "transfer", "communication")
ABSTAIN = "abstain"
TIMES = ("before", "after")
SUFFIXES = (".json", ".sqlite", ".gz", ".xz")
ENOUGH = 0.9  # share of recordings on which nothing wrong may be said


class Judged(msgspec.Struct, frozen=True):
    """One recording. held: right, abstained or wrong. said: the verdict in one word; sentence: in full, or why there is
    none."""

    label: dict[str, Any]
    held: str
    said: str
    sentence: str

    @property
    def looked_up(self) -> bool:
        """Wrong by a second look too."""
        return self.held == "wrong" and self.said not in self.label.get("later", [])


def content_hash(path: Path) -> str:
    """The sha256 of a file's content, unpacked. Raises OSError, EOFError or LZMAError for what is damaged."""
    with path.open("rb") as file:
        magic = file.read(6)
    unpack: Any = gzip.open if magic[:2] == b"\x1f\x8b" else lzma.open if magic == b"\xfd7zXZ\0" else open
    digest = hashlib.sha256()
    with unpack(path, "rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def said(found: TimelineAnalysis | JobAnalysis) -> str:
    """The verdict in one of VERDICTS, or ABSTAIN."""
    if found.verdict is None:
        return ABSTAIN
    return found.verdict.limiter if found.verdict.regime == "overhead" else found.verdict.regime


def judge(label: dict[str, Any], word: str) -> str:
    if word in label["right"]:
        return "right"
    return "abstained" if word == ABSTAIN else "wrong"


def judged(folder: Path, labels: Sequence[dict[str, Any]]) -> Iterator[Judged]:
    """Each labelled recording that is under `folder`, once."""
    wanted = {label["sha256"]: label for label in labels}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES and p.is_file()):
        try:
            label = wanted.pop(content_hash(path), None)
        except (OSError, EOFError, lzma.LZMAError):
            continue
        if label is None:
            continue
        try:
            found = analyze_paths([path])
        except KscopeError as fault:
            yield Judged(label, "wrong", "refused", str(fault).replace(str(path), path.name))
            continue
        one = found.jobs[0] if found.jobs else found.timelines[0]  # the processes of one file may be ranks of a job
        word = said(one)
        sentence = one.verdict.sentence if one.verdict else one.abstained
        yield Judged(label, judge(label, word), word, sentence)


def share(rows: Sequence[Judged], held: str) -> str:
    count = sum(r.held == held for r in rows)
    return f"{count} ({count / len(rows):.0%})" if rows else "-"


def table(rows: Sequence[Judged]) -> list[str]:
    """A line a recording, then how many of those judged before and after kscope had read them are right."""
    lines = ["| recording | judged | right would be | verdict | |", "|---|---|---|---|---|"]
    for r in sorted(rows, key=lambda r: (r.label["repository"], r.label["path"])):
        name = f"{r.label['repository']}: {r.label['path'].rsplit('/', 1)[-1]}"
        lines.append(f"| {name} | {r.label['judged']} | {', '.join(r.label['right'])} | {r.said} | {r.held} |")
    lines += ["", "| label | recordings | right | abstained | wrong | wrong, looked up |", "|---" + "|---:" * 5 + "|"]
    for title, some in [
        *((f"written {time} the first analysis", [r for r in rows if r.label["judged"] == time]) for time in TIMES),
        ("names a verdict", [r for r in rows if ABSTAIN not in r.label["right"]]),
        ("all", list(rows)),
    ]:
        cells = " | ".join(share(some, held) for held in ("right", "abstained", "wrong"))
        lines.append(f"| {title} | {len(some)} | {cells} | {sum(r.looked_up for r in some)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--each", action="store_true")
    args = parser.parse_args()
    labels = tomllib.loads(args.labels.read_text(encoding="utf-8"))["recording"]
    rows = list(judged(args.folder, labels))
    if not rows:
        sys.exit(f"{args.folder}: none of the {len(labels)} labelled recordings is there")
    lines = table(rows)
    print("\n".join(lines))
    for r in rows:
        if args.each or r.held != "right":
            print(f"{r.held:9} {r.label['repository']} {r.label['path'][-60:]}: {r.said}: {r.sentence}")
            print(f"          {', '.join(r.label['right'])}: {r.label['why']}")
    missing = len(labels) - len(rows)
    print(f"{len(rows)} recordings{f', {missing} labelled ones are not in {args.folder}' if missing else ''}")
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if sum(r.held != "wrong" for r in rows) < ENOUGH * len(rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
