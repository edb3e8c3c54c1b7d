// The library's launch: one thread a voxel, 128 a block, the grid capped at 65535 blocks.
#pragma once
template <typename A, typename B, typename C>
void launch(A out, B occ, C scan, uint n) {
  const int threads = 128;
  uint blocks = (n + threads - 1) / threads;
  if (blocks > 65535) blocks = 65535;
  CompactVoxelsKernel<<<blocks, threads>>>(out, occ, scan, n);
}
