// The library's own choice for a beam width that has no case of its own.
#pragma once
constexpr int kThreads       = 128;
constexpr int kBlocksPerBeam = 1;
