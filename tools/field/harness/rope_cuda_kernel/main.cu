// Rotary embedding of the queries of a prompt of 2048 tokens, 32 heads of 128 halves (a 7B model); the half2 variant, the library's grid.
#include "common.h"
#include <cuda_fp16.h>
#include "matrix.cuh"
#include "kernel.inc"
int main() {
    const int q_len = 2048, heads = 32, hd = 128, past = 0, bsz = 1, rows = q_len * heads, max_pos = 2048;
    Rng r;
    std::vector<half> x((size_t)rows * hd), sn((size_t)max_pos * hd), cs((size_t)max_pos * hd);
    for (auto& v : x) v = __float2half(r.norm());
    for (int p = 0; p < max_pos; ++p) for (int c = 0; c < hd; ++c) {
        double a = p * std::pow(10000.0, -(double)(c % (hd / 2)) / (hd / 2));
        sn[(size_t)p * hd + c] = __float2half((float)std::sin(a)); cs[(size_t)p * hd + c] = __float2half((float)std::cos(a));
    }
    half *d_src = to_gpu(x), *d_x = gpu_new<half>(x.size()), *d_s = to_gpu(sn), *d_c = to_gpu(cs);
    dim3 threads(THREADS_X, THREADS_Y, 1);
    dim3 blocks((hd + THREADS_X - 1) / THREADS_X / 2 / 2, (rows + THREADS_Y - 1) / THREADS_Y, bsz);
    for (int it = 0; it < 6; ++it) {
        CK(cudaMemcpy(d_x, d_src, x.size() * sizeof(half), cudaMemcpyDeviceToDevice));
        rope_cuda_kernel<true><<<blocks, threads>>>(d_x, d_s, d_c, rows, hd, heads, past);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto out = to_cpu(d_x, x.size());
    double sum = 0; bool ok = true;
    for (int i = 0; i < rows; ++i) for (int c = 0; c < hd; ++c) {
        size_t o = (size_t)i * hd; const size_t t = (size_t)(past + i / heads) * hd + c;
        double got = __half2float(out[o + c]); sum += std::fabs(got);
        double other = c < hd / 2 ? -(double)__half2float(x[o + c + hd / 2]) : (double)__half2float(x[o + c - hd / 2]);
        double want = (double)__half2float(x[o + c]) * __half2float(cs[t]) + other * __half2float(sn[t]);
        ok = ok && near(got, want, 5e-3);
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
