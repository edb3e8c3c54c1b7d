// As the library's host code launches it: block_size_z 256 for a width of 11008, groups of 128, half2, no map.
#pragma once
static void launch(const half* x, const uint32_t* w, half* out, const half* scales, const uint32_t* zeros, int height, int dim, int width, int groupsize) {
    const int block_size_z = 256;
    dim3 threads(THREADS_X, THREADS_Y, 1);
    dim3 blocks((width + threads.x - 1) / threads.x, (height + threads.y - 1) / threads.y, (dim + block_size_z - 1) / block_size_z);
    q4_matmul_kernel<true, true, false><<<blocks, threads, groupsize * sizeof(half)>>>(x, w, out, scales, zeros, height, dim, width, groupsize, block_size_z, nullptr, false);
}
