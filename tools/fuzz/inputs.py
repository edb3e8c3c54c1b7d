"""(parser, seed, number) to an input: its files and the command that reads them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct

from tools.fuzz.corpus import Seed, seeds
from tools.fuzz.mutators import elf, json_text, packed, protobuf, raw, sass_text, sqlite, warp_trace

MUTATORS = {
    "kineto": json_text.mutate, "proton": warp_trace.mutate, "ktrace": warp_trace.mutate, "nsys": sqlite.mutate,
    "sass": sass_text.mutate, "ncu": protobuf.mutate, "cubin": elf.mutate,
}  # fmt: skip
PARSERS = (*MUTATORS, "packed", "folder")
SHARES = {
    "kineto": 0.22, "proton": 0.08, "ktrace": 0.14, "nsys": 0.16, "sass": 0.2, "ncu": 0.08, "cubin": 0.04,
    "packed": 0.06, "folder": 0.02,
}  # fmt: skip
"""Of all inputs: the slow ones, which start NVIDIA's programs, are few."""
NAMES = {
    "kineto": "trace.json", "proton": "trace.chrome_trace", "ktrace": "trace.ktrace", "nsys": "export.sqlite",
    "sass": "code.sass", "ncu": "report.ncu-rep", "cubin": "code.cubin",
}  # fmt: skip
FORMATS = ("text", "text", "json", "html", "llm", "md", "sarif")
REGULAR = ("text", "json", "html")


class Input(Struct, frozen=True):
    """files: name to content, in an empty folder; `fifo` and `link TARGET` are what they say. words: the arguments."""

    parser: str
    seed: int
    number: int
    files: Mapping[str, bytes | str]
    words: Sequence[str]


class Maker:
    """Inputs of one parser; its seeds, and those of the parsers that it packs and puts into folders, are read once."""

    def __init__(self, parser: str, seed: int, more: Path | None = None) -> None:
        self.parser, self.seed = parser, seed
        inner = {"packed": ("kineto", "ktrace", "nsys", "sass", "ncu"), "folder": ("kineto", "nsys", "ncu")}
        self._seeds = {one: seeds(one, more) for one in inner.get(parser, (parser,))}

    def make(self, number: int) -> Input:
        rng = random.Random(f"{self.parser} {self.seed} {number}")
        if self.parser == "folder":
            files, words = self._folder(rng)
        elif self.parser == "packed":
            files, words = self._packed(rng)
        else:
            files, words = self._plain(rng, self.parser, NAMES[self.parser])
        return Input(self.parser, self.seed, number, files, words)

    def _pick(self, rng: Random, parser: str) -> Seed:
        """Small seeds come more often: more inputs a second."""
        found = self._seeds[parser]
        return min(rng.choice(found), rng.choice(found), key=lambda s: len(s.data))

    def _plain(self, rng: Random, parser: str, name: str) -> tuple[dict[str, bytes | str], list[str]]:
        seed = self._pick(rng, parser)
        files: dict[str, bytes | str] = {name: mutated(rng, parser, seed.data)}
        if parser == "nsys" and rng.random() < 0.06:
            files[f"{name}-wal"] = rng.choice((b"", b"\0" * 64, raw.mutate(rng, seed.data[:4096])))
        other = f"before-{name}"
        words = command(rng, parser, name, other)
        if other in words:
            files[other] = seed.data
        return files, words

    def _packed(self, rng: Random) -> tuple[dict[str, bytes | str], list[str]]:
        parser = rng.choice(list(self._seeds))
        data = self._pick(rng, parser).data[:300_000]
        data = mutated(rng, parser, data) if rng.random() < 0.4 else data
        name = NAMES[parser]
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            suffix = rng.choice(packed.SUFFIXES)
            data = packed.pack(rng, data, suffix)
            name += suffix if rng.random() < 0.9 else rng.choice(packed.SUFFIXES)
        if rng.random() < 0.7:
            data = packed.mutate(rng, data)
        return {name: data}, command(rng, parser, name, name)

    def _folder(self, rng: Random) -> tuple[dict[str, bytes | str], list[str]]:
        files: dict[str, bytes | str] = {}
        for i in range(rng.randrange(2, 6)):
            parser = rng.choice(("kineto", "kineto", "nsys", "ncu"))
            seed = self._pick(rng, parser)
            where = rng.choice(("", "", "deep/er/", "\u202eodd\n/", ".hidden/"))
            data = seed.data if rng.random() < 0.4 else mutated(rng, parser, seed.data)
            files[f"runs/{where}{i}-{NAMES[parser]}"] = data
        for name, what in (
            ("pipe.json", "fifo"), ("gone.sqlite", "link nowhere"), ("loop.json", "link loop.json"), ("up", "link .."),
            ("device.json", "link /dev/zero"), ("empty.ncu-rep", b""), ("notes.json", b'{"a": 1}'),
        ):  # fmt: skip
            if rng.random() < 0.25:
                files[f"runs/{name}"] = what
        if rng.random() < 0.15:
            return files, ["diff", "runs", "runs", "--format", rng.choice(REGULAR)]
        return files, ["analyze", "runs", *rng.choice(([], ["-v"], ["--top", "2"])), "--format", rng.choice(FORMATS)]


def mutated(rng: Random, parser: str, data: bytes) -> bytes:
    """The data with faults. A mutator that falls over what it made itself leaves the work to the one of bytes."""
    try:
        return MUTATORS[parser](rng, data)
    except Exception:
        return raw.mutate(rng, data)


def command(rng: Random, parser: str, name: str, other: str) -> list[str]:
    """A command that reads this kind, and at times one that is not for it. other: of two files that are compared."""
    if rng.random() < 0.02:
        return rng.choice((["analyze", name], ["sass", name], ["trace", name], ["diff", name, name]))
    if parser in ("ktrace", "proton"):
        return ["trace", name, "--format", rng.choice(("text", "json", "chrome"))]
    if parser in ("sass", "cubin"):
        return _of_code(rng, name, other)
    if rng.random() < 0.12:
        gate = rng.choice(([], ["--fail-if-slower", "5"], ["--fail-if-slower", "0", "--allow-unmatched"]))
        return ["diff", *rng.choice(((other, name), (name, other))), *gate, "--format", rng.choice((*REGULAR, "md"))]
    if parser == "ncu" and rng.random() < 0.3:
        options = rng.choice((["--annotate"], ["--annotate"], ["--control"], []))
        return ["sass", name, *options, "--format", rng.choice(REGULAR)]
    gate = rng.choice(([], [], [], ["--fail-on", "major"], ["--fail-on", "gain>1.2"]))
    return ["analyze", name, *rng.choice(([], [], ["-v"])), *gate, "--format", rng.choice(FORMATS)]


def _of_code(rng: Random, name: str, other: str) -> list[str]:
    form = rng.choice(REGULAR)
    if rng.random() < 0.12:
        return rng.choice((
            ["sass", other, name, "--diff", "--format", form], ["diff", name, other, "--format", form],
            ["sass", other, name, "--diff", "--fail-on", "minor"],
        ))  # fmt: skip
    options = rng.choice((["--annotate"], ["--annotate"], ["--annotate"], ["--control", "--source"], [],
                          ["--fail-on", "minor"], ["--annotate", "--arch", "sm_90a"]))  # fmt: skip
    return ["sass", name, *options, "--format", form]
