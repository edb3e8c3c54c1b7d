// BERT-large INT8, last layer: residual + bias + layer norm of batch 32 x 384 tokens, 1024 columns, int8 in, half out.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

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

template<typename T>
static T* to_device(const std::vector<T>& v)
{
    T* p;
    CHECK(cudaMalloc(&p, v.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

int main()
{
    const int    m = 32 * 384, n = 1024;
    const size_t count = (size_t)m * n;
    std::mt19937 gen(5);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<int8_t> pool(65536), in1(count), in2(count);
    for (int8_t& v : pool)
        v = (int8_t)fmaxf(-127.0f, fminf(127.0f, roundf(30.0f * normal(gen))));
    for (size_t i = 0; i < count; i++) {
        in1[i] = pool[(i * 7 + (i >> 16) * 131) & 65535];
        in2[i] = pool[(i * 13 + (i >> 15) * 17 + 5) & 65535];
    }
    std::vector<half> bias(n), gamma(n), beta(n), got(count);
    for (int c = 0; c < n; c++) {
        bias[c]  = __float2half(0.1f * normal(gen));
        gamma[c] = __float2half(1.0f + 0.1f * normal(gen));
        beta[c]  = __float2half(0.1f * normal(gen));
    }
    const std::vector<float> factor1(1, 0.05f), factor2(1, 0.04f);

    int8_t *d_in1 = to_device(in1), *d_in2 = to_device(in2);
    half *  d_bias = to_device(bias), *d_gamma = to_device(gamma), *d_beta = to_device(beta);
    float * d_f1 = to_device(factor1), *d_f2 = to_device(factor2);
    half*   d_out;
    CHECK(cudaMalloc(&d_out, count * sizeof(half)));
    CHECK(cudaMemset(d_out, 0, count * sizeof(half)));

    dim3 grid(m), block(n / 2);
    for (int r = 0; r < 8; r++)
        add_bias_input_layernorm_ROW_int8I_DataTypeO<<<grid, block>>>((half2*)d_out,
                                                                      (const int8_t*)d_in1,
                                                                      (const int8_t*)d_in2,
                                                                      (const half2*)d_bias,
                                                                      (const half2*)d_gamma,
                                                                      (const half2*)d_beta,
                                                                      m,
                                                                      n,
                                                                      (const float*)d_f1,
                                                                      (const float*)d_f2);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemcpy(got.data(), d_out, count * sizeof(half), cudaMemcpyDeviceToHost));
    double sum = 0, worst = 0;
    for (size_t i = 0; i < count; i++)
        sum += std::fabs(__half2float(got[i]));
    std::vector<double> x(n);
    for (int row = 0; row < m; row += 61) {
        double mean = 0, var = 0;
        for (int c = 0; c < n; c++)
            mean += x[c] = in1[(size_t)row * n + c] * factor1[0] + in2[(size_t)row * n + c] * factor2[0]
                           + __half2float(bias[c]);
        mean /= n;
        for (int c = 0; c < n; c++)
            var += (x[c] - mean) * (x[c] - mean);
        const double inv = 1.0 / sqrt(var / n + 1e-6);
        for (int c = 0; c < n; c++)
            worst = fmax(worst,
                         fabs((x[c] - mean) * inv * __half2float(gamma[c]) + __half2float(beta[c])
                              - __half2float(got[(size_t)row * n + c])));
    }
    const bool ok = worst < 1e-2;
    if (ok)
        printf("PASS\n");
    else
        printf("FAIL %g\n", worst);
    printf("checksum %.4g\n", sum);
    return !ok;
}
