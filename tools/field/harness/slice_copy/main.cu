// Class-token slice of a ViT-L/16 (384 x 384 pixels) batch: 128 x 577 x 1024 halves -> 128 x 1024.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "kernel.inc"

#define CHECK(x)                                                                      \
    do {                                                                              \
        cudaError_t e_ = (x);                                                         \
        if (e_ != cudaSuccess) {                                                      \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));    \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static inline float value(size_t i)
{
    unsigned h = (unsigned)i * 2654435761u + 12345u;
    h ^= h >> 15;
    return (float)((int)(h & 4095) - 2048) / 1024.0f;
}

int main()
{
    const int m = 128, n = 1024, s = 577, offset_s = 0;
    const size_t in_count = (size_t)m * s * n, out_count = (size_t)m * n;
    std::vector<half> image((size_t)s * n), got(out_count);
    half *in, *out;
    CHECK(cudaMalloc(&in, in_count * sizeof(half)));
    CHECK(cudaMalloc(&out, out_count * sizeof(half)));
    std::vector<half> first(out_count);
    for (size_t i = 0; i < image.size(); i++)
        image[i] = __float2half(value(i));
    for (int b = 0; b < m; b++) {
        for (int c = 0; c < n; c++)
            first[(size_t)b * n + c] = image[(size_t)offset_s * n + c] = __float2half(value((size_t)b * 7919 + c));
        CHECK(cudaMemcpy(in + (size_t)b * s * n, image.data(), image.size() * sizeof(half), cudaMemcpyHostToDevice));
    }
    CHECK(cudaMemset(out, 0, out_count * sizeof(half)));

    dim3 block(n / 2), grid(m);
    for (int r = 0; r < 8; r++)
        slice_copy<<<grid, block>>>((const half*)in, out, m, n / 2, s, offset_s);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemcpy(got.data(), out, out_count * sizeof(half), cudaMemcpyDeviceToHost));
    double sum = 0;
    size_t bad = 0;
    for (size_t i = 0; i < out_count; i++) {
        sum += std::fabs(__half2float(got[i]));
        bad += __half2float(got[i]) != __half2float(first[i]);
    }
    if (bad)
        printf("FAIL %zu\n", bad);
    else
        printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
