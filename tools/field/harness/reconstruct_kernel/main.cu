// A 4-bit GPTQ weight of a 7B model's up projection (4096 x 11008, groups of 128) unpacked to half.
#include "h.h"
#include "matrix.cuh"
#include "kernel.inc"
#include "launch.h"

int main() {
    const int K = 4096, N = 11008, G = 128;
    Rng r(1);
    std::vector<uint32_t> w((size_t)K / 8 * N), z((size_t)K / G * N / 8);
    std::vector<half> s((size_t)K / G * N);
    for (auto& v : w) v = r.next();
    for (auto& v : z) {
        v = 0;
        for (int i = 0; i < 8; i++) v |= (6 + r.next() % 3) << (4 * i);
    }
    for (auto& v : s) v = __float2half(0.002f + 0.01f * r.uni());
    uint32_t *dw = to_device(w), *dz = to_device(z);
    half *ds = to_device(s), *out;
    CK(cudaMalloc(&out, (size_t)K * N * sizeof(half)));
    CK(cudaMemset(out, 0, (size_t)K * N * sizeof(half)));
    for (int i = 0; i < 6; i++) {
        launch(dw, out, ds, dz, K, N, G);
        CK(cudaGetLastError());
    }
    CK(cudaDeviceSynchronize());
    std::vector<half> o = to_host(out, (size_t)K * N);
    int bad = 0;
    double sum = 0;
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++) {
            float got = __half2float(o[(size_t)k * N + n]);
            sum += fabs(got);
            if ((k * 131 + n) % 97) continue;
            int q = (w[(size_t)(k / 8) * N + n] >> (4 * (k % 8))) & 15;
            int zero = ((z[(size_t)(k / G) * (N / 8) + n / 8] >> (4 * (n % 8))) & 15) + 1;
            float want = (q - zero) * __half2float(s[(size_t)(k / G) * N + n]);
            if (fabsf(got - want) > 1e-3f * fabsf(want) + 1e-6f) bad++;
        }
    if (bad) printf("FAIL %d\n", bad);
    else printf("PASS\n");
    printf("checksum %.4g\n", sum);
    return bad != 0;
}
