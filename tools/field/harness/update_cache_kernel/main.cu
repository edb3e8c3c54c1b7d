// Keys and values of a prompt of 2048 tokens (32 heads x 128 halves, a 7B model) go into an empty cache of 4096 positions; the library's grid.
#include "common.h"
#include <cuda_fp16.h>
#include "kernel.inc"
int main() {
    const int q_len = 2048, heads = 32, hd = 128, max_seq = 4096, past = 0;
    Rng r;
    const size_t n = (size_t)q_len * heads * hd, nc = (size_t)heads * max_seq * hd;
    std::vector<half> k(n), v(n);
    for (auto& e : k) e = __float2half(r.norm());
    for (auto& e : v) e = __float2half(r.norm());
    half *d_k = to_gpu(k), *d_v = to_gpu(v), *c_k = gpu_new<half>(nc), *c_v = gpu_new<half>(nc);
    dim3 threads(THREADS_X, THREADS_Y, THREADS_Z);
    dim3 blocks(((hd + THREADS_X - 1) / THREADS_X + BLOCKSIZE_X - 1) / BLOCKSIZE_X, q_len,
                ((heads + THREADS_Z - 1) / THREADS_Z + BLOCKSIZE_Z - 1) / BLOCKSIZE_Z);
    for (int it = 0; it < 6; ++it) {
        update_cache_kernel<<<blocks, threads>>>(d_k, d_v, c_k, c_v, hd, heads, q_len, max_seq, past);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    auto ok_ = to_cpu(c_k, nc), ov = to_cpu(c_v, nc);
    double sum = 0; bool ok = true;
    for (int h = 0; h < heads; ++h) for (int p = 0; p < max_seq; ++p) for (int c = 0; c < hd; ++c) {
        size_t o = ((size_t)h * max_seq + p) * hd + c;
        float gk = __half2float(ok_[o]), gv = __half2float(ov[o]), wk = 0, wv = 0;
        if (p >= past && p < past + q_len) {
            size_t i = ((size_t)(p - past) * heads + h) * hd + c;
            wk = __half2float(k[i]); wv = __half2float(v[i]);
        }
        sum += std::fabs(gk) + 2.0 * std::fabs(gv);
        ok = ok && gk == wk && gv == wv;
    }
    puts(ok ? "PASS" : "FAIL values");
    printf("checksum %.4g\n", sum);
    return ok ? 0 : 1;
}
