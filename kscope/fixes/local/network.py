"""A sorting network of registers: exchanges of fixed places, by Batcher's merging of odd and even ones."""

from __future__ import annotations

from functools import cache

from kscope.model.lazily import np

NAMES = {True: "sort_up", False: "sort_down"}
"""Of the function, by whether the least key comes first."""

CODE = """template <int N, int RUN = 1, int APART = 1, class T> __device__ __forceinline__ void {name}(T (&keys)[N]) {{
  #pragma unroll  // odd-even merge sort, a step for each RUN and APART
  for (int i = APART % RUN; i < N - APART; i++)
    if ((i - APART % RUN) / APART % 2 == 0 && i / (2 * RUN) == (i + APART) / (2 * RUN)) {{
      T low = min(keys[i], keys[i + APART]), high = max(keys[i], keys[i + APART]);
      keys[i] = {first}; keys[i + APART] = {second};
    }}
  if constexpr (APART > 1) {name}<N, RUN, APART / 2>(keys);
  else if constexpr (2 * RUN < N) {name}<N, 2 * RUN, 2 * RUN>(keys);
}}"""


def function(up: bool) -> str:
    """The text of the function that sorts an array."""
    first, second = ("low", "high") if up else ("high", "low")
    return CODE.format(name=NAMES[up], first=first, second=second)


def exchanges(count: int) -> list[tuple[int, int]]:
    """The places that CODE compares, in its order (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M)."""
    out, run = [], 1
    while run < count:
        apart = run
        while apart:
            start = apart % run
            out += [
                (i, i + apart) for i in range(start, count - apart)
                if (i - start) // apart % 2 == 0 and i // (2 * run) == (i + apart) // (2 * run)
            ]  # fmt: skip
            apart //= 2
        run *= 2
    return out


@cache
def sorts(count: int) -> int:
    """How many rows of zeros and ones the network sorts; 0 where one of them is not. A network that sorts those sorts
    any keys (0-1 principle). Each round merges neighbouring runs: every pair of sorted runs of each length is in."""
    rows = np.array(_pairs(count), dtype=np.int8)
    made = rows.copy()
    for low, high in exchanges(count):
        a, b = made[:, low].copy(), made[:, high].copy()
        made[:, low], made[:, high] = np.minimum(a, b), np.maximum(a, b)
    return len(rows) if (made == np.sort(rows, axis=1)).all() else 0


def _pairs(count: int) -> list[list[int]]:
    out, run = [[0] * count], 1
    while run < count:
        for at in range(0, count - run, 2 * run):
            second = min(run, count - at - run)
            for ones in range(run + 1):
                for others in range(second + 1):
                    row = [0] * count
                    row[at : at + run] = [0] * (run - ones) + [1] * ones
                    row[at + run : at + run + second] = [0] * (second - others) + [1] * others
                    out.append(row)
        run *= 2
    return out
