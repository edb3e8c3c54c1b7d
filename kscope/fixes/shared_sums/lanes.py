"""Functions that a change adds: what lanes of a warp that meet at one place do there, put together."""

from __future__ import annotations

STEPS = {
    "atomicAdd": ("add", "sum += other"), "atomicMax": ("max", "sum = other > sum ? other : sum"),
    "atomicMin": ("min", "sum = other < sum ? other : sum"), "atomicOr": ("or", "sum |= other"),
    "atomicAnd": ("and", "sum &= other"),
}  # fmt: skip
META = "const unsigned together = __match_any_sync(__activemask(), (unsigned long long)at);"
LANE = 'unsigned lane;\n  asm("mov.u32 %0, %%laneid;" : "=r"(lane));'
COUNTING = (
    f"""template <class T, class V> __device__ __forceinline__ void count_lanes(T* at, V each) {{
  {META}
  {LANE}
  if (lane == __ffs(together) - 1) atomicAdd(at, (T)__popc(together) * (T)each);
}}""",
    f"""template <class T, class V> __device__ __forceinline__ T place_of_lane(T* at, V each) {{
  {META}
  {LANE}
  T first = 0;
  if (lane == __ffs(together) - 1) first = atomicAdd(at, (T)__popc(together) * (T)each);
  return __shfl_sync(together, first, __ffs(together) - 1) + (T)__popc(together & ((1u << lane) - 1)) * (T)each;
}}""",
)
PLACING = f"""template <class T, class V> __device__ __forceinline__ T places_of_lanes(T* at, V value) {{
  {META}
  {LANE}
  const T mine = (T)value;
  T all = 0, before = 0;
  for (unsigned rest = together; rest; rest &= rest - 1) {{
    const unsigned one = __ffs(rest) - 1;
    const T other = __shfl_sync(together, mine, one);
    if (one < lane) before += other;
    all += other;
  }}
  T first = 0;
  if (lane == __ffs(together) - 1) first = atomicAdd(at, all);
  return __shfl_sync(together, first, __ffs(together) - 1) + before;
}}"""
"""What a change adds: of numbers that are alike, and of any. The lane's own number holds for blocks of any shape."""


def combining(function: str) -> str:
    name, step = STEPS[function]
    return f"""template <class T, class V> __device__ __forceinline__ void {name}_of_lanes(T* at, V value) {{
  {META}
  {LANE}
  T sum = (T)value;
  if (together == ~0u) {{
#pragma unroll
    for (int d = 16; d; d /= 2) {{ const T other = __shfl_xor_sync(~0u, sum, d); {step}; }}
  }} else {{
    const T mine = sum;
    for (unsigned rest = together & (together - 1); rest; rest &= rest - 1) {{
      const T other = __shfl_sync(together, mine, __ffs(rest) - 1);
      {step};
    }}
  }}
  if (lane == __ffs(together) - 1) {function}(at, sum);
}}"""
