"""The text of a kernel whose blocks put their elements in an order of a few ways before they work on them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kscope.fixes.order.pieces import Element
from kscope.fixes.order.whole import indented, named

_TAKEN = (
    "round_n", "block_n", "way_count", "way_of", "place_of", "lane_n", "way_n", "same_n", "mine_n", "ones_n", "going_n",
    "bit_n", "first_n", "start_n", "before_n", "total_n", "slot_n", "key_n",
)  # fmt: skip
_WIDEST = 32


def sorting(one: Element, asked: Sequence[str], way: str, count: int, block: int, times: int) -> str:
    """The body from brace to brace; "" where a name is taken. way: the text of an element's way, behind statements that
    it needs. Counts of a warp are taken by votes, so that no two lanes ask for one counter."""
    text = "\n".join((*one.same, *one.found, *one.rest))
    if any(named(name, text) for name in (*_TAKEN, *(f"{d.name}_{n}" for d in one.carried for n in ("of", "slot")))):
        return ""
    *more, number = way.split("\n")
    each = f"#pragma unroll\nfor (int round_n = 0; round_n < {times}; round_n++)"
    ways = f"for (int way_n = 0; way_n < {count}; way_n++)"
    block_n = f"const unsigned block_n = blockIdx.{one.axis}{f' * {times} + round_n' if times > 1 else ''};"
    slots = "; ".join(f"__shared__ {d.kind} {d.name}_slot[{block * times}]" for d in one.carried)
    kept = " ".join(f"{d.kind} {d.name}_of[{times}];" for d in one.carried)
    found = [re.sub(rf"\bblockIdx\s*\.\s*{one.axis}\b", "block_n", part) for part in one.found]
    last = max(n for n, part in enumerate(found) if not part.endswith(" continue;"))
    noted = " ".join(f"{d.name}_of[round_n] = {d.name};" for d in one.carried)
    put = " ".join(f"{d.name}_slot[before_n + place_of[round_n]] = {d.name}_of[round_n];" for d in one.carried)
    got = " ".join(f"{'const ' if d.const else ''}{d.kind} {d.name} = {d.name}_slot[slot_n];" for d in one.carried)
    return indented(
        f"""{{
{slots}; __shared__ int way_count[{count}];
if (threadIdx.x < {count}) way_count[threadIdx.x] = 0;
__syncthreads();
const int lane_n = threadIdx.x % {_WIDEST};
{kept} int way_of[{times}], place_of[{times}];
{each} {{
{block_n}
way_of[round_n] = -1;
{chr(10).join((*one.same, *found[: last + 1]))}
{noted}
{chr(10).join((*found[last + 1 :], *asked, *more))}
way_of[round_n] = {number};
}}
{each} {{
const unsigned going_n = __ballot_sync(~0u, way_of[round_n] >= 0);
unsigned same_n = going_n, mine_n = going_n;
#pragma unroll
for (int bit_n = 0; bit_n < {(count - 1).bit_length()}; bit_n++) {{
const unsigned ones_n = __ballot_sync(~0u, way_of[round_n] >> bit_n & 1);
same_n &= way_of[round_n] >> bit_n & 1 ? ones_n : ~ones_n;
mine_n &= lane_n >> bit_n & 1 ? ones_n : ~ones_n;
}}
int first_n = 0;
if (lane_n < {count}) first_n = atomicAdd(&way_count[lane_n], __popc(mine_n));
place_of[round_n] = __popc(same_n & ((1u << lane_n) - 1)) + __shfl_sync(~0u, first_n, way_of[round_n] & {_WIDEST - 1});
}}
__syncthreads();
int start_n = 0, total_n = 0;
{ways} {{
total_n += way_count[way_n];
if (way_n < lane_n) start_n += way_count[way_n];
}}
{each} {{
const int before_n = __shfl_sync(~0u, start_n, way_of[round_n] & {_WIDEST - 1});
if (way_of[round_n] >= 0) {{ {put} }}
}}
__syncthreads();
for (int slot_n = threadIdx.x; slot_n < total_n; slot_n += {block}) {{
{chr(10).join(one.same)}
{got}
{chr(10).join(one.rest)}
}}
}}"""
    )
