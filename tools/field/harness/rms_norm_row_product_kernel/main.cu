// Sums of squares of the rows of a prompt of 2048 tokens, 4096 halves each (a 7B model); the half2 variant, the library's grid.
#include "common.h"
#include <cuda_fp16.h>
#include "kernel.inc"
int main() {
    const int rows = 2048, dim = 4096;
    Rng r;
    std::vector<half> x((size_t)rows * dim);
    for (auto& v : x) v = __float2half(r.norm());
    half* d_x = to_gpu(x);
    float* d_s = gpu_new<float>(rows);
    dim3 threads(THREADS_X, THREADS_Y, 1);
    dim3 blocks(((dim + THREADS_X - 1) / THREADS_X + THREADS_X - 1) / BLOCKSIZE_X, (rows + THREADS_Y - 1) / THREADS_Y, 1);
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemset(d_s, 0, rows * sizeof(float)));
        rms_norm_row_product_kernel<true><<<blocks, threads>>>(d_x, d_s, rows, dim);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto out = to_cpu(d_s, rows);
    double sum = 0; bool ok = true;
    for (int i = 0; i < rows; ++i) {
        sum += out[i];
        double want = 0;
        for (int c = 0; c < dim; ++c) { double v = __half2float(x[(size_t)i * dim + c]); want += v * v; }
        ok = ok && near(out[i], want, 1e-4);
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
