// Swin-T, first stage, shifted windows: batch 32, 64 windows of 7 x 7, 3 heads, half.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

template<typename T>
inline __device__ T ldg(const T* p)
{
    return __ldg(p);
}
template<typename T>
inline __device__ T add(T a, T b)
{
    return a + b;
}
#include "reduce.inc"
#include "kernel.inc"

#define CHECK(x)                                                                      \
    do {                                                                              \
        cudaError_t e_ = (x);                                                         \
        if (e_ != cudaSuccess) {                                                      \
            printf("FAIL %s line %d: %s\n", #x, __LINE__, cudaGetErrorString(e_));    \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

int main()
{
    const int   batch = 32, windows = 64, heads = 3, len = 49, area = len * len;
    const float scale = 0.17677669f;
    const size_t count = (size_t)batch * windows * heads * area;
    std::vector<half> qk(count), mask((size_t)windows * area), bias((size_t)heads * area), got(count);
    std::mt19937 gen(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> pool(65536);
    for (float& v : pool)
        v = normal(gen);
    for (size_t i = 0; i < count; i++)
        qk[i] = __float2half(6.0f * pool[(i * 31 + (i >> 16) * 17) & 65535]);
    for (half& v : bias)
        v = __float2half(normal(gen));
    for (int w = 0; w < windows; w++)
        for (int i = 0; i < len; i++)
            for (int j = 0; j < len; j++) {
                // last row and last column of windows: two regions each, as the shift by 3 makes
                const bool low = w / 8 == 7, right = w % 8 == 7;
                const int  ri = (low && i / 7 >= 4) * 2 + (right && i % 7 >= 4);
                const int  rj = (low && j / 7 >= 4) * 2 + (right && j % 7 >= 4);
                mask[(size_t)w * area + i * len + j] = __float2half(ri == rj ? 0.0f : -100.0f);
            }

    half *d_src, *d_qk, *d_mask, *d_bias;
    CHECK(cudaMalloc(&d_src, count * sizeof(half)));
    CHECK(cudaMalloc(&d_qk, count * sizeof(half)));
    CHECK(cudaMalloc(&d_mask, mask.size() * sizeof(half)));
    CHECK(cudaMalloc(&d_bias, bias.size() * sizeof(half)));
    CHECK(cudaMemcpy(d_src, qk.data(), count * sizeof(half), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_mask, mask.data(), mask.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_bias, bias.data(), bias.size() * sizeof(half), cudaMemcpyHostToDevice));

    dim3 grid(len, windows * heads, batch), block((len + 31) / 32 * 32);
    for (int r = 0; r < 8; r++) {
        CHECK(cudaMemcpy(d_qk, d_src, count * sizeof(half), cudaMemcpyDeviceToDevice));
        softmax_withRelPosBias_element1_kernel<<<grid, block>>>(
            d_qk, (const half*)d_mask, (const half*)d_bias, batch, heads, windows, len, area, scale);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemcpy(got.data(), d_qk, count * sizeof(half), cudaMemcpyDeviceToHost));
    double sum = 0, worst = 0;
    for (size_t i = 0; i < count; i++)
        sum += std::fabs(__half2float(got[i]));
    const size_t rows = count / len;
    for (size_t row = 0; row < rows; row += 37) {
        const size_t matrix = row / len, i = row % len;
        const size_t head = matrix % heads, window = matrix / heads % windows;
        float x[64], top = -1e20f, total = 1e-6f;
        for (int j = 0; j < len; j++) {
            x[j] = scale * __half2float(qk[row * len + j]) + __half2float(mask[window * area + i * len + j])
                   + __half2float(bias[head * area + i * len + j]);
            top = fmaxf(top, x[j]);
        }
        for (int j = 0; j < len; j++)
            total += x[j] = expf(x[j] - top);
        for (int j = 0; j < len; j++)
            worst = fmax(worst, fabs(x[j] / total - __half2float(got[row * len + j])));
    }
    const bool ok = worst < 2e-3;
    printf(ok ? "PASS\n" : "FAIL %g\n", worst);
    printf("checksum %.4g\n", sum);
    return !ok;
}
