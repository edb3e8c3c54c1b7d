// The library's choices for more than 128 tokens and the usual, not deterministic, sums.
#pragma once
constexpr int  kChunkL        = 128;
constexpr bool kDeterministic = false;
