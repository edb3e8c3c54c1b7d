"""Functions that changes bring: a record is moved by the widest accesses that its size allows."""

from __future__ import annotations

import re

BLOCK, WARP = 36 * 1024, 3 * 1024  # bytes that the records of a block and of a warp pass through at once (judged)
PIECES = """template <int BYTES> struct PieceOf { using type = char; };
template <> struct PieceOf<2> { using type = short; };
template <> struct PieceOf<4> { using type = int; };
template <> struct PieceOf<8> { using type = int2; };
template <> struct PieceOf<16> { using type = int4; };
__host__ __device__ constexpr int piece_of(int size) {
  return size % 16 == 0 ? 16 : size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
}
template <class T, int N> struct WordsOf { T at[N]; };"""
GIVEN = """template <class T> struct GivenAs { using type = T; };
template <class T> union OwnOf { T whole; __device__ OwnOf() {} __device__ ~OwnOf() {} };"""
TOGETHER = f"""{PIECES}
{GIVEN}
// A record a lane: where a warp's lie side by side, they go through shared memory, lanes store neighbouring pieces.
template <int WARPS, class T>
__device__ __forceinline__ void store_together(T* to, const typename GivenAs<T>::type& record) {{
  constexpr int SIZE = sizeof(T), BYTES = piece_of(SIZE), COUNT = SIZE / BYTES, PITCH = COUNT | 1;
  constexpr int ROOM = ({BLOCK} / WARPS < {WARP} ? {BLOCK} / WARPS : {WARP}) / (PITCH * BYTES);
  constexpr int AT_ONCE = ROOM >= 32 ? 32 : ROOM >= 16 ? 16 : ROOM >= 8 ? 8 : ROOM >= 4 ? 4 : 1;
  using Piece = typename PieceOf<BYTES>::type;
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int lane = thread % 32, warp = thread / 32;
  const unsigned long long at = reinterpret_cast<unsigned long long>(to);
  bool beside = __is_trivially_copyable(T) && warp < WARPS && __activemask() == ~0u;
  if (beside) {{
    const unsigned long long first = __shfl_sync(~0u, at, 0);
    beside = __all_sync(~0u, at == first + lane * SIZE && first % BYTES == 0);
  }}
  if (!beside) {{
    *to = record;
    return;
  }}
  __shared__ Piece passed[WARPS][AT_ONCE * PITCH];
  Piece mine[COUNT];
  memcpy(mine, &record, SIZE);
  #pragma unroll 1
  for (int r = 0; r < 32; r += AT_ONCE) {{
    __syncwarp();
    if (lane / AT_ONCE * AT_ONCE == r) {{
      #pragma unroll
      for (int c = 0; c < COUNT; c++) passed[warp][(lane - r) * PITCH + c] = mine[c];
    }}
    __syncwarp();
    #pragma unroll
    for (int p = lane; p < AT_ONCE * COUNT; p += 32)
      reinterpret_cast<Piece*>(to - lane + r)[p] = passed[warp][p / COUNT * PITCH + p % COUNT];
  }}
  __syncwarp();
}}"""
_NAMES = re.compile(r"\b(?:PieceOf|piece_of|WordsOf|GivenAs|OwnOf)\b")


def renamed(code: str, word: str) -> str:
    """With names of its own, for a file that has the others already."""
    return _NAMES.sub(lambda m: f"{word.lower()}_{m[0]}" if m[0].islower() else f"{word}{m[0]}", code)


WHOLE_RECORD = renamed(f"""{PIECES}
{GIVEN}
template <class T>
__device__ __forceinline__ void store_whole(T* to, const typename GivenAs<T>::type& record) {{
  using Piece = typename PieceOf<piece_of(sizeof(T))>::type;
  if (__is_trivially_copyable(T) && sizeof(T) == sizeof(Piece)
      && reinterpret_cast<unsigned long long>(to) % sizeof(Piece) == 0) {{
    Piece piece;
    memcpy(&piece, &record, sizeof(Piece));
    *reinterpret_cast<Piece*>(to) = piece;
  }} else {{
    *to = record;
  }}
}}""", "Whole")
