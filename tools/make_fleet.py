"""A synthetic fleet: reports of many nights, made from the captures by rewriting their numbers in place.

    python tools/make_fleet.py OUT [--reports N] [--nights N] [--seed N] [--plain]

Every night each series (a kernel with a shape) is profiled once: OUT/date=DAY/job=JOB/commit=HASH/SERIES.ncu-rep.zst.
A report is a capture whose recording time, launch grid and time (with rates and cycles that go with it) are changed
where they stand, so each is a whole report with bytes of its own. Times scatter by 1 % (log-normal; what repeated
captures on one machine do). One series in ten gets slower on one night, by 12 % to 60 %: by time alone, by other code
or by other data (real captures both); one in twenty gets faster. One report in a hundred is damaged. OUT/truth.json
says what was planted.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import random
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kscope.parsers.files.ncu_container import varint  # noqa: E402
from tests.support.reports import parts, plain  # noqa: E402

CASES = (
    "tile_sum.lanes", "tile_sum.elected", "gather.records", "row_stats.warp", "row_stats.thread", "hash.rounds",
    "permute_rows.rows", "pairs.rows", "nearest.plain", "dmma.chain", "moe_list.each", "bags.sentinel",
    "paged_kv.chunks", "triton_rowsum.along", "triton_rowsum.down", "nf4.constant", "hamming.vector", "signal_max.one",
)  # fmt: skip
SWAPS = (
    ("triton_matmul.stage4", "triton_matmul.stage1", "code"), ("interpret.sorted", "interpret.as_they_come", "data"),
)  # fmt: skip
"""Captures of one kernel and shape, the second slower: by other code of the same name, by other data."""
FIRST = datetime.date(2026, 6, 1)
NOISE, SLOWER, FASTER, DAMAGED = 0.01, 0.10, 0.05, 0.01
SHAPES = (128, 264, 528, 1056, 2112, 4224, 8448, 16128)
"""Blocks along x: numbers that take two bytes in the report, whatever they are."""
GRID = (b"launch__grid_size", b"launch__grid_dim_x")


class Base:
    """A capture, and where its numbers stand."""

    def __init__(self, case: str) -> None:
        self.data = plain(case)
        self.case = case
        self.times: list[tuple[int, str]] = []
        self.grids: list[int] = []
        self.blocks = 0
        self.clock = -1
        _, blocks = parts(self.data)
        for block, _ in blocks:
            head = list(fields(self.data, block.start + 4, block.payload))
            if block is blocks[0][0]:
                self.clock = next(at for field, _, at, _ in fields(self.data, *span(head, 3)) if field == 2)
            if block.results == 1:
                table = fields(self.data, *span(head, 4))
                names = [self.data[a:b] for field, kind, a, b in table if (field, kind) == (1, 2)]
                size = struct.unpack_from("<I", self.data, block.payload)[0]
                self._result(names, block.payload + 4, block.payload + 4 + size)
        assert self.clock > 0 and self.times

    def _result(self, names: list[bytes], start: int, end: int) -> None:
        sizes: dict[bytes, set[int]] = {}
        for field, kind, a, b in fields(self.data, start, end):
            if field != 13 or kind != 2:
                continue
            inside = list(fields(self.data, a, b))
            name = names[varint(self.data, inside[0][2])[0]]
            for _, _, at, stop in [one for one in inside if one[0] == 2 and one[1] == 2]:
                if (how := scaling(name)) and stop - at == 9 and self.data[at] == 0x19:
                    self.times.append((at + 1, how))
            if name in GRID:
                found = [at + 1 for at in range(a, b - 2) if self._is_grid(at, b)]
                sizes[name] = {varint(self.data, at)[0] for at in found}
                self.grids += found
        if len(sizes) < 2 or any(len(s) != 1 for s in sizes.values()) or len(set.union(*sizes.values())) != 1:
            self.grids = []  # blocks along y and z too, or so few that the number takes one byte
        self.blocks = min(set.union(*sizes.values())) if self.grids else 0

    def _is_grid(self, at: int, end: int) -> bool:
        """A number of two bytes: all of a grid along x have the capture's, which is not 0."""
        return self.data[at] == 0x28 and self.data[at + 1] >= 0x80 and self.data[at + 2] < 0x80 and at + 2 < end

    def made(self, when: int, factor: float, blocks: int | None) -> bytes:
        """A report recorded at `when` (s since 1970) whose kernel took `factor` times as long on `blocks` blocks."""
        out = bytearray(self.data)
        out[self.clock : self.clock + 5] = packed(when, 5)
        for at, how in self.times:
            value = struct.unpack_from("<d", out, at)[0]
            struct.pack_into("<d", out, at, value * factor if how == "times" else value / factor)
        for at in self.grids if blocks else ():
            out[at : at + 2] = packed(blocks or 0, 2)
        return bytes(out)


def fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(field, wire type, offset of the value, end) of a protobuf message."""
    at = start
    while at < end:
        tag, at = varint(data, at)
        if tag & 7 == 0:
            stop = varint(data, at)[1]
        elif tag & 7 == 2:
            size, at = varint(data, at)
            stop = at + size
        else:
            stop = at + {1: 8, 5: 4}[tag & 7]
        yield tag >> 3, tag & 7, at, stop
        at = stop


def span(message: list[tuple[int, int, int, int]], wanted: int) -> tuple[int, int]:
    return next((a, b) for field, kind, a, b in message if (field, kind) == (wanted, 2))


def packed(value: int, size: int) -> bytes:
    """A protobuf number of exactly so many bytes."""
    assert value < 1 << 7 * size
    return bytes((value >> 7 * i & 0x7F) | (0x80 if i < size - 1 else 0) for i in range(size))


def scaling(name: bytes) -> str:
    """How a metric follows the kernel's time: "times", "over" or "" (not)."""
    if name.startswith(b"gpu__time_duration"):
        return "times"
    if b"cycles_elapsed" in name:
        return "" if b"per_second" in name else "times"
    return "over" if name.endswith((b".per_second", b"pct_of_peak_sustained_elapsed")) else ""


@cache
def base(case: str) -> Base:
    return Base(case)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """As reports break: cut, overwritten, empty, something else."""
    kind = chance.randrange(4)
    if kind == 0:
        return data[: chance.randrange(200, len(data) - 200)]
    if kind == 1:
        at = chance.randrange(len(data) // 4)
        return data[:at] + bytes(chance.randrange(256) for _ in range(4096)) + data[at + 4096 :]
    return b"" if kind == 2 else b"==ERROR== The application returned an error code (11).\n"


def make(out: Path, reports: int, nights: int, seed: int, *, pack: bool) -> dict[str, object]:
    """Write the fleet; what was planted."""
    chance = random.Random(seed)
    count = max(1, reports // nights)
    kinds = [*((case, None, "") for case in CASES), *SWAPS]
    bare = [(case, other, kind, None) for case, other, kind in kinds]
    shaped = [(case, other, kind, blocks) for blocks in SHAPES for case, other, kind in kinds]
    series = (bare + [s for s in shaped if base(s[0]).grids and base(s[0]).blocks != s[3]])[:count]
    distinct = len(series)
    series += [series[i % distinct] for i in range(count - distinct)]
    jobs = [f"nightly{i // distinct or ''}" for i in range(count)]
    slower = set(chance.sample(range(count), max(1, round(SLOWER * count))))
    slower |= {i for i, one in enumerate(series) if one[1]}
    faster = set(chance.sample(sorted(set(range(count)) - slower), round(FASTER * count)))
    planted, plan = [], {}
    edge = min(max(3, nights // 5), nights // 2)  # nights on either side of a change
    for i in sorted(slower | faster):
        night = chance.randrange(edge, nights - edge + 1)
        factor = chance.uniform(1.12, 1.6) if i in slower else chance.uniform(0.6, 0.88)
        plan[i] = (night, factor)
        case, other, kind, blocks = series[i]
        planted.append({"series": f"{case}.{blocks or 0}", "job": jobs[i], "kind": kind or "time",
                        "date": str(FIRST + datetime.timedelta(days=night)), "slower": i in slower,
                        "factor": None if other else round(factor, 3)})  # fmt: skip
    lost = []
    for night in range(nights):
        day = FIRST + datetime.timedelta(days=night)
        commit = hashlib.sha1(f"{seed}.{night}".encode()).hexdigest()[:10]
        when = int(datetime.datetime(day.year, day.month, day.day, 2, tzinfo=datetime.UTC).timestamp())
        for i, (case, other, _, blocks) in enumerate(series):
            changed = i in plan and night >= plan[i][0]
            factor = math.exp(chance.gauss(0, NOISE)) * (plan[i][1] if changed and not other else 1)
            data = base(other if changed and other else case).made(when + i, factor, blocks)
            folder = out / f"date={day}" / f"job={jobs[i]}" / f"commit={commit}"
            name = f"{case}.{blocks or 0}.ncu-rep" + (".zst" if pack else "")
            data = zipped(data) if pack else data
            if chance.random() < DAMAGED:
                data = damaged(data, chance)
                lost.append(str((folder / name).relative_to(out)))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    truth = {"reports": count * nights, "series": count, "nights": nights, "planted": planted, "damaged": lost}
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return truth


def zipped(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.compress(data, 1)
    import zstandard

    return zstandard.ZstdCompressor(level=1).compress(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reports", type=int, default=1000)
    parser.add_argument("--nights", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="do not pack the reports")
    args = parser.parse_args()
    truth = make(args.out, args.reports, args.nights, args.seed, pack=not args.plain)
    print({k: len(v) if isinstance(v, list) else v for k, v in truth.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
