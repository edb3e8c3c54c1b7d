// As the library's host code launches it.
#pragma once
static void launch(const half* x, half* x_new, int height, int width, const uint32_t* map) {
    dim3 threads(SHUF_BLOCKSIZE_X, 1, 1);
    dim3 blocks((width + SHUF_BLOCKSIZE_X - 1) / SHUF_BLOCKSIZE_X, (height + SHUF_BLOCKSIZE_Y - 1) / SHUF_BLOCKSIZE_Y, 1);
    column_remap_kernel<<<blocks, threads>>>(x, x_new, width, height, map);
}
