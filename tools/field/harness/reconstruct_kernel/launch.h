// As the library's host code launches it: one thread a column and word of 8 rows.
#pragma once
static void launch(const uint32_t* w, half* out, const half* scales, const uint32_t* zeros, int K, int N, int groupsize) {
    dim3 threads(RECONS_THREADS_X, RECONS_THREADS_Y, 1);
    dim3 blocks((N + threads.x - 1) / threads.x, (K / 8 + threads.y - 1) / threads.y, 1);
    reconstruct_kernel<<<blocks, threads>>>(w, out, scales, zeros, K / 8, N, groupsize);
}
