"""What is invented of a launch, so that the lanes of a warp can be run."""

from __future__ import annotations

from kscope.features.lanes.semantics import LANES, MASK


class Assumption:
    """Invented launch values: a number that seeds them, the block shape, and whether run-time integers are multiples of
    64 (`even`) or arbitrary. Pointers are multiples of 256 either way, as cudaMalloc returns them. `scattered`: loaded
    words are invented too, one for each lane, for questions that any value answers (alignment). `opaque`: so is what
    operations make that nobody here can run (a division). `interior`: an index that the code clamps to borders lies
    between them, as most do. `later`: a loop in which everything is taken one round on, `along`: a block index
    (`SR_CTAID.X`) that is one on, `last`: the block's last warp instead of one of the first, for
    questions after the difference."""

    def __init__(
        self,
        seed: int,
        block: tuple[int, int, int] = (256, 1, 1),
        *,
        even: bool = False,
        scattered: bool = False,
        opaque: bool = False,
        interior: bool = False,
        later: int | None = None,
        along: str | None = None,
        last: bool = False,
    ) -> None:
        self.seed, self.block, self.even, self.scattered = seed, block, even, scattered
        self.opaque, self.interior = opaque, interior
        self.later, self.along = later, along
        warps = max(1, block[0] * block[1] * block[2] // LANES)
        self.warp = warps - 1 if last else (seed - 1) % warps
        self._numbers: dict[object, int] = {}

    def round(self, loop: int) -> int:
        """The round of a loop, 0 to 3, that its values are taken in."""
        return self.number(("round", loop)) // 64 % 3 + (loop == self.later)

    def number(self, key: object) -> int:
        """The invented value of something uniform: the same for the same key."""
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = self._invented(key)
        return known

    def lanes(self, index: int, register: int) -> tuple[int, ...]:
        """The number of ("lane", index, register, lane) for each lane: what they have in common is hashed once."""
        x = self._hashed(f"('lane', {index}, {register}, ", self._start)
        return tuple(self._ended(self._hashed(f"{lane})", x)) for lane in range(LANES))

    def _invented(self, key: object) -> int:
        return self._ended(self._hashed(repr(key), self._start))

    @property
    def _start(self) -> int:
        return 0x811C9DC5 ^ (self.seed * 0x9E3779B1)

    def _hashed(self, text: str, x: int) -> int:
        for c in text.encode():
            x = ((x ^ c) * 0x01000193) & MASK
        return x

    def _ended(self, x: int) -> int:
        x ^= x >> 15
        return (x % 61) * 64 if self.even else x % 1009 | self.seed & 1
